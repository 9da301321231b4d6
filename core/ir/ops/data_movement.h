// Builders of parameters, constants and iotas, and of operations that only move elements.
#ifndef BACKPLANE_CORE_IR_OPS_DATA_MOVEMENT_H_
#define BACKPLANE_CORE_IR_OPS_DATA_MOVEMENT_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

Result ConstantLiteral(Builder& b, Literal literal);
// Returns 0, 1, 2, ... along iota_dimension, a dimension of the shape ([iota_c1]). The element type may be any but
// pred.
Result Iota(Builder& b, const Shape& shape, int64_t iota_dimension);
// Adds a parameter. The numbers must be 0, 1, ... without gap or repetition ([parameter_i1]); the order of the calls
// does not matter.
Result Parameter(Builder& b, int64_t number, const Shape& shape, std::string name = "");

// Prepends dimensions of the given sizes, along which the operand is repeated.
Result Broadcast(Builder& b, Value operand, Dims broadcast_sizes);
// Returns an array with the dimensions out_dim_size. Operand dimension i becomes dimension broadcast_dimensions[i] and
// has its size or 1. The operand is repeated along all other dimensions. Errors: [broadcast_c2] number of dimensions,
// [broadcast_c3] out of range, [broadcast_c4] repeated, [broadcast_c5] sizes.
Result BroadcastInDim(Builder& b, Value operand, Dims out_dim_size, Dims broadcast_dimensions);
// Merges consecutive ascending dimensions into one whose size is the product of their sizes. Returns the operand itself
// if `dimensions` has at most one entry. Errors: [collapse_c1] not consecutive, [collapse_c2] out of range.
Result Collapse(Builder& b, Value operand, Dims dimensions);
// Concatenates one or more arrays along `dimension`. They must agree in all other dimensions.
Result ConcatInDim(Builder& b, std::vector<Value> operands, int64_t dimension);
// Copies the operand to memory of its own. HLO only.
Result Copy(Builder& b, Value operand);
// Inserts `interior` copies of padding_value between neighbouring elements and adds `low` and `high` copies at the ends
// of each dimension. Negative low and high remove elements.
Result Pad(Builder& b, Value operand, Value padding_value, PaddingConfig padding_config);
// Returns the elements in row-major order with other dimensions of the same product ([reshape_c2]).
Result Reshape(Builder& b, Value operand, Dims dimensions);
// Like above, but takes the complete result shape, which must have the element type of the operand ([reshape_c1]).
Result Reshape(Builder& b, const Shape& shape, Value operand);
// Reverses the listed dimensions.
Result Rev(Builder& b, Value operand, Dims dimensions);
// Permutes dimensions: result dimension i is operand dimension permutation[i].
Result Transpose(Builder& b, Value operand, Dims permutation);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_DATA_MOVEMENT_H_
