// Matrix products of gfx942 (MFMA). The layouts are those of AMD's matrix instruction calculator.
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/machine/rows.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/matrix_product.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

constexpr int kMfmaLanes = 64;

struct MfmaShape {
  int m = 0, k = 0, blocks = 1;  // n is m
  MatrixType a{}, b{};
  constexpr int64_t Encode() const {
    return m | k << 8 | blocks << 16 | int64_t{static_cast<int>(a)} << 24 | int64_t{static_cast<int>(b)} << 32;
  }
  static constexpr MfmaShape Decode(int64_t v) {
    return {static_cast<int>(v & 255), static_cast<int>(v >> 8 & 255), static_cast<int>(v >> 16 & 255),
            static_cast<MatrixType>(v >> 24 & 255), static_cast<MatrixType>(v >> 32 & 255)};
  }
};

struct Slot {
  int lane = 0, element = 0;  // of the lane's registers, counted in elements
};
// Of row i (column, for B) and depth k of a factor.
Slot FactorSlot(const MfmaShape& s, int block, int i, int k) {
  const int in_lane = s.k * s.m * s.blocks / kMfmaLanes;
  return {block * s.m + k / in_lane * s.m * s.blocks + i, k % in_lane};
}
// Of row i and column j of C and D. Four rows (one of f64) are in one lane's consecutive registers.
Slot ResultSlot(const MfmaShape& s, int block, int i, int j, int height) {
  const int bands = kMfmaLanes / s.m;
  const int per_register = (kMfmaLanes * height + s.m * s.m - 1) / (s.m * s.m);
  const int element = block * (s.m * s.m / kMfmaLanes) + i / (height * bands) * height + i % height;
  return {block % per_register * s.m + i / height % bands * per_register * s.m + j, element};
}

template <class T>
T ReadFactor(const Wave& wave, const Operand& o, MatrixType type, Slot slot) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(LaneWord(wave, o, slot.lane, 2 * slot.element) |
                                 static_cast<uint64_t>(LaneWord(wave, o, slot.lane, 2 * slot.element + 1)) << 32);
  } else {
    const int bits = GetBitWidth(type), bit = bits * slot.element;
    const uint32_t word = LaneWord(wave, o, slot.lane, bit / 32) >> (bit % 32);
    if constexpr (std::is_same_v<T, float>) return FloatElement(type, word);
    if constexpr (std::is_same_v<T, int32_t>) return IntegerElement(type, word);
  }
}
template <class T>
T ReadAddend(const Wave& wave, const Operand& o, Slot slot) {
  if constexpr (std::is_same_v<T, double>) {
    if (o.kind == Operand::Kind::kImmediate) return std::bit_cast<double>(o.value);
    return ReadFactor<double>(wave, o, MatrixType::kF64, slot);
  } else {
    return std::bit_cast<T>(o.kind == Operand::Kind::kImmediate ? static_cast<uint32_t>(o.value)
                                                                : LaneWord(wave, o, slot.lane, slot.element));
  }
}
template <class T>
void WriteResult(Wave& wave, const Operand& o, Slot slot, T v) {
  if constexpr (std::is_same_v<T, double>) {
    const uint64_t bits = std::bit_cast<uint64_t>(v);
    wave.vectors[o.index + 2 * slot.element][slot.lane] = static_cast<uint32_t>(bits);
    wave.vectors[o.index + 2 * slot.element + 1][slot.lane] = static_cast<uint32_t>(bits >> 32);
  } else {
    wave.vectors[o.index + slot.element][slot.lane] = std::bit_cast<uint32_t>(v);
  }
}

// EXEC has no effect on these instructions.
template <class T, bool kFused>
void ExecuteMfma(Wave& wave, const Instruction& i) {
  const Modifiers& m = i.modifiers;
  const MfmaShape s = MfmaShape::Decode(i.operation->parameter);
  if (m.cbsz != 0 || m.abid != 0 || (m.blgp != 0 && !std::is_same_v<T, double>)) {
    return wave.Fail(absl::UnimplementedError("a matrix product that broadcasts blocks (cbsz, abid, blgp)"));
  }
  const T sign[3] = {(m.blgp & 1) != 0 ? T(-1) : T(1), (m.blgp & 2) != 0 ? T(-1) : T(1),
                     (m.blgp & 4) != 0 ? T(-1) : T(1)};
  constexpr int kHeight = std::is_same_v<T, double> ? 1 : 4;
  T a[32 * 32], b[32 * 32], d[2][32 * 32];
  T blocks[16][16];  // the results of the 4x4 shapes, which have more blocks
  auto result = [&](int block) { return s.m == 4 ? blocks[block] : s.m == 16 ? &d[0][0] + 256 * block : d[block]; };
  for (int block = 0; block < s.blocks; ++block) {
    T* r = result(block);
    for (int row = 0; row < s.m; ++row) {
      for (int k = 0; k < s.k; ++k) {
        const Slot slot = FactorSlot(s, block, row, k);
        a[row * s.k + k] = sign[0] * ReadFactor<T>(wave, i.Source(0), s.a, slot);
        b[k * s.m + row] = sign[1] * ReadFactor<T>(wave, i.Source(1), s.b, slot);
      }
      for (int j = 0; j < s.m; ++j) {
        r[row * s.m + j] = sign[2] * ReadAddend<T>(wave, i.Source(2), ResultSlot(s, block, row, j, kHeight));
      }
    }
    MultiplyAdd<kFused>(s.m, s.m, s.k, a, b, r);
  }
  for (int block = 0; block < s.blocks; ++block) {
    const T* r = result(block);
    for (int row = 0; row < s.m; ++row) {
      for (int j = 0; j < s.m; ++j)
        WriteResult(wave, i.Result(), ResultSlot(s, block, row, j, kHeight), r[row * s.m + j]);
    }
  }
}

