#include "sdk/cli/arrays.h"

#include <cmath>
#include <optional>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/text/hlo_parser.h"
#include "sdk/cli/npy.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

using host::HostArray;

Shape CoreShape(const host::ArrayShape& shape) {
  return Shape(PrimitiveTypeFromName(host::ElementTypeName(shape.type)).value_or(PrimitiveType::kInvalid), shape.dims);
}

// Returns a number in [0, 1) from the engine's bits. It is the same everywhere, unlike the standard's distributions.
double Unit(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

absl::StatusOr<HostArray> Fill(const host::ArrayShape& shape, absl::string_view how, std::mt19937_64& engine) {
  const Shape core = CoreShape(shape);
  BP_RETURN_IF_ERROR(core.Validate());
  Literal literal(core);
  const PrimitiveType type = core.element_type();
  const bool whole = IsIntegral(type) || type == PrimitiveType::kPred;
  double low = whole ? 0 : -1, high = whole ? (type == PrimitiveType::kPred ? 2 : BitWidth(type) < 8 ? 2 : 10) : 1;
  const std::vector<absl::string_view> parts = absl::StrSplit(how, absl::MaxSplits('=', 1));
  if (parts.size() == 2) {
    const size_t dots = parts[1].find("..");
    if (parts[0] != "random" || dots == absl::string_view::npos || !absl::SimpleAtod(parts[1].substr(0, dots), &low) ||
        !absl::SimpleAtod(parts[1].substr(dots + 2), &high) || !std::isfinite(high - low) || low > high) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", how, "': expected random=LOW..HIGH, two finite numbers in this order"));
    }
  }
  const int64_t count = literal.num_elements();
  const bool complex = IsComplex(type);
  for (int64_t i = 0; i < count; ++i) {
    double value = 0;
    if (parts[0] == "ones") value = 1;
    if (parts[0] == "iota") value = static_cast<double>(i);
    if (parts[0] == "random") {
      value = low + (high - low) * Unit(engine);
      if (whole) value = std::floor(value);
    }
    if (whole) {
      literal.SetFromInt(i, static_cast<int64_t>(value));
    } else {
      literal.SetFromDouble(i, value);
    }
  }
  if (complex && parts[0] == "random") {  // SetFromDouble sets the real part
    BP_ASSIGN_OR_RETURN(HostArray array, FromLiteral(literal));
    for (int64_t i = 0; i < count; ++i) {
      const double value = low + (high - low) * Unit(engine);
      if (type == PrimitiveType::kC64)
        reinterpret_cast<float*>(array.data.data())[2 * i + 1] = static_cast<float>(value);
      if (type == PrimitiveType::kC128) reinterpret_cast<double*>(array.data.data())[2 * i + 1] = value;
    }
    return array;
  }
  return FromLiteral(literal);
}

bool IsFill(absl::string_view spec) {
  const absl::string_view word = spec.substr(0, spec.find('='));
  return word == "random" || word == "zeros" || word == "ones" || word == "iota";
}

// Parses "N:rest" with a number before the colon.
std::optional<size_t> TakeIndex(absl::string_view* spec) {
  const size_t colon = spec->find(':');
  size_t index;
  if (colon == absl::string_view::npos || colon == 0 || !absl::SimpleAtoi(spec->substr(0, colon), &index))
    return std::nullopt;
  spec->remove_prefix(colon + 1);
  return index;
}

