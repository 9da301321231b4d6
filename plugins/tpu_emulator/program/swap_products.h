// Removes transposes of products: the transpose of a product is the product of the swapped operands.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SWAP_PRODUCTS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SWAP_PRODUCTS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// Rewrites transpose(dot(a, b)) to dot(b, a) if the dot has no other user and the transpose swaps the free dimensions
// of the operands. Gradients of weights have this form. Run it before FuseIntoKernels, so that users of the transpose
// can be fused as an epilogue.
class SwapTransposedProducts : public Pass {
 public:
  absl::string_view name() const override { return "swap-transposed-products"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_SWAP_PRODUCTS_H_
