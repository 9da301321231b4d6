#include "plugins/hip/lowering/host/host_kernels.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "llvm/IR/InstIterator.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/host/group_multiply.h"
#include "plugins/hip/lowering/host/host_table.h"
#include "plugins/hip/lowering/host/one_address_space.h"
#include "plugins/hip/lowering/host/run_function.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 30;

// A processor has no synchronization scopes between one thread and all threads.
void WidenSyncScopes(llvm::Module& module) {
  constexpr llvm::SyncScope::ID kAll = llvm::SyncScope::System;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& i : llvm::instructions(function)) {
      if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i); load != nullptr && load->isAtomic()) {
        load->setSyncScopeID(kAll);
      } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i); store != nullptr && store->isAtomic()) {
        store->setSyncScopeID(kAll);
      } else if (auto* update = llvm::dyn_cast<llvm::AtomicRMWInst>(&i)) {
        update->setSyncScopeID(kAll);
      } else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&i)) {
        exchange->setSyncScopeID(kAll);
      } else if (auto* fence = llvm::dyn_cast<llvm::FenceInst>(&i)) {
        fence->setSyncScopeID(kAll);
      }
    }
  }
}

// The numbers of thread and block are parameters of a body. Copies are made, and products of groups computed, where
// they begin.
void LowerNumbersAndCopies(const HostBody& body) {
  for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(*body.function))) {
    const llvm::Function* callee = FindCalledGpuFunction(i);
    if (callee == nullptr) continue;
    auto* call = llvm::cast<llvm::CallInst>(&i);
    if (callee->getName() == kCopyAsync) {
      llvm::IRBuilder<> b(call);
      llvm::Value *to = call->getArgOperand(0), *from = call->getArgOperand(1);
      llvm::Value* copies = b.CreateICmpEQ(call->getArgOperand(2), b.getInt32(16));
      auto* type = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
      // A GPU may read the source although it copies zeros, so this does, too, and misuse shows. Volatile, or the load
      // would be made conditional.
      llvm::Value* bytes = b.CreateAlignedLoad(type, from, llvm::Align(16), /*isVolatile=*/true);
      b.CreateAlignedStore(b.CreateSelect(copies, bytes, llvm::Constant::getNullValue(type)), to, llvm::Align(16));
      call->eraseFromParent();
      continue;
    }
    if (callee->getName() == kCopyCommit || callee->getName() == kCopyWait || callee->getName() == kGroupPublish) {
      call->eraseFromParent();
      continue;
    }
    if (ParseGroupProduct(callee->getName())) {
      LowerGroupProduct(*call, GetParameter(body, kThreadParameter));
      continue;
    }
    llvm::Value* value = nullptr;
    if (callee->getName() == kThread) value = GetParameter(body, kThreadParameter);
    if (callee->getName() == kBlock) value = GetParameter(body, kBlockParameter);
    if (callee->getName() == kBlocks) value = GetParameter(body, kBlocksParameter);
    if (value == nullptr) continue;
    call->replaceAllUsesWith(value);
    call->eraseFromParent();
  }
}

void SetHostAttributes(llvm::Module& module, const GpuTarget& target) {
  codegen::IrTarget ir = target.ir;
  ir.vector_bytes = llvm::StringRef(ir.features).contains("+avx512f") ? 64 : 32;
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) codegen::SetFunctionAttributes(function, ir);
  }
}

}  // namespace

absl::Status LowerHostKernels(llvm::Module& module, const std::vector<Kernel>& kernels, const GpuTarget& target,
                              PassRunner& passes) {
  WidenSyncScopes(module);
  const std::vector<HostBody> bodies = UseOneAddressSpace(module, kernels);
  std::vector<HostTableEntry> entries;
  std::vector<WaitingThreads> waiting(kernels.size());
  bool any_waits = false;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Kernel& kernel = kernels[i];
    LowerNumbersAndCopies(bodies[i]);
    const bool waits = kernel.has_barrier || kernel.has_shuffle || kernel.has_group;
    RunFunction run(module, bodies[i]);
    if (waits) {
      waiting[i] = RunInRounds(run, kernel, bodies[i]);
    } else {
      RunInLoop(run, kernel, bodies[i]);
    }
    any_waits |= waits;
    HostTableEntry entry;
    entry.name = kernel.function->getName().str();
    entry.run = run.function;
    entry.threads = static_cast<uint32_t>(kernel.threads);
    entry.kernarg_bytes = static_cast<uint32_t>(run.kernarg_bytes);
    entry.shared_bytes = static_cast<uint32_t>(kernel.shared_bytes);
    entries.push_back(std::move(entry));
  }
  for (const Kernel& kernel : kernels) kernel.function->eraseFromParent();
  SetHostAttributes(module, target);
  passes.InlineMarked(module);
  if (any_waits) {
    passes.OptimizeForSplit(module);
    passes.SplitCoroutines(module);
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (waiting[i].coroutine == nullptr) continue;
      const uint64_t bytes = SetFrameSizes(waiting[i]);
      if (bytes > kMaxFrameBytes) {
        return absl::ResourceExhaustedError(absl::StrCat("lowering: ", entries[i].name, ": the states of ",
                                                         entries[i].threads, " waiting threads take ", bytes,
                                                         " bytes, more than ", kMaxFrameBytes));
      }
      entries[i].frame_bytes = static_cast<uint32_t>(bytes);
    }
  }
  EmitHostTable(module, entries);
  passes.OptimizeForHost(module);
  DefineMemoryFunctions(module);
  return absl::OkStatus();
}

}  // namespace backplane::hip
