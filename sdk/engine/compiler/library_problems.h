// Converts dot and convolution instructions to problems of the library kernels.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "sdk/compiler/attention.h"
#include "sdk/compiler/dot_strides.h"
#include "sdk/engine/kernels/attention.h"
#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/matmul.h"

namespace backplane::engine {

using compiler::AsDotCall;
using compiler::DotCall;

// Returns the library's element type, or nullopt if the library has no kernels for it.
std::optional<ElementType> ToElementType(PrimitiveType type);

// The operands of the problem are those of the call, in the order of the dot. Returns InvalidArgument if dimensions do
// not form single runs (sdk/compiler/dot_strides.h), Unimplemented for element types without a kernel.
absl::StatusOr<MatmulProblem> DotProblem(const DotCall& call);
absl::StatusOr<ConvolutionProblem> ConvProblem(const Instruction& convolution);

// The arrays of the steps are numbered as in AttentionOperands.
absl::StatusOr<AttentionProblem> ToAttentionProblem(const compiler::Attention& attention);

// Returns true for a convolution of f16 or bf16 on a machine without fast instructions for them, except depthwise ones,
// for which there is a kernel: oneDNN's f32 kernels and two conversions are faster than what is left.
bool IsConvolutionFasterInF32(const Instruction& convolution);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_
