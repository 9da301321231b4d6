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

// LLVM 19 has no instruction for fences and ordered accesses of NVPTX and ends the process where it meets one; atomic
// updates it compiles as relaxed. So orders become memory barriers before and after relaxed accesses.
class MemoryOrders {
 public:
  explicit MemoryOrders(llvm::Function& function) : function_(function), b_(function.getContext()) {}

  void Run() {
    constexpr llvm::AtomicOrdering kRelaxed = llvm::AtomicOrdering::Monotonic;
    for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(function_))) {
      if (!i.isAtomic()) continue;
      if (auto* fence = llvm::dyn_cast<llvm::FenceInst>(&i)) {
        EmitBarrier(i, fence->getSyncScopeID());
        i.eraseFromParent();
      } else if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i)) {
        SetOrder(i, load->getOrdering(), load->getSyncScopeID());
        if (load->getOrdering() != llvm::AtomicOrdering::Unordered) load->setOrdering(kRelaxed);
      } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
        SetOrder(i, store->getOrdering(), store->getSyncScopeID());
        if (store->getOrdering() != llvm::AtomicOrdering::Unordered) store->setOrdering(kRelaxed);
      } else if (auto* update = llvm::dyn_cast<llvm::AtomicRMWInst>(&i)) {
        SetOrder(i, update->getOrdering(), update->getSyncScopeID());
        update->setOrdering(kRelaxed);
      } else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&i)) {
        SetOrder(i, exchange->getMergedOrdering(), exchange->getSyncScopeID());
        exchange->setSuccessOrdering(kRelaxed);
        exchange->setFailureOrdering(kRelaxed);
      }
    }
  }

 private:
  void SetOrder(llvm::Instruction& i, llvm::AtomicOrdering order, llvm::SyncScope::ID scope) {
    const bool is_total = order == llvm::AtomicOrdering::SequentiallyConsistent;
    if (is_total || llvm::isReleaseOrStronger(order)) EmitBarrier(i, scope);
    if (is_total || llvm::isAcquireOrStronger(order)) EmitBarrier(*i.getNextNode(), scope);
  }

  void EmitBarrier(llvm::Instruction& before, llvm::SyncScope::ID scope) {
    if (scope == llvm::SyncScope::SingleThread) return;
    llvm::LLVMContext& context = function_.getContext();
    llvm::Intrinsic::ID barrier = llvm::Intrinsic::nvvm_membar_sys;
    if (scope == context.getOrInsertSyncScopeID(kDeviceScope)) barrier = llvm::Intrinsic::nvvm_membar_gl;
    if (scope == context.getOrInsertSyncScopeID("workgroup")) barrier = llvm::Intrinsic::nvvm_membar_cta;
    b_.SetInsertPoint(&before);
    b_.CreateIntrinsic(barrier, {}, {});
  }

  llvm::Function& function_;
  llvm::IRBuilder<> b_;
};

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
    if (function.isDeclaration()) continue;
    if (function.hasLocalLinkage()) codegen::SetFunctionAttributes(function, target.ir);
    MemoryOrders(function).Run();
  }
}

}  // namespace backplane::hip
