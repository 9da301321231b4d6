#include "core/ir/ops/data_movement.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {

using internal::CheckArrays;
using internal::Fail;

Result ConstantLiteral(Builder& b, Literal literal) { return b.Constant(std::move(literal)); }

Result Iota(Builder& b, const Shape& shape, int64_t iota_dimension) { return b.Iota(shape, iota_dimension); }

Result Parameter(Builder& b, int64_t number, const Shape& shape, std::string name) {
  return b.Parameter(number, shape, std::move(name));
}

Result Broadcast(Builder& b, Value operand, Dims broadcast_sizes) {
  RETURN_IF_ERROR(CheckArrays(b, Opcode::kBroadcast, {operand}));
  const Shape& x = operand->shape();
  DimVector sizes(broadcast_sizes.begin(), broadcast_sizes.end());
  Ints dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    dims.push_back(static_cast<int64_t>(sizes.size()));
    sizes.push_back(x.dimensions(i));
  }
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, std::move(dims));
  return b.Op(Opcode::kBroadcast, {operand}, std::move(attrs), {}, Shape(x.element_type(), sizes));
}

Result BroadcastInDim(Builder& b, Value operand, Dims out_dim_size, Dims broadcast_dimensions) {
  RETURN_IF_ERROR(CheckArrays(b, Opcode::kBroadcast, {operand}));
  return b.BroadcastInDim(operand, out_dim_size, broadcast_dimensions);
}

Result Collapse(Builder& b, Value operand, Dims dimensions) {
  RETURN_IF_ERROR(CheckArrays(b, Opcode::kReshape, {operand}));
  const Shape& x = operand->shape();
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i] < 0 || dimensions[i] >= x.rank()) {
      return Fail(Opcode::kReshape, "collapse_c2", "dimension ", dimensions[i], " is not one of ", x.ToString());
    }
    if (i > 0 && dimensions[i] != dimensions[i - 1] + 1) {
      return Fail(Opcode::kReshape, "collapse_c1", "the dimensions to collapse must be consecutive, found ",
                  dimensions[i - 1], " and then ", dimensions[i]);
    }
  }
  if (dimensions.size() <= 1) return operand;
  const int64_t first = dimensions[0];
  DimVector dims = x.dimensions();
  for (size_t i = 1; i < dimensions.size(); ++i) dims[first] *= x.dimensions(dimensions[i]);
  dims.erase(dims.begin() + first + 1, dims.begin() + first + static_cast<int64_t>(dimensions.size()));
  return b.Reshape(operand, dims);
}

Result ConcatInDim(Builder& b, std::vector<Value> operands, int64_t dimension) {
  return b.Concatenate(std::move(operands), dimension);
}

Result Copy(Builder& b, Value operand) { return b.Op(Opcode::kCopy, {operand}); }

Result Pad(Builder& b, Value operand, Value padding_value, PaddingConfig padding_config) {
  return b.Pad(operand, padding_value, std::move(padding_config));
}

Result Reshape(Builder& b, Value operand, Dims dimensions) {
  RETURN_IF_ERROR(CheckArrays(b, Opcode::kReshape, {operand}));
  return b.Reshape(operand, dimensions);
}

Result Reshape(Builder& b, const Shape& shape, Value operand) {
  return b.Op(Opcode::kReshape, {operand}, {}, {}, shape);
}

Result Rev(Builder& b, Value operand, Dims dimensions) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, internal::AsInts(dimensions));
  return b.Op(Opcode::kReverse, {operand}, std::move(attrs));
}

Result Transpose(Builder& b, Value operand, Dims permutation) { return b.Transpose(operand, permutation); }

}  // namespace backplane::hlo
