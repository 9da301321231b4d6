// Expresses factorizations of large matrices by those of small ones and matrix products.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_LINEAR_ALGEBRA_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_LINEAR_ALGEBRA_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// Divides the matrix of a cholesky or a triangular-solve into four parts until the parts fit into the shared memory of
// a block (FindLargestMatrix, linear_algebra_kernels.h). Nearly all arithmetic is then in products, for which matrix
// instructions exist.
//
// Run it after LegalizeTypes and before LegalizeContractions.
class SplitLinearAlgebra : public Pass {
 public:
  absl::string_view name() const override { return "split-linear-algebra"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_LINEAR_ALGEBRA_H_
