// Gives products of few elements and many terms to more blocks.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_CONTRACTIONS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_CONTRACTIONS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A dot whose result has few tiles and whose sums have many terms becomes a batch of dots over parts of the terms,
// whose results are then added in a fixed order. Partial sums of narrow floats are f32. Runs after
// compiler::LegalizeContractions and before fusion.
class SplitContractions : public Pass {
 public:
  absl::string_view name() const override { return "split-contractions"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_CONTRACTIONS_H_
