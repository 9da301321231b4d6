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

// Emits one function. The emitter and the plan must outlive the frame.
class KernelFrame {
 public:
  // `arrays` is the number of pointers that the kernel takes. The plan's numbers are parameters after them.
  KernelFrame(codegen::ElementEmitter& elements, const KernelPlan& plan, absl::string_view name, size_t arrays);

  llvm::Value* array(size_t k) const { return function_->getArg(static_cast<unsigned>(k)); }
  // Returns a number of the launch, an i64 that is equal for all threads.
  llvm::Value* number(size_t k) const { return function_->getArg(static_cast<unsigned>(arrays_ + k)); }
  llvm::Value* thread() const { return thread_; }  // i32
  llvm::Value* block() const { return block_; }    // i32

  // Makes all threads of the block wait for one another.
  void EmitBarrier();
  // Adds memory that the threads of a block share. It holds `count` elements of the type in which `type` is computed.
  llvm::Value* AddShared(PrimitiveType type, int64_t count);

  // Returns a computed number as an index, which is valid until the innermost scope ends. The number is below `extent`.
  compiler::Affine AsIndex(llvm::Value* number, int64_t extent);

  // Emits `body` for each multiple of `lanes` below `count`. The threads of the grid take the multiples in turns.
  void ForEachInGrid(int64_t count, int lanes, const std::function<void(llvm::Value*)>& body);
  // Emits `body` for the numbers below `count` that a block takes: its own number and every plan.blocks-th after it.
  // All threads of a block do the same iterations. Call it once and in no other scope, because a body that needs no
  // loop has no scope of its own.
  void ForEachBlock(int64_t count, const std::function<void(llvm::Value*)>& body);
  // Emits `body` for each number below `count`. The threads of a block take the numbers in turns, and `group`
  // neighbouring threads take each number. LoopScopes::Loop explains `carried`.
  void ForEachInBlock(int64_t count, codegen::LoopScopes::Values& carried,
                      const std::function<void(llvm::Value*, codegen::LoopScopes::Values&)>& body, uint32_t group = 1);
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

// Emit the whole body of a kernel, an overload for each kind. `plan` is the kind of the frame's plan.
void EmitBody(KernelFrame& frame, const Instruction& instruction, const ElementsPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const RowsPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const TransposePlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const UpdatePlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const ScatterPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const DotPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const ConvolutionPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const SortPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const TopKPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const ScanPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const SelectAndScatterPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const AttentionPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const FftPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const CholeskyPlan& plan);
void EmitBody(KernelFrame& frame, const Instruction& instruction, const TriangularSolvePlan& plan);
// What the overload for a dot calls, with and without a matrix instruction.
void EmitMatrixDot(KernelFrame& frame, const DotPlan& plan);
void EmitProductDot(KernelFrame& frame, const DotPlan& plan);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_FRAME_H_
