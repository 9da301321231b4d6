#include "core/ops/families/run_reducer.h"

#include <cmath>
#include <complex>
#include <type_traits>

namespace backplane {
namespace {

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;

struct Sum {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
};
struct Product {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
};
struct Maximum {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return a < b ? b : a;
    else
      return a != a ? a : (b != b ? b : (a > b || (a == b && !std::signbit(a)) ? a : b));
  }
};
struct Minimum {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsInteger<T>)
      return b < a ? b : a;
    else
      return a != a ? a : (b != b ? b : (a < b || (a == b && std::signbit(a)) ? a : b));
  }
};
struct BitAnd {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// Eight partial results make the loop fast and long float sums accurate. A reduction allows this order.
template <typename Op, typename T>
void ReduceRun(void* acc, const void* data, int64_t n, int64_t step) {
  const T* x = static_cast<const T*>(data);
  T total = *static_cast<T*>(acc);
  constexpr int kWays = 8;
  if (n >= 2 * kWays) {
    T part[kWays];
    for (int k = 0; k < kWays; ++k) part[k] = x[k * step];
    int64_t i = kWays;
    if (step == 1) {
      for (; i + kWays <= n; i += kWays) {
        for (int k = 0; k < kWays; ++k) part[k] = Op::Of(part[k], x[i + k]);
      }
    } else {
      for (; i + kWays <= n; i += kWays) {
        for (int k = 0; k < kWays; ++k) part[k] = Op::Of(part[k], x[(i + k) * step]);
      }
    }
    for (; i < n; ++i) part[0] = Op::Of(part[0], x[i * step]);
    for (int half = kWays / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) part[k] = Op::Of(part[k], part[k + half]);
    }
    *static_cast<T*>(acc) = Op::Of(total, part[0]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) total = Op::Of(total, x[i * step]);
  *static_cast<T*>(acc) = total;
}

template <typename T>
RunReducer OfType(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return &ReduceRun<Sum, T>;
    case Opcode::kMultiply:
      return &ReduceRun<Product, T>;
    default:
      break;
  }
  if constexpr (std::is_arithmetic_v<T>) {
    if (opcode == Opcode::kMaximum) return &ReduceRun<Maximum, T>;
    if (opcode == Opcode::kMinimum) return &ReduceRun<Minimum, T>;
  }
  if constexpr (kIsInteger<T>) {
    if (opcode == Opcode::kAnd) return &ReduceRun<BitAnd, T>;
    if (opcode == Opcode::kOr) return &ReduceRun<BitOr, T>;
    if (opcode == Opcode::kXor) return &ReduceRun<BitXor, T>;
  }
  return nullptr;
}

}  // namespace

RunReducer FindRunReducer(Opcode opcode, PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kPred:
      if (opcode == Opcode::kAdd) opcode = Opcode::kOr;
      if (opcode == Opcode::kMultiply) opcode = Opcode::kAnd;
      return OfType<uint8_t>(opcode);
    case PrimitiveType::kS8:
      return OfType<int8_t>(opcode);
    case PrimitiveType::kS16:
      return OfType<int16_t>(opcode);
    case PrimitiveType::kS32:
      return OfType<int32_t>(opcode);
    case PrimitiveType::kS64:
      return OfType<int64_t>(opcode);
    case PrimitiveType::kU8:
      return OfType<uint8_t>(opcode);
    case PrimitiveType::kU16:
      return OfType<uint16_t>(opcode);
    case PrimitiveType::kU32:
      return OfType<uint32_t>(opcode);
    case PrimitiveType::kU64:
      return OfType<uint64_t>(opcode);
    case PrimitiveType::kF32:
      return OfType<float>(opcode);
    case PrimitiveType::kF64:
      return OfType<double>(opcode);
    case PrimitiveType::kC64:
      return OfType<std::complex<float>>(opcode);
    case PrimitiveType::kC128:
      return OfType<std::complex<double>>(opcode);
    default:
      return nullptr;
  }
}

}  // namespace backplane
