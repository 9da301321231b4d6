#include "plugins/hip/lowering/amd_kernels.h"

#include "absl/strings/str_cat.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

// Source: "User Guide for AMDGPU Backend" of LLVM: hidden kernel arguments, the dispatch packet, DPP controls.
constexpr int kHiddenBlockCountX = 0;     // u32, after the kernel's own arguments; code object version 5 and later
constexpr int kPacketGridSizeX = 12;      // u32, in work items
constexpr unsigned kQuadPermute = 0;      // plus two bits for each of four lanes
constexpr unsigned kRowXmask = 0x160;     // plus the mask; gfx10 and later
constexpr unsigned kSwizzleLanes = 0x1f;  // the "and" field of ds_swizzle's bit mask mode; "xor" starts at bit 10

class AmdCallLowering {
 public:
  AmdCallLowering(llvm::Module& module, const Kernel& kernel, const GpuTarget& target)
      : module_(module), kernel_(kernel), target_(target), b_(module.getContext()) {}

  void Run() {
    for (llvm::CallInst* call : kernel_.calls) {
      b_.SetInsertPoint(call);
      const llvm::StringRef name = call->getCalledFunction()->getName();
      llvm::Value* value = nullptr;
      if (name == kThread) value = ThreadNumber();
      if (name == kBlock) value = b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_workgroup_id_x, {}, {});
      if (name == kBlocks) value = BlockCount();
      if (name == kBarrier) EmitBarrier();
      if (name == kShuffleXor) value = ShuffleXor(call->getArgOperand(0), call->getArgOperand(1));
      if (name == kShuffleIndex) value = ShuffleIndex(call->getArgOperand(0), call->getArgOperand(1));
      if (value != nullptr) call->replaceAllUsesWith(value);
      call->eraseFromParent();
    }
  }

 private:
  llvm::Value* ThreadNumber() {
    if (kernel_.threads == 1) return b_.getInt32(0);
    llvm::CallInst* id = b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_workitem_id_x, {}, {});
    id->setMetadata(llvm::LLVMContext::MD_range,
                    llvm::MDBuilder(module_.getContext())
                        .createRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(kernel_.threads))));
    return id;
  }

  llvm::Value* LoadConstant(llvm::Value* base, int offset) {
    llvm::Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, static_cast<uint64_t>(offset));
    llvm::LoadInst* load = b_.CreateAlignedLoad(b_.getInt32Ty(), address, llvm::Align(4));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module_.getContext(), {}));
    load->setMetadata(llvm::LLVMContext::MD_noundef, llvm::MDNode::get(module_.getContext(), {}));
    return load;
  }
  llvm::Value* BlockCount() {
    if (target_.code_object_version >= 5) {
      return LoadConstant(b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_implicitarg_ptr, {}, {}), kHiddenBlockCountX);
    }
    llvm::Value* items =
        LoadConstant(b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_dispatch_ptr, {}, {}), kPacketGridSizeX);
    return b_.CreateUDiv(items, b_.getInt32(static_cast<uint32_t>(kernel_.threads)));
  }

  void EmitBarrier() {
    const llvm::SyncScope::ID block = module_.getContext().getOrInsertSyncScopeID("workgroup");
    b_.CreateFence(llvm::AtomicOrdering::Release, block);
    b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_s_barrier, {}, {});
    b_.CreateFence(llvm::AtomicOrdering::Acquire, block);
  }

  llvm::Value* Dpp(llvm::Value* v, unsigned control) {
    return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_update_dpp, {b_.getInt32Ty()},
                              {llvm::PoisonValue::get(b_.getInt32Ty()), v, b_.getInt32(control), b_.getInt32(0xf),
                               b_.getInt32(0xf), b_.getTrue()});
  }
  llvm::Value* ShuffleXor(llvm::Value* v, llvm::Value* mask) {
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(mask);
    if (constant == nullptr) return ShuffleIndex(v, b_.CreateXor(LaneNumber(), mask));
    const unsigned bits = static_cast<unsigned>(constant->getZExtValue() & 31);
    const bool is_rdna = target_.wave_size == 32;
    if (bits == 0) return v;
    if (bits < 4) {
      unsigned control = kQuadPermute;
      for (unsigned lane = 0; lane < 4; ++lane) control |= (lane ^ bits) << (2 * lane);
      return Dpp(v, control);
    }
    if (is_rdna && bits < 16) return Dpp(v, kRowXmask + bits);
    if (is_rdna && bits == 16) {  // each lane from its place in the other row
      return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_permlanex16, {b_.getInt32Ty()},
                                {llvm::PoisonValue::get(b_.getInt32Ty()), v, b_.getInt32(0x76543210),
                                 b_.getInt32(0xfedcba98), b_.getFalse(), b_.getFalse()});
    }
    return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_swizzle, {}, {v, b_.getInt32(bits << 10 | kSwizzleLanes)});
  }

  llvm::Value* LaneNumber() {
    llvm::Value* all = b_.getInt32(~0u);
    llvm::Value* low = b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_mbcnt_lo, {}, {all, b_.getInt32(0)});
    if (target_.wave_size == 32) return low;
    return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_mbcnt_hi, {}, {all, low});
  }
  // ds_bpermute takes four times the lane's number in the wave.
  llvm::Value* ShuffleIndex(llvm::Value* v, llvm::Value* lane) {
    lane = b_.CreateAnd(lane, 31);
    if (target_.wave_size == 64) lane = b_.CreateOr(lane, b_.CreateAnd(LaneNumber(), 32));
    return b_.CreateIntrinsic(llvm::Intrinsic::amdgcn_ds_bpermute, {}, {b_.CreateShl(lane, 2), v});
  }

  llvm::Module& module_;
  const Kernel& kernel_;
  const GpuTarget& target_;
  llvm::IRBuilder<> b_;
};

