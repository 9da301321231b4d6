#include "core/ops/attribute_values.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/types/literal.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int kMaxDepth = 64;  // nesting of tuples and dictionaries

// Product of sizes that are all positive; 0 when one is not or the product passes kMaxDevices.
int64_t DeviceCount(const Ints& dims) {
  int64_t n = 1;
  for (int64_t d : dims) {
    if (d <= 0 || d > kMaxDevices / n) return 0;
    n *= d;
  }
  return n;
}

// A cursor over a text. Each Take skips blanks first.
class Cursor {
 public:
  Cursor(absl::string_view what, absl::string_view text) : what_(what), text_(text) {}

  absl::Status Error(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(what_, ": ", message, " at offset ", pos_));
  }
  void Skip() {
    while (pos_ < text_.size()) {
      if (absl::ascii_isspace(text_[pos_])) {
        ++pos_;
      } else if (text_.substr(pos_, 2) == "/*" && text_.find("*/", pos_ + 2) != absl::string_view::npos) {
        pos_ = text_.find("*/", pos_ + 2) + 2;
      } else {
        return;
      }
    }
  }
  bool AtEnd() {
    Skip();
    return pos_ >= text_.size();
  }
  char Peek() {
    Skip();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool Take(absl::string_view token) {
    Skip();
    if (!absl::StartsWith(text_.substr(pos_), token)) return false;
    pos_ += token.size();
    return true;
  }
  // Letters, digits and the characters of `more`; empty when there is none.
  absl::string_view Word(absl::string_view more = "_") {
    Skip();
    const size_t start = pos_;
    while (pos_ < text_.size() && (absl::ascii_isalnum(text_[pos_]) || absl::StrContains(more, text_[pos_]))) ++pos_;
    return text_.substr(start, pos_ - start);
  }
  absl::StatusOr<int64_t> Number() {
    const size_t start = pos_;
    int64_t value;
    const absl::string_view word = Word("-");
    if (!absl::SimpleAtoi(word, &value)) {
      pos_ = start;
      return Error("expected a number");
    }
    return value;
  }
  // Numbers separated by ',', up to and including `close`.
  absl::StatusOr<Ints> Numbers(absl::string_view close) {
    Ints values;
    if (Take(close)) return values;
    do {
      ASSIGN_OR_RETURN(int64_t v, Number());
      values.push_back(v);
    } while (Take(","));
    if (!Take(close)) return Error(absl::StrCat("expected ',' or '", close, "'"));
    return values;
  }
  // A quoted string of MLIR: \n \t \" \\ and two hex digits.
  absl::StatusOr<std::string> Quoted() {
    if (!Take("\"")) return Error("expected a string");
    std::string out;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      char c = text_[pos_++];
      if (c == '\\') {
        if (pos_ >= text_.size()) break;
        c = text_[pos_++];
        if (c == 'n')
          c = '\n';
        else if (c == 't')
          c = '\t';
        else if (absl::ascii_isxdigit(c) && pos_ < text_.size() && absl::ascii_isxdigit(text_[pos_])) {
          uint32_t code = 0;
          (void)absl::SimpleHexAtoi(text_.substr(pos_ - 1, 2), &code);
          c = static_cast<char>(code);
          ++pos_;
        } else if (c != '"' && c != '\\') {
          return Error("unknown escape in a string");
        }
      }
      out += c;
    }
    if (pos_ >= text_.size()) return Error("string without an end");
    ++pos_;
    return out;
  }

  // Position of the next token, and what was read from a position on, blanks at the end left out.
  size_t position() {
    Skip();
    return pos_;
  }
  absl::string_view Since(size_t begin) const {
    return absl::StripTrailingAsciiWhitespace(text_.substr(begin, pos_ - begin));
  }
  // Takes ", device_ids="; takes nothing when another word follows the comma.
  bool TakeDeviceIds() {
    const size_t start = pos_;
    if (Take(",") && Word() == "device_ids" && Take("=")) return true;
    pos_ = start;
    return false;
  }

 private:
  absl::string_view what_, text_;
  size_t pos_ = 0;
};

// ---- Sharding ----

constexpr struct {
  Sharding::Type type;
  absl::string_view name;
} kShardingNames[] = {{Sharding::Type::kReplicated, "replicated"},
                      {Sharding::Type::kMaximal, "maximal"},
                      {Sharding::Type::kManual, "manual"},
                      {Sharding::Type::kUnknown, "unknown"},
                      {Sharding::Type::kUnreduced, "unreduced"}};

absl::string_view GetName(Sharding::Type type) {
  for (const auto& row : kShardingNames) {
    if (row.type == type) return row.name;
  }
  return "other";
}

absl::StatusOr<Sharding::Type> ParseSubgroupType(Cursor& c) {
  const absl::string_view word = c.Word();
  for (const auto& row : kShardingNames) {
    if (row.name == word && row.type != Sharding::Type::kMaximal) return row.type;
  }
  return c.Error(absl::StrCat("unknown subgroup type '", word, "'"));
}

