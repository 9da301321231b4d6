// Expresses sorts and top-k by sorts whose order is total, for a sorting network that is not stable.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_LEGALIZE_SORTS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_LEGALIZE_SORTS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A stable sort gets the positions of the elements as a further operand, unless it has them already or equal elements
// cannot be told apart; of two elements that are equal for its comparator, the one with the smaller position precedes.
//
// A top-k becomes a sort of values and positions, and slices. If k is small beside the rows, parts of the rows are
// sorted first, and then the best k of each part.
//
// Run it after LegalizeTypes, and SimplifyTuples after it.
class LegalizeSorts : public Pass {
 public:
  absl::string_view name() const override { return "legalize-sorts"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_LEGALIZE_SORTS_H_
