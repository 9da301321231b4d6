#include "core/types/literal_convert.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/types/numeric.h"

namespace backplane {
namespace {

template <typename T>
struct SmallIntTraits {
  static constexpr bool value = false;
};
template <int kBits, bool kSigned>
struct SmallIntTraits<SmallInt<kBits, kSigned>> {
  static constexpr bool value = true;
  static constexpr int64_t lowest = kSigned ? -(int64_t{1} << (kBits - 1)) : 0;
  static constexpr int64_t highest = kSigned ? (int64_t{1} << (kBits - 1)) - 1 : (int64_t{1} << kBits) - 1;
};
template <typename T>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool kIsComplex<std::complex<T>> = true;

template <typename Wide, typename T>
Wide Widen(const T& v) {
  if constexpr (kIsComplex<T>) {
    if constexpr (kIsComplex<Wide>)
      return Wide(v.real(), v.imag());
    else
      return Widen<Wide>(v.real());
  } else if constexpr (std::is_same_v<T, bool>) {
    // A byte of a host or of a bitcast may be neither 0 nor 1, and reading such a bool is undefined.
    return Widen<Wide>(static_cast<int>(reinterpret_cast<const unsigned char&>(v) != 0));
  } else if constexpr (std::is_arithmetic_v<T>) {
    if constexpr (std::is_floating_point_v<T> && std::is_integral_v<Wide>)
      return SaturateToInt<Wide>(v);
    else if constexpr (kIsComplex<Wide>)
      return Wide(static_cast<double>(v));
    else
      return static_cast<Wide>(v);
  } else if constexpr (SmallIntTraits<T>::value) {
    return Widen<Wide>(static_cast<int64_t>(v));
  } else {
    return Widen<Wide>(static_cast<float>(v));
  }
}

template <typename T, typename Wide>
T Narrow(const Wide& v) {
  if constexpr (std::is_same_v<T, bool> && !kIsComplex<Wide>) {
    return v != Wide(0);
  } else if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    if constexpr (kIsComplex<Wide>)
      return T(static_cast<Part>(v.real()), static_cast<Part>(v.imag()));
    else
      return T(static_cast<Part>(v));
  } else if constexpr (kIsComplex<Wide>) {
    return Narrow<T>(v.real());
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_floating_point_v<Wide>)
      return SaturateToInt<T>(v);
    else
      return static_cast<T>(v);
  } else if constexpr (SmallIntTraits<T>::value) {
    if constexpr (std::is_floating_point_v<Wide>) {
      return T(SaturateToInt<int64_t>(v, SmallIntTraits<T>::lowest, SmallIntTraits<T>::highest));
    } else {
      return T(static_cast<int64_t>(v));
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(v);
  } else if constexpr (std::is_floating_point_v<Wide>) {
    return T(RoundToOddFloat(v));
  } else {
    return T(static_cast<float>(v));  // integers are converted through f32, as in XLA
  }
}

template <typename Wide>
void ConvertThrough(PrimitiveType from, const std::byte* source, PrimitiveType to, std::byte* target, int64_t count) {
  constexpr int64_t kBlock = 512;
  Wide block[kBlock];
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t n = std::min(kBlock, count - i);
    ReadElements(from, source, i, n, block);
    WriteElements(to, target, i, n, block);
  }
}

}  // namespace

template <typename Wide>
void ReadElements(PrimitiveType type, const std::byte* data, int64_t first, int64_t count, Wide* out) {
  DispatchArrayType(type, [&](auto tag) {
    using T = typename decltype(tag)::Native;
    const T* in = reinterpret_cast<const T*>(data) + first;
    for (int64_t i = 0; i < count; ++i) out[i] = Widen<Wide>(in[i]);
  });
}

template <typename Wide>
void WriteElements(PrimitiveType type, std::byte* data, int64_t first, int64_t count, const Wide* in) {
  DispatchArrayType(type, [&](auto tag) {
    using T = typename decltype(tag)::Native;
    T* out = reinterpret_cast<T*>(data) + first;
    for (int64_t i = 0; i < count; ++i) out[i] = Narrow<T>(in[i]);
  });
}

#define BACKPLANE_WIDE(W)                                                               \
  template void ReadElements<W>(PrimitiveType, const std::byte*, int64_t, int64_t, W*); \
  template void WriteElements<W>(PrimitiveType, std::byte*, int64_t, int64_t, const W*);
BACKPLANE_WIDE(int64_t)
BACKPLANE_WIDE(uint64_t)
BACKPLANE_WIDE(double)
BACKPLANE_WIDE(std::complex<double>)
#undef BACKPLANE_WIDE

void ConvertElements(PrimitiveType from, const std::byte* source, PrimitiveType to, std::byte* target, int64_t count) {
  if (IsComplex(from))
    ConvertThrough<std::complex<double>>(from, source, to, target, count);
  else if (IsFloat(from))
    ConvertThrough<double>(from, source, to, target, count);
  else if (IsSigned(from))
    ConvertThrough<int64_t>(from, source, to, target, count);
  else
    ConvertThrough<uint64_t>(from, source, to, target, count);
}

}  // namespace backplane
