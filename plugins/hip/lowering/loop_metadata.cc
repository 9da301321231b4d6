#include "plugins/hip/lowering/loop_metadata.h"

namespace backplane::hip {

void SetLoopProperty(llvm::Instruction& latch, llvm::MDNode* property) {
  // The first operand is the node itself: it makes the loop's metadata differ from that of other loops.
  llvm::MDNode* loop = llvm::MDNode::getDistinct(latch.getContext(), {nullptr, property});
  loop->replaceOperandWith(0, loop);
  latch.setMetadata(llvm::LLVMContext::MD_loop, loop);
}

void UnrollLoop(llvm::Instruction& latch, int64_t copies) {
  llvm::LLVMContext& context = latch.getContext();
  llvm::Metadata* count = llvm::ConstantAsMetadata::get(
      llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(copies)));
  SetLoopProperty(latch, llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.unroll.count"), count}));
}

void KeepLoopRolled(llvm::Instruction& latch) {
  llvm::LLVMContext& context = latch.getContext();
  SetLoopProperty(latch, llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable")));
}

}  // namespace backplane::hip