absl::Status SkipMetadata(Cursor& c) {
  if (!c.Take("{")) return c.Error("expected '{' of metadata");
  for (int depth = 1; depth > 0;) {
    if (c.AtEnd()) return c.Error("metadata without an end");
    if (c.Peek() == '"') {
      RETURN_IF_ERROR(c.Quoted().status());
    } else if (c.Take("{")) {
      ++depth;
    } else if (c.Take("}")) {
      --depth;
    } else if (c.Word("_=.,/-:()[]").empty()) {
      return c.Error("unexpected character in metadata");
    }
  }
  return absl::OkStatus();
}

// mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {'b':(1)2, ?}], replicated={..}, unreduced={..}, manual={..}
// behind the word mesh. Each axis is split where a named sub-axis begins or ends. The sub-axes of a dimension make its
// tile; the others are subgroups behind the tiles.
class MeshSharding {
 public:
  explicit MeshSharding(Cursor& c) : c_(c) {}

  absl::Status Parse(Sharding* s) {
    const size_t begin = c_.position();
    RETURN_IF_ERROR(ParseMesh());
    std::vector<std::vector<SubAxis>> dims;
    if (!c_.Take(",") || !c_.Take("[")) return c_.Error("expected the dimensions of a sharding by mesh axes");
    if (!c_.Take("]")) {
      do {
        ASSIGN_OR_RETURN(std::vector<SubAxis> sub_axes, ParseAxes());
        dims.push_back(std::move(sub_axes));
      } while (c_.Take(","));
      if (!c_.Take("]")) return c_.Error("expected ',' or ']' behind a dimension");
    }
    std::vector<SubAxis> unreduced, manual;
    s->mesh = absl::StrCat("mesh", c_.Since(begin));
    while (c_.Take(",")) {
      const absl::string_view word = c_.Word();
      if (!c_.Take("=")) return c_.Error("expected '=' behind a list of mesh axes");
      if (word == "metadata") {
        const size_t metadata = c_.position();
        RETURN_IF_ERROR(SkipMetadata(c_));
        s->metadata = std::string(c_.Since(metadata));
        break;
      }
      ASSIGN_OR_RETURN(std::vector<SubAxis> sub_axes, ParseAxes());
      if (word == "unreduced") {
        unreduced = std::move(sub_axes);
      } else if (word == "manual") {
        manual = std::move(sub_axes);
      } else if (word != "replicated") {
        return c_.Error(absl::StrCat("unknown list of mesh axes '", word, "'"));
      }
      s->mesh = absl::StrCat("mesh", c_.Since(begin));
    }
    return Expand(dims, unreduced, manual, s);
  }

 private:
  struct SubAxis {
    int64_t axis = 0, pre_size = 1, size = 0;
    int64_t position = 0;  // set later: the tile dimension or subgroup, and the order there
    int64_t order = 0;
  };

  absl::StatusOr<std::string> AxisName() {
    if (!c_.Take("'")) return c_.Error("expected the name of a mesh axis");
    const std::string name(c_.Word("_.-"));
    if (!c_.Take("'")) return c_.Error("name of a mesh axis without an end");
    return name;
  }

