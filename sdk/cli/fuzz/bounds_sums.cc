// Bounds of operations that combine many elements: reductions, windows, sorts, scatters, products, convolutions.
#include <cmath>
#include <limits>

#include "core/eval/evaluator.h"
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/bounds.h"
#include "sdk/cli/fuzz/bounds_util.h"

namespace backplane::cli::fuzz {
namespace {

constexpr PrimitiveType kF64 = PrimitiveType::kF64;
// The limit for all loops in one reduction or sort together; the generator stays below it.
constexpr int64_t kMaxEvaluatedIterations = 1'000'000;

absl::StatusOr<BoundedValue> Evaluate(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  std::vector<const Literal*> pointers;
  for (const BoundedValue* j : ops) pointers.push_back(&j->value);
  // A reducer or comparator may contain a loop, which shrinking may have made endless.
  EvaluatorHooks hooks;
  hooks.cancelled = [iterations = int64_t{0}]() mutable { return ++iterations > kMaxEvaluatedIterations; };
  ASSIGN_OR_RETURN(Literal value, EvaluateInstruction(i, pointers, hooks));
  return BoundedValue::Exact(std::move(value));
}

void MakeUndecided(BoundedValue& j) { j = BoundedValue::Undecided(j.ToLiteral()); }

bool IsWhole(const Literal& l) { return !IsFloat(ComplexPart(l.shape().element_type())); }

bool HasNonFinite(const Literal& magnitudes) {
  for (const double e : magnitudes.data<double>()) {
    if (!std::isfinite(e)) return true;
  }
  return false;
}

// Sets the bounds of a float result: error + per-unit part, with regard to overflow in some order of additions. `sum`
// holds the sum of magnitudes of the terms of each element; `reach` bounds the sums of finite terms.
void SetSum(BoundedValue& j, const Literal& error, const Literal& sum, double unit, double reach) {
  const PrimitiveType type = j.value.shape().element_type();
  const double max = MaxFinite(type);
  j.seen = Zeros(j.value.shape());
  absl::Span<double> to = j.seen.mutable_data<double>();
  for (size_t k = 0; k < to.size(); ++k) {
    const int64_t m = static_cast<int64_t>(k);
    const double s = sum.data<double>()[k], e = BoundAt(error, m);
    if (e == kInf || std::isnan(e)) {
      to[k] = kInf;
    } else if (!std::isfinite(s)) {
      // If there are infinities or NaN among the terms, every order gives the same, unless finite terms overflow.
      to[k] = IsComplex(type) || !(reach <= max / 2) ? kInf : 0;
    } else if (s + e > max / 2) {
      to[k] = kInf;
    } else {
      const double v = IsComplex(type) ? std::abs(j.value.GetAsComplex(m)) : std::abs(j.value.GetAsDouble(m));
      to[k] = e + unit * s;
      if (to[k] > 0) to[k] += ComputeUnitInLastPlace(type, v);
      // The sign of a sum of zeros depends on whether the init value is added.
      if (v == 0) to[k] = std::max(to[k], ComputeUnitInLastPlace(type, 0));
    }
  }
  Drop(j.seen);
  j.used = j.seen;
}

double GreatestFinite(const Literal& magnitudes) {
  double most = 0;
  for (const double e : magnitudes.data<double>()) {
    if (std::isfinite(e)) most = std::max(most, e);
  }
  return most;
}

double TermsOfWindow(const Window& w) { return static_cast<double>(w.CountElements()); }

double TermsOfReduce(const Instruction& i) {
  double n = 1;
  for (const int64_t d : i.dimensions()) n *= static_cast<double>(i.operand(0)->shape().dimensions(d));
  return n;
}

// One array of a reduction or of a windowed reduction.
absl::Status BoundCombined(const Instruction& i, Opcode op, const BoundedValue& x, const BoundedValue& init, double n,
                           BoundedValue& j) {
  if (IsWhole(j.value)) {
    if (x.exact() && init.exact()) return absl::OkStatus();
    if (x.used.valid() && init.exact()) {
      ASSIGN_OR_RETURN(const Literal open, EvaluateInF64(i, {x.used, Zeros(init.value.shape())}, kF64, Opcode::kAdd));
      j.used = open;
      Drop(j.used);
      j.seen = j.used;
    } else {
      MakeUndecided(j);
    }
    return absl::OkStatus();
  }
  const PrimitiveType type = j.value.shape().element_type();
  const Literal bound = ExpandBounds(x.used, x.value.shape()), init_bound = ExpandBounds(init.used, init.value.shape());
  if (op == Opcode::kMaximum || op == Opcode::kMinimum) {
    if (x.exact() && init.exact()) return absl::OkStatus();
    ASSIGN_OR_RETURN(j.used, EvaluateInF64(i, {bound, init_bound}, kF64, Opcode::kMaximum));
    Drop(j.used);
    j.seen = j.used;
    return absl::OkStatus();
  }
  const Literal sizes = ComputeMagnitudes(x.value), init_size = ComputeMagnitudes(init.value);
  if (op == Opcode::kAdd) {
    ASSIGN_OR_RETURN(const Literal error, EvaluateInF64(i, {bound, init_bound}, kF64, Opcode::kAdd));
    ASSIGN_OR_RETURN(const Literal sum, EvaluateInF64(i, {sizes, init_size}, kF64, Opcode::kAdd));
    SetSum(j, error, sum, SumUnit({&x.value, &init.value}, type, n + 1, FindGreatest(sum)),
           (n + 1) * (GreatestFinite(sizes) + GreatestFinite(init_size)));
    return absl::OkStatus();
  }
  if (op == Opcode::kMultiply) {
    Literal relative = Zeros(x.value.shape()), logs = Zeros(x.value.shape());
    for (size_t k = 0; k < static_cast<size_t>(x.value.num_elements()); ++k) {
      const double s = sizes.data<double>()[k], e = bound.data<double>()[k];
      relative.mutable_data<double>()[k] = e == 0 ? 0 : e >= s / 4 ? kInf : e / (s - e);
      logs.mutable_data<double>()[k] = s == 0 ? 0 : std::abs(std::log2(s));
    }
    const Literal zero = Zeros(init.value.shape());
    ASSIGN_OR_RETURN(const Literal error, EvaluateInF64(i, {relative, zero}, kF64, Opcode::kAdd));
    ASSIGN_OR_RETURN(const Literal reach, EvaluateInF64(i, {logs, zero}, kF64, Opcode::kAdd));
    const double range = std::log2(MaxFinite(type)) - 2;
    j.seen = Zeros(j.value.shape());
    absl::Span<double> to = j.seen.mutable_data<double>();
    for (size_t k = 0; k < to.size(); ++k) {
      const int64_t m = static_cast<int64_t>(k);
      const double v = IsComplex(type) ? std::abs(j.value.GetAsComplex(m)) : std::abs(j.value.GetAsDouble(m));
      const double e = error.data<double>()[k] + 4 * (n + 1) * GetEpsilon(type);
      // Products whose intermediate values may overflow or underflow in some order.
      to[k] = !(e < 0.5) || !(reach.data<double>()[k] < range) || !std::isfinite(v)
                  ? kInf
                  : 1.5 * v * e + ComputeUnitInLastPlace(type, v);
    }
    Drop(j.seen);
    j.used = j.seen;
    return absl::OkStatus();
  }
  MakeUndecided(j);
  return absl::OkStatus();
}

absl::StatusOr<BoundedValue> BoundSort(const Instruction& i, absl::Span<const BoundedValue* const> ops,
                                       BoundedValue result) {
  const Computation& comparator = *i.called(0);
  bool keys_exact = true;
  for (size_t k = 0; k < ops.size(); ++k) {
    const bool key = !comparator.parameter(static_cast<int64_t>(2 * k))->users().empty() ||
                     !comparator.parameter(static_cast<int64_t>(2 * k + 1))->users().empty();
    if (key && !ops[k]->exact()) keys_exact = false;
    if (key && HasNan(ops[k]->value)) return BoundedValue::Undecided(result.ToLiteral());
  }
  if (ops.size() == 1) {
    const double most = FindGreatest(ops[0]->used);
    if (most == 0) return result;
    // With another sort key than the elements themselves, neighbours may be far apart.
    const Instruction* root = comparator.root();
    const bool plain = root->Is(Opcode::kCompare) && root->operand(0)->Is(Opcode::kParameter) &&
                       root->operand(1)->Is(Opcode::kParameter);
    if (!plain || IsWhole(result.value)) return BoundedValue::Undecided(result.value);
    result.used = Zeros(result.value.shape());
    for (double& e : result.used.mutable_data<double>()) e = most;
    result.seen = result.used;
    return result;
  }
  for (size_t k = 0; k < ops.size(); ++k) {
    BoundedValue& j = result.elements[k];
    const double most = keys_exact ? FindGreatest(ops[k]->used) : kInf;
    if (most == 0 || j.value.num_elements() == 0) continue;
    j.used = Zeros(j.value.shape());
    for (double& e : j.used.mutable_data<double>()) e = most;
    j.seen = j.used;
  }
  return result;
}

// Finds elements that are equal to another one in the same window and both are candidates. Which of them is picked
// depends on the order in which the window is traversed, which is unspecified.
std::vector<int64_t> FindTiedPositions(const Instruction& i, const Literal& operand) {
  const Shape& shape = operand.shape();
  const size_t rank = static_cast<size_t>(shape.rank());
  const Instruction* root = i.called(0)->root();
  const bool swapped = root->operand(0) != i.called(0)->parameter(0);
  const ComparisonDirection how = root->direction();
  const bool greatest = (how == ComparisonDirection::kGe || how == ComparisonDirection::kGt) != swapped;
  const DimVector strides = RowMajorStrides(shape.dimensions());
  std::vector<int64_t> count(rank), at(rank, 0), in(rank, 0), shared;
  const auto& dims = i.window().dimensions;
  for (size_t d = 0; d < rank; ++d) {
    const WindowDimension& w = dims[d];
    count[d] = (shape.dimensions(static_cast<int64_t>(d)) + w.padding_low + w.padding_high - w.size) / w.stride + 1;
    if (count[d] <= 0) return shared;
  }
  // Advances to the next index below `sizes`. Returns false after the last one.
  auto next = [&](std::vector<int64_t>& index, auto size) {
    for (size_t d = rank; d > 0; --d) {
      if (++index[d - 1] < size(d - 1)) return true;
      index[d - 1] = 0;
    }
    return false;
  };
  do {
    std::vector<int64_t> best;
    double value = 0;
    do {
      int64_t place = 0;
      bool inside = true;
      for (size_t d = 0; d < rank; ++d) {
        const int64_t p = at[d] * dims[d].stride - dims[d].padding_low + in[d];
        inside = inside && p >= 0 && p < shape.dimensions(static_cast<int64_t>(d));
        place += p * strides[d];
      }
      if (!inside) continue;
      const double v = operand.GetAsDouble(place);
      if (best.empty() || (greatest ? v > value : v < value)) {
        best = {place};
        value = v;
      } else if (v == value) {
        best.push_back(place);
      }
    } while (next(in, [&](size_t d) { return dims[d].size; }));
    if (best.size() > 1) shared.insert(shared.end(), best.begin(), best.end());
  } while (next(at, [&](size_t d) { return count[d]; }));
  return shared;
}

// Marks the elements of a result at these indices as undecided.
void MarkUndecided(BoundedValue& j, const std::vector<int64_t>& places) {
  if (places.empty()) return;
  for (Literal BoundedValue::*bound : {&BoundedValue::seen, &BoundedValue::used}) {
    j.*bound = ExpandBounds(j.*bound, j.value.shape());
    for (const int64_t p : places) (j.*bound).mutable_data<double>()[static_cast<size_t>(p)] = kInf;
  }
}

}  // namespace

double SumUnit(const std::vector<const Literal*>& terms, PrimitiveType type, double n, double greatest_sum) {
  int least = 4096;
  for (const Literal* t : terms) least = std::min(least, GetLowestBitExponent(*t));
  // Every partial sum is a multiple of 2^least below greatest_sum; it is exact if that fits into the mantissa.
  if (std::isfinite(greatest_sum) && greatest_sum * GetEpsilon(type) < std::ldexp(1.0, std::min(least, 1000))) return 0;
  return (n + 2) * GetEpsilon(type);
}

absl::StatusOr<BoundedValue> BoundReduction(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  ASSIGN_OR_RETURN(BoundedValue result, Evaluate(i, ops));
  if (i.Is(Opcode::kSort)) return BoundSort(i, ops, std::move(result));
  if (i.Is(Opcode::kTopK)) {
    if (HasNan(ops[0]->value)) return BoundedValue::Undecided(result.ToLiteral());
    const double most = FindGreatest(ops[0]->used);
    if (most == 0) return result;
    BoundedValue& values = result.elements[0];
    if (!IsWhole(values.value) && values.value.num_elements() > 0) {
      values.used = Zeros(values.value.shape());
      for (double& e : values.used.mutable_data<double>()) e = most;
      values.seen = values.used;
    } else {
      MakeUndecided(values);
    }
    MakeUndecided(result.elements[1]);
    return result;
  }
  const size_t arrays = ops.size() / 2;
  const double n = i.Is(Opcode::kReduce) ? TermsOfReduce(i) : TermsOfWindow(i.window());
  std::vector<std::optional<Opcode>> combiners;
  bool apart = true;
  for (size_t k = 0; k < arrays; ++k) {
    combiners.push_back(FindBinary(*i.called(0), static_cast<int64_t>(k), static_cast<int64_t>(arrays)));
    apart = apart && combiners.back().has_value();
  }
  if (apart) {
    for (size_t k = 0; k < arrays; ++k) {
      BoundedValue& j = arrays == 1 ? result : result.elements[k];
      RETURN_IF_ERROR(BoundCombined(i, *combiners[k], *ops[k], *ops[arrays + k], n, j));
    }
    return result;
  }
  // Components that depend on one another (arg-max): a choice, which is decided if everything is exact.
  for (const BoundedValue* o : ops) {
    if (!o->exact() || HasNan(o->value)) return BoundedValue::Undecided(result.ToLiteral());
  }
  return result;
}

absl::StatusOr<BoundedValue> BoundScatter(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  ASSIGN_OR_RETURN(BoundedValue result, Evaluate(i, ops));
  bool exact = true;
  for (const BoundedValue* o : ops) exact = exact && o->exact();
  if (i.Is(Opcode::kSelectAndScatter)) {
    if (!ops[0]->exact()) return BoundedValue::Undecided(result.value);
    const std::vector<int64_t> shared = FindTiedPositions(i, ops[0]->value);
    if (IsWhole(result.value)) {
      if (!exact) return BoundedValue::Undecided(result.value);
      MarkUndecided(result, shared);
      return result;
    }
    // The operand alone determines which elements the windows pick; the source's bounds and magnitudes are moved in the
    // same way.
    auto spread = [&](const Literal& source, const Literal& init) -> absl::StatusOr<Literal> {
      Module module("spread");
      Builder b(&module, "main");
      ASSIGN_OR_RETURN(const Literal wide, ops[0]->value.Convert(kF64));
      ASSIGN_OR_RETURN(const Value x, b.Parameter(0, wide.shape()));
      ASSIGN_OR_RETURN(const Value s, b.Parameter(1, source.shape()));
      ASSIGN_OR_RETURN(const Value z, b.Parameter(2, init.shape()));
      Builder select(&module, "select");
      const Instruction* root = i.called(0)->root();
      ASSIGN_OR_RETURN(const Value l, select.Parameter(0, Shape::Scalar(kF64)));
      ASSIGN_OR_RETURN(const Value r, select.Parameter(1, Shape::Scalar(kF64)));
      const bool swapped = root->operand(0) != i.called(0)->parameter(0);
      ASSIGN_OR_RETURN(const Value c, select.Compare(swapped ? r : l, swapped ? l : r, root->direction()));
      ASSIGN_OR_RETURN(Computation * keep, select.Build(c));
      ASSIGN_OR_RETURN(Computation * add, MakeScalarBinaryComputation(&module, Opcode::kAdd, kF64));
      ASSIGN_OR_RETURN(const Value v, b.Op(Opcode::kSelectAndScatter, {x, s, z}, i.attrs(), {keep, add}));
      return EvaluateInstruction(*v, {&wide, &source, &init});
    };
    ASSIGN_OR_RETURN(const Literal error, spread(ExpandBounds(ops[1]->used, ops[1]->value.shape()),
                                                 ExpandBounds(ops[2]->used, ops[2]->value.shape())));
    ASSIGN_OR_RETURN(const Literal sum, spread(ComputeMagnitudes(ops[1]->value), ComputeMagnitudes(ops[2]->value)));
    SetSum(result, error, sum,
           SumUnit({&ops[1]->value, &ops[2]->value}, result.value.shape().element_type(), TermsOfWindow(i.window()) + 1,
                   FindGreatest(sum)),
           (TermsOfWindow(i.window()) + 1) *
               (GreatestFinite(ComputeMagnitudes(ops[1]->value)) + GreatestFinite(ComputeMagnitudes(ops[2]->value))));
    MarkUndecided(result, shared);
    return result;
  }
  const size_t arrays = ops.size() / 2;
  const BoundedValue& places = *ops[arrays];
  if (!places.exact()) return BoundedValue::Undecided(result.ToLiteral());
  for (size_t k = 0; k < arrays; ++k) {
    BoundedValue& j = arrays == 1 ? result : result.elements[k];
    const BoundedValue &x = *ops[k], &update = *ops[arrays + 1 + k];
    const std::optional<Opcode> op = FindBinary(*i.called(0), static_cast<int64_t>(k), static_cast<int64_t>(arrays));
    const Instruction* root = i.called(0)->root();
    const bool sets = !op.has_value() && arrays == 1 && root == i.called(0)->parameter(1);
    if (x.exact() && update.exact() && (IsWhole(j.value) || sets || op == Opcode::kMaximum || op == Opcode::kMinimum)) {
      continue;
    }
    auto moved = [&](const Literal& a, const Literal& b) {
      return EvaluateInF64(i, {a, places.value, b}, kF64, Opcode::kAdd);
    };
    const Literal xb = ExpandBounds(x.used, x.value.shape()), ub = ExpandBounds(update.used, update.value.shape());
    if (IsWhole(j.value) || sets || op == Opcode::kMaximum || op == Opcode::kMinimum) {
      ASSIGN_OR_RETURN(j.used, moved(xb, ub));
      Drop(j.used);
      j.seen = j.used;
      continue;
    }
    if (op != Opcode::kAdd || arrays != 1) {
      MakeUndecided(j);
      continue;
    }
    ASSIGN_OR_RETURN(const Literal error, moved(xb, ub));
    const Literal sizes = ComputeMagnitudes(x.value), update_sizes = ComputeMagnitudes(update.value);
    ASSIGN_OR_RETURN(const Literal sum, moved(sizes, update_sizes));
    Literal ones = Zeros(update.value.shape());
    for (double& e : ones.mutable_data<double>()) e = 1;
    ASSIGN_OR_RETURN(const Literal count, moved(Zeros(x.value.shape()), ones));
    SetSum(
        j, error, sum,
        SumUnit({&x.value, &update.value}, j.value.shape().element_type(), FindGreatest(count) + 1, FindGreatest(sum)),
        (FindGreatest(count) + 1) * (GreatestFinite(sizes) + GreatestFinite(update_sizes)));
  }
  return result;
}

absl::StatusOr<BoundedValue> BoundContraction(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  ASSIGN_OR_RETURN(BoundedValue result, Evaluate(i, ops));
  const PrimitiveType type = result.value.shape().element_type();
  bool exact = true;
  for (const BoundedValue* o : ops) exact = exact && o->exact();
  if (IsWhole(result.value)) return exact ? result : BoundedValue::Undecided(result.value);
  for (size_t k = 2; k < ops.size(); ++k) {
    if (!ops[k]->exact()) return BoundedValue::Undecided(result.value);  // group sizes, scales
  }
  auto run = [&](const Literal& a, const Literal& b) -> absl::StatusOr<Literal> {
    std::vector<Literal> operands = {a, b};
    if (i.Is(Opcode::kScaledDot)) {
      operands = {a, b, ComputeMagnitudes(ops[2]->value), ComputeMagnitudes(ops[3]->value)};
    } else if (ops.size() > 2) {
      operands.push_back(ops[2]->value);
    }
    return EvaluateInF64(i, operands);
  };
  const BoundedValue &l = *ops[0], &r = *ops[1];
  if (i.Is(Opcode::kScaledDot) && !exact) return BoundedValue::Undecided(result.value);
  const Literal la = ComputeMagnitudes(l.value), ra = ComputeMagnitudes(r.value);
  ASSIGN_OR_RETURN(const Literal sum, run(la, ra));
  Literal error = Zeros(sum.shape());
  auto add = [&](const Literal& more) {
    for (size_t k = 0; k < static_cast<size_t>(more.num_elements()); ++k) {
      error.mutable_data<double>()[k] += more.data<double>()[k];
    }
  };
  if (l.used.valid()) {
    ASSIGN_OR_RETURN(const Literal e, run(l.used, ra));
    add(e);
  }
  if (r.used.valid()) {
    ASSIGN_OR_RETURN(const Literal e, run(la, r.used));
    add(e);
  }
  if (l.used.valid() && r.used.valid()) {
    ASSIGN_OR_RETURN(const Literal e, run(l.used, r.used));
    add(e);
  }
  // Terms of one element.
  double n = 1;
  if (i.Is(Opcode::kConvolution)) {
    n = static_cast<double>(r.value.shape().dimensions(i.conv_dims().kernel_input_feature)) * TermsOfWindow(i.window());
  } else {
    const Ints& dims = i.Is(Opcode::kRaggedDot)
                           ? i.attrs().Get<RaggedDotDimensions>(AttrId::kRaggedDotDims).dot.lhs_contracting
                           : i.dot_dims().lhs_contracting;
    for (const int64_t d : dims) n *= static_cast<double>(l.value.shape().dimensions(d));
  }
  // Products of small integers: a partial sum is a multiple of the product of both granules.
  const int granule = GetLowestBitExponent(l.value) + GetLowestBitExponent(r.value);
  const bool underflows = !HasNoUnderflow(type, granule);
  if (underflows) {
    for (size_t k = 0; k < static_cast<size_t>(error.num_elements()); ++k) {
      if (sum.data<double>()[k] != 0) error.mutable_data<double>()[k] += n * ComputeUnitInLastPlace(type, 0);
    }
  }
  const double greatest = FindGreatest(sum);
  double unit = 4 * (n + 2) * GetEpsilon(type);
  const bool small_type = BitWidth(ComplexPart(type)) < 32;
  if (!i.Is(Opcode::kScaledDot) && !underflows && std::isfinite(greatest) &&
      greatest * GetEpsilon(type) < std::ldexp(1.0, std::min(granule, 1000))) {
    unit = 0;
  } else if (small_type) {
    // Added in f32 and rounded once, or rounded after each addition: both occur.
    unit = (std::min(n, 64.0) + 2) * GetEpsilon(type);
  }
  if (ComplexPart(l.value.shape().element_type()) == PrimitiveType::kF64 && type == PrimitiveType::kF32)
    unit = 4 * (n + 2) * GetEpsilon(type);
  SetSum(result, error, sum, unit, n * GreatestFinite(la) * GreatestFinite(ra));
  // Blocked and transformed algorithms may multiply zeros by infinities that the definition does not combine.
  if (i.Is(Opcode::kConvolution) || i.Is(Opcode::kRaggedDot) || i.Is(Opcode::kScaledDot)) {
    if (HasNonFinite(la) || HasNonFinite(ra)) MakeUndecided(result);
  }
  return result;
}

}  // namespace backplane::cli::fuzz
