#include "plugins/hip/compiler/matrix_machine.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace backplane::hip {

using codegen::TargetFamily;
using llvm::Value;

namespace {

// A SIMD of a compute unit runs two waves of such a kernel, so that one computes while the other waits.
constexpr char kWaves[] = "2";

}  // namespace

void MatrixMachine::SetAttributes(llvm::Function& function) {
  if (family_ != TargetFamily::kAmdGpu) return;
  function.addFnAttr("amdgpu-waves-per-eu", kWaves);
  function.addFnAttr("amdgpu-no-agpr");  // sums in ordinary registers: 256 suffice, and none is moved between files
}

Value* MatrixMachine::MakeUniform(Value* value) {
  if (family_ != TargetFamily::kAmdGpu) return value;
  return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_readfirstlane, {b_.getInt32Ty()}, {value});
}

Value* MatrixMachine::Hide(Value* value, bool stays) {
  if (family_ == TargetFamily::kX86) return value;
  auto* type = llvm::FunctionType::get(value->getType(), {value->getType()}, false);
  const bool is_long = value->getType()->isIntegerTy(64);
  const char* constraints = family_ == TargetFamily::kAmdGpu ? "=v,0" : is_long ? "=l,0" : "=r,0";
  return b_.CreateCall(llvm::InlineAsm::get(type, "", constraints, /*hasSideEffects=*/stays), {value});
}

void MatrixMachine::KeepOrder() {
  // NVIDIA's assembler orders instructions itself.
  if (family_ == TargetFamily::kAmdGpu) b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_sched_barrier, {}, {b_.getInt32(0)});
}

Value* MatrixMachine::PickBytes(Value* high, Value* low, Bytes bytes) {
  // Bytes 0 to 3 of the numbering are those of `low`.
  static constexpr int kPicked[][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}, {0, 4, 1, 5}, {2, 6, 3, 7}};
  const auto& picked = kPicked[static_cast<size_t>(bytes)];
  auto selector = [&](int bits) {
    uint32_t mask = 0;
    for (int i = 0; i < 4; ++i) mask |= static_cast<uint32_t>(picked[i]) << (bits * i);
    return b_.getInt32(mask);
  };
  switch (family_) {
    case TargetFamily::kAmdGpu:
      return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_perm, {}, {high, low, selector(8)});
    case TargetFamily::kNvptx:
      return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {}, {low, high, selector(4)});
    case TargetFamily::kX86:
      break;
  }
  auto* type = llvm::FixedVectorType::get(b_.getInt8Ty(), 4);
  return b_.CreateBitCast(b_.CreateShuffleVector(b_.CreateBitCast(low, type), b_.CreateBitCast(high, type), picked),
                          b_.getInt32Ty());
}

Value* MatrixMachine::PackHalves(PrimitiveType type, Value* low, Value* high) {
  const bool is_f16 = type == PrimitiveType::kF16;
  if (family_ == TargetFamily::kNvptx) {
    const llvm::Intrinsic::ID pack = is_f16 ? llvm::Intrinsic::nvvm_ff2f16x2_rn : llvm::Intrinsic::nvvm_ff2bf16x2_rn;
    return b_.CreateBitCast(b_.CreateIntrinsic(pack, {}, {high, low}), b_.getInt32Ty());
  }
  Value* halves = llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt16Ty(), 2));
  for (uint64_t i = 0; i < 2; ++i) {
    const codegen::Val rounded = f_.elements.Round(type, i == 0 ? low : high);
    halves = b_.CreateInsertElement(halves, f_.elements.ToStorage(type, rounded), i);
  }
  return b_.CreateBitCast(halves, b_.getInt32Ty());
}

Value* MatrixMachine::Exp2(Value* x) {
  if (family_ == TargetFamily::kNvptx) return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {}, {x});
  if (family_ == TargetFamily::kAmdGpu) return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_exp2, {b_.getFloatTy()}, {x});
  return f_.elements.math().Emit(b_, codegen::MathFn::kExp2, x);
}

Value* MatrixMachine::RoundToTf32(Value* word) {
  if (family_ == TargetFamily::kNvptx)
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {}, {b_.CreateBitCast(word, b_.getFloatTy())});
  // Half a unit of the last place that is kept; a NaN must not become a number.
  Value* rounded = b_.CreateAnd(b_.CreateAdd(word, b_.getInt32(1u << 12)), b_.getInt32(~0u << 13));
  Value* magnitude = b_.CreateAnd(word, b_.getInt32(~0u >> 1));
  Value* is_nan = b_.CreateICmpUGT(magnitude, b_.getInt32(0x7f800000));
  return b_.CreateSelect(is_nan, b_.getInt32(0x7fffe000), rounded);
}

}  // namespace backplane::hip