  absl::Status ParseMesh() {
    if (!c_.Take("[")) return c_.Error("expected '[' behind mesh");
    if (!c_.Take("]")) {
      do {
        ASSIGN_OR_RETURN(std::string name, AxisName());
        if (!c_.Take("=")) return c_.Error("expected the size of a mesh axis");
        ASSIGN_OR_RETURN(int64_t size, c_.Number());
        names_.push_back(std::move(name));
        sizes_.push_back(size);
      } while (c_.Take(","));
      if (!c_.Take("]")) return c_.Error("expected ',' or ']' behind a mesh axis");
    }
    count_ = DeviceCount(sizes_);
    if (count_ == 0) return c_.Error("mesh axes must be positive and name no more than 2^20 devices");
    if (!c_.TakeDeviceIds()) return absl::OkStatus();
    if (!c_.Take("(")) return c_.Error("expected '(' of device_ids");
    if (c_.Take("[")) {
      IotaDevices iota;
      ASSIGN_OR_RETURN(iota.reshape_dims, c_.Numbers("]"));
      iota.dims = iota.reshape_dims;
      if (c_.Take("T")) {
        if (!c_.Take("(")) return c_.Error("expected '(' behind T");
        ASSIGN_OR_RETURN(iota.transpose_perm, c_.Numbers(")"));
      }
      if (!iota.Valid()) return c_.Error("device_ids that name no list of devices");
      // The devices of each instruction's sharding are listed where the mesh does not have them in order.
      if (count_ > kMaxTransposedDevices && !std::is_sorted(iota.transpose_perm.begin(), iota.transpose_perm.end())) {
        return c_.Error(absl::StrCat("transposed device_ids of more than ", kMaxTransposedDevices, " devices"));
      }
      devices_ = iota.Expand();
      transposed_ = true;
      if (!c_.Take(")")) return c_.Error("expected ')' of device_ids");
    } else {
      ASSIGN_OR_RETURN(devices_, c_.Numbers(")"));
    }
    if (static_cast<int64_t>(devices_.size()) != count_) {
      return c_.Error(absl::StrCat("a mesh of ", count_, " devices, ", devices_.size(), " device ids"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<SubAxis>> ParseAxes() {
    std::vector<SubAxis> sub_axes;
    if (!c_.Take("{")) return c_.Error("expected '{' of mesh axes");
    if (c_.Take("}")) return sub_axes;
    do {
      if (c_.Take("?")) continue;  // open to a partitioner
      SubAxis p;
      ASSIGN_OR_RETURN(std::string name, AxisName());
      const auto it = std::find(names_.begin(), names_.end(), name);
      if (it == names_.end()) return c_.Error(absl::StrCat("no mesh axis '", name, "'"));
      p.axis = it - names_.begin();
      p.size = sizes_[p.axis];
      if (c_.Take(":")) {
        if (!c_.Take("(")) return c_.Error("expected '(' of a sub-axis");
        ASSIGN_OR_RETURN(p.pre_size, c_.Number());
        if (!c_.Take(")")) return c_.Error("expected ')' of a sub-axis");
        ASSIGN_OR_RETURN(p.size, c_.Number());
      }
      const int64_t axis_size = sizes_[p.axis];
      if (p.pre_size < 1 || p.size < 1 || p.pre_size > axis_size || p.size > axis_size ||
          axis_size % (p.pre_size * p.size) != 0) {
        return c_.Error("a sub-axis that does not fit its mesh axis");
      }
      sub_axes.push_back(p);
    } while (c_.Take(","));
    if (!c_.Take("}")) return c_.Error("expected ',' or '}' behind a mesh axis");
    return sub_axes;
  }

  absl::Status Expand(const std::vector<std::vector<SubAxis>>& dims, const std::vector<SubAxis>& unreduced,
                      const std::vector<SubAxis>& manual, Sharding* s) {
    // Positions: tile dimensions, then replicated, unreduced and manual subgroups.
    const int64_t rank = static_cast<int64_t>(dims.size());
    std::vector<SubAxis> named;
    auto add = [&](const std::vector<SubAxis>& sub_axes, int64_t position) {
      for (SubAxis p : sub_axes) {
        p.position = position;
        p.order = static_cast<int64_t>(named.size());
        named.push_back(p);
      }
    };
    for (int64_t d = 0; d < rank; ++d) add(dims[d], d);
    add(unreduced, rank + 1);
    add(manual, rank + 2);
    struct Factor {
      DeviceLoop loop;
      int64_t position, order;
    };
    std::vector<Factor> factors;
    int64_t stride = count_;
    for (size_t a = 0; a < sizes_.size(); ++a) {
      std::vector<SubAxis> sub_axes;
      for (const SubAxis& p : named) {
        if (p.axis == static_cast<int64_t>(a)) sub_axes.push_back(p);
      }
      std::sort(sub_axes.begin(), sub_axes.end(),
                [](const SubAxis& x, const SubAxis& y) { return x.pre_size < y.pre_size; });
      int64_t used = 1;
      auto split = [&](int64_t size, int64_t position, int64_t order) {
        stride /= size;
        if (size > 1) factors.push_back({{size, stride}, position, order});
        used *= size;
      };
      for (const SubAxis& p : sub_axes) {
        if (p.pre_size < used || p.pre_size % used != 0) return c_.Error("sub-axes of a mesh axis overlap");
        split(p.pre_size / used, rank, static_cast<int64_t>(a));
        split(p.size, p.position, p.order);
      }
      split(sizes_[a] / used, rank, static_cast<int64_t>(a));
    }
    std::stable_sort(factors.begin(), factors.end(), [](const Factor& x, const Factor& y) {
      return x.position != y.position ? x.position < y.position : x.order < y.order;
    });
    Ints extents(static_cast<size_t>(rank) + 3, 1);
    for (const Factor& p : factors) extents[p.position] *= p.loop.size;
    const bool tiled = std::any_of(extents.begin(), extents.begin() + rank, [](int64_t e) { return e > 1; });
    const int64_t groups[] = {extents[rank], extents[rank + 1], extents[rank + 2]};
    if (!tiled && groups[1] == 1 && groups[2] == 1) {
      s->type = Sharding::Type::kReplicated;
      return absl::OkStatus();
    }
    if (!tiled && groups[0] == 1 && (groups[1] == 1 || groups[2] == 1)) {
      s->type = groups[2] == 1 ? Sharding::Type::kUnreduced : Sharding::Type::kManual;
      return absl::OkStatus();
    }
    s->type = Sharding::Type::kOther;
    s->tile_dims.assign(extents.begin(), extents.begin() + rank);
    static constexpr Sharding::Type kTypes[] = {Sharding::Type::kReplicated, Sharding::Type::kUnreduced,
                                                Sharding::Type::kManual};
    for (int k = 0; k < 3; ++k) {
      if (groups[k] == 1) continue;
      s->tile_dims.push_back(groups[k]);
      s->last_tile_dims.push_back(kTypes[k]);
    }
    if (s->last_tile_dims.size() == 1 && s->last_tile_dims[0] == Sharding::Type::kReplicated) {
      s->last_tile_dims.clear();
      s->replicate_on_last_tile_dim = true;
    }
    bool in_order = count_ > kMaxListedDevices;
    for (size_t n = 0; n < devices_.size() && in_order; ++n) in_order = devices_[n] == static_cast<int64_t>(n);
    if (in_order) {
      std::vector<DeviceLoop> loops;
      for (const Factor& f : factors) loops.push_back(f.loop);
      s->iota = MakeIotaDevices(s->tile_dims, loops);
      return absl::OkStatus();
    }
    for (int64_t n = 0; n < count_; ++n) {
      int64_t at = 0, rest = n;
      for (size_t i = factors.size(); i-- > 0;) {
        at += rest % factors[i].loop.size * factors[i].loop.stride;
        rest /= factors[i].loop.size;
      }
      s->devices.push_back(devices_.empty() ? at : devices_[static_cast<size_t>(at)]);
    }
    if (count_ <= kMaxListedDevices) return absl::OkStatus();
    s->iota = FindIotaDevices(s->tile_dims, s->devices);
    if (s->iota) {
      s->devices = Ints();
    } else if (transposed_ && count_ > kMaxExpandedDevices) {
      return c_.Error(absl::StrCat("a list of ", count_, " transposed devices without an iota form, at most ",
                                   kMaxExpandedDevices, " are supported"));
    }
    return absl::OkStatus();
  }

  Cursor& c_;
  std::vector<std::string> names_;
  Ints sizes_, devices_;
  int64_t count_ = 1;
  bool transposed_ = false;  // the text of the devices is an iota
};

absl::Status CheckTiled(const Cursor& c, const Sharding& s) {
  const int64_t count = DeviceCount(s.tile_dims);
  if (count == 0) return c.Error("tile dimensions must be positive and name no more than 2^20 devices");
  if (s.iota) {
    if (!s.iota->Valid()) return c.Error("device iota does not fit the tile dimensions");
  } else if (static_cast<int64_t>(s.devices.size()) != count) {
    return c.Error(absl::StrCat("tile dimensions name ", count, " devices, found ", s.devices.size()));
  }
  if (s.last_tile_dims.size() > s.tile_dims.size()) return c.Error("more subgroup dimensions than tile dimensions");
  return absl::OkStatus();
}

absl::StatusOr<Sharding> ParseSharding(Cursor& c, int depth) {
  if (depth > kMaxDepth) return c.Error("tuples nested too deep");
  if (!c.Take("{")) return c.Error("expected '{'");
  Sharding s;
  if (c.Peek() == '{' || c.Peek() == '}') {
    s.type = Sharding::Type::kTuple;
    if (c.Take("}")) return s;
    do {
      ASSIGN_OR_RETURN(Sharding element, ParseSharding(c, depth + 1));
      s.tuple.push_back(std::move(element));
    } while (c.Take(","));
    if (!c.Take("}")) return c.Error("expected ',' or '}' in a tuple");
    return s;
  }
  bool has_type = false, has_devices = false;
  while (!c.Take("}")) {
    const absl::string_view word = c.Word();
    if (word == "devices" && c.Take("=")) {
      has_type = has_devices = true;
      s.type = Sharding::Type::kOther;
      if (!c.Take("[")) return c.Error("expected '[' after devices=");
      ASSIGN_OR_RETURN(s.tile_dims, c.Numbers("]"));
      if (c.Take("<=")) {
        IotaDevices iota;
        iota.dims = s.tile_dims;
        if (!c.Take("[")) return c.Error("expected '[' after <=");
        ASSIGN_OR_RETURN(iota.reshape_dims, c.Numbers("]"));
        if (c.Take("T")) {
          if (!c.Take("(")) return c.Error("expected '(' after T");
          ASSIGN_OR_RETURN(iota.transpose_perm, c.Numbers(")"));
        }
        s.iota = std::move(iota);
      } else {
        do {
          ASSIGN_OR_RETURN(int64_t device, c.Number());
          s.devices.push_back(device);
        } while (c.Take(","));
      }
    } else if (word == "device" && c.Take("=") && s.type == Sharding::Type::kMaximal) {
      ASSIGN_OR_RETURN(int64_t device, c.Number());
      s.devices = {device};
    } else if (word == "last_tile_dim_replicate") {
      s.replicate_on_last_tile_dim = true;
    } else if (word == "last_tile_dims" && c.Take("=")) {
      if (!c.Take("{")) return c.Error("expected '{' after last_tile_dims=");
      if (!c.Take("}")) {
        do {
          ASSIGN_OR_RETURN(Sharding::Type t, ParseSubgroupType(c));
          s.last_tile_dims.push_back(t);
        } while (c.Take(","));
        if (!c.Take("}")) return c.Error("expected ',' or '}' in last_tile_dims");
      }
    } else if (word == "metadata" && c.Take("=")) {
      const size_t begin = c.position();
      RETURN_IF_ERROR(SkipMetadata(c));
      s.metadata = std::string(c.Since(begin));
    } else if (word == "shard_as" || word == "shard_like") {
      s.group = word == "shard_as" ? Sharding::Group::kAs : Sharding::Group::kLike;
      ASSIGN_OR_RETURN(s.group_id, c.Number());
    } else if (word == "mesh" && !has_type) {
      RETURN_IF_ERROR(MeshSharding(c).Parse(&s));
      has_type = true;
    } else {
      bool known = false;
      for (const auto& row : kShardingNames) {
        if (row.name == word && !has_type) {
          s.type = row.type;
          has_type = known = true;
        }
      }
      if (!known) return c.Error(absl::StrCat("unexpected '", word, "'"));
    }
  }
  if (!has_type) return c.Error("no type");
  if (has_devices)
    RETURN_IF_ERROR(CheckTiled(c, s));
  else if (s.mesh.empty() && (s.replicate_on_last_tile_dim || !s.last_tile_dims.empty()))
    return c.Error("subgroup dimensions without devices");
  if (s.type == Sharding::Type::kMaximal && s.devices.size() != 1) return c.Error("maximal needs device=");
  return s;
}

void AppendIotaSource(const IotaDevices& iota, std::string* out) {
  absl::StrAppend(out, "<=[", absl::StrJoin(iota.reshape_dims, ","), "]");
  if (!iota.transpose_perm.empty()) absl::StrAppend(out, "T(", absl::StrJoin(iota.transpose_perm, ","), ")");
}

// ---- FFI dictionary ----

// Element types by their MLIR names.
constexpr struct {
  absl::string_view name;
  PrimitiveType type;
} kMlirTypes[] = {{"i1", PrimitiveType::kPred},  {"i8", PrimitiveType::kS8},     {"i16", PrimitiveType::kS16},
                  {"i32", PrimitiveType::kS32},  {"i64", PrimitiveType::kS64},   {"ui8", PrimitiveType::kU8},
                  {"ui16", PrimitiveType::kU16}, {"ui32", PrimitiveType::kU32},  {"ui64", PrimitiveType::kU64},
                  {"f16", PrimitiveType::kF16},  {"bf16", PrimitiveType::kBF16}, {"f32", PrimitiveType::kF32},
                  {"f64", PrimitiveType::kF64}};

absl::StatusOr<PrimitiveType> ParseMlirType(Cursor& c) {
  const absl::string_view word = c.Word();
  for (const auto& row : kMlirTypes) {
    if (row.name == word) return row.type;
  }
  return c.Error(absl::StrCat("unsupported element type '", word, "'"));
}

absl::string_view MlirName(PrimitiveType type) {
  for (const auto& row : kMlirTypes) {
    if (row.type == type) return row.name;
  }
  return Name(type);
}

absl::StatusOr<std::string> ElementBytes(const Cursor& c, absl::string_view text, PrimitiveType type) {
  const size_t width = static_cast<size_t>(ByteWidth(type));
  if (IsFloat(type) && absl::StartsWith(text, "0x")) {  // the bit pattern
    uint64_t bits = 0;
    if (!absl::SimpleHexAtoi(text, &bits) || (width < 8 && bits >> (8 * width))) {
      return c.Error(absl::StrCat("'", text, "' is no bit pattern of ", MlirName(type)));
    }
    return std::string(reinterpret_cast<const char*>(&bits), width);
  }
  Literal literal(Shape::Scalar(type));
  RETURN_IF_ERROR(ParseElement(text, &literal, 0));
  return std::string(reinterpret_cast<const char*>(literal.bytes()), width);
}

absl::StatusOr<FfiDictionary> ParseDictionary(Cursor& c, int depth);

// Values up to `close`, without it.
absl::StatusOr<std::string> ParseValues(Cursor& c, PrimitiveType type, char close) {
  std::string bytes;
  if (c.Peek() == close) return bytes;
  do {
    ASSIGN_OR_RETURN(std::string element, ElementBytes(c, c.Word("_+-."), type));
    bytes += element;
  } while (c.Take(","));
  return bytes;
}

// After "dense<": numbers or one number for all, then the type tells how many.
absl::StatusOr<FfiAttribute> ParseDense(Cursor& c) {
  std::vector<absl::string_view> words;
  const bool list = c.Take("[");
  if (!(list && c.Take("]"))) {
    do words.push_back(c.Word("_+-."));
    while (list && c.Take(","));
    if (list && !c.Take("]")) return c.Error("expected ',' or ']' in dense elements");
  }
  if (!c.Take(">") || !c.Take(":") || !(c.Take("tensor<") || c.Take("vector<")))
    return c.Error("expected '> : tensor<'");
  int64_t count = 1;
  absl::string_view word = c.Word();
  while (!word.empty() && absl::ascii_isdigit(word[0])) {
    const size_t x = word.find('x');
    int64_t size = 0;
    if (x == absl::string_view::npos || !absl::SimpleAtoi(word.substr(0, x), &size) || size < 0 || size > kMaxDevices ||
        count * size > kMaxDevices) {
      return c.Error("bad tensor size");
    }
    count *= size;
    word.remove_prefix(x + 1);
  }
  Cursor type_cursor("ffi attributes", word);
  ASSIGN_OR_RETURN(PrimitiveType type, ParseMlirType(type_cursor));
  if (!c.Take(">")) return c.Error("expected '>' after a tensor type");
  if (list && static_cast<int64_t>(words.size()) != count) return c.Error("dense elements do not fit their type");
  FfiAttribute a;
  a.kind = FfiAttribute::Kind::kArray;
  a.type = type;
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string element, ElementBytes(c, words[list ? static_cast<size_t>(i) : 0], type));
    a.bytes += element;
  }
  return a;
}

absl::StatusOr<FfiAttribute> ParseValue(Cursor& c, int depth) {
  FfiAttribute a;
  if (c.Peek() == '"') {
    a.kind = FfiAttribute::Kind::kString;
    ASSIGN_OR_RETURN(a.bytes, c.Quoted());
    return a;
  }
  if (c.Peek() == '{') {
    a.kind = FfiAttribute::Kind::kDictionary;
    ASSIGN_OR_RETURN(a.dictionary, ParseDictionary(c, depth + 1));
    return a;
  }
  if (c.Take("array<")) {
    a.kind = FfiAttribute::Kind::kArray;
    ASSIGN_OR_RETURN(a.type, ParseMlirType(c));
    if (c.Take(":")) {
      ASSIGN_OR_RETURN(a.bytes, ParseValues(c, a.type, '>'));
    }
    if (!c.Take(">")) return c.Error("expected ',' or '>' in an array");
    return a;
  }
  if (c.Take("dense<")) return ParseDense(c);
  const absl::string_view word = c.Word("_+-.");
  if (word.empty()) return c.Error("expected a value");
  a.kind = FfiAttribute::Kind::kScalar;
  if (word == "true" || word == "false") {
    a.type = PrimitiveType::kPred;
  } else if (c.Take(":")) {
    ASSIGN_OR_RETURN(a.type, ParseMlirType(c));
  } else {
    a.type = absl::StrContains(word, '.') ? PrimitiveType::kF64 : PrimitiveType::kS64;
  }
  ASSIGN_OR_RETURN(a.bytes, ElementBytes(c, word, a.type));
  return a;
}

absl::StatusOr<FfiDictionary> ParseDictionary(Cursor& c, int depth) {
  if (depth > kMaxDepth) return c.Error("dictionaries nested too deep");
  if (!c.Take("{")) return c.Error("expected '{'");
  FfiDictionary dictionary;
  if (c.Take("}")) return dictionary;
  do {
    std::string key;
    if (c.Peek() == '"') {
      ASSIGN_OR_RETURN(key, c.Quoted());
    } else {
      key = std::string(c.Word("_$."));
      if (key.empty()) return c.Error("expected a name");
    }
    if (!c.Take("=")) return c.Error(absl::StrCat("expected '=' after ", key));
    ASSIGN_OR_RETURN(FfiAttribute value, ParseValue(c, depth));
    if (!dictionary.emplace(key, std::move(value)).second) return c.Error(absl::StrCat("name ", key, " twice"));
  } while (c.Take(","));
  if (!c.Take("}")) return c.Error("expected ',' or '}' in a dictionary");
  return dictionary;
}

std::string QuotedMlir(absl::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\')
      absl::StrAppend(&out, "\\", std::string(1, c));
    else if (absl::ascii_isprint(c))
      out += c;
    else
      absl::StrAppendFormat(&out, "\\%02X", static_cast<unsigned char>(c));
  }
  return out + "\"";
}

// A number as MLIR writes it: floats with a point, special ones as their bits.
std::string FormatElement(PrimitiveType type, absl::string_view bytes) {
  absl::StatusOr<Literal> literal = Literal::FromBytes(
      Shape::Scalar(type), absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
  if (!literal.ok()) return "?";
  std::string text = ElementToString(*literal, 0);
  if (!IsFloat(type)) return text;
  if (absl::StrContains(text, 'n')) {  // inf, nan
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return absl::StrFormat("0x%0*X", static_cast<int>(2 * bytes.size()), bits);
  }
  if (!absl::StrContains(text, '.')) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string AttributeText(const FfiAttribute& a) {
  const size_t width = static_cast<size_t>(std::max(1, ByteWidth(a.type)));
  switch (a.kind) {
    case FfiAttribute::Kind::kString:
      return QuotedMlir(a.bytes);
    case FfiAttribute::Kind::kDictionary:
      return ToString(a.dictionary);
    case FfiAttribute::Kind::kScalar: {
      std::string text = FormatElement(a.type, a.bytes);
      return a.type == PrimitiveType::kPred ? text : absl::StrCat(text, " : ", MlirName(a.type));
    }
    case FfiAttribute::Kind::kArray:
      break;
  }
  std::string out = absl::StrCat("array<", MlirName(a.type));
  for (size_t i = 0; i + width <= a.bytes.size(); i += width) {
    absl::StrAppend(&out, i == 0 ? ": " : ", ", FormatElement(a.type, absl::string_view(a.bytes).substr(i, width)));
  }
  return out + ">";
}

bool IsBareName(absl::string_view name) {
  if (name.empty() || !(absl::ascii_isalpha(name[0]) || name[0] == '_')) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '.'; });
}

}  // namespace

