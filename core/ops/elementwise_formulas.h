// What the elementwise operations compute, for every kind of number. A formula is a function Of of the operands'
// elements; an operation has one for integers, floats or complex numbers, or for several of them. The evaluator runs
// them in loops; the three sources elementwise_integer.cc, elementwise_float.cc and elementwise_complex.cc make the
// loops, and alone include this file.
#ifndef BACKPLANE_CORE_OPS_ELEMENTWISE_FORMULAS_H_
#define BACKPLANE_CORE_OPS_ELEMENTWISE_FORMULAS_H_

#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "core/ops/complex_functions.h"
#include "core/ops/op_info.h"

namespace backplane::formulas {

// Integers of 8 to 64 bits; f32 and f64; c64 and c128. Values of other types are converted before and after.
template <typename T>
concept Integer = std::is_integral_v<T>;
template <typename T>
concept Float = std::is_floating_point_v<T>;
template <typename T>
concept Complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Has no function where the operation has no formula.
template <Opcode>
struct Formula {};

// Arithmetic in an unsigned type of at least int's width wraps; the cast back takes the low bits.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;
template <Integer T>
Wrapping<T> Wrap(T a) {
  return static_cast<Wrapping<T>>(a);
}
template <Integer T>
std::make_unsigned_t<T> Unsigned(T a) {
  return static_cast<std::make_unsigned_t<T>>(a);
}

// Division by zero gives all ones, its remainder the dividend; the overflow of lowest / -1 wraps to lowest, remainder
// 0.
template <Integer T>
T DivideIntegers(T a, T b) {
  if (b == T(0)) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(Wrapping<T>(0) - Wrap(a));
  return static_cast<T>(a / b);
}
template <Integer T>
T RemainderOfIntegers(T a, T b) {
  if (b == T(0)) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T(0);
  return static_cast<T>(a % b);
}

// Negative exponents: 1 and -1 have inverses, everything else gives 0.
template <Integer T>
T PowerOfIntegers(T a, T b) {
  if (std::is_signed_v<T> && b < T(0)) {
    if (a == T(1)) return T(1);
    if (a == static_cast<T>(-1)) return (b & 1) ? a : T(1);
    return T(0);
  }
  Wrapping<T> result = 1, base = Wrap(a);
  for (auto e = Unsigned(b); e != 0; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return static_cast<T>(result);
}

// Shift amounts are unsigned: a shift by the type's width or more shifts all bits out.
template <Integer T>
bool ShiftsOutAllBits(T b) {
  return Unsigned(b) >= sizeof(T) * 8;
}
template <Integer T>
T ShiftRightArithmetic(T a, T b) {
  const auto s = static_cast<std::make_signed_t<T>>(a);
  return ShiftsOutAllBits(b) ? static_cast<T>(s < 0 ? -1 : 0) : static_cast<T>(s >> b);
}

// NaN if either operand is NaN; -0 is less than +0.
template <Float T>
T MaximumOfFloats(T a, T b) {
  return a != a ? a : (b != b ? b : (a > b || (a == b && !std::signbit(a)) ? a : b));
}
template <Float T>
T MinimumOfFloats(T a, T b) {
  return a != a ? a : (b != b ? b : (a < b || (a == b && std::signbit(a)) ? a : b));
}

// Takes the exponential of a negative number only. That of a positive one overflows where the result is still finite.
template <Float T>
T LogisticOfFloat(T a) {
  return a < T(0) ? std::exp(a) / (T(1) + std::exp(a)) : T(1) / (T(1) + std::exp(-a));
}

namespace cf = complex_functions;

#define FORMULA(opcode, ...)       \
  template <>                      \
  struct Formula<Opcode::opcode> { \
    __VA_ARGS__                    \
  };
#define INTEGERS(parameters, ...) \
  template <Integer T>            \
  static auto Of parameters {     \
    return __VA_ARGS__;           \
  }
#define FLOATS(parameters, ...) \
  template <Float T>            \
  static auto Of parameters {   \
    return __VA_ARGS__;         \
  }
#define COMPLEX(parameters, ...) \
  template <Complex T>           \
  static auto Of parameters {    \
    return __VA_ARGS__;          \
  }
// A formula in z, which computes a c64 result in c128 and rounds it once.
#define COMPLEX_PRECISE(...) COMPLEX((T a), cf::ComputeInDouble([](std::complex<double> z) { return __VA_ARGS__; }, a))

// clang-format off
// One operand.
FORMULA(kAbs,
        INTEGERS((T a), static_cast<T>(a < T(0) ? Wrapping<T>(0) - Wrap(a) : Wrap(a)))
        FLOATS((T a), std::abs(a))
        COMPLEX((T a), std::hypot(a.real(), a.imag())))
FORMULA(kCbrt, FLOATS((T a), std::cbrt(a)) COMPLEX((T a), cf::Cbrt(a)))
FORMULA(kCeil, FLOATS((T a), std::ceil(a)))
FORMULA(kClz, INTEGERS((T a), static_cast<T>(std::countl_zero(Unsigned(a)))))
FORMULA(kCopy, INTEGERS((T a), a) FLOATS((T a), a) COMPLEX((T a), a))
FORMULA(kCos, FLOATS((T a), std::cos(a)) COMPLEX_PRECISE(std::cos(z)))
FORMULA(kCosh, FLOATS((T a), std::cosh(a)) COMPLEX_PRECISE(std::cosh(z)))
FORMULA(kErf, FLOATS((T a), std::erf(a)))
FORMULA(kExp, FLOATS((T a), std::exp(a)) COMPLEX_PRECISE(std::exp(z)))
FORMULA(kExpm1, FLOATS((T a), std::expm1(a)) COMPLEX_PRECISE(cf::Expm1(z)))
FORMULA(kFloor, FLOATS((T a), std::floor(a)))
FORMULA(kImag, FLOATS((T), T(0)) COMPLEX((T a), a.imag()))
FORMULA(kIsFinite, FLOATS((T a), std::abs(a) <= std::numeric_limits<T>::max()))
FORMULA(kLog, FLOATS((T a), std::log(a)) COMPLEX_PRECISE(std::log(z)))
FORMULA(kLog1p, FLOATS((T a), std::log1p(a)) COMPLEX_PRECISE(cf::Log1p(z)))
FORMULA(kLogistic, FLOATS((T a), LogisticOfFloat(a)) COMPLEX_PRECISE(cf::Logistic(z)))
FORMULA(kNegate, INTEGERS((T a), static_cast<T>(Wrapping<T>(0) - Wrap(a))) FLOATS((T a), -a) COMPLEX((T a), -a))
FORMULA(kNot, INTEGERS((T a), static_cast<T>(~a)))
FORMULA(kPopcnt, INTEGERS((T a), static_cast<T>(std::popcount(Unsigned(a)))))
FORMULA(kReal, FLOATS((T a), a) COMPLEX((T a), a.real()))
FORMULA(kRoundNearestAfz, FLOATS((T a), std::round(a)))
FORMULA(kRoundNearestEven, FLOATS((T a), std::nearbyint(a)))
FORMULA(kRsqrt,
        FLOATS((T a), T(1) / std::sqrt(a))
        COMPLEX_PRECISE(cf::Divide(std::complex<double>(1), std::sqrt(z))))
FORMULA(kSign,
        INTEGERS((T a), static_cast<T>(a == T(0) ? 0 : (a < T(0) ? -1 : 1)))
        FLOATS((T a), a > T(0) ? T(1) : (a < T(0) ? T(-1) : a))  // zeros and NaN are themselves
        COMPLEX((T a), cf::Sign(a)))
FORMULA(kSin, FLOATS((T a), std::sin(a)) COMPLEX_PRECISE(std::sin(z)))
FORMULA(kSqrt, FLOATS((T a), std::sqrt(a)) COMPLEX_PRECISE(std::sqrt(z)))
FORMULA(kTan, FLOATS((T a), std::tan(a)) COMPLEX_PRECISE(cf::Tan(z)))
FORMULA(kTanh, FLOATS((T a), std::tanh(a)) COMPLEX_PRECISE(cf::Tanh(z)))

// Two operands.
FORMULA(kAdd, INTEGERS((T a, T b), static_cast<T>(Wrap(a) + Wrap(b))) FLOATS((T a, T b), a + b) COMPLEX((T a, T b), a + b))
FORMULA(kAnd, INTEGERS((T a, T b), static_cast<T>(a & b)))
FORMULA(kAtan2, FLOATS((T a, T b), std::atan2(a, b)) COMPLEX((T a, T b), cf::Atan2(a, b)))
FORMULA(kDivide,
        INTEGERS((T a, T b), DivideIntegers(a, b)) FLOATS((T a, T b), a / b) COMPLEX((T a, T b), cf::Divide(a, b)))
FORMULA(kMaximum,
        INTEGERS((T a, T b), a < b ? b : a)
        FLOATS((T a, T b), MaximumOfFloats(a, b))
        COMPLEX((T a, T b), cf::HasNan(a) ? a : (cf::HasNan(b) ? b : (cf::Less(a, b) ? b : a))))
FORMULA(kMinimum,
        INTEGERS((T a, T b), b < a ? b : a)
        FLOATS((T a, T b), MinimumOfFloats(a, b))
        COMPLEX((T a, T b), cf::HasNan(a) ? a : (cf::HasNan(b) ? b : (cf::Less(b, a) ? b : a))))
FORMULA(kMultiply,
        INTEGERS((T a, T b), static_cast<T>(Wrap(a) * Wrap(b))) FLOATS((T a, T b), a * b)
        COMPLEX((T a, T b), cf::Multiply(a, b)))
FORMULA(kOr, INTEGERS((T a, T b), static_cast<T>(a | b)))
FORMULA(kPower,
        INTEGERS((T a, T b), PowerOfIntegers(a, b)) FLOATS((T a, T b), std::pow(a, b))
        COMPLEX((T a, T b), cf::Power(a, b)))
FORMULA(kRemainder, INTEGERS((T a, T b), RemainderOfIntegers(a, b)) FLOATS((T a, T b), std::fmod(a, b)))
FORMULA(kShiftLeft, INTEGERS((T a, T b), ShiftsOutAllBits(b) ? T(0) : static_cast<T>(Wrap(a) << b)))
FORMULA(kShiftRightArithmetic, INTEGERS((T a, T b), ShiftRightArithmetic(a, b)))
FORMULA(kShiftRightLogical, INTEGERS((T a, T b), ShiftsOutAllBits(b) ? T(0) : static_cast<T>(Unsigned(a) >> b)))
FORMULA(kSubtract,
        INTEGERS((T a, T b), static_cast<T>(Wrap(a) - Wrap(b))) FLOATS((T a, T b), a - b) COMPLEX((T a, T b), a - b))
FORMULA(kXor, INTEGERS((T a, T b), static_cast<T>(a ^ b)))
// clang-format on

#undef FORMULA
#undef INTEGERS
#undef FLOATS
#undef COMPLEX
#undef COMPLEX_PRECISE

// Three operands, of any kind of number.
template <>
struct Formula<Opcode::kClamp> {
  template <typename T>
  static T Of(T low, T x, T high) {
    return Formula<Opcode::kMinimum>::Of(Formula<Opcode::kMaximum>::Of(x, low), high);
  }
};

}  // namespace backplane::formulas

#endif  // BACKPLANE_CORE_OPS_ELEMENTWISE_FORMULAS_H_
