#include "plugins/hip/lowering/host/host_kernels.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "plugins/hip/lowering/gpu_ir.h"
#include "plugins/hip/lowering/host/host_table.h"
#include "plugins/hip/lowering/host/one_address_space.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {
namespace {

llvm::Argument* ParameterOf(const HostBody& body, BodyParameter parameter) {
  const size_t first = body.function->arg_size() - kBodyParameters;
  return body.function->getArg(static_cast<unsigned>(first + parameter));
}

// A processor has no scopes between one thread and all.
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

// The body of a kernel whose threads never wait: the numbers of thread and block are parameters.
void LowerNumbers(const HostBody& body) {
  for (llvm::Instruction& i : llvm::make_early_inc_range(llvm::instructions(*body.function))) {
    auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
    const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
    if (callee == nullptr) continue;
    llvm::Value* value = nullptr;
    if (callee->getName() == kThread) value = ParameterOf(body, kThreadParameter);
    if (callee->getName() == kBlock) value = ParameterOf(body, kBlockParameter);
    if (callee->getName() == kBlocks) value = ParameterOf(body, kBlocksParameter);
    if (value == nullptr) continue;
    call->replaceAllUsesWith(value);
    call->eraseFromParent();
  }
}

bool MayBeTemporary(const llvm::Value& address) {
  llvm::SmallVector<const llvm::Value*, 4> objects;
  llvm::getUnderlyingObjects(&address, objects);
  for (const llvm::Value* object : objects) {
    if (llvm::isa<llvm::AllocaInst, llvm::PHINode, llvm::SelectInst>(object)) return true;
  }
  return false;
}

// Says that accesses of different threads do not depend on each other, because threads that do not wait for each other
// have no order. A thread's temporary arrays are excepted: on the host all threads have them in one place.
void MarkParallelAccesses(llvm::Function& body, llvm::MDNode* group) {
  for (llvm::Instruction& i : llvm::instructions(body)) {
    if (!i.mayReadOrWriteMemory()) continue;
    const llvm::Value* address = llvm::getLoadStorePointerOperand(&i);
    if (address != nullptr && !MayBeTemporary(*address)) i.setMetadata(llvm::LLVMContext::MD_access_group, group);
  }
}

class RunFunction {
 public:
  RunFunction(llvm::Module& module, const Kernel& kernel, const HostBody& body)
      : module_(module), context_(module.getContext()), b_(context_), kernel_(kernel), body_(body) {}

  llvm::Function* Emit() {
    llvm::Type* number = b_.getInt32Ty();
    llvm::Type* pointer = b_.getPtrTy();
    auto* type = llvm::FunctionType::get(number, {pointer, number, number, pointer, pointer}, false);
    run_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, kernel_.function->getName() + ".run", module_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", run_));
    LoadArguments();
    EmitLoop();
    b_.CreateRet(b_.getInt32(0));
    return run_;
  }
  uint64_t kernarg_bytes() const { return kernarg_bytes_; }

 private:
  void LoadArguments() {
    const llvm::DataLayout& layout = module_.getDataLayout();
    for (size_t i = 0; i + kBodyParameters < body_.function->arg_size(); ++i) {
      llvm::Type* type = body_.function->getArg(static_cast<unsigned>(i))->getType();
      const llvm::Align alignment = layout.getABITypeAlign(type);
      kernarg_bytes_ = llvm::alignTo(kernarg_bytes_, alignment);
      arguments_.push_back(b_.CreateAlignedLoad(
          type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), run_->getArg(0), kernarg_bytes_), alignment));
      kernarg_bytes_ += layout.getTypeAllocSize(type);
    }
  }

  // One call for each thread, which will be inlined.
  void EmitLoop() {
    llvm::MDNode* group = llvm::MDNode::getDistinct(context_, {});
    MarkParallelAccesses(*body_.function, group);
    llvm::BasicBlock* entry = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(context_, "threads", run_);
    auto* done = llvm::BasicBlock::Create(context_, "done", run_);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* thread = b_.CreatePHI(b_.getInt32Ty(), 2);
    thread->addIncoming(b_.getInt32(0), entry);
    std::vector<llvm::Value*> arguments = arguments_;
    llvm::Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
    arguments.insert(arguments.end(), {thread, run_->getArg(1), run_->getArg(2), run_->getArg(3), none});
    b_.CreateCall(body_.function, arguments);
    llvm::Value* next = b_.CreateNUWAdd(thread, b_.getInt32(1));
    thread->addIncoming(next, loop);
    llvm::BranchInst* back =
        b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(static_cast<uint32_t>(kernel_.threads))), loop, done);
    back->setMetadata(llvm::LLVMContext::MD_loop, ParallelLoop(group));
    b_.SetInsertPoint(done);
  }

  llvm::MDNode* ParallelLoop(llvm::MDNode* group) {
    llvm::MDNode* accesses =
        llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), group});
    llvm::MDNode* loop = llvm::MDNode::getDistinct(context_, {nullptr, accesses});
    loop->replaceOperandWith(0, loop);
    return loop;
  }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  const Kernel& kernel_;
  const HostBody& body_;
  llvm::Function* run_ = nullptr;
  std::vector<llvm::Value*> arguments_;
  uint64_t kernarg_bytes_ = 0;
};

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
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].has_barrier || kernels[i].has_shuffle) {
      return absl::UnimplementedError(
          absl::StrCat("lowering: ", kernels[i].function->getName().str(), ": barriers and shuffles on the host"));
    }
    LowerNumbers(bodies[i]);
    bodies[i].function->addFnAttr(llvm::Attribute::AlwaysInline);
    RunFunction run(module, kernels[i], bodies[i]);
    HostTableEntry entry;
    entry.name = kernels[i].function->getName().str();
    entry.run = run.Emit();
    entry.threads = static_cast<uint32_t>(kernels[i].threads);
    entry.kernarg_bytes = static_cast<uint32_t>(run.kernarg_bytes());
    entry.shared_bytes = static_cast<uint32_t>(kernels[i].shared_bytes);
    entries.push_back(std::move(entry));
  }
  for (const Kernel& kernel : kernels) kernel.function->eraseFromParent();
  SetHostAttributes(module, target);
  passes.InlineMarked(module);
  EmitHostTable(module, entries);
  passes.OptimizeForHost(module);
  DefineMemoryFunctions(module);
  return absl::OkStatus();
}

}  // namespace backplane::hip
