// Matrix products of gfx1100 in waves of 32 lanes (WMMA): 16 by 16 by 16.
//
// A lane holds row (of A) or column (of B) `lane % 16`; lanes 16 to 31 have to repeat lanes 0 to 15. Register r of C
// and D holds row 2r in lanes 0 to 15 and row 2r + 1 in the others; 16-bit results use one half of each register.
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/machine/rows.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/matrix_product.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

constexpr int kSide = 16;

bool FactorsAreRepeated(Wave& wave, const Operand& o, int words) {
  for (int w = 0; w < words; ++w) {
    for (int l = 0; l < kSide; ++l) {
      if (LaneWord(wave, o, l, w) == LaneWord(wave, o, l + kSide, w)) continue;
      wave.Fail(absl::FailedPreconditionError(absl::StrCat("register ", w, " of a matrix factor differs between lanes ",
                                                           l, " and ", l + kSide, ", which have to be equal")),
                l + kSide);
      return false;
    }
  }
  return true;
}

// kResult: 32 bits, or the type of 16-bit results.
template <class T, MatrixType kFactor, MatrixType kResult>
void ExecuteWmma(Wave& wave, const Instruction& i) {
  const Modifiers& m = i.modifiers;
  constexpr int kBits = GetBitWidth(kFactor);
  constexpr int kWords = kSide * kBits / 32;
  constexpr bool kHalfResult = kResult != MatrixType::kF32;
  if (wave.exec() != wave.LaneMask()) {
    return wave.Fail(absl::FailedPreconditionError("a matrix product in a wave with inactive lanes"));
  }
  if (!FactorsAreRepeated(wave, i.Source(0), kWords) || !FactorsAreRepeated(wave, i.Source(1), kWords)) return;
  T a[kSide * kSide], b[kSide * kSide], d[kSide * kSide];
  for (int side = 0; side < 2; ++side) {
    for (int l = 0; l < kSide; ++l) {
      for (int k = 0; k < kSide; ++k) {
        const int bit = k * kBits;
        const uint32_t bits = LaneWord(wave, i.Source(side), l, bit / 32) >> (bit % 32);
        T v;
        if constexpr (std::is_same_v<T, float>) {
          v = FloatElement(kFactor, bits);
          if (((k % 2 == 0 ? m.neg_lo : m.neg_hi) >> side & 1) != 0) v = -v;
        } else {
          const bool is_signed = (m.neg_lo >> side & 1) != 0;
          constexpr MatrixType kUnsigned = kFactor == MatrixType::kI8 ? MatrixType::kU8 : MatrixType::kU4;
          v = IntegerElement(is_signed ? kFactor : kUnsigned, bits);
        }
        (side == 0 ? a[l * kSide + k] : b[k * kSide + l]) = v;
      }
    }
  }
  const bool upper = kHalfResult && (m.op_sel & 4) != 0;
  const Operand& c = i.Source(2);
  for (int row = 0; row < kSide; ++row) {
    for (int j = 0; j < kSide; ++j) {
      uint32_t bits = c.kind == Operand::Kind::kImmediate ? static_cast<uint32_t>(c.value)
                                                          : LaneWord(wave, c, (row % 2) * kSide + j, row / 2);
      if (upper && c.kind != Operand::Kind::kImmediate) bits >>= 16;
      T v;
      if constexpr (std::is_same_v<T, float>) {
        v = FloatElement(kResult, bits);
        if ((m.neg_hi & 4) != 0) v = std::fabs(v);
        if ((m.neg_lo & 4) != 0) v = -v;
      } else {
        v = static_cast<int32_t>(bits);
      }
      d[row * kSide + j] = v;
    }
  }
  if (m.clamp) return wave.Fail(absl::UnimplementedError("a matrix product that saturates"));
  MultiplyAdd<false>(kSide, kSide, kSide, a, b, d);
  for (int row = 0; row < kSide; ++row) {
    for (int j = 0; j < kSide; ++j) {
      uint32_t& word = wave.vectors[i.Result().index + row / 2][(row % 2) * kSide + j];
      const T v = d[row * kSide + j];
      if constexpr (!kHalfResult || std::is_same_v<T, int32_t>) {
        word = std::bit_cast<uint32_t>(v);
      } else {
        const uint32_t half = kResult == MatrixType::kF16 ? ConvertFloatToHalf(v) : ConvertFloatToBf16(v);
        word = upper ? (word & 0xffffu) | half << 16 : (word & 0xffff0000u) | half;
      }
    }
  }
}

template <class T, MatrixType kFactor, MatrixType kResult>
constexpr Operation Wmma(absl::string_view mnemonic, Type result) {
  Operation o =
      Custom(mnemonic, Category::kMatrix, ExecuteWmma<T, kFactor, kResult>, 1, result, Type::k32, Type::k32, result);
  o.packed = true;
  o.handles_clamp = true;
  return o;
}

constexpr Operation kMatrixWmma[] = {
    Wmma<float, MatrixType::kF16, MatrixType::kF32>("v_wmma_f32_16x16x16_f16", Type::kF32),
    Wmma<float, MatrixType::kBf16, MatrixType::kF32>("v_wmma_f32_16x16x16_bf16", Type::kF32),
    Wmma<float, MatrixType::kF16, MatrixType::kF16>("v_wmma_f16_16x16x16_f16", Type::kF16),
    Wmma<float, MatrixType::kBf16, MatrixType::kBf16>("v_wmma_bf16_16x16x16_bf16", Type::kBF16),
    Wmma<int32_t, MatrixType::kI8, MatrixType::kF32>("v_wmma_i32_16x16x16_iu8", Type::k32),
    Wmma<int32_t, MatrixType::kI4, MatrixType::kF32>("v_wmma_i32_16x16x16_iu4", Type::k32),
};

}  // namespace

absl::Span<const Operation> MatrixWmma() { return kMatrixWmma; }

}  // namespace backplane::hip::isa