bool IotaDevices::Valid() const {
  const int64_t count = DeviceCount(dims);
  if (count == 0 || DeviceCount(reshape_dims) != count) return false;
  if (transpose_perm.empty()) return true;
  if (transpose_perm.size() != reshape_dims.size()) return false;
  std::vector<bool> seen(transpose_perm.size(), false);
  for (int64_t p : transpose_perm) {
    if (p < 0 || p >= static_cast<int64_t>(seen.size()) || seen[static_cast<size_t>(p)]) return false;
    seen[static_cast<size_t>(p)] = true;
  }
  return true;
}

Ints IotaDevices::Expand() const {
  if (!Valid()) return {};
  const int64_t count = DeviceCount(dims);
  Ints devices(static_cast<size_t>(count));
  if (transpose_perm.empty()) {
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  const DimVector strides = RowMajorStrides(reshape_dims);
  const size_t rank = reshape_dims.size();
  Ints index(rank, 0);  // in the transposed order
  for (int64_t& device : devices) {
    device = 0;
    for (size_t i = 0; i < rank; ++i) device += index[i] * strides[static_cast<size_t>(transpose_perm[i])];
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < reshape_dims[static_cast<size_t>(transpose_perm[i])]) break;
      index[i] = 0;
    }
  }
  return devices;
}

