// Customizes the evaluation of a body for one kind of kernel. The defaults suit an independent work item: each value is
// computed where it is needed, and each reduction is a loop over its elements.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_EVALUATION_HOOKS_H_
#define BACKPLANE_SDK_CODEGEN_BODY_EVALUATION_HOOKS_H_

#include <optional>

#include "absl/types/span.h"
#include "sdk/codegen/body/reduce_nest.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::codegen {

class EvaluationHooks {
 public:
  virtual ~EvaluationHooks() = default;

  // Returns the element of an array if the kernel has it already, for example in scratch memory that an earlier pass
  // filled. Called with the builder at the level of the index.
  virtual std::optional<Val> Find(const Instruction& instruction, const Index& index) {
    static_cast<void>(instruction), static_cast<void>(index);
    return std::nullopt;
  }
  // Called with each element that has been computed or loaded, with the builder at the level of its index.
  virtual void OnComputed(const Instruction& instruction, const Index& index, const Val& value) {
    static_cast<void>(instruction), static_cast<void>(index), static_cast<void>(value);
  }

  // Returns how many elements of a reduction are combined in parallel, each lane with its own accumulators; 0: one
  // element after another. May reorder nest.groups; the last group becomes the vectorized one. Called only if the
  // reducers may be reordered. If `outermost_is_cut`, this loop runs over a part of the outermost group, which must
  // stay first. If `by_index`, a reducer selects by an index that must increase with the loops.
  virtual int ReductionLanes(ReduceNest& nest, bool outermost_is_cut, bool by_index) {
    static_cast<void>(nest), static_cast<void>(outermost_is_cut), static_cast<void>(by_index);
    return 0;
  }
  // Called before and after the loops of a reduction over `vars`. `every_element`: each element is evaluated at least
  // once, in vectors.
  virtual void BeginPass(absl::Span<const VarId> vars, bool every_element) {
    static_cast<void>(vars), static_cast<void>(every_element);
  }
  virtual void EndPass() {}
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_EVALUATION_HOOKS_H_