// Returns the arrays of a file: one from a .npy, several from a .npz. `types` are the expected types, for raw elements.
absl::StatusOr<std::vector<HostArray>> ReadArrays(absl::string_view spec, absl::Span<const PJRT_Buffer_Type> types) {
  std::string path(spec);
  std::vector<std::string> members;
  if (const size_t npz = path.find(".npz:"); npz != std::string::npos) {
    members = absl::StrSplit(path.substr(npz + 5), ',');
    path.resize(npz + 4);
  }
  auto wanted = [&](size_t i) { return i < types.size() ? types[i] : PJRT_Buffer_Type_INVALID; };
  BP_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  std::vector<HostArray> arrays;
  auto add = [&](absl::string_view content, absl::string_view name) -> absl::Status {
    absl::StatusOr<HostArray> array = ParseNpy(content, wanted(arrays.size()));
    BP_RETURN_IF_ERROR(host::AddContext(array.status(), name));
    arrays.push_back(*std::move(array));
    return absl::OkStatus();
  };
  if (!absl::EndsWith(path, ".npz")) {
    BP_RETURN_IF_ERROR(add(bytes, path));
    return arrays;
  }
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> archive = ParseZip(bytes);
  BP_RETURN_IF_ERROR(host::AddContext(archive.status(), path));
  if (members.empty()) {
    for (const auto& [name, content] : *archive) BP_RETURN_IF_ERROR(add(content, absl::StrCat(path, ":", name)));
    return arrays;
  }
  for (const std::string& member : members) {
    bool found = false;
    for (const auto& [name, content] : *archive) {
      if (found || name != member) continue;
      BP_RETURN_IF_ERROR(add(content, absl::StrCat(path, ":", name)));
      found = true;
    }
    if (!found) return absl::NotFoundError(absl::StrCat(path, ": no member '", member, "'"));
  }
  return arrays;
}

bool IsFile(absl::string_view spec) { return absl::EndsWith(spec, ".npy") || absl::StrContains(spec, ".npz"); }

}  // namespace

absl::StatusOr<Literal> ToLiteral(const HostArray& array) {
  const Shape shape = CoreShape({array.type, array.dims});
  BP_RETURN_IF_ERROR(shape.Validate());
  return Literal::FromBytes(shape, array.data);
}

absl::StatusOr<HostArray> FromLiteral(const Literal& literal) {
  HostArray array;
  std::optional<PJRT_Buffer_Type> type = host::ElementTypeByName(Name(literal.shape().element_type()));
  if (!type.has_value() || !literal.shape().IsArray()) {
    return absl::UnimplementedError(absl::StrCat(literal.shape().ToString(), ": no array"));
  }
  array.type = *type;
  array.dims.assign(literal.shape().dimensions().begin(), literal.shape().dimensions().end());
  array.data.assign(literal.bytes(), literal.bytes() + literal.byte_size());
  return array;
}

absl::StatusOr<std::vector<HostArray>> MakeInputs(const std::vector<host::ArrayShape>& shapes,
                                                  const std::vector<std::string>& specs, uint64_t seed) {
  std::vector<std::optional<HostArray>> inputs(shapes.size());
  std::mt19937_64 engine(seed);
  size_t next = 0;
  for (const std::string& whole : specs) {
    absl::string_view spec = whole;
    const std::optional<size_t> index = TakeIndex(&spec);
    size_t at = index.value_or(next);
    std::vector<HostArray> arrays;
    auto check = [&]() -> absl::Status {
      if (at < shapes.size()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("input '", whole, "': is input ", at, ", the program takes ", shapes.size()));
    };
    if (IsFile(spec)) {
      std::vector<PJRT_Buffer_Type> types;
      for (size_t i = at; i < shapes.size(); ++i) types.push_back(shapes[i].type);
      BP_ASSIGN_OR_RETURN(arrays, ReadArrays(spec, types));
    } else if (IsFill(spec)) {
      BP_RETURN_IF_ERROR(check());
      BP_ASSIGN_OR_RETURN(HostArray array, Fill(shapes[at], spec, engine));
      arrays.push_back(std::move(array));
    } else {
      BP_RETURN_IF_ERROR(check());
      // Accepts brackets, as Python writes them, instead of braces.
      const std::string text = absl::StrReplaceAll(spec, {{"[", "{"}, {"]", "}"}});
      absl::StatusOr<Literal> literal = ParseLiteral(CoreShape(shapes[at]), text);
      if (!literal.ok() && (text.empty() || absl::ascii_isalpha(static_cast<unsigned char>(text[0])))) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input '", whole, "': no .npy or .npz file, none of random, zeros, ones and iota, and no literal of ",
            host::FormatShape(shapes[at].type, shapes[at].dims)));
      }
      BP_RETURN_IF_ERROR(host::AddContext(literal.status(), absl::StrCat("input '", whole, "'")));
      BP_ASSIGN_OR_RETURN(HostArray array, FromLiteral(*literal));
      arrays.push_back(std::move(array));
    }
    for (HostArray& array : arrays) {
      BP_RETURN_IF_ERROR(check());
      if (array.type != shapes[at].type || array.dims != shapes[at].dims) {
        return absl::InvalidArgumentError(absl::StrCat("input '", whole, "': is ",
                                                       host::FormatShape(array.type, array.dims), ", parameter ", at,
                                                       " is ", host::FormatShape(shapes[at].type, shapes[at].dims)));
      }
      inputs[at++] = std::move(array);
    }
    if (!index.has_value()) next = at;
  }
  std::vector<HostArray> out;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!inputs[i].has_value()) {
      BP_ASSIGN_OR_RETURN(inputs[i], Fill(shapes[i], "random", engine));
    }
    out.push_back(*std::move(inputs[i]));
  }
  return out;
}

