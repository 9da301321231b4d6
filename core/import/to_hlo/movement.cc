// Operations that move elements: shapes, slices, gathers.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"
#include "core/import/to_hlo/runtime_shapes.h"

namespace backplane::to_hlo {

bool Importer::IsConstantOperand(const SourceOp& op, size_t index) const {
  const SourceValue* v = op.operands[index];
  return v->op != nullptr && v->op->name == "stablehlo.constant";
}

absl::StatusOr<Ints> Importer::ConstantOperand(const SourceOp& op, size_t index) {
  if (!IsConstantOperand(op, index)) {
    return absl::UnimplementedError(
        absl::StrCat("operand ", index, " must be a constant: its values shape the result"));
  }
  return GetInts(*op.operands[index]->op, "value");
}

// broadcast, broadcast_in_dim, and dynamic_broadcast_in_dim with a static result, which determines it.
absl::Status Importer::ImportBroadcast(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
  Ints dims;
  if (op.name == "stablehlo.broadcast") {
    ASSIGN_OR_RETURN(Ints sizes, GetInts(op, "broadcast_sizes"));
    dims.resize(static_cast<size_t>(x->shape().rank()));
    std::iota(dims.begin(), dims.end(), static_cast<int64_t>(sizes.size()));
  } else {
    ASSIGN_OR_RETURN(dims, GetInts(op, "broadcast_dimensions"));
  }
  if (to.HasDynamicDimensions() || x->shape().HasDynamicDimensions()) {
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, dims);
    ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kBroadcast, {x}, std::move(attrs), {}, to));
    return Bind(scope, op, y);
  }
  ASSIGN_OR_RETURN(Value y, scope.builder.BroadcastInDim(x, to.dimensions(), dims));
  return Bind(scope, op, y);
}

