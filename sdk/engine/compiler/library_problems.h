// Dot and convolution instructions as problems of the library kernels.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "sdk/compiler/dot_strides.h"
#include "sdk/engine/kernels/convolution.h"
#include "sdk/engine/kernels/matmul.h"

namespace backplane::engine {

using compiler::AsDotCall;
using compiler::DotCall;

// The library's name of an element type; nullopt where it has no kernels for it.
std::optional<ElementType> ToElementType(PrimitiveType type);

// Operands are those of the call, in the dot's order. InvalidArgument where its dimensions are no single runs
// (sdk/compiler/dot_strides.h); Unimplemented for element types without a kernel.
absl::StatusOr<MatmulProblem> DotProblem(const DotCall& call);
absl::StatusOr<ConvolutionProblem> ConvProblem(const Instruction& convolution);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_PROBLEMS_H_