absl::StatusOr<std::vector<HostArray>> ReadInputs(const std::vector<std::string>& specs) {
  std::vector<HostArray> inputs;
  for (const std::string& spec : specs) {
    if (!IsFile(spec)) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", spec, "': the program's parameters are not known, give a file"));
    }
    BP_ASSIGN_OR_RETURN(std::vector<HostArray> arrays, ReadArrays(spec, {}));
    for (HostArray& array : arrays) inputs.push_back(std::move(array));
  }
  return inputs;
}

absl::StatusOr<Statistics> ComputeStatistics(const HostArray& array) {
  BP_ASSIGN_OR_RETURN(const Literal literal, ToLiteral(array));
  Statistics s;
  s.count = literal.num_elements();
  const bool complex = IsComplex(literal.shape().element_type());
  double sum = 0, squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < s.count; ++i) {
    const double v = complex ? std::abs(literal.GetAsComplex(i)) : literal.GetAsDouble(i);
    if (v == 0) ++s.zeros;
    if (std::isnan(v)) {
      ++s.nans;
    } else if (std::isinf(v)) {
      ++s.infinities;
    } else {
      s.min = finite == 0 ? v : std::min(s.min, v);
      s.max = finite == 0 ? v : std::max(s.max, v);
      // Welford's algorithm avoids cancellation.
      ++finite;
      const double delta = v - sum;
      sum += delta / static_cast<double>(finite);
      squares += delta * (v - sum);
    }
  }
  s.mean = sum;
  s.deviation = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  return s;
}

host::Json ToJson(const Statistics& s) {
  host::Json json = host::Json::MakeObject();
  json.Set("count", s.count).Set("nans", s.nans).Set("infinities", s.infinities).Set("zeros", s.zeros);
  return json.Set("min", s.min).Set("max", s.max).Set("mean", s.mean).Set("deviation", s.deviation);
}

absl::StatusOr<std::string> PrintArray(const HostArray& array, int64_t limit) {
  const std::string shape = host::FormatShape(array.type, array.dims);
  BP_ASSIGN_OR_RETURN(const Literal literal, ToLiteral(array));
  if (literal.num_elements() <= limit) return absl::StrCat(shape, " ", literal.ToString());
  std::string text = absl::StrCat(shape, " {");
  for (int64_t i = 0; i < limit; ++i) absl::StrAppend(&text, i > 0 ? ", " : "", ElementToString(literal, i));
  return absl::StrCat(text, ", ... ", literal.num_elements() - limit, " more}");
}

}  // namespace backplane::cli
