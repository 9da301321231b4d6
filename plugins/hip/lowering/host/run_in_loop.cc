#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InstIterator.h"
#include "plugins/hip/lowering/host/run_function.h"
#include "plugins/hip/lowering/loop_metadata.h"

namespace backplane::hip {
namespace {

// Whether the address can only be in memory that the kernel was given.
bool IsGiven(const llvm::Value& address) {
  llvm::SmallVector<const llvm::Value*, 4> objects;
  llvm::getUnderlyingObjects(&address, objects, /*LI=*/nullptr, /*MaxLookup=*/0);
  for (const llvm::Value* object : objects) {
    if (!llvm::isa<llvm::Argument, llvm::GlobalVariable>(object)) return false;
  }
  return true;
}

// Marks accesses as independent of those of other threads, because threads that do not wait for each other have no
// order. Accesses to a thread's temporary arrays are not marked: on the host all threads use the same memory for them.
void MarkParallelAccesses(llvm::Function& body, llvm::MDNode* group) {
  for (llvm::Instruction& i : llvm::instructions(body)) {
    const llvm::Value* address = llvm::getLoadStorePointerOperand(&i);
    if (address != nullptr && IsGiven(*address)) i.setMetadata(llvm::LLVMContext::MD_access_group, group);
  }
}

}  // namespace

void RunInLoop(RunFunction& run, const Kernel& kernel, const HostBody& body) {
  llvm::LLVMContext& context = run.function->getContext();
  llvm::MDNode* group = llvm::MDNode::getDistinct(context, {});
  MarkParallelAccesses(*body.function, group);
  body.function->addFnAttr(llvm::Attribute::AlwaysInline);

  llvm::IRBuilder<>& b = run.b;
  llvm::BasicBlock* entry = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(context, "threads", run.function);
  auto* done = llvm::BasicBlock::Create(context, "done", run.function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* thread = b.CreatePHI(b.getInt32Ty(), 2, "thread");
  run.CallBody(body, thread);
  llvm::Value* next = b.CreateNUWAdd(thread, b.getInt32(1));
  thread->addIncoming(b.getInt32(0), entry);
  thread->addIncoming(next, loop);
  llvm::Value* more = b.CreateICmpULT(next, b.getInt32(static_cast<uint32_t>(kernel.threads)));
  SetLoopProperty(*b.CreateCondBr(more, loop, done),
                  llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.parallel_accesses"), group}));
  b.SetInsertPoint(done);
  b.CreateRet(b.getInt32(0));
}

}  // namespace backplane::hip
