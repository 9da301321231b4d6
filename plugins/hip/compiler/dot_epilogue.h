// Fuses the elementwise operations behind a product into its kernel.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_DOT_EPILOGUE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_DOT_EPILOGUE_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// Where the only user of a product is a fusion that reads of it only the element that it stores (a bias, an activation,
// a residual, a conversion), the product becomes a part of the fusion: its kernel computes the results from the sums,
// and the product itself is not stored. Runs after FuseForGpu.
class FuseDotEpilogues : public Pass {
 public:
  absl::string_view name() const override { return "fuse-dot-epilogues"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_DOT_EPILOGUE_H_
