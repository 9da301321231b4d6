// A dot as a batch of matrix products over strided memory.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_DOT_PROBLEM_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_DOT_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "plugins/hip/compiler/gathered_matrix.h"

namespace backplane::hip {

// out[b, i, j] = sum over p of lhs[b, i, p] * rhs[b, p, j]. Strides count elements.
struct DotProblem {
  struct BatchDim {
    int64_t size, lhs_stride, rhs_stride, out_stride;
  };
  PrimitiveType lhs_type{}, rhs_type{}, out_type{};
  int64_t m = 1, n = 1, k = 1;
  int64_t lhs_m_stride = 0, lhs_k_stride = 0, rhs_k_stride = 0, rhs_n_stride = 0, out_m_stride = 0, out_n_stride = 0;
  std::vector<BatchDim> batch;
  // The operands of a convolution, whose rows and terms are no single runs. The strides are then those of the innermost
  // digits, and 0 where these move in a space.
  std::optional<GatheredMatrix> lhs_gather, rhs_gather;
  // More than 1: the first dimension of the batch counts parts of the sums. Part i has the k terms of the gathered
  // operands from i * k on.
  int64_t parts = 1;

  int64_t batch_size() const;
  // Returns the type in which sums are kept: f32 for narrower floats, otherwise the type of the result.
  PrimitiveType sum_type() const;
};

// Products without matrix instructions: a block loads kTileK elements along k at a time and computes a tile of
// rows x columns of the result.
inline constexpr int64_t kTileK = 16;
struct ProductTile {
  int64_t rows = 0, columns = 0;
};
ProductTile ChooseProductTile(const DotProblem& problem);

// The dot in an instruction, which is a dot itself, a fusion of a dot and a transpose of its result
// (compiler::AsDotCall), or a fusion with elementwise operations behind one of these (FuseDotEpilogues). A convolution
// that is computed as a product (IsConvolutionProduct) may stand in the place of a dot without a transpose.
struct DotSite {
  const Instruction* dot = nullptr;
  // The instruction whose value the kernel's sums are: the dot or the transpose. Its dimension i is dimension
  // permutation[i] of the dot.
  const Instruction* value = nullptr;
  Ints permutation;
  int64_t lhs = 0, rhs = 1;           // the numbers of the instruction's operands that the dot multiplies
  const Computation* body = nullptr;  // computes the results from the value; null: the value is the result
  // More than 1: the result has parts of the sums of a convolution, along a dimension before the others
  // (SplitContractions).
  int64_t parts = 1;
};
// Returns nullopt if the instruction has no dot.
std::optional<DotSite> FindDot(const Instruction& instruction);

// Returns InvalidArgument if compiler::LegalizeContractions has not been applied.
absl::StatusOr<DotProblem> MakeDotProblem(const DotSite& site);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_DOT_PROBLEM_H_
