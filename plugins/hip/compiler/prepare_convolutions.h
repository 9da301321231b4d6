// Brings convolutions into forms that kernels compute fast.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_PREPARE_CONVOLUTIONS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_PREPARE_CONVOLUTIONS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// Most convolutions stay what they are, and a kernel for products reads their windows (convolution_problem.h). Of the
// others,
// - one whose window is an element becomes a dot,
// - an input or a kernel whose last dimension is one of space is transposed, so that features or batches are neighbours
//   in memory,
// - a large one whose input has zeros between its elements (the gradient of the input of one with strides) becomes one
//   for each phase of the output, with the elements of the kernel that meet no such zeros,
// - the gradient of a depthwise convolution's kernel becomes a sum of products for each position in the window.
// Runs before compiler::LegalizeContractions.
class PrepareConvolutions : public Pass {
 public:
  absl::string_view name() const override { return "prepare-convolutions"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_PREPARE_CONVOLUTIONS_H_