IotaDevices MakeIotaDevices(Ints dims, absl::Span<const DeviceLoop> loops) {
  IotaDevices iota;
  iota.dims = std::move(dims);
  std::vector<size_t> places;
  int64_t count = 1;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].size > 1) places.push_back(i);
    count *= loops[i].size;
  }
  std::vector<int64_t> rank_of(loops.size(), 0);
  std::vector<size_t> by_stride = places;
  std::sort(by_stride.begin(), by_stride.end(), [&](size_t a, size_t b) { return loops[a].stride > loops[b].stride; });
  for (size_t k = 0; k < by_stride.size(); ++k) {
    iota.reshape_dims.push_back(loops[by_stride[k]].size);
    rank_of[by_stride[k]] = static_cast<int64_t>(k);
  }
  for (size_t place : places) iota.transpose_perm.push_back(rank_of[place]);
  if (std::is_sorted(iota.transpose_perm.begin(), iota.transpose_perm.end())) {
    iota.reshape_dims = {count};
    iota.transpose_perm.clear();
  }
  return iota;
}

std::optional<IotaDevices> FindIotaDevices(Ints dims, absl::Span<const int64_t> devices) {
  // Loops from the innermost one. A loop is as long as possible, so the next one has another stride.
  std::vector<DeviceLoop> loops;
  const size_t count = devices.size();
  for (size_t done = 1; done < count;) {
    DeviceLoop loop;
    loop.stride = devices[done];
    if (loop.stride <= 0 || loop.stride >= static_cast<int64_t>(count)) return std::nullopt;
    while (static_cast<size_t>(loop.size) * done < count &&
           devices[static_cast<size_t>(loop.size) * done] == loop.size * loop.stride) {
      ++loop.size;
    }
    done *= static_cast<size_t>(loop.size);
    loops.push_back(loop);
  }
  std::reverse(loops.begin(), loops.end());
  IotaDevices iota = MakeIotaDevices(std::move(dims), loops);
  const Ints expanded = iota.Expand();
  if (!std::equal(expanded.begin(), expanded.end(), devices.begin(), devices.end())) return std::nullopt;
  return iota;
}

