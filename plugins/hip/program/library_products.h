// The kernels of a program whose place a product of a vendor's library can take.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_LIBRARY_PRODUCTS_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_LIBRARY_PRODUCTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "plugins/hip/libraries/matrix_product.h"
#include "plugins/hip/program/program_kernels.h"

namespace backplane::hip {

// A kernel that computes a product and nothing else. It takes the left operand, the right one and the result.
struct LibraryProduct {
  int kernel = 0;  // its number, for Queue::Launch
  uint32_t blocks = 1, threads = 1;
  std::string instruction;  // the name of the first instruction that it runs
  MatrixProduct product;
};

// Returns the product as libraries take it; nullopt if they do not: because of its types, because an operand or the
// result has neither contiguous rows nor contiguous columns, or because the dimensions of the batch are not one.
std::optional<MatrixProduct> AsMatrixProduct(const DotProblem& problem, bool rounds_to_tf32);

std::vector<LibraryProduct> FindLibraryProducts(absl::Span<const ProgramKernels::Kernel> kernels);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_LIBRARY_PRODUCTS_H_
