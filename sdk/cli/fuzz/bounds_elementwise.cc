#include <cmath>
#include <complex>
#include <limits>

#include "core/eval/evaluator.h"
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/bounds.h"
#include "sdk/cli/fuzz/bounds_util.h"

namespace backplane::cli::fuzz {
namespace {

// Operations whose result IEEE 754 (or the definition) determines to the last bit.
bool IsRounded(Opcode o, bool complex) {
  switch (o) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kNegate:
    case Opcode::kConvert:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kComplex:
    case Opcode::kSelect:
    case Opcode::kCopy:
      return true;
    case Opcode::kMultiply:
    case Opcode::kDivide:
    case Opcode::kSqrt:
    case Opcode::kFloor:
    case Opcode::kCeil:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kSign:
    case Opcode::kAbs:
    case Opcode::kReducePrecision:
    case Opcode::kRemainder:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kClamp:
      return !complex;
    default:
      return false;
  }
}

// |f(x) - f(y)| <= max |x_i - y_i|, so no evaluation is needed.
bool IsLipschitz(Opcode o, bool complex) {
  switch (o) {
    case Opcode::kNegate:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kAbs:
      return true;
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kClamp:
      return !complex;
    default:
      return false;
  }
}

// Whether x * y is exactly p.
bool IsProduct(double p, double x, double y) {
  if (p == 0 || x == 0 || y == 0) return p == 0 && (x == 0 || y == 0);
  // Scaling by powers of two is exact and brings the exponents of both factors near 0.
  const int down = std::ilogb(x), up = std::ilogb(y);
  x = std::ldexp(x, -down);
  y = std::ldexp(y, -up);
  const double scaled = std::ldexp(p, -down - up);
  return std::isfinite(scaled) && std::fma(x, y, -scaled) == 0;
}

// Returns the rounding error of an f64 operation, exactly if possible. The remainders of products and quotients are
// about 53 bits below the numbers; IsProduct scales them so that small ones are not rounded to 0.
double LostF64(Opcode o, double a, double b, double r) {
  if (!std::isfinite(r) || !std::isfinite(a) || !std::isfinite(b)) return 0;
  const double least =
      ComputeUnitInLastPlace(PrimitiveType::kF64, 0);  // the smallest number, of which there is no half
  const double unit = std::max(ComputeUnitInLastPlace(PrimitiveType::kF64, r) / 2, least);
  switch (o) {
    case Opcode::kAdd:
    case Opcode::kSubtract: {
      if (o == Opcode::kSubtract) b = -b;
      const double bb = r - a;
      return std::abs((a - (r - bb)) + (b - bb));
    }
    case Opcode::kMultiply:
      return IsProduct(r, a, b) ? 0 : unit;
    case Opcode::kDivide:
      return IsProduct(a, r, b) ? 0 : unit;
    case Opcode::kSqrt:
      return IsProduct(a, r, r) ? 0 : unit;
    default:
      return 0;
  }
}

// Returns |f - base| if both are finite, or equal infinities or NaN; else infinity.
double Change(std::complex<double> f, std::complex<double> base) {
  auto part = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0.0 : kInf;
    return a == b ? 0.0 : std::abs(a - b);
  };
  return part(f.real(), base.real()) + part(f.imag(), base.imag());
}

absl::StatusOr<Literal> EvaluateOn(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  std::vector<const Literal*> pointers;
  for (const BoundedValue* j : ops) pointers.push_back(&j->value);
  return EvaluateInstruction(i, pointers);
}

int64_t IndexIn(const Literal& operand, int64_t i) { return operand.shape().rank() == 0 ? 0 : i; }