std::vector<Ints> ReplicaGroups::Expand() const {
  if (!iota) return groups;
  const Ints devices = iota->Expand();
  if (iota->dims.size() != 2 || devices.empty()) return {};
  std::vector<Ints> out;
  const size_t size = static_cast<size_t>(iota->dims[1]);
  for (size_t i = 0; i < devices.size(); i += size) out.emplace_back(devices.begin() + i, devices.begin() + i + size);
  return out;
}

void ReplicaGroups::Compress() {
  if (iota || groups.empty()) return;
  const size_t size = groups[0].size();
  if (groups.size() * size <= static_cast<size_t>(kMaxListedDevices) ||
      FindOtherSize(static_cast<int64_t>(size)).has_value()) {
    return;
  }
  Ints devices;
  devices.reserve(groups.size() * size);
  for (const Ints& group : groups) devices.insert(devices.end(), group.begin(), group.end());
  iota = FindIotaDevices({static_cast<int64_t>(groups.size()), static_cast<int64_t>(size)}, devices);
  if (iota) groups = {};
}

std::optional<int64_t> ReplicaGroups::FindOtherSize(int64_t size) const {
  if (iota && iota->dims.size() == 2 && iota->dims[1] != size) return iota->dims[1];
  for (const Ints& group : groups) {
    if (static_cast<int64_t>(group.size()) != size) return static_cast<int64_t>(group.size());
  }
  return std::nullopt;
}

