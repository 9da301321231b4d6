// Describes dots as matrix products over strided memory: which dimensions together can be indexed by one number with
// one stride.
//
// A library multiplies matrices whose rows and columns each have one stride. Operands are dense and row-major, so the
// positions of several dimensions determine whether they form one row index. No library is needed here.
#ifndef BACKPLANE_SDK_COMPILER_DOT_STRIDES_H_
#define BACKPLANE_SDK_COMPILER_DOT_STRIDES_H_

#include <optional>
#include <vector>

#include "core/ir/instruction.h"

namespace backplane::compiler {

// Dimensions that form one index: the number of elements, and the distance between neighbours in elements.
struct StridedRun {
  int64_t size = 1, stride = 1;
};

// The operands of a dot as matrices m x k and k x n. Batch dimensions have strides of their own. Nullopt if the
// dimensions do not form one run.
struct DotOperandRuns {
  std::optional<StridedRun> m, n, lhs_k, rhs_k;
  bool lhs_ok() const { return m && lhs_k; }  // false: a transpose of the operand must come first
  bool rhs_ok() const { return n && rhs_k; }
};
DotOperandRuns GetDotOperandRuns(const Instruction& dot);

// A dot that writes its result transposed is represented by a custom fusion of the dot and the transpose: dimension i
// of the result is dimension permutation[i] of the dot.
struct DotCall {
  const Instruction* dot = nullptr;
  Ints permutation;
};
// Returns the dot with the identity permutation, or the parts of such a fusion. Nullopt for any other instruction.
std::optional<DotCall> AsDotCall(const Instruction& instruction);

// The result of a dot as a matrix m x n in memory with permuted dimensions.
struct DotResultRuns {
  std::optional<StridedRun> m, n;
  std::vector<int64_t> strides;  // of the dot's own dimensions in the permuted result
};
DotResultRuns GetDotResultRuns(const Instruction& dot, absl::Span<const int64_t> permutation);

// Whether the rows and the columns of the permuted result each form one run, and columns are contiguous.
bool CanWritePermuted(const Instruction& dot, absl::Span<const int64_t> permutation);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_DOT_STRIDES_H_