void SetAmdAttributes(const Kernel& kernel, const GpuTarget& target) {
  llvm::Function& f = *kernel.function;
  codegen::SetKernelAttributes(f, target.ir);
  f.addFnAttr("amdgpu-flat-work-group-size", absl::StrCat(kernel.threads, ",", kernel.threads));
  f.addFnAttr("uniform-work-group-size", "true");
  // The runtime need not provide, and the hardware need not load into registers, what a kernel does not ask for.
  for (const char* unused :
       {"amdgpu-no-workitem-id-y", "amdgpu-no-workitem-id-z", "amdgpu-no-workgroup-id-y", "amdgpu-no-workgroup-id-z",
        "amdgpu-no-dispatch-id", "amdgpu-no-queue-ptr", "amdgpu-no-hostcall-ptr", "amdgpu-no-heap-ptr",
        "amdgpu-no-default-queue", "amdgpu-no-completion-action", "amdgpu-no-multigrid-sync-arg",
        "amdgpu-no-lds-kernel-id"}) {
    f.addFnAttr(unused);
  }
  if (!kernel.reads_block) f.addFnAttr("amdgpu-no-workgroup-id-x");
  const bool reads_hidden = kernel.reads_blocks && target.code_object_version >= 5;
  const bool reads_packet = kernel.reads_blocks && target.code_object_version < 5;
  if (!reads_hidden) f.addFnAttr("amdgpu-no-implicitarg-ptr");
  if (!reads_packet) f.addFnAttr("amdgpu-no-dispatch-ptr");
}

// Buffers are ordinary device memory, where atomic additions of floats are single instructions.
void AllowNativeAtomics(llvm::Function& f) {
  f.addFnAttr("amdgpu-unsafe-fp-atomics", "true");
  llvm::MDNode* yes = llvm::MDNode::get(f.getContext(), {});
  for (llvm::Instruction& i : llvm::instructions(f)) {
    if (!llvm::isa<llvm::AtomicRMWInst>(i)) continue;
    for (const char* kind : {"amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory", "amdgpu.ignore.denormal.mode"})
      i.setMetadata(kind, yes);
  }
}

}  // namespace

absl::Status LowerAmdKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target) {
  for (const Kernel& kernel : kernels) {
    SetAmdAttributes(kernel, target);
    AmdCallLowering(module, kernel, target).Run();
  }
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    if (function.hasLocalLinkage()) codegen::SetFunctionAttributes(function, target.ir);
    AllowNativeAtomics(function);
  }
  module.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version",
                       static_cast<uint32_t>(target.code_object_version * 100));
  return absl::OkStatus();
}

}  // namespace backplane::hip