// Operations whose results are integers or predicates.
BoundedValue BoundIntegral(const Instruction& i, absl::Span<const BoundedValue* const> ops, Literal value) {
  BoundedValue j = BoundedValue::Exact(value);
  bool exact = true;
  for (const BoundedValue* o : ops) exact = exact && o->exact();
  const bool by_sign_of_nan =
      i.Is(Opcode::kCompare) &&
      i.attrs().GetEnum<ComparisonType>(AttrId::kComparisonType) == ComparisonType::kTotalOrder &&
      (HasNan(ops[0]->value) || HasNan(ops[1]->value));
  if (exact && !by_sign_of_nan) return j;
  j.used = Zeros(value.shape());
  absl::Span<double> bound = j.used.mutable_data<double>();
  for (size_t k = 0; k < bound.size(); ++k) {
    const int64_t n = static_cast<int64_t>(k);
    auto e = [&](size_t o) { return BoundAt(ops[o]->used, IndexIn(ops[o]->value, n)); };
    auto v = [&](size_t o) { return NumberAt(ops[o]->value, IndexIn(ops[o]->value, n)); };
    double most = 0;
    for (size_t o = 0; o < ops.size(); ++o) most = std::max(most, e(o));
    if (by_sign_of_nan && (std::isnan(v(0).real()) || std::isnan(v(1).real()))) most = kInf;
    if (most == 0) continue;
    bool open = true;
    if (i.Is(Opcode::kCompare)) {
      // A comparison with NaN is decided as long as the bound is finite.
      const std::complex<double> a = v(0), b = v(1);
      open = most == kInf || std::abs(a - b) <= e(0) + e(1);
    } else if (i.Is(Opcode::kIsFinite)) {
      open = most == kInf || (std::isfinite(v(0).real()) &&
                              std::abs(v(0).real()) + most >= MaxFinite(ops[0]->value.shape().element_type()));
    } else if (i.Is(Opcode::kConvert) && most < kInf) {
      const PrimitiveType from = ops[0]->value.shape().element_type();
      const double x = v(0).real();
      if (IsFloat(ComplexPart(from))) {
        open = i.shape().element_type() == PrimitiveType::kPred ? std::abs(v(0)) <= most
                                                                : std::trunc(x - most) != std::trunc(x + most);
      }
    }
    if (open) bound[k] = kInf;
  }
  Drop(j.used);
  j.seen = j.used;
  return j;
}

BoundedValue BoundSelect(absl::Span<const BoundedValue* const> ops, Literal value) {
  BoundedValue j = BoundedValue::Exact(value);
  bool exact = true;
  for (const BoundedValue* o : ops) exact = exact && o->exact();
  if (exact) return j;
  for (Literal BoundedValue::*bound : {&BoundedValue::seen, &BoundedValue::used}) {
    Literal e = Zeros(value.shape());
    absl::Span<double> to = e.mutable_data<double>();
    for (size_t k = 0; k < to.size(); ++k) {
      const int64_t n = static_cast<int64_t>(k), at = IndexIn(ops[0]->value, n);
      const double t = BoundAt(ops[1]->*bound, n), f = BoundAt(ops[2]->*bound, n);
      if (BoundAt(ops[0]->used, at) == 0) {
        to[k] = ops[0]->value.GetAsInt(at) != 0 ? t : f;
      } else {
        to[k] = NumberAt(ops[1]->value, n) == NumberAt(ops[2]->value, n) ? std::max(t, f) : kInf;
      }
    }
    Drop(e);
    j.*bound = std::move(e);
  }
  return j;
}

// Bounds how far a periodic function moves if its operand, an angle, moves by at most `error`. The values at both ends
// of the range do not show it if the range covers much of a period. 0: they do, or the function is not periodic.
double BoundOscillation(Opcode op, std::complex<double> operand, double error, bool complex) {
  constexpr double kSmallAngle = 0.1;
  if (!(error > kSmallAngle)) return 0;
  if (op == Opcode::kSin || op == Opcode::kCos) return complex ? 2 * std::cosh(std::abs(operand.imag()) + error) : 2;
  if (!complex) return 0;
  if (op == Opcode::kCosh) return 2 * std::cosh(std::abs(operand.real()) + error);
  if (op == Opcode::kExp || op == Opcode::kExpm1) return 2 * std::exp(operand.real() + error);
  return 0;
}

