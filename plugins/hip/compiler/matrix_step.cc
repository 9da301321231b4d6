#include "plugins/hip/compiler/matrix_step.h"

#include "absl/strings/match.h"
#include "plugins/hip/lowering/gpu_ir.h"

namespace backplane::hip {
namespace {

constexpr PrimitiveType kF16 = PrimitiveType::kF16, kBf16 = PrimitiveType::kBF16, kF32 = PrimitiveType::kF32,
                        kF64 = PrimitiveType::kF64, kS8 = PrimitiveType::kS8, kS32 = PrimitiveType::kS32;
using enum MatrixFamily;

// gfx90a and gfx942.
constexpr MatrixStep kMfmaSteps[] = {
    {"llvm.amdgcn.mfma.f32.16x16x16f16", kF16, kF32, kMfma, 16},
    {"llvm.amdgcn.mfma.f32.16x16x16bf16.1k", kBf16, kF32, kMfma, 16},
    {"llvm.amdgcn.mfma.f32.16x16x4f32", kF32, kF32, kMfma, 4},
    {"llvm.amdgcn.mfma.f64.16x16x4f64", kF64, kF64, kMfma, 4},
};
constexpr MatrixStep kMfmaStepsOfGfx942[] = {{"llvm.amdgcn.mfma.i32.16x16x32.i8", kS8, kS32, kMfma, 32}};
constexpr MatrixStep kWmmaSteps[] = {
    {"llvm.amdgcn.wmma.f32.16x16x16.f16", kF16, kF32, kWmma, 16},
    {"llvm.amdgcn.wmma.f32.16x16x16.bf16", kBf16, kF32, kWmma, 16},
    {"llvm.amdgcn.wmma.i32.16x16x16.iu8", kS8, kS32, kWmma, 16},
};
constexpr MatrixStep kMmaSteps[] = {
    {kMultiplyF16, kF16, kF32, kMma, 16},       {kMultiplyBf16, kBf16, kF32, kMma, 16},
    {kMultiplyTf32, kF32, kF32, kMma, 8, true}, {kMultiplyF64, kF64, kF64, kMma, 8},
    {kMultiplyS8, kS8, kS32, kMma, 32},
};

constexpr MatrixStep kGroupSteps[] = {{"f16", kF16, kF32, kGroup, 16},
                                      {"bf16", kBf16, kF32, kGroup, 16},
                                      {"tf32", kF32, kF32, kGroup, 8, true},
                                      {"s8", kS8, kS32, kGroup, 32}};

template <size_t kCount>
const MatrixStep* Find(const MatrixStep (&steps)[kCount], PrimitiveType operand, PrimitiveType sum) {
  for (const MatrixStep& s : steps) {
    if (s.operand == operand && s.sum == sum) return &s;
  }
  return nullptr;
}

}  // namespace

const MatrixStep* FindMatrixStep(const GpuTarget& target, PrimitiveType operand, PrimitiveType sum, bool permits_tf32) {
  if (target.multiplies_matrices) {
    const MatrixStep* s = Find(kMmaSteps, operand, sum);
    return s != nullptr && s->rounds_operands && !permits_tf32 ? nullptr : s;
  }
  if (target.kind != ImageKind::kAmdCodeObject) return nullptr;
  if (absl::StartsWith(target.name, "gfx11")) return Find(kWmmaSteps, operand, sum);
  if (target.name == "gfx942") {
    if (const MatrixStep* s = Find(kMfmaStepsOfGfx942, operand, sum)) return s;
  }
  return target.name == "gfx942" || target.name == "gfx90a" ? Find(kMfmaSteps, operand, sum) : nullptr;
}

const MatrixStep* FindGroupStep(const GpuTarget& target, const MatrixStep& step) {
  if (!target.multiplies_in_groups || step.family != kMma) return nullptr;
  return Find(kGroupSteps, step.operand, step.sum);
}

}  // namespace backplane::hip
