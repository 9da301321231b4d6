#include <cmath>
#include <complex>
#include <limits>

#include "core/ops/elementwise_loops.h"

namespace backplane {
namespace {

template <typename P>
using Z = std::complex<P>;

template <typename P>
Z<P> Multiply(Z<P> a, Z<P> b) {
  return Z<P>(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
}

template <typename P>
Z<P> Cbrt(Z<P> a) { return a == Z<P>(0) ? a : std::pow(a, P(1) / P(3)); }

// e^a - 1 without cancellation near zero: the real part is expm1(x) cos(y) - 2 sin(y/2)^2.
template <typename P>
Z<P> Expm1(Z<P> a) {
  const P s = std::sin(a.imag() / 2);
  const P e = std::expm1(a.real());
  return Z<P>(e * std::cos(a.imag()) - 2 * s * s, a.imag() == 0 ? a.imag() : (e + 1) * std::sin(a.imag()));
}

// The real part is log|1+a| = log1p(x^2 + 2x + y^2) / 2 where that is accurate.
template <typename P>
Z<P> Log1p(Z<P> a) {
  const P x = a.real(), y = a.imag();
  const P size = std::hypot(x, y);
  const P re = size < P(0.5) ? std::log1p(x * (2 + x) + y * y) / 2 : std::log(std::hypot(1 + x, y));
  return Z<P>(re, std::atan2(y, 1 + x));
}

template <typename P>
Z<P> Sign(Z<P> a) {
  if (std::isnan(a.real()) || std::isnan(a.imag())) {
    return Z<P>(std::numeric_limits<P>::quiet_NaN(), std::numeric_limits<P>::quiet_NaN());
  }
  const P size = std::hypot(a.real(), a.imag());
  return size == 0 ? Z<P>(0) : Z<P>(a.real() / size, a.imag() / size);
}

template <typename P>
Z<P> Power(Z<P> a, Z<P> b) {
  if (a == Z<P>(0)) {
    if (b == Z<P>(0)) return Z<P>(1);
    if (b.real() > 0) return Z<P>(0);
  }
  return std::pow(a, b);
}

template <typename P>
Z<P> Atan2(Z<P> y, Z<P> x) {
  const Z<P> i(0, 1);
  return Multiply(-i, std::log((x + Multiply(i, y)) / std::sqrt(Multiply(x, x) + Multiply(y, y))));
}

// Lexicographic on (real, imaginary).
template <typename P>
bool Less(Z<P> a, Z<P> b) {
  return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
}
template <typename P>
bool HasNan(Z<P> a) { return a.real() != a.real() || a.imag() != a.imag(); }

BACKPLANE_OP1(AbsOp, std::hypot(a.real(), a.imag()))
BACKPLANE_OP1(RealOp, a.real())
BACKPLANE_OP1(ImagOp, a.imag())
BACKPLANE_OP1(CopyOp, a)
BACKPLANE_OP1(CbrtOp, Cbrt(a))
BACKPLANE_OP1(CosOp, std::cos(a))
BACKPLANE_OP1(CoshOp, std::cosh(a))
BACKPLANE_OP1(ExpOp, std::exp(a))
BACKPLANE_OP1(Expm1Op, Expm1(a))
BACKPLANE_OP1(LogOp, std::log(a))
BACKPLANE_OP1(Log1pOp, Log1p(a))
BACKPLANE_OP1(LogisticOp, T(1) / (T(1) + std::exp(-a)))
BACKPLANE_OP1(NegateOp, -a)
BACKPLANE_OP1(RsqrtOp, T(1) / std::sqrt(a))
BACKPLANE_OP1(SignOp, Sign(a))
BACKPLANE_OP1(SinOp, std::sin(a))
BACKPLANE_OP1(SqrtOp, std::sqrt(a))
BACKPLANE_OP1(TanOp, std::tan(a))
BACKPLANE_OP1(TanhOp, std::tanh(a))

BACKPLANE_OP2(AddOp, a + b)
BACKPLANE_OP2(SubtractOp, a - b)
BACKPLANE_OP2(MultiplyOp, Multiply(a, b))
BACKPLANE_OP2(DivideOp, a / b)
BACKPLANE_OP2(PowerOp, Power(a, b))
BACKPLANE_OP2(Atan2Op, Atan2(a, b))
BACKPLANE_OP2(MaximumOp, HasNan(a) ? a : (HasNan(b) ? b : (Less(a, b) ? b : a)))
BACKPLANE_OP2(MinimumOp, HasNan(a) ? a : (HasNan(b) ? b : (Less(b, a) ? b : a)))
BACKPLANE_OP2(EqualOp, a == b)
BACKPLANE_OP2(NotEqualOp, a != b)
BACKPLANE_OP2(GreaterEqualOp, !HasNan(a) && !HasNan(b) && !Less(a, b))
BACKPLANE_OP2(GreaterOp, !HasNan(a) && !HasNan(b) && Less(b, a))
BACKPLANE_OP2(LessEqualOp, !HasNan(a) && !HasNan(b) && !Less(b, a))
BACKPLANE_OP2(LessOp, !HasNan(a) && !HasNan(b) && Less(a, b))

struct ClampOp {
  template <typename T>
  static T Of(T low, T x, T high) { return MinimumOp::Of(MaximumOp::Of(x, low), high); }
};

template <typename P>
ElementwiseKernel::Loop Find(Opcode opcode, const Attributes& attrs) {
  using T = Z<P>;
  switch (opcode) {
    case Opcode::kAbs: return &Loop1<AbsOp, T, P>;
    case Opcode::kReal: return &Loop1<RealOp, T, P>;
    case Opcode::kImag: return &Loop1<ImagOp, T, P>;
    case Opcode::kCopy: return &Loop1<CopyOp, T>;
    case Opcode::kCbrt: return &Loop1<CbrtOp, T>;
    case Opcode::kCos: return &Loop1<CosOp, T>;
    case Opcode::kCosh: return &Loop1<CoshOp, T>;
    case Opcode::kExp: return &Loop1<ExpOp, T>;
    case Opcode::kExpm1: return &Loop1<Expm1Op, T>;
    case Opcode::kLog: return &Loop1<LogOp, T>;
    case Opcode::kLog1p: return &Loop1<Log1pOp, T>;
    case Opcode::kLogistic: return &Loop1<LogisticOp, T>;
    case Opcode::kNegate: return &Loop1<NegateOp, T>;
    case Opcode::kRsqrt: return &Loop1<RsqrtOp, T>;
    case Opcode::kSign: return &Loop1<SignOp, T>;
    case Opcode::kSin: return &Loop1<SinOp, T>;
    case Opcode::kSqrt: return &Loop1<SqrtOp, T>;
    case Opcode::kTan: return &Loop1<TanOp, T>;
    case Opcode::kTanh: return &Loop1<TanhOp, T>;
    case Opcode::kAdd: return &Loop2<AddOp, T>;
    case Opcode::kSubtract: return &Loop2<SubtractOp, T>;
    case Opcode::kMultiply: return &Loop2<MultiplyOp, T>;
    case Opcode::kDivide: return &Loop2<DivideOp, T>;
    case Opcode::kPower: return &Loop2<PowerOp, T>;
    case Opcode::kAtan2: return &Loop2<Atan2Op, T>;
    case Opcode::kMaximum: return &Loop2<MaximumOp, T>;
    case Opcode::kMinimum: return &Loop2<MinimumOp, T>;
    case Opcode::kClamp: return &Loop3<ClampOp, T>;
    case Opcode::kCompare:
      switch (attrs.GetEnum<ComparisonDirection>(AttrId::kDirection)) {
        case ComparisonDirection::kEq: return &Loop2<EqualOp, T, bool>;
        case ComparisonDirection::kNe: return &Loop2<NotEqualOp, T, bool>;
        case ComparisonDirection::kGe: return &Loop2<GreaterEqualOp, T, bool>;
        case ComparisonDirection::kGt: return &Loop2<GreaterOp, T, bool>;
        case ComparisonDirection::kLe: return &Loop2<LessEqualOp, T, bool>;
        default: return &Loop2<LessOp, T, bool>;
      }
    default: return nullptr;
  }
}

}  // namespace

ElementwiseKernel::Loop ComplexLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type) {
  return type == PrimitiveType::kC64 ? Find<float>(opcode, attrs) : Find<double>(opcode, attrs);
}

}  // namespace backplane
