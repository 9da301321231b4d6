// What all kinds of kernels have in common: the function, its arrays, the numbers of thread and block, and loops over
// the work that the threads of a grid share.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_FRAME_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_FRAME_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "plugins/hip/compiler/dot_problem.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "sdk/codegen/body/body_evaluator.h"

namespace backplane::hip {

using codegen::ArrayRef;
using codegen::Val;
using codegen::Vals;

// Has the compiler make `copies` iterations of an innermost loop one. `latch`: the branch to its next iteration.
void UnrollLoop(llvm::Instruction& latch, int64_t copies);

// Serves one function. The emitter and the plan must outlive it.
class KernelFrame {
 public:
  // `arrays`: the number of pointers that the kernel takes. The plan's numbers follow them.
  KernelFrame(codegen::ElementEmitter& elements, const KernelPlan& plan, absl::string_view name, size_t arrays);

  llvm::Value* array(size_t k) const { return function_->getArg(static_cast<unsigned>(k)); }
  // A number of the launch, an i64 that is equal for all threads.
  llvm::Value* number(size_t k) const { return function_->getArg(static_cast<unsigned>(arrays_ + k)); }
  llvm::Value* thread() const { return thread_; }  // i32
  llvm::Value* block() const { return block_; }    // i32

  // All threads of the block wait for one another.
  void EmitBarrier();
  // Memory that the threads of a block share: `count` elements of the type as they are computed.
  llvm::Value* AddShared(PrimitiveType type, int64_t count);

  // An index that a computed number is, until the innermost scope ends. `extent`: the number is below it.
  compiler::Affine AsIndex(llvm::Value* number, int64_t extent);

  // Runs `body` for each multiple of `lanes` below `count`, the threads of the grid taking turns.
  void ForEachInGrid(int64_t count, int lanes, const std::function<void(llvm::Value*)>& body);
  // Runs `body` for each block's share of `count`: its own number, and every plan.blocks-th after it. All threads of a
  // block do the same iterations. Call it once, in no other scope: without a loop the body has no scope of its own.
  void ForEachBlock(int64_t count, const std::function<void(llvm::Value*)>& body);
  // Runs `body` for each number below `count`, the threads of a block taking turns; plan.group threads have each
  // number. `carried`: see LoopScopes::Loop.
  void ForEachInBlock(int64_t count, codegen::LoopScopes::Values& carried,
                      const std::function<void(llvm::Value*, codegen::LoopScopes::Values&)>& body);
  // Ends the function. The frame is no longer used.
  void Finish();

  codegen::ElementEmitter& elements;
  llvm::IRBuilder<>& b;
  const KernelPlan& plan;
  compiler::VarTable vars;
  codegen::LoopScopes scopes;
  codegen::IndexEvaluator indices;
  codegen::MemoryAccess memory;
  codegen::BodyEvaluator body;

 private:
  llvm::Value* CallNumber(const char* function);
  // while (i < count) { body(i); i += step; }
  void Repeat(llvm::Value* begin, int64_t count, int64_t step, codegen::LoopScopes::Values& carried,
              const std::function<void(llvm::Value*, codegen::LoopScopes::Values&)>& body);

  const std::string name_;
  const size_t arrays_;
  int shared_arrays_ = 0;
  llvm::Function* function_ = nullptr;
  llvm::Value *thread_ = nullptr, *block_ = nullptr;
};

// The kinds of kernels; each writes the whole body.
void EmitElements(KernelFrame& frame, const Instruction& fusion);
void EmitRows(KernelFrame& frame, const Instruction& fusion);
void EmitUpdate(KernelFrame& frame, const Instruction& fusion);
void EmitScatter(KernelFrame& frame, const Instruction& scatter);
void EmitScan(KernelFrame& frame, const Instruction& reduce_window);
void EmitCholesky(KernelFrame& frame, const Instruction& cholesky);
void EmitTriangularSolve(KernelFrame& frame, const Instruction& solve);
void EmitSelectAndScatter(KernelFrame& frame, const Instruction& operation);
void EmitSort(KernelFrame& frame, const Instruction& sort);
void EmitConvolution(KernelFrame& frame, const Instruction& convolution);
void EmitMatrixDot(KernelFrame& frame, const DotSite& dot);
void EmitDot(KernelFrame& frame, const DotSite& dot);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_FRAME_H_
