// Bounds of transforms, factorizations and normalizations.
#include <cmath>
#include <limits>

#include "core/eval/evaluator.h"
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/bounds.h"
#include "sdk/cli/fuzz/bounds_util.h"

namespace backplane::cli::fuzz {
namespace {

void SetAllBounds(BoundedValue& j, double bound) {
  if (j.value.num_elements() == 0) return;
  bound += ComputeUnitInLastPlace(j.value.shape().element_type(), 0);  // a zero of either sign
  j.used = Zeros(j.value.shape());
  for (double& e : j.used.mutable_data<double>()) e = std::isnan(bound) ? kInf : bound;
  j.seen = j.used;
}

// All elements of a transformed block have the same bound.
absl::StatusOr<BoundedValue> BoundFft(const Instruction& i, const BoundedValue& x, BoundedValue result) {
  const int64_t dims = static_cast<int64_t>(i.attrs().GetInts(AttrId::kFftLength).size());
  auto block = [&](const Shape& s) {
    int64_t n = 1;
    for (int64_t d = s.rank() - dims; d < s.rank(); ++d) n *= s.dimensions(d);
    return n;
  };
  const PrimitiveType type = result.value.shape().element_type();
  const FftType kind = i.attrs().GetEnum<FftType>(AttrId::kFftType);
  double length = 1;
  for (const int64_t n : i.attrs().GetInts(AttrId::kFftLength)) length *= static_cast<double>(n);
  const bool back = kind == FftType::kIfft || kind == FftType::kIrfft;
  const double scale = (kind == FftType::kIrfft ? 2 : 1) / (back ? length : 1);
  const int64_t in = block(x.value.shape()), out = block(result.value.shape());
  if (in == 0 || out == 0) return result;
  result.used = Zeros(result.value.shape());
  for (int64_t b = 0; b < result.value.num_elements() / out; ++b) {
    double error = 0, sum = 0;
    for (int64_t k = b * in; k < (b + 1) * in; ++k) {
      error += BoundAt(x.used, k);
      sum += std::abs(NumberAt(x.value, k));
    }
    // Twiddle factors and log2(n) steps; long odd lengths are computed by convolutions of padded lengths. Products may
    // underflow.
    // may underflow.
    const double tiny = ComputeUnitInLastPlace(type, 0), unit = 8 * (std::log2(length + 1) + 2) * GetEpsilon(type);
    const double bound = std::isfinite(sum) && sum < MaxFinite(type) / 4
                             ? (error + unit * sum + 4 * length * tiny) * scale + tiny
                             : kInf;
    for (int64_t k = b * out; k < (b + 1) * out; ++k)
      result.used.mutable_data<double>()[static_cast<size_t>(k)] = bound;
  }
  Drop(result.used);
  result.seen = result.used;
  return result;
}

// Returns norms of a matrix and of its inverse: the triangular n x n matrix at `at` in `l`. Infinite if it is singular.
struct Norms {
  double norm = 0, inverse = 0;
};
Norms TriangularNorms(const Literal& l, int64_t at, int64_t n, bool lower, bool unit) {
  std::vector<std::complex<double>> t(static_cast<size_t>(n * n)), inverse(static_cast<size_t>(n * n));
  auto at2 = [&](auto& v, int64_t r, int64_t c) -> std::complex<double>& { return v[static_cast<size_t>(r * n + c)]; };
  Norms norms;
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      // Transposed to a lower triangular matrix, which has the same norms.
      const int64_t from = lower ? r * n + c : c * n + r;
      at2(t, r, c) = c > r ? 0.0 : (unit && r == c) ? 1.0 : NumberAt(l, at + from);
      norms.norm += std::norm(at2(t, r, c));
    }
  }
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t r = c; r < n; ++r) {
      std::complex<double> sum = r == c ? 1.0 : 0.0;
      for (int64_t k = c; k < r; ++k) sum -= at2(t, r, k) * at2(inverse, k, c);
      at2(inverse, r, c) = sum / at2(t, r, r);
      norms.inverse += std::norm(at2(inverse, r, c));
    }
  }
  norms.norm = std::sqrt(norms.norm);
  norms.inverse = std::sqrt(norms.inverse);
  if (!std::isfinite(norms.norm) || !std::isfinite(norms.inverse)) norms = {kInf, kInf};
  return norms;
}

