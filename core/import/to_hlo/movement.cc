// Operations that move elements: shapes, slices, gathers.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"
#include "core/import/to_hlo/runtime_shapes.h"

namespace backplane::to_hlo {

const SourceAttr* Importer::ConstantOperand(const SourceOp& op, size_t index) {
  const SourceOp* made = op.operands[index]->op;
  return made != nullptr && made->name == "stablehlo.constant" ? made->Find("value") : nullptr;
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
    ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kBroadcast, op));
    dims = attrs.GetInts(AttrId::kDimensions);
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

absl::Status Importer::ImportRealDynamicSlice(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  const SourceAttr *start = ConstantOperand(op, 1), *limit = ConstantOperand(op, 2), *strides = ConstantOperand(op, 3);
  if (start == nullptr || limit == nullptr || strides == nullptr) {
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
  ASSIGN_OR_RETURN(
      Attributes attrs,
      BuildAttributes(Opcode::kSlice, op, {{"start_indices", start}, {"limit_indices", limit}, {"strides", strides}}));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kSlice, {x}, std::move(attrs)));
  return Bind(scope, op, y);
}

// dynamic_pad whose result is static.
absl::Status Importer::ImportDynamicPad(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value value, Get(scope, op.operands[1]));
  const SourceAttr *low = ConstantOperand(op, 2), *high = ConstantOperand(op, 3), *interior = ConstantOperand(op, 4);
  if (low == nullptr || high == nullptr || interior == nullptr) {
    ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
    if (to.HasDynamicDimensions() || x->shape().HasDynamicDimensions()) {
      return absl::UnimplementedError("padding known at run time only, of a dynamic dimension");
    }
    ASSIGN_OR_RETURN(Value before, Get(scope, op.operands[2]));
    ASSIGN_OR_RETURN(Value between, Get(scope, op.operands[4]));
    ASSIGN_OR_RETURN(Value y, PadAtRuntime(scope.builder, x, value, before, between, to.dimensions()));
    return Bind(scope, op, y);
  }
  ASSIGN_OR_RETURN(
      Attributes attrs,
      BuildAttributes(Opcode::kPad, op,
                      {{"edge_padding_low", low}, {"edge_padding_high", high}, {"interior_padding", interior}}));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kPad, {x, value}, std::move(attrs)));
  return Bind(scope, op, y);
}

// dynamic_gather, whose slice sizes are constants or those that its static result shows.
absl::Status Importer::ImportDynamicGather(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value indices, Get(scope, op.operands[1]));
  const SourceAttr* sizes = ConstantOperand(op, 2);
  if (sizes == nullptr) {
    ASSIGN_OR_RETURN(const Ints offset_dims, GetInts(op, "offset_dims"));
    ASSIGN_OR_RETURN(const Ints collapsed, GetInts(op, "collapsed_slice_dims"));
    ASSIGN_OR_RETURN(const Ints batching, GetInts(op, "operand_batching_dims"));
    ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
    auto has = [](const Ints& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); };
    Ints shown;
    size_t next = 0;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      if (has(collapsed, d) || has(batching, d)) {
        shown.push_back(1);
        continue;
      }
      int64_t at = next < offset_dims.size() ? offset_dims[next++] : -1;
      if (at < 0 || at >= to.rank() || to.is_dynamic(at)) {
        return absl::InvalidArgumentError(absl::StrCat("offset_dims does not fit the result ", to.ToString()));
      }
      shown.push_back(to.dimensions(at));
    }
    sizes = stablehlo::MakeI64List(arena_, shown);
  }
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kGather, op, {{"slice_sizes", sizes}}));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kGather, {x, indices}, std::move(attrs)));
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