Ints Sharding::DeviceList() const { return iota ? iota->Expand() : devices; }

std::string Sharding::ToString() const {
  if (type == Type::kTuple) {
    return absl::StrCat(
        "{", absl::StrJoin(tuple, ", ", [](std::string* out, const Sharding& s) { *out += s.ToString(); }), "}");
  }
  auto finish = [&](std::string out) {
    if (group != Group::kNone) absl::StrAppend(&out, group == Group::kAs ? " shard_as " : " shard_like ", group_id);
    if (!metadata.empty()) absl::StrAppend(&out, mesh.empty() ? " metadata=" : ", metadata=", metadata);
    return out + "}";
  };
  if (!mesh.empty()) return finish(absl::StrCat("{", mesh));
  if (type == Type::kMaximal) return finish(absl::StrCat("{maximal device=", devices.empty() ? 0 : devices[0]));
  if (type != Type::kOther) return finish(absl::StrCat("{", GetName(type)));
  std::string out = absl::StrCat("{devices=[", absl::StrJoin(tile_dims, ","), "]");
  if (iota)
    AppendIotaSource(*iota, &out);
  else
    absl::StrAppend(&out, absl::StrJoin(devices, ","));
  if (replicate_on_last_tile_dim) out += " last_tile_dim_replicate";
  if (!last_tile_dims.empty()) {
    absl::StrAppend(&out, " last_tile_dims={",
                    absl::StrJoin(last_tile_dims, ", ", [](std::string* s, Type t) { absl::StrAppend(s, GetName(t)); }),
                    "}");
  }
  return finish(std::move(out));
}