template <class T, bool kFused = false>
constexpr Operation Mfma(absl::string_view mnemonic, Type type, int m, int k, int blocks, MatrixType a, MatrixType b) {
  Operation o = Custom(mnemonic, Category::kMatrix, ExecuteMfma<T, kFused>, 1, type, Type::k32, Type::k32, type);
  o.parameter = MfmaShape{m, k, blocks, a, b}.Encode();
  return o;
}

#define BACKPLANE_MFMA_FLOAT(SHAPE, NAME, M, K, BLOCKS, TYPE) \
  Mfma<float>("v_mfma_f32_" SHAPE "_" NAME, Type::kF32, M, K, BLOCKS, MatrixType::TYPE, MatrixType::TYPE)
#define BACKPLANE_MFMA_F32(SHAPE, M, K, BLOCKS) \
  Mfma<float, true>("v_mfma_f32_" SHAPE "_f32", Type::kF32, M, K, BLOCKS, MatrixType::kF32, MatrixType::kF32)
#define BACKPLANE_MFMA_I8(SHAPE, M, K, BLOCKS) \
  Mfma<int32_t>("v_mfma_i32_" SHAPE "_i8", Type::k32, M, K, BLOCKS, MatrixType::kI8, MatrixType::kI8)
#define BACKPLANE_MFMA_8(SHAPE, A, TYPE_A, B, TYPE_B, M, K) \
  Mfma<float>("v_mfma_f32_" SHAPE "_" A "_" B, Type::kF32, M, K, 1, MatrixType::TYPE_A, MatrixType::TYPE_B)

constexpr Operation kMatrixMfma[] = {
    BACKPLANE_MFMA_F32("32x32x1_2b", 32, 1, 2),
    BACKPLANE_MFMA_F32("16x16x1_4b", 16, 1, 4),
    BACKPLANE_MFMA_F32("4x4x1_16b", 4, 1, 16),
    BACKPLANE_MFMA_F32("32x32x2", 32, 2, 1),
    BACKPLANE_MFMA_F32("16x16x4", 16, 4, 1),
    BACKPLANE_MFMA_FLOAT("32x32x4", "xf32", 32, 4, 1, kXf32),
    BACKPLANE_MFMA_FLOAT("16x16x8", "xf32", 16, 8, 1, kXf32),
    BACKPLANE_MFMA_FLOAT("32x32x4_2b", "f16", 32, 4, 2, kF16),
    BACKPLANE_MFMA_FLOAT("16x16x4_4b", "f16", 16, 4, 4, kF16),
    BACKPLANE_MFMA_FLOAT("4x4x4_16b", "f16", 4, 4, 16, kF16),
    BACKPLANE_MFMA_FLOAT("32x32x8", "f16", 32, 8, 1, kF16),
    BACKPLANE_MFMA_FLOAT("16x16x16", "f16", 16, 16, 1, kF16),
    BACKPLANE_MFMA_FLOAT("32x32x4_2b", "bf16", 32, 4, 2, kBf16),
    BACKPLANE_MFMA_FLOAT("16x16x4_4b", "bf16", 16, 4, 4, kBf16),
    BACKPLANE_MFMA_FLOAT("4x4x4_16b", "bf16", 4, 4, 16, kBf16),
    BACKPLANE_MFMA_FLOAT("32x32x8", "bf16", 32, 8, 1, kBf16),
    BACKPLANE_MFMA_FLOAT("16x16x16", "bf16", 16, 16, 1, kBf16),
    BACKPLANE_MFMA_I8("32x32x4_2b", 32, 4, 2),
    BACKPLANE_MFMA_I8("16x16x4_4b", 16, 4, 4),
    BACKPLANE_MFMA_I8("4x4x4_16b", 4, 4, 16),
    BACKPLANE_MFMA_I8("32x32x16", 32, 16, 1),
    BACKPLANE_MFMA_I8("16x16x32", 16, 32, 1),
    BACKPLANE_MFMA_8("16x16x32", "fp8", kFp8, "fp8", kFp8, 16, 32),
    BACKPLANE_MFMA_8("16x16x32", "fp8", kFp8, "bf8", kBf8, 16, 32),
    BACKPLANE_MFMA_8("16x16x32", "bf8", kBf8, "fp8", kFp8, 16, 32),
    BACKPLANE_MFMA_8("16x16x32", "bf8", kBf8, "bf8", kBf8, 16, 32),
    BACKPLANE_MFMA_8("32x32x16", "fp8", kFp8, "fp8", kFp8, 32, 16),
    BACKPLANE_MFMA_8("32x32x16", "fp8", kFp8, "bf8", kBf8, 32, 16),
    BACKPLANE_MFMA_8("32x32x16", "bf8", kBf8, "fp8", kFp8, 32, 16),
    BACKPLANE_MFMA_8("32x32x16", "bf8", kBf8, "bf8", kBf8, 32, 16),
    Mfma<double, true>("v_mfma_f64_16x16x4_f64", Type::kF64, 16, 4, 1, MatrixType::kF64, MatrixType::kF64),
    Mfma<double, true>("v_mfma_f64_4x4x4_4b_f64", Type::kF64, 4, 4, 4, MatrixType::kF64, MatrixType::kF64),
};

#undef BACKPLANE_MFMA_FLOAT
#undef BACKPLANE_MFMA_F32
#undef BACKPLANE_MFMA_I8
#undef BACKPLANE_MFMA_8

}  // namespace

absl::Span<const Operation> MatrixMfma() { return kMatrixMfma; }

}  // namespace backplane::hip::isa
