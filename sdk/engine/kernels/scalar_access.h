// Reads and writes single elements of any type, for reference kernels and rare cases where speed does not matter.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_SCALAR_ACCESS_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_SCALAR_ACCESS_H_

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sdk/engine/kernels/element_type.h"

namespace backplane::engine {

inline float Bf16ToFloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float f;
  std::memcpy(&f, &wide, sizeof(f));
  return f;
}

// Round to nearest even; NaN stays NaN.
inline uint16_t FloatToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

namespace internal {
template <typename T>
T ReadRaw(const void* base, int64_t index) {
  T x;
  std::memcpy(&x, static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return x;
}
template <typename T>
void WriteRaw(void* base, int64_t index, T x) {
  std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
}
template <typename T>
struct IsStdComplex : std::false_type {};
template <typename T>
struct IsStdComplex<std::complex<T>> : std::true_type {};
}  // namespace internal

// Reads an element as T: double, uint64_t (integers, sign-extended, modulo 2^64) or std::complex<double>.
template <typename T>
T LoadScalar(const void* base, int64_t index, ElementType type) {
  using internal::ReadRaw;
  switch (type) {
    case ElementType::kPred:
      return static_cast<T>(ReadRaw<uint8_t>(base, index) != 0 ? 1 : 0);
    case ElementType::kS8:
      return static_cast<T>(ReadRaw<int8_t>(base, index));
    case ElementType::kS16:
      return static_cast<T>(ReadRaw<int16_t>(base, index));
    case ElementType::kS32:
      return static_cast<T>(ReadRaw<int32_t>(base, index));
    case ElementType::kS64:
      return static_cast<T>(ReadRaw<int64_t>(base, index));
    case ElementType::kU8:
      return static_cast<T>(ReadRaw<uint8_t>(base, index));
    case ElementType::kU16:
      return static_cast<T>(ReadRaw<uint16_t>(base, index));
    case ElementType::kU32:
      return static_cast<T>(ReadRaw<uint32_t>(base, index));
    case ElementType::kU64:
      return static_cast<T>(ReadRaw<uint64_t>(base, index));
    case ElementType::kF16:
      return static_cast<T>(static_cast<float>(ReadRaw<_Float16>(base, index)));
    case ElementType::kBF16:
      return static_cast<T>(Bf16ToFloat(ReadRaw<uint16_t>(base, index)));
    case ElementType::kF32:
      return static_cast<T>(ReadRaw<float>(base, index));
    case ElementType::kF64:
      return static_cast<T>(ReadRaw<double>(base, index));
    case ElementType::kC64: {
      const std::complex<float> z = ReadRaw<std::complex<float>>(base, index);
      if constexpr (internal::IsStdComplex<T>::value)
        return T(z.real(), z.imag());
      else
        return static_cast<T>(z.real());
    }
    case ElementType::kC128: {
      const std::complex<double> z = ReadRaw<std::complex<double>>(base, index);
      if constexpr (internal::IsStdComplex<T>::value)
        return T(z.real(), z.imag());
      else
        return static_cast<T>(z.real());
    }
  }
  return T{};
}

template <typename T>
void StoreScalar(void* base, int64_t index, ElementType type, T value) {
  using internal::WriteRaw;
  if constexpr (internal::IsStdComplex<T>::value) {
    if (type == ElementType::kC64) return WriteRaw(base, index, std::complex<float>(value));
    if (type == ElementType::kC128) return WriteRaw(base, index, std::complex<double>(value));
    StoreScalar(base, index, type, value.real());
  } else {
    switch (type) {
      case ElementType::kPred:
        return WriteRaw<uint8_t>(base, index, value != T{});
      case ElementType::kS8:
        return WriteRaw(base, index, static_cast<int8_t>(value));
      case ElementType::kS16:
        return WriteRaw(base, index, static_cast<int16_t>(value));
      case ElementType::kS32:
        return WriteRaw(base, index, static_cast<int32_t>(value));
      case ElementType::kS64:
        return WriteRaw(base, index, static_cast<int64_t>(value));
      case ElementType::kU8:
        return WriteRaw(base, index, static_cast<uint8_t>(value));
      case ElementType::kU16:
        return WriteRaw(base, index, static_cast<uint16_t>(value));
      case ElementType::kU32:
        return WriteRaw(base, index, static_cast<uint32_t>(value));
      case ElementType::kU64:
        return WriteRaw(base, index, static_cast<uint64_t>(value));
      case ElementType::kF16:
        return WriteRaw(base, index, static_cast<_Float16>(value));
      case ElementType::kBF16:
        return WriteRaw(base, index, FloatToBf16(static_cast<float>(value)));
      case ElementType::kF32:
        return WriteRaw(base, index, static_cast<float>(value));
      case ElementType::kF64:
        return WriteRaw(base, index, static_cast<double>(value));
      case ElementType::kC64:
        return WriteRaw(base, index, std::complex<float>(static_cast<float>(value), 0));
      case ElementType::kC128:
        return WriteRaw(base, index, std::complex<double>(static_cast<double>(value), 0));
    }
  }
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_SCALAR_ACCESS_H_
