// Expands reductions and their relatives to loops over arrays if a plugin's kernels cannot run the computation they
// call.
#ifndef BACKPLANE_CORE_PASSES_EXPAND_REDUCTIONS_H_
#define BACKPLANE_CORE_PASSES_EXPAND_REDUCTIONS_H_

#include <functional>
#include <utility>

#include "core/passes/pass.h"

namespace backplane {

// Expands reduce, reduce-window, select-and-scatter, scatter, sort and map if `is_supported` returns false for a
// computation that they call, for example one that builds arrays. Expands all-reduce and reduce-scatter, unless their
// computation is scalar arithmetic, to an all-gather and a local reduction.
//
// The loops keep the order of the definitions: a reduction is in row-major order, a scatter in the order of its index
// vectors, and a sort is a stable sorting network. An iteration combines all results at once (batch_body.h), so a loop
// has one iteration per reduced position and not one per element.
//
// The called computations become part of executed computations and may contain scans, calls and further reductions.
// This pass expands the latter too. Run it before InlineCalls.
class ExpandReductions : public Pass {
 public:
  // `is_supported` tells whether the plugin's kernels can run a called computation of scalars.
  explicit ExpandReductions(std::function<bool(const Computation&)> is_supported)
      : is_supported_(std::move(is_supported)) {}
  absl::string_view name() const override { return "expand-reductions"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  // Returns false if the instruction stays as it is.
  absl::StatusOr<bool> ExpandOne(Computation* c, Instruction* i) const;

  std::function<bool(const Computation&)> is_supported_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_EXPAND_REDUCTIONS_H_
