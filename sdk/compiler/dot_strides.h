// Dots as matrix products over strided memory: which dimensions together are one run of equal steps.
//
// A library multiplies matrices whose rows and columns each have one stride. Operands are dense and row-major, so
// whether several dimensions are one row index depends on where they stand. Nothing here needs a library.
#ifndef BACKPLANE_SDK_COMPILER_DOT_STRIDES_H_
#define BACKPLANE_SDK_COMPILER_DOT_STRIDES_H_

#include <optional>
#include <vector>

#include "core/ir/instruction.h"

namespace backplane::compiler {

// Some dimensions as one index: so many elements, so many elements of memory apart.
struct StridedRun {
  int64_t size = 1, stride = 1;
};

// The operands of a dot as matrices m x k and k x n (batch dimensions have strides of their own). Nullopt where the
// dimensions are no single run.
struct DotOperandRuns {
  std::optional<StridedRun> m, n, lhs_k, rhs_k;
  bool lhs_ok() const { return m && lhs_k; }  // false: a transpose of the operand must come first
  bool rhs_ok() const { return n && rhs_k; }
};
DotOperandRuns GetDotOperandRuns(const Instruction& dot);

// A dot that writes its result transposed is a fusion of kind custom that holds the dot and the transpose: dimension i
// of the result is dimension permutation[i] of the dot.
struct DotCall {
  const Instruction* dot = nullptr;
  Ints permutation;
};
// The dot itself with the identity, or such a fusion; nullopt for any other instruction.
std::optional<DotCall> AsDotCall(const Instruction& instruction);

// The result of a dot as a matrix m x n in memory where its dimensions are permuted.
struct DotResultRuns {
  std::optional<StridedRun> m, n;
  std::vector<int64_t> strides;  // of the dot's own dimensions in the permuted result
};
DotResultRuns GetDotResultRuns(const Instruction& dot, absl::Span<const int64_t> permutation);

// Whether rows and columns of the permuted result are each one run, and columns are contiguous.
bool CanWritePermuted(const Instruction& dot, absl::Span<const int64_t> permutation);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_DOT_STRIDES_H_
