#include "plugins/hip/compiler/matrix_step.h"

#include "absl/strings/match.h"

namespace backplane::hip {
namespace {

constexpr PrimitiveType kF16 = PrimitiveType::kF16, kBf16 = PrimitiveType::kBF16, kF32 = PrimitiveType::kF32,
                        kF64 = PrimitiveType::kF64, kS8 = PrimitiveType::kS8, kS32 = PrimitiveType::kS32;

// gfx90a and gfx942.
constexpr MatrixStep kMfma[] = {
    {"llvm.amdgcn.mfma.f32.16x16x16f16", kF16, kF32, false, 16},
    {"llvm.amdgcn.mfma.f32.16x16x16bf16.1k", kBf16, kF32, false, 16},
    {"llvm.amdgcn.mfma.f32.16x16x4f32", kF32, kF32, false, 4},
    {"llvm.amdgcn.mfma.f64.16x16x4f64", kF64, kF64, false, 4},
};
constexpr MatrixStep kMfmaOfGfx942[] = {{"llvm.amdgcn.mfma.i32.16x16x32.i8", kS8, kS32, false, 32}};
constexpr MatrixStep kWmma[] = {
    {"llvm.amdgcn.wmma.f32.16x16x16.f16", kF16, kF32, true, 16},
    {"llvm.amdgcn.wmma.f32.16x16x16.bf16", kBf16, kF32, true, 16},
    {"llvm.amdgcn.wmma.i32.16x16x16.iu8", kS8, kS32, true, 16},
};

template <size_t kCount>
const MatrixStep* Find(const MatrixStep (&steps)[kCount], PrimitiveType operand, PrimitiveType sum) {
  for (const MatrixStep& s : steps) {
    if (s.operand == operand && s.sum == sum) return &s;
  }
  return nullptr;
}

}  // namespace

const MatrixStep* FindMatrixStep(const GpuTarget& target, PrimitiveType operand, PrimitiveType sum) {
  if (target.kind != ImageKind::kAmdCodeObject) return nullptr;
  if (absl::StartsWith(target.name, "gfx11")) return Find(kWmma, operand, sum);
  if (target.name == "gfx942") {
    if (const MatrixStep* s = Find(kMfmaOfGfx942, operand, sum)) return s;
  }
  return target.name == "gfx942" || target.name == "gfx90a" ? Find(kMfma, operand, sum) : nullptr;
}

}  // namespace backplane::hip
