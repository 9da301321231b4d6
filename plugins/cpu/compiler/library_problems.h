// Dot and convolution instructions as problems of the library kernels.
#ifndef BACKPLANE_PLUGINS_CPU_COMPILER_LIBRARY_PROBLEMS_H_
#define BACKPLANE_PLUGINS_CPU_COMPILER_LIBRARY_PROBLEMS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "plugins/cpu/kernels/convolution.h"
#include "plugins/cpu/kernels/matmul.h"

namespace backplane::cpu {

std::optional<ElementType> ToElementType(PrimitiveType type);

// Which operand of a dot has free or contracting dims that are no single stride in its row-major layout, so that a
// transpose must come first. Neither: the problem below exists.
struct DotStrideVerdict { bool lhs_ok = true, rhs_ok = true; };
DotStrideVerdict CheckDotStrides(const Instruction& dot);

// The attribute text by which a dot says that its result is written transposed: result dim i is dot dim perm[i].
// Kept in the instruction's backend_config as "output_permutation=1,0,2".
std::optional<Ints> OutputPermutation(const Instruction& dot);
std::string OutputPermutationConfig(absl::Span<const int64_t> permutation);
// Shape of the dot before that permutation.
Shape UnpermutedDotShape(const Instruction& dot);
// Whether the library can write the result in that order: rows and columns must each stay one stride.
bool CanWritePermuted(const Instruction& dot, absl::Span<const int64_t> permutation);

// InvalidArgument where CheckDotStrides says no; Unimplemented for element types without a kernel.
absl::StatusOr<MatmulProblem> DotProblem(const Instruction& dot);
absl::StatusOr<ConvolutionProblem> ConvProblem(const Instruction& convolution);

}  // namespace backplane::cpu

#endif  // BACKPLANE_PLUGINS_CPU_COMPILER_LIBRARY_PROBLEMS_H_