absl::StatusOr<BoundedValue> BoundCholesky(const Instruction& i, const BoundedValue& a, BoundedValue result) {
  const Shape& shape = result.value.shape();
  const int64_t n = shape.dimensions(shape.rank() - 1);
  const PrimitiveType type = shape.element_type();
  const bool lower = i.attrs().GetBool(AttrId::kLower);
  if (shape.num_elements() == 0) return result;
  result.used = Zeros(shape);
  for (int64_t b = 0; b < shape.num_elements() / (n * n); ++b) {
    const Norms norms = TriangularNorms(result.value, b * n * n, n, lower, false);
    double size = 0, error = 0;
    for (int64_t k = b * n * n; k < (b + 1) * n * n; ++k) {
      size += std::norm(NumberAt(a.value, k));
      error = std::max(error, BoundAt(a.used, k));
    }
    size = std::sqrt(size);
    // The last term is for products that underflow.
    const double disturbed = static_cast<double>(n) * error + 8 * static_cast<double>(n + 1) * GetEpsilon(type) * size +
                             static_cast<double>(n) * ComputeUnitInLastPlace(type, 0);
    double bound = norms.norm * norms.inverse * norms.inverse * disturbed;
    // Near a matrix without a factor it is undecided whether there is one.
    if (!(bound < norms.norm / 8)) bound = kInf;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        // The contents of the other triangle are unspecified.
        const bool ours = lower ? c <= r : c >= r;
        result.used.mutable_data<double>()[static_cast<size_t>(b * n * n + r * n + c)] = ours ? bound : kInf;
      }
    }
  }
  result.seen = result.used;
  return result;
}

absl::StatusOr<BoundedValue> BoundTriangularSolve(const Instruction& i, const BoundedValue& a, const BoundedValue& rhs,
                                                  BoundedValue result) {
  const Shape& shape = a.value.shape();
  const int64_t n = shape.dimensions(shape.rank() - 1);
  const PrimitiveType type = shape.element_type();
  if (result.value.num_elements() == 0) return result;
  const int64_t batches = shape.num_elements() / (n * n), block = result.value.num_elements() / batches;
  result.used = Zeros(result.value.shape());
  for (int64_t b = 0; b < batches; ++b) {
    const Norms norms = TriangularNorms(a.value, b * n * n, n, i.attrs().GetBool(AttrId::kLower),
                                        i.attrs().GetBool(AttrId::kUnitDiagonal));
    double error_a = 0, error_b = 0, x = 0;
    for (int64_t k = b * n * n; k < (b + 1) * n * n; ++k) error_a = std::max(error_a, BoundAt(a.used, k));
    for (int64_t k = b * block; k < (b + 1) * block; ++k) {
      error_b = std::max(error_b, BoundAt(rhs.used, k));
      x += std::norm(NumberAt(result.value, k));
    }
    x = std::sqrt(x);
    const double dn = static_cast<double>(n), condition = norms.norm * norms.inverse;
    double bound = norms.inverse * (dn * error_a * x + std::sqrt(static_cast<double>(block)) * error_b) +
                   8 * (dn + 1) * GetEpsilon(type) * condition * x;
    // The bound on the change of the inverse is valid for small changes only.
    if (!(norms.inverse * dn * error_a < 0.25) || !(condition * dn * GetEpsilon(type) < 0.25)) bound = kInf;
    // Intermediate products may overflow or underflow; the sign of a zero depends on the order of subtractions.
    if (!(x * norms.norm * dn < MaxFinite(type) / 4)) bound = kInf;
    bound += (norms.inverse * dn + 1) * ComputeUnitInLastPlace(type, 0);
    for (int64_t k = b * block; k < (b + 1) * block; ++k)
      result.used.mutable_data<double>()[static_cast<size_t>(k)] = bound;
  }
  Drop(result.used);
  result.seen = result.used;
  return result;
}

double GreatestSize(const BoundedValue& j) { return FindGreatest(ComputeMagnitudes(j.value)); }

