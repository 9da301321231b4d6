// Dot and convolution instructions as problems of the library kernels.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/matmul.h"

namespace backplane::engine {

std::optional<ElementType> ToElementType(PrimitiveType type);

// Which operand of a dot has free or contracting dims that are no single stride in its row-major layout, so that a
// transpose must come first. Neither: the problem below exists.
struct DotStrideVerdict {
  bool lhs_ok = true, rhs_ok = true;
};
DotStrideVerdict CheckDotStrides(const Instruction& dot);

// A dot that writes its result transposed is a fusion of kind custom that holds the dot and the transpose: result dim i
// is dot dim permutation[i].
struct DotCall {
  const Instruction* dot = nullptr;
  Ints permutation;
};
// The dot itself with the identity, or such a fusion; nothing for any other instruction.
std::optional<DotCall> AsDotCall(const Instruction& instruction);
// Whether the library can write the result in that order: rows and columns must each stay one stride.
bool CanWritePermuted(const Instruction& dot, absl::Span<const int64_t> permutation);

// Operands are those of the call, in the dot's order. InvalidArgument where CheckDotStrides says no; Unimplemented for
// element types without a kernel.
absl::StatusOr<MatmulProblem> DotProblem(const DotCall& call);
absl::StatusOr<ConvolutionProblem> ConvProblem(const Instruction& convolution);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_
