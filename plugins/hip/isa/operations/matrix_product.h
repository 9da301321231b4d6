// The arithmetic of matrix instructions: D = A * B + C, element types and sizes apart from the layout in registers.
//
// Hardware does not state the order and the intermediate precision of its sums. Here an element is a chain over k from
// C on; products of 16 bits and fewer are exact in float, those of f32 are fused with the addition.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_MATRIX_PRODUCT_H_
#define BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_MATRIX_PRODUCT_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "plugins/hip/isa/machine/number_formats.h"

namespace backplane::hip::isa {

enum class MatrixType : uint8_t { kF32, kXf32, kF16, kBf16, kF64, kI8, kU8, kI4, kU4, kFp8, kBf8 };

constexpr int GetBitWidth(MatrixType t) {
  switch (t) {
    case MatrixType::kF64:
      return 64;
    case MatrixType::kF32:
    case MatrixType::kXf32:
      return 32;
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return 16;
    case MatrixType::kI4:
    case MatrixType::kU4:
      return 4;
    default:
      return 8;
  }
}

// Of an element in the lower bits of `bits`.
inline float FloatElement(MatrixType t, uint32_t bits) {
  switch (t) {
    case MatrixType::kF32:
      return std::bit_cast<float>(bits);
    case MatrixType::kXf32:  // 10 bits of mantissa, to nearest even
      if (std::isnan(std::bit_cast<float>(bits))) return std::bit_cast<float>(bits);
      return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
    case MatrixType::kF16:
      return ConvertHalfToFloat(static_cast<uint16_t>(bits));
    case MatrixType::kBf16:
      return ConvertBf16ToFloat(static_cast<uint16_t>(bits));
    case MatrixType::kFp8:
      return ConvertFloat8ToFloat(static_cast<uint8_t>(bits), kFp8);
    case MatrixType::kBf8:
      return ConvertFloat8ToFloat(static_cast<uint8_t>(bits), kBf8);
    default:
      return 0;
  }
}
inline int32_t IntegerElement(MatrixType t, uint32_t bits) {
  switch (t) {
    case MatrixType::kI8:
      return static_cast<int8_t>(bits);
    case MatrixType::kU8:
      return static_cast<uint8_t>(bits);
    case MatrixType::kI4:
      return static_cast<int32_t>(bits << 28) >> 28;
    default:
      return static_cast<int32_t>(bits & 15);
  }
}

// d[i][j] += sum of a[i][k] * b[k][j], rows contiguous.
template <bool kFused, class T>
inline void MultiplyAdd(int m, int n, int depth, const T* a, const T* b, T* d) {
  for (int i = 0; i < m; ++i) {
    for (int k = 0; k < depth; ++k) {
      const T x = a[i * depth + k];
      for (int j = 0; j < n; ++j) {
        if constexpr (kFused) {
          d[i * n + j] = std::fma(x, b[k * n + j], d[i * n + j]);
        } else if constexpr (std::is_same_v<T, int32_t>) {
          d[i * n + j] =
              static_cast<int32_t>(static_cast<uint32_t>(d[i * n + j]) + static_cast<uint32_t>(x * b[k * n + j]));
        } else {
          d[i * n + j] += x * b[k * n + j];
        }
      }
    }
  }
}

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_MATRIX_PRODUCT_H_
