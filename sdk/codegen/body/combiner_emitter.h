// Accumulators of reductions: where they start, how elements and one another are combined into them.
//
// A reduction is any instruction whose operands are n arrays and n initial values and whose first called computation
// combines n accumulators with n inputs: reduce, reduce-window, and cumulative forms of it.
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

  const Combiner& CombinerOf(const Instruction& reduce);
  // Whether there are identities for all results.
  bool HasIdentities(const Instruction& reduce);
  // That of one result; false when there is none.
  bool Identity(const Instruction& reduce, int64_t result, Val* v);

  // Inputs into accumulators. `rounded` false: results of one operation of narrow floats stay in f32 precision; other
  // reducers are computed as written. `active`: the lanes that count, see ComputationCaller.
  Vals Combine(const Instruction& reduce, absl::Span<const Val> accumulators, absl::Span<const Val> inputs,
               bool rounded = false, llvm::Value* active = nullptr);
  // All lanes of the accumulators in one.
  Vals CombineLanes(const Instruction& reduce, Vals accumulators);
  // Finished accumulators as values of the results' types.
  Vals Rounded(const Instruction& reduce, Vals accumulators);

 private:
  ElementEmitter& e_;
  llvm::IRBuilder<>& b_;
  ComputationCaller& caller_;
  std::map<const Computation*, Combiner> combiners_;
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_COMBINER_EMITTER_H_
