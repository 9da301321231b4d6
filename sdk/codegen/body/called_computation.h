// Emits the scalar computations that a body calls: reducers, the computations of scatters, comparators, maps, and loops
// and branches over single elements.
//
// The values are scalars or vectors with one element per lane. A loop runs until no lane needs another iteration; a
// lane that has finished keeps its values. All branches of a conditional are computed, and each lane selects its own.
// No operation can trap, so computing unused lanes is harmless.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_CALLED_COMPUTATION_H_
#define BACKPLANE_SDK_CODEGEN_BODY_CALLED_COMPUTATION_H_

#include "absl/types/span.h"
#include "core/ir/computation.h"
#include "sdk/codegen/body/index_evaluator.h"

namespace backplane::codegen {

class ComputationCaller {
 public:
  // All three must outlive the caller.
  ComputationCaller(ElementEmitter& elements, LoopScopes& scopes, IndexEvaluator& indices)
      : e_(elements), b_(elements.b()), scopes_(scopes), indices_(indices) {}

  // Emits a computation whose parameters are scalars and returns all its results. `active` masks the lanes whose
  // results matter (ComputeActiveMask); null: all lanes. The results of other lanes are unspecified. If `rounded` is
  // false, results of narrow floats keep f32 precision.
  Vals Call(const Computation& computation, absl::Span<const Val> arguments, bool rounded = true,
            llvm::Value* active = nullptr);
  // Like Call, but parameters may be tuples, which are given as their leaves.
  Vals CallWithTuples(const Computation& computation, absl::Span<const Vals> parameters, bool rounded,
                      llvm::Value* active);
  // Emit one loop or conditional. `initial` is the initial state of the loop. operands[0] is the selector, the others
  // are the arguments of the branches.
  Vals While(const Instruction& loop, const Vals& initial, bool rounded, llvm::Value* active);
  Vals Conditional(const Instruction& conditional, absl::Span<const Vals> operands, bool rounded, llvm::Value* active);

  // Returns a mask of the lanes whose guards hold, or null if the computation contains no loop. A loop might not
  // terminate for the unspecified values of the other lanes.
  llvm::Value* ComputeActiveMask(const Computation& computation, const Guards& guards);
  static bool ContainsLoop(const Computation& computation);
  // Returns the logical and of two masks; null means true.
  llvm::Value* AndMasks(llvm::Value* a, llvm::Value* b);

 private:
  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  LoopScopes& scopes_;
  IndexEvaluator& indices_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_CALLED_COMPUTATION_H_
