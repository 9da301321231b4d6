// A transposed product is the product of the operands exchanged: the matrix unit writes either just as well.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SWAP_PRODUCTS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SWAP_PRODUCTS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// transpose(dot(a, b)), where nothing else reads the dot and the transpose exchanges the two operands' free dimensions,
// becomes dot(b, a): gradients of weights are such. Before CutIntoKernels, so that what follows can be an epilogue.
class SwapTransposedProducts : public Pass {
 public:
  absl::string_view name() const override { return "swap-transposed-products"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SWAP_PRODUCTS_H_