// Whether an interval of half-width e around v makes the result undecided although both its ends do not.
bool HidesPole(Opcode o, absl::Span<const std::complex<double>> v, absl::Span<const double> e, double result,
               bool complex) {
  switch (o) {
    case Opcode::kDivide:
      return e[1] > 0 && std::abs(v[1]) <= 2 * e[1];
    case Opcode::kAtan2:
      return std::abs(v[0]) + std::abs(v[1]) <= 2 * (e[0] + e[1]);
    case Opcode::kRemainder: {
      if (e[0] + e[1] == 0) return false;
      if (std::abs(v[1]) <= 2 * e[1]) return true;
      // Between the ends of the intervals the remainder jumps if the quotient passes an integer.
      const double x = std::abs(v[0].real()), y = std::abs(v[1].real());
      return std::trunc((x - e[0]) / (y + e[1])) != std::trunc((x + e[0]) / (y - e[1]));
    }
    case Opcode::kTan:
    case Opcode::kTanh:
      return (complex || o == Opcode::kTan) && e[0] * (1 + result * result) > 0.25;
    case Opcode::kLogistic:
      return complex && e[0] * (1 + result * result) > 0.25;
    case Opcode::kPower:
      return e[0] > 0.25 * std::abs(v[0]) || e[1] > 0.25 * (1 + std::abs(v[1]));
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kCbrt:
    case Opcode::kLog:
    case Opcode::kSign:
      return complex && std::abs(v[0]) <= 2 * e[0];
    case Opcode::kLog1p:
      return complex && std::abs(v[0] + 1.0) <= 2 * e[0];
    default:
      return false;
  }
}

double UlpsOf(Opcode o, PrimitiveType type) {
  if (IsComplex(type)) return o == Opcode::kMultiply || o == Opcode::kDivide || o == Opcode::kAbs ? 4 : 24;
  if (BitWidth(type) <= 16) return 1.01;
  return o == Opcode::kPower ? 2 * kFunctionUlps : kFunctionUlps;
}

}  // namespace

