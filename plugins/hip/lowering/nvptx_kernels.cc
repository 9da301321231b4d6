#include "plugins/hip/lowering/nvptx_kernels.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

// The control operand of shfl.sync (PTX ISA, "shfl.sync"): no segments, and the last lane that may be read.
constexpr uint32_t kLastLane = 31, kAllLanes = ~0u;

llvm::Value* LowerNvptxCall(llvm::IRBuilder<>& b, const llvm::CallInst& call, int threads) {
  const llvm::StringRef name = call.getCalledFunction()->getName();
  auto read = [&](llvm::Intrinsic::ID id) { return b.CreateIntrinsic(id, {}, {}); };
  if (name == kThread) {
    llvm::CallInst* id = read(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    id->setMetadata(llvm::LLVMContext::MD_range,
                    llvm::MDBuilder(b.getContext())
                        .createRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(threads))));
    return id;
  }
  if (name == kBlock) return read(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  if (name == kBlocks) return read(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  if (name == kBarrier) {
    read(llvm::Intrinsic::nvvm_barrier0);
    return nullptr;
  }
  const llvm::Intrinsic::ID shuffle =
      name == kShuffleXor ? llvm::Intrinsic::nvvm_shfl_sync_bfly_i32 : llvm::Intrinsic::nvvm_shfl_sync_idx_i32;
  return b.CreateIntrinsic(
      shuffle, {}, {b.getInt32(kAllLanes), call.getArgOperand(0), call.getArgOperand(1), b.getInt32(kLastLane)});
}

void AnnotateKernel(llvm::Module& module, const Kernel& kernel) {
  llvm::LLVMContext& context = module.getContext();
  auto annotate = [&](const char* what, int value) {
    llvm::Type* number = llvm::Type::getInt32Ty(context);
    module.getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(
            context, {llvm::ValueAsMetadata::get(kernel.function), llvm::MDString::get(context, what),
                      llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(number, static_cast<uint64_t>(value)))}));
  };
  annotate("kernel", 1);
  annotate("maxntidx", kernel.threads);
}

}  // namespace

void LowerNvptxKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target) {
  llvm::IRBuilder<> b(module.getContext());
  for (const Kernel& kernel : kernels) {
    codegen::SetKernelAttributes(*kernel.function, target.ir);
    AnnotateKernel(module, kernel);
    for (llvm::CallInst* call : kernel.calls) {
      b.SetInsertPoint(call);
      if (llvm::Value* value = LowerNvptxCall(b, *call, kernel.threads)) call->replaceAllUsesWith(value);
      call->eraseFromParent();
    }
  }
  for (llvm::Function& function : module) {
    if (!function.isDeclaration() && function.hasLocalLinkage()) codegen::SetFunctionAttributes(function, target.ir);
  }
}

}  // namespace backplane::hip
