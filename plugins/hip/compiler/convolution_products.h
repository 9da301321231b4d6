// Computes convolutions as matrix products.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_CONVOLUTION_PRODUCTS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_CONVOLUTION_PRODUCTS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A convolution without groups becomes a dot of the windows of its input and its kernel: the elements of each window,
// as a row of a matrix, are an array in memory, unless a window is one element. Convolutions with few features or large
// windows, and those whose windows would take much memory, stay as they are. Runs before
// compiler::LegalizeContractions.
class ConvolutionsToProducts : public Pass {
 public:
  absl::string_view name() const override { return "convolutions-to-products"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_CONVOLUTION_PRODUCTS_H_
