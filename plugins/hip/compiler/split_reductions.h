// Gives reductions with few results to more blocks.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_REDUCTIONS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_REDUCTIONS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A reduction whose results give work to few blocks, and which combines many elements for each, becomes two: one of
// parts of the elements, and one of the parts' results. The order of combination is fixed. Only for reducers that apply
// one operation to each array, and for those that split_selections.h describes. Partial sums and products of narrow
// floats are f32. Runs before fusion.
class SplitReductions : public Pass {
 public:
  absl::string_view name() const override { return "split-reductions"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_REDUCTIONS_H_