absl::StatusOr<Sharding> ParseSharding(absl::string_view text) {
  Cursor c("sharding", text);
  ASSIGN_OR_RETURN(Sharding s, ParseSharding(c, 0));
  if (!c.AtEnd()) return c.Error("text after the sharding");
  return s;
}

int64_t Window::CountElements() const {
  int64_t n = 1;
  for (const WindowDimension& d : dimensions) {
    if (__builtin_mul_overflow(n, d.size, &n)) return std::numeric_limits<int64_t>::max();
  }
  return n;
}

ComparisonDirection InvertDirection(ComparisonDirection d) {
  switch (d) {
    case ComparisonDirection::kEq:
      return ComparisonDirection::kNe;
    case ComparisonDirection::kNe:
      return ComparisonDirection::kEq;
    case ComparisonDirection::kGe:
      return ComparisonDirection::kLt;
    case ComparisonDirection::kGt:
      return ComparisonDirection::kLe;
    case ComparisonDirection::kLe:
      return ComparisonDirection::kGt;
    case ComparisonDirection::kLt:
      return ComparisonDirection::kGe;
  }
  return d;
}

int64_t FfiAttribute::array_size() const {
  const int width = ByteWidth(type);
  return width == 0 ? 0 : static_cast<int64_t>(bytes.size()) / width;
}

std::string ToString(const FfiDictionary& dictionary) {
  std::string out = "{";
  for (const auto& [name, value] : dictionary) {
    absl::StrAppend(&out, out.size() > 1 ? ", " : "", IsBareName(name) ? name : QuotedMlir(name), " = ",
                    AttributeText(value));
  }
  return out + "}";
}

absl::StatusOr<FfiDictionary> ParseFfiDictionary(absl::string_view text) {
  Cursor c("ffi attributes", text);
  ASSIGN_OR_RETURN(FfiDictionary dictionary, ParseDictionary(c, 0));
  if (!c.AtEnd()) return c.Error("text after the dictionary");
  return dictionary;
}

}  // namespace backplane
