// Folds as loops over whole arrays, where what they call is more than a plugin's kernels do for one element.
#ifndef BACKPLANE_CORE_PASSES_EXPAND_FOLDS_H_
#define BACKPLANE_CORE_PASSES_EXPAND_FOLDS_H_

#include <functional>
#include <utility>

#include "core/passes/pass.h"

namespace backplane {

// all-reduce and reduce-scatter whose computation is not plain arithmetic on scalars: an all-gather, which each member
// combines; and reduce, reduce-window, select-and-scatter, scatter, sort and map whose computation builds arrays, or
// whatever else `stays` does not hold for. Results are combined in the order of the definitions: a reduction in
// row-major order, a scatter by its index vectors; a sort is stable, by a network of comparisons. All results of one
// turn are combined together (batch_body.h), so the loops turn once for each reduced position, not once for each
// element.
//
// Afterwards what the computations held stands in computations that run, for further passes: scans and calls, folds
// among them, which this pass has expanded in their turn. Before InlineCalls.
class ExpandFolds : public Pass {
 public:
  // `stays`: of a called computation of scalars; true where the plugin runs it as it is.
  explicit ExpandFolds(std::function<bool(const Computation&)> stays) : stays_(std::move(stays)) {}
  absl::string_view name() const override { return "expand-folds"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  std::function<bool(const Computation&)> stays_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_EXPAND_FOLDS_H_
