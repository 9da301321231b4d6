// Values without operands, and operations that only move elements.
#ifndef BACKPLANE_CORE_IR_OPS_DATA_MOVEMENT_H_
#define BACKPLANE_CORE_IR_OPS_DATA_MOVEMENT_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

Result ConstantLiteral(Builder& b, Literal literal);
// 0, 1, 2, ... along iota_dimension, one of the shape's ([iota_c1]), in any element type but pred.
Result Iota(Builder& b, const Shape& shape, int64_t iota_dimension);
// An argument of the computation. Numbers are 0, 1, ... without gap or repetition ([parameter_i1]), in any order.
Result Parameter(Builder& b, int64_t number, const Shape& shape, std::string name = "");

// New dimensions of the given sizes in front of the operand's.
Result Broadcast(Builder& b, Value operand, Dims broadcast_sizes);
// Operand dimension i becomes dimension broadcast_dimensions[i] of a result of sizes out_dim_size, and is of its size
// or 1; the other dimensions repeat the operand. [broadcast_c2] their number, [broadcast_c3] range, [broadcast_c4]
// repetition, [broadcast_c5] sizes.
Result BroadcastInDim(Builder& b, Value operand, Dims out_dim_size, Dims broadcast_dimensions);
// Consecutive dimensions, low to high, become one of the product of their sizes ([collapse_c1] not consecutive,
// [collapse_c2] out of range). None or one of them: the operand itself.
Result Collapse(Builder& b, Value operand, Dims dimensions);
// One or more arrays that differ at most in the size of `dimension`, one after another along it.
Result ConcatInDim(Builder& b, std::vector<Value> operands, int64_t dimension);
// The operand's value in a place of its own. HLO level.
Result Copy(Builder& b, Value operand);
// interior elements of padding_value between neighbours, then low and high at the edges; edges may be negative.
Result Pad(Builder& b, Value operand, Value padding_value, PaddingConfig padding_config);
// The elements in row-major order under other dimensions of the same product ([reshape_c2]).
Result Reshape(Builder& b, Value operand, Dims dimensions);
// The same with the whole result shape, of the operand's element type ([reshape_c1]).
Result Reshape(Builder& b, const Shape& shape, Value operand);
// Element i of a listed dimension of size n comes from n-1-i.
Result Rev(Builder& b, Value operand, Dims dimensions);
// Result dimension i is operand dimension permutation[i].
Result Transpose(Builder& b, Value operand, Dims permutation);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_DATA_MOVEMENT_H_