// Returns one bound for each result, from the largest operands and the smallest deviation of any feature.
BoundedValue BoundBatchNorm(const Instruction& i, absl::Span<const BoundedValue* const> ops, BoundedValue result) {
  const int64_t feature = i.attrs().GetInt(AttrId::kFeatureIndex);
  const Shape& shape = ops[0]->value.shape();
  const double count = shape.num_elements() == 0
                           ? 0
                           : static_cast<double>(shape.num_elements()) / static_cast<double>(shape.dimensions(feature));
  const PrimitiveType type = shape.element_type();
  const double epsilon = i.attrs().GetDouble(AttrId::kEpsilon), unit = 4 * (count + 4) * GetEpsilon(type);
  const double x = GreatestSize(*ops[0]), scale = GreatestSize(*ops[1]);
  const double ex = FindGreatest(ops[0]->used), es = FindGreatest(ops[1]->used);
  const bool training = i.Is(Opcode::kBatchNormTraining), grad = i.Is(Opcode::kBatchNormGrad);
  const BoundedValue* variance = training ? &result.elements[2] : grad ? ops[3] : ops[4];
  double least = kInf;
  for (int64_t k = 0; k < variance->value.num_elements(); ++k) {
    const double v = variance->value.GetAsDouble(k);
    if (!std::isfinite(v))
      return BoundedValue::Undecided(result.ToLiteral());  // the result or an intermediate value overflows
    least = std::min(least, v + epsilon);
  }
  if (!(least > 1e-3) || !std::isfinite(x) || !std::isfinite(scale)) {
    return BoundedValue::Undecided(result.ToLiteral());
  }
  if (least == kInf) return result;  // no features
  const double s = std::sqrt(least),
               tiny = ComputeUnitInLastPlace(type, 0);  // tiny: the error of a product that underflows
  // If terms overflow although the result does not, several formulas with different results are correct.
  auto overflows = [&](double reach) { return !(reach < MaxFinite(type) / 4); };
  const double mean_error = training ? ex + unit * x : grad ? FindGreatest(ops[2]->used) : FindGreatest(ops[3]->used);
  const double variance_error = training ? 8 * x * (ex + unit * x) + tiny
                                : grad   ? FindGreatest(ops[3]->used)
                                         : FindGreatest(ops[4]->used);
  const double mean = training ? x : grad ? GreatestSize(*ops[2]) : GreatestSize(*ops[3]);
  const double centered = x + mean, root_error = (variance_error + unit * (least + 1)) / (2 * s * least);
  if (!(variance_error < least / 4)) return BoundedValue::Undecided(result.ToLiteral());
  if (!grad) {
    const double offset = GreatestSize(*ops[2]);
    const double bound = scale * ((ex + mean_error) / s + centered * root_error) + es * centered / s +
                         FindGreatest(ops[2]->used) + unit * (scale * centered / s + offset) +
                         (scale + 1 / s + 2) * tiny;
    if (overflows(scale * centered * std::max(1.0, 1 / s) + offset) ||
        (training && overflows(count * centered * std::max(1.0, centered)))) {
      return BoundedValue::Undecided(result.ToLiteral());
    }
    if (!training) {
      SetAllBounds(result, 2 * bound);
      return result;
    }
    SetAllBounds(result.elements[0], 2 * bound);
    SetAllBounds(result.elements[1], 2 * mean_error);
    SetAllBounds(result.elements[2], 2 * variance_error);
    return result;
  }
  const double g = GreatestSize(*ops[4]), eg = FindGreatest(ops[4]->used);
  const double total = count * g * centered;  // of the sum of gradient times centered operand
  const double total_error = count * (eg * centered + g * (ex + mean_error) + tiny) + unit * total;
  const double scale_error = total_error / s + total * root_error + unit * total / s + tiny;
  const double offset_error = count * eg + unit * count * g;
  const double inner = count * g + count * g + centered * total / least;
  const double inner_error =
      2 * (count * eg + unit * count * g) + (ex + mean_error) * total / least +
      centered * (total_error / least + total * (variance_error + unit * least) / (least * least)) + unit * inner +
      (count + 2) * tiny * (1 + 1 / least);
  const double operand_error =
      (scale / s * inner_error + es / s * inner + scale * root_error * inner + unit * scale / s * inner) / count +
      (scale + 1 / s + 2) * tiny;
  if (overflows(total * std::max(1.0, 1 / s)) || overflows(inner * std::max(1.0, scale / s))) {
    return BoundedValue::Undecided(result.ToLiteral());
  }
  SetAllBounds(result.elements[0], 2 * operand_error);
  SetAllBounds(result.elements[1], 2 * scale_error);
  SetAllBounds(result.elements[2], 2 * offset_error);
  return result;
}

}  // namespace

absl::StatusOr<BoundedValue> BoundNumerics(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  std::vector<const Literal*> pointers;
  for (const BoundedValue* j : ops) pointers.push_back(&j->value);
  ASSIGN_OR_RETURN(Literal value, EvaluateInstruction(i, pointers));
  BoundedValue result = BoundedValue::Exact(std::move(value));
  switch (i.opcode()) {
    case Opcode::kFft:
      return BoundFft(i, *ops[0], std::move(result));
    case Opcode::kCholesky:
      return BoundCholesky(i, *ops[0], std::move(result));
    case Opcode::kTriangularSolve:
      return BoundTriangularSolve(i, *ops[0], *ops[1], std::move(result));
    default:
      return BoundBatchNorm(i, ops, std::move(result));
  }
}

}  // namespace backplane::cli::fuzz
