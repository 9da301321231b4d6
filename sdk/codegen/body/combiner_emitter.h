// Emits the accumulators of reductions: their initial values, and the combination of accumulators with elements and
// with one another.
//
// A reduction is an instruction with n arrays and n initial values as operands whose first called computation combines
// n accumulators with n inputs: reduce, reduce-window, and cumulative forms of the latter.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_COMBINER_EMITTER_H_
#define BACKPLANE_SDK_CODEGEN_BODY_COMBINER_EMITTER_H_

#include <map>

#include "absl/types/span.h"
#include "sdk/codegen/body/called_computation.h"
#include "sdk/codegen/body/combiner.h"

namespace backplane::codegen {

class CombinerEmitter {
 public:
  // Both must outlive this object.
  CombinerEmitter(ElementEmitter& elements, ComputationCaller& caller)
      : e_(elements), b_(elements.b()), caller_(caller) {}

  const Combiner& GetCombiner(const Instruction& reduce);
  // Whether every result has an identity.
  bool HasIdentities(const Instruction& reduce);
  // Sets *v to the identity of one result. Returns false if there is none.
  bool Identity(const Instruction& reduce, int64_t result, Val* v);

  // Combines inputs into accumulators. If `rounded` is false, results keep f32 precision for narrow floats if the
  // reducer is one operation; other reducers are computed as written. `active`: see ComputationCaller::Call.
  Vals Combine(const Instruction& reduce, absl::Span<const Val> accumulators, absl::Span<const Val> inputs,
               bool rounded = false, llvm::Value* active = nullptr);
  // Combines all lanes of the accumulators to scalars.
  Vals CombineLanes(const Instruction& reduce, Vals accumulators);
  // Rounds finished accumulators to the types of the results.
  Vals Rounded(const Instruction& reduce, Vals accumulators);

 private:
  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  ComputationCaller& caller_;
  std::map<const Computation*, Combiner> combiners_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_COMBINER_EMITTER_H_