absl::StatusOr<BoundedValue> BoundElementwise(const Instruction& i, absl::Span<const BoundedValue* const> ops) {
  ASSIGN_OR_RETURN(Literal value, EvaluateOn(i, ops));
  const PrimitiveType type = value.shape().element_type();
  const Opcode op = i.opcode();
  if (op == Opcode::kSelect) return BoundSelect(ops, std::move(value));
  if (!IsFloat(ComplexPart(type))) return BoundIntegral(i, ops, std::move(value));

  bool complex = IsComplex(type), exact = true, whole_operand = false;
  for (const BoundedValue* o : ops) {
    complex = complex || IsComplex(o->value.shape().element_type());
    exact = exact && o->exact();
    whole_operand = whole_operand || !IsFloat(ComplexPart(o->value.shape().element_type()));
  }
  BoundedValue j = BoundedValue::Exact(value);
  const bool rounded = IsRounded(op, complex);
  if (exact && rounded && HasNegativeZero(type) && (IsLipschitz(op, complex) || op == Opcode::kComplex)) return j;

  const size_t n = static_cast<size_t>(value.num_elements());
  const PrimitiveType wide = complex ? PrimitiveType::kC128 : PrimitiveType::kF64;
  const PrimitiveType wide_result = IsComplex(type) ? PrimitiveType::kC128 : PrimitiveType::kF64;
  // Evaluates the operation on wide operands. A conversion is the identity there; `complex` uses only real parts.
  auto run = [&](const std::vector<Literal>& operands) -> absl::StatusOr<Literal> {
    if (op == Opcode::kConvert) return operands[0].Convert(wide_result);
    if (op == Opcode::kComplex) {
      Literal out(Shape(PrimitiveType::kC128, value.shape().dimensions()));
      for (size_t k = 0; k < n; ++k) {
        const int64_t m = static_cast<int64_t>(k);
        out.mutable_data<std::complex<double>>()[k] = {operands[0].GetAsComplex(m).real(),
                                                       operands[1].GetAsComplex(m).real()};
      }
      return out;
    }
    return EvaluateInF64(i, operands, wide_result);
  };
  std::vector<Literal> center;
  for (const BoundedValue* o : ops) {
    ASSIGN_OR_RETURN(Literal c, o->value.Convert(wide));
    center.push_back(std::move(c));
  }
  ASSIGN_OR_RETURN(const Literal base, run(center));

  std::vector<double> moved(n, 0.0);
  if (!exact) {
    for (size_t o = 0; o < ops.size(); ++o) {
      if (!ops[o]->used.valid()) continue;
      if (IsLipschitz(op, complex)) {
        for (size_t k = 0; k < n; ++k) {
          const int64_t at = IndexIn(ops[o]->value, static_cast<int64_t>(k));
          moved[k] = std::max(moved[k], BoundAt(ops[o]->used, at));
        }
        continue;
      }
      const std::vector<std::complex<double>> ways = complex ? std::vector<std::complex<double>>{1, -1, {0, 1}, {0, -1}}
                                                             : std::vector<std::complex<double>>{1, -1};
      std::vector<double> most(n, 0.0);
      for (const std::complex<double> way : ways) {
        std::vector<Literal> shifted = center;
        Literal& x = shifted[o];
        for (int64_t k = 0; k < x.num_elements(); ++k) {
          const double e = BoundAt(ops[o]->used, k);
          if (e == 0 || e == kInf) continue;
          if (complex) {
            x.mutable_data<std::complex<double>>()[static_cast<size_t>(k)] += e * way;
          } else {
            // Half a unit of an f64 would be rounded back to the number itself.
            double& at = x.mutable_data<double>()[static_cast<size_t>(k)];
            const double there = at + e * way.real();
            at = there != at ? there : std::nextafter(at, way.real() * kInf);
          }
        }
        ASSIGN_OR_RETURN(const Literal there, run(shifted));
        for (size_t k = 0; k < n; ++k) {
          const int64_t m = static_cast<int64_t>(k);
          most[k] = std::max(most[k], Change(NumberAt(there, m), NumberAt(base, m)));
        }
      }
      for (size_t k = 0; k < n; ++k) {
        const int64_t at = IndexIn(ops[o]->value, static_cast<int64_t>(k));
        moved[k] += BoundAt(ops[o]->used, at) == kInf ? kInf : 2 * most[k];
      }
    }
    for (size_t k = 0; k < n; ++k) {
      if (moved[k] == kInf) continue;
      std::vector<std::complex<double>> v;
      std::vector<double> e;
      for (size_t o = 0; o < ops.size(); ++o) {
        const int64_t at = IndexIn(ops[o]->value, static_cast<int64_t>(k));
        v.push_back(NumberAt(ops[o]->value, at));
        e.push_back(BoundAt(ops[o]->used, at));
      }
      bool any = false;
      for (const double x : e) any = any || x > 0;
      if (!any) continue;
      if (op == Opcode::kMultiply) moved[k] += e[0] * e[1];
      moved[k] = std::max(moved[k], BoundOscillation(op, v[0], e[0], complex));
      if (HidesPole(op, v, e, std::abs(NumberAt(value, static_cast<int64_t>(k))), complex)) moved[k] = kInf;
    }
  }

  j.seen = Zeros(value.shape());
  j.used = Zeros(value.shape());
  absl::Span<double> seen = j.seen.mutable_data<double>(), used = j.used.mutable_data<double>();
  const double max = MaxFinite(type), ulps = rounded ? 1 : UlpsOf(op, type);
  for (size_t k = 0; k < n; ++k) {
    const int64_t m = static_cast<int64_t>(k);
    const std::complex<double> v = NumberAt(value, m), b = NumberAt(base, m);
    const double size = std::max(std::abs(v.real()), std::abs(v.imag()));
    const bool finite = std::isfinite(v.real()) && std::isfinite(v.imag());
    const double unit = finite ? ComputeUnitInLastPlace(type, size) : 0;
    double lost = 0;  // the rounding error of the result
    if (rounded) {
      if (ComplexPart(type) == PrimitiveType::kF64) {
        if (op == Opcode::kConvert) {
          lost = whole_operand && std::abs(v.real()) > 0x1p53 ? unit : 0;
        } else if (complex) {
          lost =
              LostF64(op, NumberAt(center[0], m).real(), ops.size() > 1 ? NumberAt(center[1], m).real() : 0, v.real()) +
              LostF64(op, NumberAt(center[0], m).imag(), ops.size() > 1 ? NumberAt(center[1], m).imag() : 0, v.imag());
        } else {
          auto at = [&](size_t o) { return center[o].GetAsDouble(IndexIn(center[o], m)); };
          lost = LostF64(op, at(0), ops.size() > 1 ? at(1) : 0, v.real());
        }
      } else {
        lost = Change(v, b);
      }
      seen[k] = moved[k] > 0 ? moved[k] + unit : 0;
      used[k] = moved[k] + lost + (moved[k] > 0 ? unit : 0);
    } else {
      seen[k] = used[k] = moved[k] + ulps * unit;
      // A function of exact operands with an exact value: sin(0), exp(0), 2 to the power 3.
      if (complex) {
        // Formulas differ in their results for infinities and NaN, and may overflow in intermediate results.
        bool wild = !finite || size > std::sqrt(max) || (size > 0 && size < 1 / std::sqrt(max));
        for (const Literal& c : center) {
          const std::complex<double> x = NumberAt(c, IndexIn(c, m));
          const double big = std::max(std::abs(x.real()), std::abs(x.imag()));
          wild = wild || !std::isfinite(big) || big > std::sqrt(max) / 4 || std::isnan(x.real() + x.imag());
        }
        if (wild) seen[k] = used[k] = kInf;
        // The error is relative to the modulus; if one part cancels, it is small compared with the operands.
        seen[k] += ulps * GetEpsilon(type) * std::abs(v);
        if (op == Opcode::kSin || op == Opcode::kCos || op == Opcode::kLog || op == Opcode::kLog1p ||
            op == Opcode::kExpm1 || op == Opcode::kTan || op == Opcode::kTanh || op == Opcode::kLogistic ||
            op == Opcode::kCosh || op == Opcode::kPower || op == Opcode::kExp || op == Opcode::kAtan2) {
          double largest = std::abs(v);
          for (const Literal& c : center) largest = std::max(largest, std::abs(NumberAt(c, IndexIn(c, m))));
          seen[k] += ulps * GetEpsilon(type) * (op == Opcode::kPower ? largest * std::abs(v) * 4 : largest);
        }
        // The root is computed through the logarithm, whose rounding error is a relative error of the result.
        if (op == Opcode::kCbrt) {
          const double size_of = std::abs(NumberAt(center[0], m));
          if (size_of > 0) seen[k] += ulps * GetEpsilon(type) * std::abs(v) * std::abs(std::log(size_of));
        }
        // x^y = exp(y log x): the rounding errors of the logarithm and of the product are errors of the exponent, so
        // relative errors of the result, however large the parts of the exponent are (such as a large angle).
        if (op == Opcode::kPower) {
          const std::complex<double> x = NumberAt(center[0], IndexIn(center[0], m)),
                                     y = NumberAt(center[1], IndexIn(center[1], m));
          if (std::abs(x) > 0) seen[k] += 3 * GetEpsilon(type) * std::abs(v) * std::abs(y) * std::abs(std::log(x));
        }
        used[k] = seen[k];
      } else if (!finite && std::isfinite(b.real())) {
        seen[k] = used[k] = kInf;  // whether it overflows may depend on the function's error
      } else if (finite && size + ulps * unit > max) {
        seen[k] = used[k] = kInf;
      }
    }
    if (!rounded && !complex && finite && std::isfinite(b.real()) && b.real() != 0 &&
        std::abs(b.real()) < std::ldexp(1.0, -1020) && ComplexPart(type) == PrimitiveType::kF64) {
      seen[k] = used[k] = std::max(seen[k], 1e-300);
    }
    // An unrounded value keeps the sign of a zero that this type lacks.
    if (v.real() == 0 && std::signbit(b.real()) && !HasNegativeZero(type)) {
      used[k] = std::max(used[k], std::numeric_limits<double>::denorm_min());
    }
    if (std::isnan(b.real()) && !HasNanValues(type)) seen[k] = used[k] = kInf;
    // Results on both sides of the largest number are possible.
    if (moved[k] > 0 && std::abs(b) < kInf && finite && size + moved[k] + unit > max) seen[k] = used[k] = kInf;
    if (moved[k] > 0 && !finite && std::isfinite(std::abs(b))) seen[k] = used[k] = kInf;
  }
  Drop(j.seen);
  Drop(j.used);
  return j;
}

}  // namespace backplane::cli::fuzz
