#include <bit>
#include <cmath>
#include <complex>
#include <limits>

#include "core/ops/elementwise_loops.h"

namespace backplane {
namespace {

BACKPLANE_OP1(AbsOp, std::abs(a))
BACKPLANE_OP1(CbrtOp, std::cbrt(a))
BACKPLANE_OP1(CeilOp, std::ceil(a))
BACKPLANE_OP1(CosOp, std::cos(a))
BACKPLANE_OP1(CoshOp, std::cosh(a))
BACKPLANE_OP1(ErfOp, std::erf(a))
BACKPLANE_OP1(ExpOp, std::exp(a))
BACKPLANE_OP1(Expm1Op, std::expm1(a))
BACKPLANE_OP1(FloorOp, std::floor(a))
BACKPLANE_OP1(ZeroOp, T(0))
BACKPLANE_OP1(IsFiniteOp, std::abs(a) <= std::numeric_limits<T>::max())
BACKPLANE_OP1(LogOp, std::log(a))
BACKPLANE_OP1(Log1pOp, std::log1p(a))
// The exponential of a negative number: the other one overflows where the result is still a number.
BACKPLANE_OP1(LogisticOp, a < T(0) ? std::exp(a) / (T(1) + std::exp(a)) : T(1) / (T(1) + std::exp(-a)))
BACKPLANE_OP1(NegateOp, -a)
BACKPLANE_OP1(CopyOp, a)
BACKPLANE_OP1(RoundAfzOp, std::round(a))
BACKPLANE_OP1(RoundEvenOp, std::nearbyint(a))
BACKPLANE_OP1(RsqrtOp, T(1) / std::sqrt(a))
BACKPLANE_OP1(SignOp, a > T(0) ? T(1) : (a < T(0) ? T(-1) : a))  // zeros and NaN are themselves
BACKPLANE_OP1(SinOp, std::sin(a))
BACKPLANE_OP1(SqrtOp, std::sqrt(a))
BACKPLANE_OP1(TanOp, std::tan(a))
BACKPLANE_OP1(TanhOp, std::tanh(a))

BACKPLANE_OP2(AddOp, a + b)
BACKPLANE_OP2(SubtractOp, a - b)
BACKPLANE_OP2(MultiplyOp, a* b)
BACKPLANE_OP2(DivideOp, a / b)
BACKPLANE_OP2(RemainderOp, std::fmod(a, b))
BACKPLANE_OP2(PowerOp, std::pow(a, b))
BACKPLANE_OP2(Atan2Op, std::atan2(a, b))
// NaN if either operand is NaN; -0 is less than +0.
BACKPLANE_OP2(MaximumOp, a != a ? a : (b != b ? b : (a > b || (a == b && !std::signbit(a)) ? a : b)))
BACKPLANE_OP2(MinimumOp, a != a ? a : (b != b ? b : (a < b || (a == b && std::signbit(a)) ? a : b)))

struct ClampOp {
  template <typename T>
  static T Of(T low, T x, T high) {
    return MinimumOp::Of(MaximumOp::Of(x, low), high);
  }
};

template <typename T>
void ComplexOf(const void* const* in, void* out, int64_t n, const int64_t*) {
  const T* re = static_cast<const T*>(in[0]);
  const T* im = static_cast<const T*>(in[1]);
  auto* r = static_cast<std::complex<T>*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = std::complex<T>(re[i], im[i]);
}

// Integers in the total order of floats: -NaN, -inf, ..., -0, +0, ..., +inf, +NaN.
struct TotalOrder {
  static int32_t Of(float v) {
    const int32_t b = std::bit_cast<int32_t>(v);
    return b ^ ((b >> 31) & 0x7fffffff);
  }
  static int64_t Of(double v) {
    const int64_t b = std::bit_cast<int64_t>(v);
    return b ^ ((b >> 63) & 0x7fffffffffffffff);
  }
};

// Rounds to `mantissa` bits and `exponent` bits; U is the unsigned type of T's width.
template <typename T, typename U, int kMantissa, int kExponent>
void ReducePrecision(const void* const* in, void* out, int64_t n, const int64_t* params) {
  const U* x = static_cast<const U*>(in[0]);
  U* r = static_cast<U*>(out);
  const int mantissa = static_cast<int>(std::min<int64_t>(params[1], kMantissa));
  const int exponent = static_cast<int>(std::min<int64_t>(params[0], kExponent));
  const int drop = kMantissa - mantissa;
  constexpr U kSign = U(1) << (kMantissa + kExponent);
  constexpr U kInf = ((U(1) << kExponent) - 1) << kMantissa;
  const U bias = (U(1) << (kExponent - 1)) - 1;
  const U reduced_bias = (U(1) << (exponent - 1)) - 1;
  const U least = static_cast<U>(params[2]) << kMantissa;
  for (int64_t i = 0; i < n; ++i) {
    U v = x[i];
    const U sign = v & kSign;
    U magnitude = v & ~kSign;
    if (magnitude > kInf) {  // NaN; a format without mantissa bits has none but infinity
      r[i] = mantissa == 0 ? sign | kInf : v;
      continue;
    }
    if (drop > 0 && magnitude < least) {  // to a multiple of the last place that subnormal numbers have
      const T scale = std::ldexp(T(1.5), static_cast<int>(params[2]) - 127 - mantissa + kMantissa);
      magnitude = std::bit_cast<U>((std::bit_cast<T>(magnitude) + scale) - scale);
    } else if (drop > 0 && magnitude < kInf) {
      const U last = (magnitude >> drop) & 1;
      magnitude += (U(1) << (drop - 1)) - 1 + last;
      magnitude &= ~((U(1) << drop) - 1);
    }
    if (exponent < kExponent) {
      // Normal numbers of the narrow format have exponents within +-reduced_bias of zero, the lowest one aside.
      const U highest = (bias + reduced_bias) << kMantissa, lowest = (bias - reduced_bias + 1) << kMantissa;
      if ((magnitude & kInf) > highest)
        magnitude = kInf;
      else if (magnitude < lowest)
        magnitude = 0;
    }
    r[i] = sign | magnitude;
  }
}

template <typename T>
ElementwiseKernel::Loop Find(Opcode opcode, const Attributes& attrs) {
  switch (opcode) {
    case Opcode::kAbs:
      return &Loop1<AbsOp, T>;
    case Opcode::kCbrt:
      return &Loop1<CbrtOp, T>;
    case Opcode::kCeil:
      return &Loop1<CeilOp, T>;
    case Opcode::kCos:
      return &Loop1<CosOp, T>;
    case Opcode::kCosh:
      return &Loop1<CoshOp, T>;
    case Opcode::kErf:
      return &Loop1<ErfOp, T>;
    case Opcode::kExp:
      return &Loop1<ExpOp, T>;
    case Opcode::kExpm1:
      return &Loop1<Expm1Op, T>;
    case Opcode::kFloor:
      return &Loop1<FloorOp, T>;
    case Opcode::kImag:
      return &Loop1<ZeroOp, T>;
    case Opcode::kIsFinite:
      return &Loop1<IsFiniteOp, T, bool>;
    case Opcode::kLog:
      return &Loop1<LogOp, T>;
    case Opcode::kLog1p:
      return &Loop1<Log1pOp, T>;
    case Opcode::kLogistic:
      return &Loop1<LogisticOp, T>;
    case Opcode::kNegate:
      return &Loop1<NegateOp, T>;
    case Opcode::kReal:
    case Opcode::kCopy:
      return &Loop1<CopyOp, T>;
    case Opcode::kRoundNearestAfz:
      return &Loop1<RoundAfzOp, T>;
    case Opcode::kRoundNearestEven:
      return &Loop1<RoundEvenOp, T>;
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
    case Opcode::kRemainder:
      return &Loop2<RemainderOp, T>;
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
    case Opcode::kComplex:
      return &ComplexOf<T>;
    case Opcode::kReducePrecision:
      if constexpr (sizeof(T) == 4)
        return &ReducePrecision<float, uint32_t, 23, 8>;
      else
        return &ReducePrecision<double, uint64_t, 52, 11>;
    case Opcode::kCompare: {
      const auto direction = attrs.GetEnum<ComparisonDirection>(AttrId::kDirection);
      const bool total = attrs.GetEnum<ComparisonType>(AttrId::kComparisonType) == ComparisonType::kTotalOrder;
      return total ? CompareLoop<T, TotalOrder>(direction) : CompareLoop<T>(direction);
    }
    default:
      return nullptr;
  }
}

}  // namespace

ElementwiseKernel::Loop FloatLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type) {
  return type == PrimitiveType::kF32 ? Find<float>(opcode, attrs) : Find<double>(opcode, attrs);
}

}  // namespace backplane
