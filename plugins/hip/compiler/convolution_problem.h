// Convolutions as matrix products over the windows of their input, which are read from where they are.
//
// Rows are the positions of the output (batch and space), columns the output features of a group, and k counts the
// positions in the window and the input features of a group. Groups are a dimension of the batch.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_CONVOLUTION_PROBLEM_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_CONVOLUTION_PROBLEM_H_

#include "plugins/hip/compiler/dot_problem.h"

namespace backplane::hip {

// Whether the convolution is computed as a product. Others have so few rows, columns or terms that most of a tile would
// be wasted, or no elements.
bool IsConvolutionProduct(const Instruction& convolution);

// Whether each output feature is computed from one input feature.
bool IsDepthwise(const Instruction& convolution);

// Returns how many neighbouring features a thread computes of a convolution that is no product; 0: one element at a
// time.
int ChooseConvolutionLanes(const Instruction& convolution);
// Returns for how many neighbouring positions of the result a thread computes its `lanes` features.
int64_t CountConvolutionPositions(const Instruction& convolution, int lanes);

// `parts` divides the terms of the sums (DotSite).
absl::StatusOr<DotProblem> MakeConvolutionProblem(const Instruction& convolution, int64_t parts);

// Returns the number of parts into which the sums of the convolution should be divided, so that a large GPU has enough
// blocks. 1: they should not.
int64_t ChooseConvolutionParts(const Instruction& convolution);

// The dimension of the output that a digit of the rows counts, the outermost first (MakeConvolutionProblem).
Ints RowDimensions(const Instruction& convolution);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_CONVOLUTION_PROBLEM_H_
