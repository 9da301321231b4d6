// Computations of scalars that a body calls: reducers, the bodies of scatters, comparators, maps, and loops and
// branches over single elements.
//
// The values are those of one element or of a vector of elements. A loop runs until no lane wants another iteration; a
// lane that has finished keeps its values. Of a branch all sides are computed and each lane selects its own. Nothing
// here can trap, so what a lane computes in vain does no harm.
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

  // All results of a computation whose parameters are scalars. `active`: the lanes that count, null for all (see
  // ActiveIn); of others the results are arbitrary. `rounded` false: results of narrow floats stay in f32 precision.
  Vals Call(const Computation& computation, absl::Span<const Val> arguments, bool rounded = true,
            llvm::Value* active = nullptr);
  // The same with tuples as parameters: the leaves of each.
  Vals CallWithTuples(const Computation& computation, absl::Span<const Vals> parameters, bool rounded,
                      llvm::Value* active);
  // One instruction: `initial` is the loop's state; operands[0] is the selector, the others are the branches'
  // arguments.
  Vals While(const Instruction& loop, const Vals& initial, bool rounded, llvm::Value* active);
  Vals Conditional(const Instruction& conditional, absl::Span<const Vals> operands, bool rounded, llvm::Value* active);

  // The lanes whose guards hold, for a computation in which that matters: a loop may have no end for the arbitrary
  // values of the others. Null for computations without loops.
  llvm::Value* ActiveIn(const Computation& computation, const Guards& guards);
  static bool HoldsLoop(const Computation& computation);
  // Logical and of i1s and vectors of i1; null is true.
  llvm::Value* Both(llvm::Value* a, llvm::Value* b);

 private:
  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  LoopScopes& scopes_;
  IndexEvaluator& indices_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_CALLED_COMPUTATION_H_
