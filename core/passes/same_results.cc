#include "core/passes/same_results.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/analysis/process_groups.h"
#include "core/eval/evaluator.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

Literal RandomArgument(const Shape& shape, const SameResultsOptions& options, std::mt19937& random) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& s : shape.tuple_shapes()) elements.push_back(RandomArgument(s, options, random));
    return Literal::Tuple(std::move(elements));
  }
  if (!shape.IsArray()) return Literal::Token();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double specials[] = {kInf, -kInf, std::nan(""), 0.0, -0.0, 1};
  std::uniform_real_distribution<double> real(-3, 3);
  std::uniform_int_distribution<int64_t> integer(options.int_low, options.int_high);
  auto number = [&] { return random() % 8 == 0 ? specials[random() % 6] : real(random); };
  Literal l(shape.WithoutLayout());
  const PrimitiveType t = shape.element_type();
  for (int64_t i = 0; i < l.num_elements(); ++i) {
    if (t == PrimitiveType::kC64) {
      l.mutable_data<std::complex<float>>()[static_cast<size_t>(i)] = {static_cast<float>(number()),
                                                                       static_cast<float>(number())};
    } else if (t == PrimitiveType::kC128) {
      l.mutable_data<std::complex<double>>()[static_cast<size_t>(i)] = {number(), number()};
    } else if (IsFloat(t)) {
      l.SetFromDouble(i, number());
    } else if (t == PrimitiveType::kPred) {
      l.SetFromInt(i, integer(random) & 1);
    } else {
      const int64_t v = integer(random);
      l.SetFromInt(i, IsUnsigned(t) && v < 0 ? -v : v);
    }
  }
  return l;
}

bool Agree(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (tolerance == 0) return a == b && std::signbit(a) == std::signbit(b);
  if (a == b || std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= tolerance * std::max({std::fabs(a), std::fabs(b), 1.0});
}

std::string Difference(const Literal& wanted, const Literal& found, double tolerance) {
  if (wanted.shape() != found.shape())
    return absl::StrCat("expected ", wanted.shape().ToString(), ", found ", found.shape().ToString());
  for (size_t k = 0; k < wanted.elements().size(); ++k) {
    std::string d = Difference(wanted.elements()[k], found.elements()[k], tolerance);
    if (!d.empty()) return absl::StrCat("in element ", k, " of the tuple: ", d);
  }
  if (!wanted.shape().IsArray()) return "";
  const PrimitiveType t = wanted.shape().element_type();
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    bool same;
    if (IsComplex(t)) {
      const std::complex<double> a = wanted.GetAsComplex(i), b = found.GetAsComplex(i);
      same = Agree(a.real(), b.real(), tolerance) && Agree(a.imag(), b.imag(), tolerance);
    } else if (IsFloat(t)) {
      same = Agree(wanted.GetAsDouble(i), found.GetAsDouble(i), tolerance);
    } else {
      same = wanted.GetAsInt(i) == found.GetAsInt(i);
    }
    if (!same) {
      return absl::StrCat(wanted.shape().ToString(), " element ", i, ": expected ", ElementToString(wanted, i),
                          ", found ", ElementToString(found, i));
    }
  }
  return "";
}

// Stands in for functions of the host: a hash of the name and all operands.
Literal CustomCallResult(const Shape& shape, uint64_t seed) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& s : shape.tuple_shapes()) elements.push_back(CustomCallResult(s, seed + elements.size()));
    return Literal::Tuple(std::move(elements));
  }
  if (!shape.IsArray()) return Literal::Token();
  std::mt19937_64 random(seed);
  Literal l(shape.WithoutLayout());
  for (int64_t i = 0; i < l.num_elements(); ++i) l.SetFromInt(i, static_cast<int64_t>(random() % 2));
  return l;
}

uint64_t Hash(const Literal& value, uint64_t h) {
  for (const Literal& e : value.elements()) h = Hash(e, h);
  for (int64_t i = 0; value.shape().IsArray() && i < value.byte_size(); ++i)
    h = (h ^ static_cast<uint64_t>(value.bytes()[i])) * 0x100000001b3u;
  return h;
}

// ---- collectives of devices that all hold the same values

// Rearranges blocks along dimension d of `x`, `count` of them: block k of the result is block block_of(k) of x.
Literal Blocks(const Literal& x, const Shape& to, int64_t d, int64_t from_count, int64_t to_count,
               const std::function<int64_t(int64_t)>& block_of) {
  Literal r(to.WithoutLayout());
  int64_t before = 1;
  for (int64_t k = 0; k < d; ++k) before *= to.dimensions(k);
  const size_t bytes = static_cast<size_t>(to.byte_size() / std::max<int64_t>(1, before * to_count));
  for (int64_t o = 0; o < before; ++o) {
    for (int64_t k = 0; k < to_count; ++k) {
      std::memcpy(r.mutable_bytes() + static_cast<size_t>(o * to_count + k) * bytes,
                  x.bytes() + static_cast<size_t>(o * from_count + block_of(k)) * bytes, bytes);
    }
  }
  return r;
}