// reshape, and dynamic_reshape with a static result.
absl::Status Importer::ImportReshape(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
  if (op.name == "stablehlo.dynamic_reshape" && to.HasDynamicDimensions()) {
    // The sizes come as one vector, HLO wants a scalar for each.
    ASSIGN_OR_RETURN(Value sizes, Get(scope, op.operands[1]));
    std::vector<Value> operands = {x};
    for (int64_t i = 0; i < to.rank(); ++i) {
      ASSIGN_OR_RETURN(Value part, scope.builder.Slice(sizes, {{i, i + 1, 1}}));
      ASSIGN_OR_RETURN(part, scope.builder.Reshape(part, {}));
      operands.push_back(part);
    }
    ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kDynamicReshape, std::move(operands), {}, {}, to));
    return Bind(scope, op, y);
  }
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kReshape, {x}, {}, {}, to));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportTranspose(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Ints permutation, GetInts(op, "permutation"));
  ASSIGN_OR_RETURN(Value y, scope.builder.Transpose(x, permutation));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportSlice(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Ints start, GetInts(op, "start_indices"));
  ASSIGN_OR_RETURN(Ints limit, GetInts(op, "limit_indices"));
  ASSIGN_OR_RETURN(Ints stride, GetInts(op, "strides"));
  if (start.size() != limit.size() || start.size() != stride.size()) {
    return absl::InvalidArgumentError(absl::StrCat("start_indices has ", start.size(), " entries, limit_indices ",
                                                   limit.size(), ", strides ", stride.size()));
  }
  SliceConfig config;
  for (size_t i = 0; i < start.size(); ++i) config.push_back({start[i], limit[i], stride[i]});
  ASSIGN_OR_RETURN(Value y, scope.builder.Slice(x, std::move(config)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportRealDynamicSlice(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  if (!IsConstantOperand(op, 1) || !IsConstantOperand(op, 2) || !IsConstantOperand(op, 3)) {
    // The static result determines the limits.
    ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
    if (to.HasDynamicDimensions() || x->shape().HasDynamicDimensions()) {
      return absl::UnimplementedError("bounds known at run time only, of a dynamic dimension");
    }
    ASSIGN_OR_RETURN(Value from, Get(scope, op.operands[1]));
    ASSIGN_OR_RETURN(Value step, Get(scope, op.operands[3]));
    ASSIGN_OR_RETURN(Value y, SliceAtRuntime(scope.builder, x, from, step, to.dimensions()));
    return Bind(scope, op, y);
  }
  ASSIGN_OR_RETURN(Ints start, ConstantOperand(op, 1));
  ASSIGN_OR_RETURN(Ints limit, ConstantOperand(op, 2));
  ASSIGN_OR_RETURN(Ints stride, ConstantOperand(op, 3));
  if (start.size() != limit.size() || start.size() != stride.size()) {
    return absl::InvalidArgumentError("start, limit and strides differ in length");
  }
  SliceConfig config;
  for (size_t i = 0; i < start.size(); ++i) config.push_back({start[i], limit[i], stride[i]});
  ASSIGN_OR_RETURN(Value y, scope.builder.Slice(x, std::move(config)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportConcatenate(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(int64_t dimension, GetInt(op, "dimension"));
  ASSIGN_OR_RETURN(Value y, scope.builder.Concatenate(std::move(operands), dimension));
  return Bind(scope, op, y);
}

// pad, and dynamic_pad whose result is static.
absl::Status Importer::ImportPad(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value value, Get(scope, op.operands[1]));
  Ints low, high, interior;
  if (op.name == "stablehlo.dynamic_pad") {
    if (!IsConstantOperand(op, 2) || !IsConstantOperand(op, 3) || !IsConstantOperand(op, 4)) {
      ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
      if (to.HasDynamicDimensions() || x->shape().HasDynamicDimensions()) {
        return absl::UnimplementedError("padding known at run time only, of a dynamic dimension");
      }
      ASSIGN_OR_RETURN(Value before, Get(scope, op.operands[2]));
      ASSIGN_OR_RETURN(Value between, Get(scope, op.operands[4]));
      ASSIGN_OR_RETURN(Value y, PadAtRuntime(scope.builder, x, value, before, between, to.dimensions()));
      return Bind(scope, op, y);
    }
    ASSIGN_OR_RETURN(low, ConstantOperand(op, 2));
    ASSIGN_OR_RETURN(high, ConstantOperand(op, 3));
    ASSIGN_OR_RETURN(interior, ConstantOperand(op, 4));
  } else {
    ASSIGN_OR_RETURN(low, GetInts(op, "edge_padding_low"));
    ASSIGN_OR_RETURN(high, GetInts(op, "edge_padding_high"));
    ASSIGN_OR_RETURN(interior, GetInts(op, "interior_padding"));
  }
  if (low.size() != high.size() || low.size() != interior.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("low has ", low.size(), " entries, high ", high.size(), ", interior ", interior.size()));
  }
  PaddingConfig config;
  for (size_t i = 0; i < low.size(); ++i) config.push_back({low[i], high[i], interior[i]});
  ASSIGN_OR_RETURN(Value y, scope.builder.Pad(x, value, std::move(config)));
  return Bind(scope, op, y);
}

// gather, and dynamic_gather, whose slice sizes are constants or those its static result shows.
absl::Status Importer::ImportGather(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value indices, Get(scope, op.operands[1]));
  GatherDimensions dims;
  ASSIGN_OR_RETURN(dims.offset_dims, GetInts(op, "offset_dims"));
  ASSIGN_OR_RETURN(dims.collapsed_slice_dims, GetInts(op, "collapsed_slice_dims"));
  ASSIGN_OR_RETURN(dims.start_index_map, GetInts(op, "start_index_map"));
  ASSIGN_OR_RETURN(dims.operand_batching_dims, GetInts(op, "operand_batching_dims"));
  ASSIGN_OR_RETURN(dims.start_indices_batching_dims, GetInts(op, "start_indices_batching_dims"));
  ASSIGN_OR_RETURN(dims.index_vector_dim, GetInt(op, "index_vector_dim"));
  ASSIGN_OR_RETURN(bool sorted, GetBool(op, "indices_are_sorted"));
  Ints sizes;
  if (op.name == "stablehlo.dynamic_gather" && !IsConstantOperand(op, 2)) {
    ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
    auto has = [](const Ints& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); };
    size_t next = 0;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      if (has(dims.collapsed_slice_dims, d) || has(dims.operand_batching_dims, d)) {
        sizes.push_back(1);
        continue;
      }
      int64_t at = next < dims.offset_dims.size() ? dims.offset_dims[next++] : -1;
      if (at < 0 || at >= to.rank() || to.is_dynamic(at)) {
        return absl::InvalidArgumentError(absl::StrCat("offset_dims does not fit the result ", to.ToString()));
      }
      sizes.push_back(to.dimensions(at));
    }
  } else if (op.name == "stablehlo.dynamic_gather") {
    ASSIGN_OR_RETURN(sizes, ConstantOperand(op, 2));
  } else {
    ASSIGN_OR_RETURN(sizes, GetInts(op, "slice_sizes"));
  }
  Attributes attrs;
  attrs.Set(AttrId::kGatherDims, std::move(dims));
  attrs.Set(AttrId::kSliceSizes, std::move(sizes));
  if (sorted) attrs.Set(AttrId::kIndicesAreSorted, true);
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kGather, {x, indices}, std::move(attrs)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportScatter(Scope& scope, const SourceOp& op) {
  if (op.operands.size() % 2 != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(op.operands.size(), " operands, expected n inputs, indices, n updates"));
  }
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ScatterDimensions dims;
  ASSIGN_OR_RETURN(dims.update_window_dims, GetInts(op, "update_window_dims"));
  ASSIGN_OR_RETURN(dims.inserted_window_dims, GetInts(op, "inserted_window_dims"));
  ASSIGN_OR_RETURN(dims.scatter_dims_to_operand_dims, GetInts(op, "scatter_dims_to_operand_dims"));
  ASSIGN_OR_RETURN(dims.input_batching_dims, GetInts(op, "input_batching_dims"));
  ASSIGN_OR_RETURN(dims.scatter_indices_batching_dims, GetInts(op, "scatter_indices_batching_dims"));
  ASSIGN_OR_RETURN(dims.index_vector_dim, GetInt(op, "index_vector_dim"));
  ASSIGN_OR_RETURN(bool sorted, GetBool(op, "indices_are_sorted"));
  ASSIGN_OR_RETURN(bool unique, GetBool(op, "unique_indices"));
  Attributes attrs;
  attrs.Set(AttrId::kScatterDims, std::move(dims));
  if (sorted) attrs.Set(AttrId::kIndicesAreSorted, true);
  if (unique) attrs.Set(AttrId::kUniqueIndices, true);
  ASSIGN_OR_RETURN(Computation * body, ImportClosedRegion(op.regions[0], "scatter"));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kScatter, std::move(operands), std::move(attrs), {body}));
  return Bind(scope, op, y);
}

