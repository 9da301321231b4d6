#include <bit>
#include <cmath>
#include <complex>

#include "core/ops/elementwise_loops.h"

namespace backplane {
namespace {

template <typename T>
void MakeComplex(const void* const* in, void* out, int64_t n, const int64_t*) {
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
ElementwiseKernel::Loop FindFloatLoop(Opcode opcode, const Attributes& attrs) {
  switch (opcode) {
    case Opcode::kComplex:
      return &MakeComplex<T>;
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
      return FindFormulaLoop<T>(opcode);
  }
}

}  // namespace

ElementwiseKernel::Loop SelectFloatLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type) {
  return type == PrimitiveType::kF32 ? FindFloatLoop<float>(opcode, attrs) : FindFloatLoop<double>(opcode, attrs);
}

}  // namespace backplane
