#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "core/ops/elementwise_loops.h"

namespace backplane {
namespace {

template <typename P>
using Z = std::complex<P>;

// One rounding fewer than two products and a sum.
template <typename P>
Z<P> Multiply(Z<P> a, Z<P> b) {
  return Z<P>(std::fma(a.real(), b.real(), -(a.imag() * b.imag())), std::fma(a.imag(), b.real(), a.real() * b.imag()));
}

// c64 is computed in c128 where a formula's roundings would add up.
template <typename F>
Z<float> ComputeInDouble(F f, Z<float> a) {
  return Z<float>(f(Z<double>(a)));
}
template <typename F>
Z<double> ComputeInDouble(F f, Z<double> a) {
  return f(a);
}
// A type with more bits and a wider range, in which no formula here overflows or loses its last place.
template <typename P>
using Wider = std::conditional_t<std::is_same_v<P, float>, double, long double>;

// As in C's Annex G. A division by zero divides each part by a zero with the sign of the divisor's real part. A finite
// number by an infinite one is zero, an infinite number by a finite one infinite; the signs are those of the
// directions.
template <typename P>
Z<P> Divide(Z<P> x, Z<P> y) {
  using W = Wider<P>;
  constexpr P kInf = std::numeric_limits<P>::infinity();
  const W a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  if (y == Z<P>(0)) {
    const P inf = std::copysign(kInf, y.real());
    return Z<P>(inf * x.real(), inf * x.imag());
  }
  const W size = c * c + d * d;
  const Z<P> r(static_cast<P>((a * c + b * d) / size), static_cast<P>((b * c - a * d) / size));
  if (!std::isnan(r.real()) || !std::isnan(r.imag())) return r;
  auto unit = [](W v) { return static_cast<P>(std::copysign(std::isinf(v) ? W(1) : W(0), v)); };
  const bool x_finite = std::isfinite(a) && std::isfinite(b), y_finite = std::isfinite(c) && std::isfinite(d);
  if (x_finite && (std::isinf(c) || std::isinf(d))) {
    const P e = unit(c), f = unit(d), p = x.real(), q = x.imag();
    return Z<P>(P(0) * (p * e + q * f), P(0) * (q * e - p * f));
  }
  if (y_finite && (std::isinf(a) || std::isinf(b))) {
    const P e = unit(a), f = unit(b), p = y.real(), q = y.imag();
    return Z<P>(kInf * (e * p + f * q), kInf * (f * p - e * q));
  }
  return r;
}
#define BACKPLANE_PRECISE(f) ComputeInDouble([](Z<double> z) { return f; }, a)

// The root with a third of the angle.
template <typename P>
Z<P> Cbrt(Z<P> a) {
  using W = Wider<P>;
  if (a == Z<P>(0)) return a;
  const W size = std::cbrt(std::hypot(W(a.real()), W(a.imag())));
  const W angle = std::atan2(W(a.imag()), W(a.real())) / 3;
  const W im = angle == 0 ? angle : size * std::sin(angle);
  return Z<P>(static_cast<P>(size * std::cos(angle)), static_cast<P>(im));
}

// e^a - 1 without cancellation near zero: the real part is expm1(x) cos(y) - 2 sin(y/2)^2.
Z<double> Expm1(Z<double> a) {
  if (a.real() > 40) return std::exp(a);
  const double s = std::sin(a.imag() / 2);
  const double e = std::expm1(a.real());
  return Z<double>(e * std::cos(a.imag()) - 2 * s * s, a.imag() == 0 ? a.imag() : (e + 1) * std::sin(a.imag()));
}

// The real part is log|1+a|, near the unit circle log1p(2x + x^2 + y^2) / 2 with the sum in twice the precision, for
// its terms may cancel.
Z<double> Log1p(Z<double> a) {
  const double x = a.real(), y = a.imag();
  const double size = std::hypot(1 + x, y);
  double re = std::isinf(size) ? std::log(std::hypot(x / 2, y / 2)) + M_LN2 : std::log(size);
  if (size > 0.5 && size < 2) {
    const double xx = x * x, yy = y * y;
    const double low = std::fma(x, x, -xx) + std::fma(y, y, -yy);
    auto sum = [](double p, double q, double& rest) {
      const double s = p + q, t = s - p;
      rest += (p - (s - t)) + (q - t);
      return s;
    };
    double rest = low;
    const double high = sum(sum(2 * x, xx, rest), yy, rest);
    re = std::log1p(high + rest) / 2;
  }
  return Z<double>(re, std::atan2(y, 1 + x));
}

template <typename P>
Z<P> Sign(Z<P> a) {
  if (std::isnan(a.real()) || std::isnan(a.imag())) {
    return Z<P>(std::numeric_limits<P>::quiet_NaN(), std::numeric_limits<P>::quiet_NaN());
  }
  using W = Wider<P>;
  const W size = std::hypot(W(a.real()), W(a.imag()));
  return size == 0 ? Z<P>(0) : Z<P>(static_cast<P>(a.real() / size), static_cast<P>(a.imag() / size));
}

template <typename P>
Z<P> Power(Z<P> a, Z<P> b) {
  if (a == Z<P>(0)) {  // 1, 0, or an infinity without a direction
    constexpr P kNan = std::numeric_limits<P>::quiet_NaN();
    if (b == Z<P>(0)) return Z<P>(1);
    if (b.real() > 0) return Z<P>(0);
    return Z<P>(b.real() < 0 ? std::numeric_limits<P>::infinity() : kNan, kNan);
  }
  return Z<P>(std::pow(Z<Wider<P>>(a), Z<Wider<P>>(b)));
}

// 1 / (1 + e^-z) with t = e^-|x| and 1 + cos y = 2 cos^2(y/2): no term overflows, and near the poles, where z is an odd
// multiple of pi i, nothing cancels.
Z<double> Logistic(Z<double> z) {
  const double x = z.real(), y = z.imag();
  if (std::isinf(x) && !std::isfinite(y)) return Z<double>(x < 0 ? 0 : 1, 0);
  const double t = std::exp(-std::abs(x)), u = -std::expm1(-std::abs(x)), c = std::cos(y / 2), cc = 2 * c * c;
  const double size = u * u + 2 * t * cc;  // |1 + t e^iy|^2
  return Z<double>((x < 0 ? t * (cc - u) : u + t * cc) / size, t * std::sin(y) / size);
}

template <typename P>
Z<P> Atan2(Z<P> first, Z<P> second) {
  using W = Wider<P>;
  const Z<W> y(first), x(second), i(0, 1);
  return Z<P>(Multiply(-i, std::log((x + Multiply(i, y)) / std::sqrt(Multiply(x, x) + Multiply(y, y)))));
}

// Lexicographic on (real, imaginary): where the real parts differ, a NaN in the imaginary part does not matter.
template <typename P>
bool Less(Z<P> a, Z<P> b) {
  return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
}
template <typename P>
bool HasNan(Z<P> a) {
  return a.real() != a.real() || a.imag() != a.imag();
}

BACKPLANE_OP1(AbsOp, std::hypot(a.real(), a.imag()))
BACKPLANE_OP1(RealOp, a.real())
BACKPLANE_OP1(ImagOp, a.imag())
BACKPLANE_OP1(CopyOp, a)
BACKPLANE_OP1(CbrtOp, Cbrt(a))
BACKPLANE_OP1(CosOp, BACKPLANE_PRECISE(std::cos(z)))
BACKPLANE_OP1(CoshOp, BACKPLANE_PRECISE(std::cosh(z)))
BACKPLANE_OP1(ExpOp, BACKPLANE_PRECISE(std::exp(z)))
BACKPLANE_OP1(Expm1Op, BACKPLANE_PRECISE(Expm1(z)))
BACKPLANE_OP1(LogOp, BACKPLANE_PRECISE(std::log(z)))
BACKPLANE_OP1(Log1pOp, BACKPLANE_PRECISE(Log1p(z)))
BACKPLANE_OP1(LogisticOp, BACKPLANE_PRECISE(Logistic(z)))
BACKPLANE_OP1(NegateOp, -a)
BACKPLANE_OP1(RsqrtOp, BACKPLANE_PRECISE(Divide(Z<double>(1), std::sqrt(z))))
BACKPLANE_OP1(SignOp, Sign(a))
BACKPLANE_OP1(SinOp, BACKPLANE_PRECISE(std::sin(z)))
BACKPLANE_OP1(SqrtOp, BACKPLANE_PRECISE(std::sqrt(z)))
BACKPLANE_OP1(TanOp, BACKPLANE_PRECISE(std::tan(z)))
BACKPLANE_OP1(TanhOp, BACKPLANE_PRECISE(std::tanh(z)))

BACKPLANE_OP2(AddOp, a + b)
BACKPLANE_OP2(SubtractOp, a - b)
BACKPLANE_OP2(MultiplyOp, Multiply(a, b))
BACKPLANE_OP2(DivideOp, Divide(a, b))
BACKPLANE_OP2(PowerOp, Power(a, b))
BACKPLANE_OP2(Atan2Op, Atan2(a, b))
BACKPLANE_OP2(MaximumOp, HasNan(a) ? a : (HasNan(b) ? b : (Less(a, b) ? b : a)))
BACKPLANE_OP2(MinimumOp, HasNan(a) ? a : (HasNan(b) ? b : (Less(b, a) ? b : a)))
BACKPLANE_OP2(EqualOp, a == b)
BACKPLANE_OP2(NotEqualOp, a != b)
BACKPLANE_OP2(GreaterEqualOp, Less(b, a) || a == b)
BACKPLANE_OP2(GreaterOp, Less(b, a))
BACKPLANE_OP2(LessEqualOp, Less(a, b) || a == b)
BACKPLANE_OP2(LessOp, Less(a, b))

struct ClampOp {
  template <typename T>
  static T Of(T low, T x, T high) {
    return MinimumOp::Of(MaximumOp::Of(x, low), high);
  }
};

template <typename P>
ElementwiseKernel::Loop Find(Opcode opcode, const Attributes& attrs) {
  using T = Z<P>;
  switch (opcode) {
    case Opcode::kAbs:
      return &Loop1<AbsOp, T, P>;
    case Opcode::kReal:
      return &Loop1<RealOp, T, P>;
    case Opcode::kImag:
      return &Loop1<ImagOp, T, P>;
    case Opcode::kCopy:
      return &Loop1<CopyOp, T>;
    case Opcode::kCbrt:
      return &Loop1<CbrtOp, T>;
    case Opcode::kCos:
      return &Loop1<CosOp, T>;
    case Opcode::kCosh:
      return &Loop1<CoshOp, T>;
    case Opcode::kExp:
      return &Loop1<ExpOp, T>;
    case Opcode::kExpm1:
      return &Loop1<Expm1Op, T>;
    case Opcode::kLog:
      return &Loop1<LogOp, T>;
    case Opcode::kLog1p:
      return &Loop1<Log1pOp, T>;
    case Opcode::kLogistic:
      return &Loop1<LogisticOp, T>;
    case Opcode::kNegate:
      return &Loop1<NegateOp, T>;
    case Opcode::kRsqrt:
      return &Loop1<RsqrtOp, T>;
    case Opcode::kSign:
      return &Loop1<SignOp, T>;
    case Opcode::kSin:
      return &Loop1<SinOp, T>;
    case Opcode::kSqrt:
      return &Loop1<SqrtOp, T>;
    case Opcode::kTan:
      return &Loop1<TanOp, T>;
    case Opcode::kTanh:
      return &Loop1<TanhOp, T>;
    case Opcode::kAdd:
      return &Loop2<AddOp, T>;
    case Opcode::kSubtract:
      return &Loop2<SubtractOp, T>;
    case Opcode::kMultiply:
      return &Loop2<MultiplyOp, T>;
    case Opcode::kDivide:
      return &Loop2<DivideOp, T>;
    case Opcode::kPower:
      return &Loop2<PowerOp, T>;
    case Opcode::kAtan2:
      return &Loop2<Atan2Op, T>;
    case Opcode::kMaximum:
      return &Loop2<MaximumOp, T>;
    case Opcode::kMinimum:
      return &Loop2<MinimumOp, T>;
    case Opcode::kClamp:
      return &Loop3<ClampOp, T>;
    case Opcode::kCompare:
      switch (attrs.GetEnum<ComparisonDirection>(AttrId::kDirection)) {
        case ComparisonDirection::kEq:
          return &Loop2<EqualOp, T, bool>;
        case ComparisonDirection::kNe:
          return &Loop2<NotEqualOp, T, bool>;
        case ComparisonDirection::kGe:
          return &Loop2<GreaterEqualOp, T, bool>;
        case ComparisonDirection::kGt:
          return &Loop2<GreaterOp, T, bool>;
        case ComparisonDirection::kLe:
          return &Loop2<LessEqualOp, T, bool>;
        default:
          return &Loop2<LessOp, T, bool>;
      }
    default:
      return nullptr;
  }
}

}  // namespace

ElementwiseKernel::Loop ComplexLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type) {
  return type == PrimitiveType::kC64 ? Find<float>(opcode, attrs) : Find<double>(opcode, attrs);
}

}  // namespace backplane
