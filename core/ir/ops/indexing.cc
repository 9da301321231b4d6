#include "core/ir/ops/indexing.h"

#include "core/ir/ops/internal.h"

namespace backplane::hlo {

using internal::AsInts;
using internal::Fail;

Result Slice(Builder& b, Value operand, Dims start_indices, Dims limit_indices, Dims strides) {
  const size_t n = start_indices.size();
  if (limit_indices.size() != n || (!strides.empty() && strides.size() != n)) {
    return Fail(Opcode::kSlice, "slice_c2", "has ", n, " start indices, ", limit_indices.size(), " limits and ",
                strides.size(), " strides");
  }
  SliceConfig slices(n);
  for (size_t i = 0; i < n; ++i) slices[i] = {start_indices[i], limit_indices[i], strides.empty() ? 1 : strides[i]};
  return b.Slice(operand, std::move(slices));
}

Result DynamicSlice(Builder& b, Value operand, const std::vector<Value>& start_indices, Dims slice_sizes) {
  std::vector<Value> operands{operand};
  operands.insert(operands.end(), start_indices.begin(), start_indices.end());
  Attributes attrs;
  attrs.Set(AttrId::kDynamicSliceSizes, AsInts(slice_sizes));
  return b.Op(Opcode::kDynamicSlice, std::move(operands), std::move(attrs));
}

Result DynamicUpdateSlice(Builder& b, Value operand, Value update, const std::vector<Value>& start_indices) {
  std::vector<Value> operands{operand, update};
  operands.insert(operands.end(), start_indices.begin(), start_indices.end());
  return b.Op(Opcode::kDynamicUpdateSlice, std::move(operands));
}

Result Gather(Builder& b, Value operand, Value start_indices, GatherDimensions dimension_numbers, Dims slice_sizes,
              bool indices_are_sorted) {
  Attributes attrs;
  attrs.Set(AttrId::kGatherDims, std::move(dimension_numbers));
  attrs.Set(AttrId::kSliceSizes, AsInts(slice_sizes));
  if (indices_are_sorted) attrs.Set(AttrId::kIndicesAreSorted, true);
  return b.Op(Opcode::kGather, {operand, start_indices}, std::move(attrs));
}

Result Scatter(Builder& b, std::vector<Value> operands, Value scatter_indices, const std::vector<Value>& updates,
               Computation* update_computation, ScatterDimensions dimension_numbers, bool indices_are_sorted,
               bool unique_indices) {
  if (operands.size() != updates.size()) {
    return Fail(Opcode::kScatter, "scatter_c5", "has ", operands.size(), " operands and ", updates.size(), " updates");
  }
  operands.push_back(scatter_indices);
  operands.insert(operands.end(), updates.begin(), updates.end());
  Attributes attrs;
  attrs.Set(AttrId::kScatterDims, std::move(dimension_numbers));
  if (indices_are_sorted) attrs.Set(AttrId::kIndicesAreSorted, true);
  if (unique_indices) attrs.Set(AttrId::kUniqueIndices, true);
  return b.Op(Opcode::kScatter, std::move(operands), std::move(attrs), {update_computation});
}

Result GetDimensionSize(Builder& b, Value operand, int64_t dimension) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dimension});
  return b.Op(Opcode::kGetDimensionSize, {operand}, std::move(attrs));
}

Result SetDimensionSize(Builder& b, Value operand, Value val, int64_t dimension) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dimension});
  return b.Op(Opcode::kSetDimensionSize, {operand, val}, std::move(attrs));
}

Result DynamicReshape(Builder& b, Value operand, const std::vector<Value>& dim_sizes, Dims new_size_bounds,
                      const std::vector<bool>& dims_are_dynamic) {
  RETURN_IF_ERROR(internal::CheckArrays(b, Opcode::kDynamicReshape, {operand}));
  if (new_size_bounds.size() != dim_sizes.size() || dims_are_dynamic.size() != dim_sizes.size()) {
    return Fail(Opcode::kDynamicReshape, "dynamic_reshape_c4", "has ", dim_sizes.size(), " sizes, ",
                new_size_bounds.size(), " bounds and ", dims_are_dynamic.size(), " marks of dynamic dimensions");
  }
  Shape shape(operand->shape().element_type(), new_size_bounds);
  for (size_t i = 0; i < dims_are_dynamic.size(); ++i) {
    if (dims_are_dynamic[i]) shape.set_dynamic(static_cast<int64_t>(i), true);
  }
  std::vector<Value> operands{operand};
  operands.insert(operands.end(), dim_sizes.begin(), dim_sizes.end());
  return b.Op(Opcode::kDynamicReshape, std::move(operands), {}, {}, std::move(shape));
}

}  // namespace backplane::hlo