// Row `index` of one dimension, with common leading batch dimensions: a gather of full slices.
absl::Status Importer::ImportTorchIndexSelect(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value index, Get(scope, op.operands[1]));
  ASSIGN_OR_RETURN(int64_t dim, GetInt(op, "dim"));
  ASSIGN_OR_RETURN(int64_t batch, GetInt(op, "batch_dims"));
  const Shape &xs = x->shape(), &is = index->shape();
  if (!xs.IsArray() || !is.IsArray() || dim < 0 || dim >= xs.rank() || batch < 0 || batch > dim || batch > is.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim ", dim, " and batch_dims ", batch, " do not fit ", xs.ToString(), " and ", is.ToString()));
  }
  GatherDimensions dims;
  Ints sizes(xs.dimensions().begin(), xs.dimensions().end());
  for (int64_t i = 0; i < batch; ++i) {
    dims.operand_batching_dims.push_back(i);
    dims.start_indices_batching_dims.push_back(i);
    sizes[i] = 1;
  }
  sizes[dim] = 1;
  dims.collapsed_slice_dims = {dim};
  dims.start_index_map = {dim};
  dims.index_vector_dim = is.rank();
  // Result: batch, x between batch and dim, the rest of index, x behind dim.
  for (int64_t i = batch; i < dim; ++i) dims.offset_dims.push_back(i);
  for (int64_t i = dim + 1; i < xs.rank(); ++i) dims.offset_dims.push_back(i - 1 + is.rank() - batch);
  Attributes attrs;
  attrs.Set(AttrId::kGatherDims, std::move(dims));
  attrs.Set(AttrId::kSliceSizes, std::move(sizes));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kGather, {x, index}, std::move(attrs)));
  return Bind(scope, op, y);
}

}  // namespace backplane::to_hlo
