// A dot as a batch of matrix products over strided memory.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_DOT_PROBLEM_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_DOT_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"

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

  int64_t batch_size() const;
  // The type in which sums are kept: f32 for narrower floats, else that of the result.
  PrimitiveType sum_type() const;
};

// Without matrix instructions: the part of k that a block loads at a time.
inline constexpr int64_t kTileK = 16;
// Without matrix instructions: the rows and columns of the tile of the result that a block computes.
struct ProductTile {
  int64_t rows = 0, columns = 0;
};
ProductTile ChooseProductTile(const DotProblem& problem);

// Where an instruction has a dot: it is one itself, a fusion of a dot and a transpose of its result
// (compiler::AsDotCall), or a fusion with elementwise operations behind one of these (FuseDotEpilogues).
struct DotSite {
  const Instruction* dot = nullptr;
  // What the kernel's sums are the value of: the dot, or the transpose. Dimension i of it is permutation[i] of the dot.
  const Instruction* value = nullptr;
  Ints permutation;
  int64_t lhs = 0, rhs = 1;           // the instruction's operands that are those of the dot
  const Computation* body = nullptr;  // that computes the results from the value; null: the value is the result
};
// Null if the instruction has no dot.
std::optional<DotSite> FindDot(const Instruction& instruction);

// InvalidArgument where compiler::LegalizeContractions has not been applied.
absl::StatusOr<DotProblem> MakeDotProblem(const DotSite& site);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_DOT_PROBLEM_H_