// Combines x with itself, element by element, once for each further device.
absl::StatusOr<Literal> CombineWithItself(const Literal& x, const Computation& body, int64_t devices) {
  const Shape scalar = Shape::Scalar(x.shape().element_type());
  const size_t width = static_cast<size_t>(x.byte_size() / std::max<int64_t>(1, x.num_elements()));
  Literal r = Literal(x.shape());
  for (int64_t e = 0; e < x.num_elements(); ++e) {
    const Literal one = Literal::Borrow(scalar, x.bytes() + static_cast<size_t>(e) * width);
    Literal sum = one;
    for (int64_t k = 1; k < devices; ++k) {
      const Literal* const both[] = {&sum, &one};
      ASSIGN_OR_RETURN(sum, EvaluateComputation(body, both));
    }
    std::memcpy(r.mutable_bytes() + static_cast<size_t>(e) * width, sum.bytes(), width);
  }
  return r;
}

absl::StatusOr<Literal> CollectiveResult(const Instruction& i, absl::Span<const Literal* const> operands) {
  const ModuleConfig& config = i.parent()->parent()->config();
  std::vector<Literal> results;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Literal& x = *operands[k];
    if (i.Is(Opcode::kCollectivePermute) || i.Is(Opcode::kCollectivePermuteStart)) {
      ASSIGN_OR_RETURN(const auto pairs, GetProcessPairs(i, config.num_replicas, config.num_partitions));
      const bool receives = std::any_of(pairs.begin(), pairs.end(), [](const auto& p) { return p.second == 0; });
      results.push_back(receives ? x : Literal(x.shape()));
      continue;
    }
    ASSIGN_OR_RETURN(const ProcessGroups groups, GetProcessGroups(i, config.num_replicas, config.num_partitions));
    int64_t devices = 0, place = 0;
    for (const auto& group : groups) {
      const auto mine = std::find(group.begin(), group.end(), 0);
      if (mine == group.end()) continue;
      devices = static_cast<int64_t>(group.size());
      place = mine - group.begin();
    }
    switch (i.opcode()) {
      case Opcode::kAllReduce:
      case Opcode::kAllReduceStart: {
        ASSIGN_OR_RETURN(Literal r, CombineWithItself(x, *i.called(0), devices));
        results.push_back(std::move(r));
        break;
      }
      case Opcode::kReduceScatter: {
        ASSIGN_OR_RETURN(Literal r, CombineWithItself(x, *i.called(0), devices));
        const Shape& to = i.shape().IsTuple() ? i.shape().tuple_shapes(static_cast<int64_t>(k)) : i.shape();
        results.push_back(Blocks(r, to, i.dimensions()[0], devices, 1, [&](int64_t) { return place; }));
        break;
      }
      case Opcode::kAllGather:
      case Opcode::kAllGatherStart: {
        const int64_t d = i.dimensions()[0];
        DimVector dims = x.shape().dimensions();
        dims[static_cast<size_t>(d)] *= devices;
        const Shape to(x.shape().element_type(), dims);
        results.push_back(Blocks(x, to, d, 1, devices, [](int64_t) { return 0; }));
        break;
      }
      case Opcode::kAllToAll:
        if (devices != 1) return absl::UnimplementedError(absl::StrCat(i.name(), ": all-to-all of several devices"));
        results.push_back(x);
        break;
      case Opcode::kCollectiveBroadcast:
        results.push_back(devices > 0 ? x : Literal(x.shape()));
        break;
      default:
        return absl::UnimplementedError(absl::StrCat(i.name(), ": not among devices that all hold the same"));
    }
  }
  return results.size() == 1 ? std::move(results[0]) : Literal::Tuple(std::move(results));
}

absl::StatusOr<Literal> EvaluateWithin(const Module& module, const std::vector<Literal>& arguments,
                                       int64_t iterations) {
  EvaluatorHooks hooks;
  hooks.cancelled = [&iterations] { return --iterations < 0; };
  hooks.custom_call = [](const Instruction& call,
                         absl::Span<const Literal* const> operands) -> absl::StatusOr<Literal> {
    uint64_t h = call.custom_call_target().size();
    for (const Literal* o : operands) h = Hash(*o, h);
    return CustomCallResult(call.shape(), h);
  };
  hooks.collective = CollectiveResult;
  return Evaluate(module, arguments, hooks);
}

}  // namespace

absl::StatusOr<std::string> DescribeDifferenceOfResults(const Module& untouched, const Module& changed,
                                                        const SameResultsOptions& options) {
  std::mt19937 random(options.seed);
  for (int run = 0; run < options.runs; ++run) {
    std::vector<Literal> arguments;
    for (const Instruction* p : untouched.entry()->parameters())
      arguments.push_back(RandomArgument(p->shape(), options, random));
    ASSIGN_OR_RETURN(Literal wanted, EvaluateWithin(untouched, arguments, options.max_iterations));
    absl::StatusOr<Literal> found = EvaluateWithin(changed, arguments, options.max_iterations);
    std::string difference =
        found.ok() ? Difference(wanted, *found, options.tolerance) : std::string(found.status().message());
    if (difference.empty()) continue;
    ASSIGN_OR_RETURN(Literal again, EvaluateWithin(untouched, arguments, options.max_iterations));
    if (!Difference(wanted, again, 0).empty())
      return absl::FailedPreconditionError("the untouched module itself gives something else each time");
    for (size_t k = 0; k < arguments.size(); ++k)
      absl::StrAppend(&difference, "\n  argument ", k, ": ", arguments[k].ToString(64));
    return difference;
  }
  return std::string();
}

}  // namespace backplane
