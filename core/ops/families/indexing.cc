// Shape rules and cost of dynamic slices, gather and scatter.
#include <algorithm>

#include "core/ops/families/checks.h"

namespace backplane {
namespace {

// Start indices are one scalar for each dimension, or (older text) one vector of them.
absl::Status CheckStarts(const OpContext& op, int first, int64_t rank, absl::string_view count,
                         absl::string_view same) {
  const int n = static_cast<int>(op.operands.size()) - first;
  if (n == 1 && op.operand(first).rank() == 1 && op.operand(first).dimensions(0) == rank &&
      IsIntegral(op.operand(first).element_type())) {
    return absl::OkStatus();
  }
  if (n != rank) return Fail(op, count, "has ", n, " start indices, expected ", rank);
  for (int i = first; i < first + n; ++i) {
    const Shape& s = op.operand(i);
    if (s.rank() != 0 || !IsIntegral(s.element_type())) {
      return Fail(op, same, "start index ", i - first, " must be an integer scalar, found ", s.ToString());
    }
    if (s.element_type() != op.operand(first).element_type()) {
      return Fail(op, same, "start indices differ in type: ", op.operand(first).ToString(), " and ", s.ToString());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> InferDynamicSlice(const OpContext& op) {
  if (op.operands.empty()) return Fail(op, "dynamic_slice_arity", "needs an operand");
  const Shape& x = op.operand(0);
  const Ints& sizes = op.attrs->GetInts(AttrId::kDynamicSliceSizes);
  RETURN_IF_ERROR(CheckStarts(op, 1, x.rank(), "dynamic_slice_c2", "dynamic_slice_c3"));
  if (static_cast<int64_t>(sizes.size()) != x.rank()) {
    return Fail(op, "dynamic_slice_c2", "slice sizes ", FormatDims(sizes), " do not fit ", x.ToString());
  }
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (sizes[i] < 0 || sizes[i] > x.dimensions(i)) {
      return Fail(op, "dynamic_slice_c4", "slice size ", sizes[i], " of dim ", i, " lies outside ", x.ToString());
    }
  }
  return Shape(x.element_type(), sizes);
}

absl::StatusOr<Shape> InferDynamicUpdateSlice(const OpContext& op) {
  if (op.operands.size() < 2) return Fail(op, "dynamic_update_slice_arity", "needs an operand and an update");
  const Shape &x = op.operand(0), &update = op.operand(1);
  if (x.element_type() != update.element_type()) {
    return Fail(op, "dynamic_update_slice_c2", "element types differ: ", x.ToString(), " and ", update.ToString());
  }
  if (x.rank() != update.rank()) {
    return Fail(op, "dynamic_update_slice_c3", "ranks differ: ", x.ToString(), " and ", update.ToString());
  }
  RETURN_IF_ERROR(CheckStarts(op, 2, x.rank(), "dynamic_update_slice_c4", "dynamic_update_slice_c5"));
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (update.dimensions(i) > x.dimensions(i)) {
      return Fail(op, "dynamic_update_slice_c6", "update ", update.ToString(), " is larger than ", x.ToString(),
                  " in dim ", i);
    }
  }
  return x.WithoutLayout();
}

absl::StatusOr<Shape> InferGather(const OpContext& op) {
  const Shape &x = op.operand(0), &indices = op.operand(1);
  const GatherDimensions& g = op.attrs->Get<GatherDimensions>(AttrId::kGatherDims);
  const Ints& sizes = op.attrs->GetInts(AttrId::kSliceSizes);
  if (!IsIntegral(indices.element_type())) {
    return Fail(op, "gather_i2", "start indices must be integers, found ", indices.ToString());
  }
  if (x.rank() !=
      static_cast<int64_t>(g.offset_dims.size() + g.collapsed_slice_dims.size() + g.operand_batching_dims.size())) {
    return Fail(op, "gather_c1", "operand ", x.ToString(), " has rank ", x.rank(),
                ", offset, collapsed and batching dims are ", g.offset_dims.size(), ", ", g.collapsed_slice_dims.size(),
                " and ", g.operand_batching_dims.size());
  }
  if (g.index_vector_dim < 0 || g.index_vector_dim > indices.rank()) {
    return Fail(op, "gather_c2", "index vector dim ", g.index_vector_dim, " lies outside ", indices.ToString());
  }
  const int64_t index_size = g.index_vector_dim < indices.rank() ? indices.dimensions(g.index_vector_dim) : 1;
  if (static_cast<int64_t>(g.start_index_map.size()) != index_size) {
    return Fail(op, "gather_c3", "start index map ", FormatDims(g.start_index_map), " must have ", index_size,
                " entries");
  }
  if (!IsStrictlyIncreasing(g.offset_dims)) {
    return Fail(op, "gather_c4", "offset dims ", FormatDims(g.offset_dims), " are not sorted and unique");
  }
  const int64_t batch_rank = indices.rank() - (g.index_vector_dim < indices.rank() ? 1 : 0);
  const int64_t result_rank = batch_rank + static_cast<int64_t>(g.offset_dims.size());
  if (!AllInRange(g.offset_dims, 0, result_rank)) {
    return Fail(op, "gather_c5", "offset dims ", FormatDims(g.offset_dims), " lie outside result rank ", result_rank);
  }
  Ints dropped = g.collapsed_slice_dims;
  dropped.insert(dropped.end(), g.operand_batching_dims.begin(), g.operand_batching_dims.end());
  if (!IsUnique(dropped)) return Fail(op, "gather_c6", "collapsed and batching dims repeat: ", FormatDims(dropped));
  if (!IsStrictlyIncreasing(g.collapsed_slice_dims)) {
    return Fail(op, "gather_c7", "collapsed slice dims ", FormatDims(g.collapsed_slice_dims), " are not sorted");
  }
  if (!AllInRange(g.collapsed_slice_dims, 0, x.rank())) {
    return Fail(op, "gather_c8", "collapsed slice dims ", FormatDims(g.collapsed_slice_dims), " lie outside ",
                x.ToString());
  }
  if (!IsStrictlyIncreasing(g.operand_batching_dims)) {
    return Fail(op, "gather_c10", "operand batching dims ", FormatDims(g.operand_batching_dims), " are not sorted");
  }
  if (!AllInRange(g.operand_batching_dims, 0, x.rank())) {
    return Fail(op, "gather_c11", "operand batching dims ", FormatDims(g.operand_batching_dims), " lie outside ",
                x.ToString());
  }
  if (static_cast<int64_t>(sizes.size()) != x.rank()) {
    return Fail(op, "gather_c20", "slice sizes ", FormatDims(sizes), " do not fit ", x.ToString());
  }
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (sizes[i] < 0 || sizes[i] > x.dimensions(i)) {
      return Fail(op, "gather_c21", "slice size ", sizes[i], " of dim ", i, " lies outside ", x.ToString());
    }
  }
  for (int64_t d : g.collapsed_slice_dims) {
    if (sizes[d] > 1) return Fail(op, "gather_c9", "slice size ", sizes[d], " of collapsed dim ", d, " exceeds 1");
  }
  for (int64_t d : g.operand_batching_dims) {
    if (sizes[d] > 1) return Fail(op, "gather_c12", "slice size ", sizes[d], " of batching dim ", d, " exceeds 1");
  }
  if (!IsUnique(g.start_indices_batching_dims)) {
    return Fail(op, "gather_c13", "start indices batching dims ", FormatDims(g.start_indices_batching_dims), " repeat");
  }
  if (!AllInRange(g.start_indices_batching_dims, 0, indices.rank())) {
    return Fail(op, "gather_c14", "start indices batching dims ", FormatDims(g.start_indices_batching_dims),
                " lie outside ", indices.ToString());
  }
  if (Contains(g.start_indices_batching_dims, g.index_vector_dim)) {
    return Fail(op, "gather_c15", "index vector dim ", g.index_vector_dim, " is a batching dim");
  }
  if (g.operand_batching_dims.size() != g.start_indices_batching_dims.size()) {
    return Fail(op, "gather_c16", "operand and start indices have different numbers of batching dims");
  }
  for (size_t i = 0; i < g.operand_batching_dims.size(); ++i) {
    if (x.dimensions(g.operand_batching_dims[i]) != indices.dimensions(g.start_indices_batching_dims[i])) {
      return Fail(op, "gather_c17", "batching dims differ: ", x.ToString(), " dim ", g.operand_batching_dims[i], ", ",
                  indices.ToString(), " dim ", g.start_indices_batching_dims[i]);
    }
  }
  Ints mapped = g.start_index_map;
  mapped.insert(mapped.end(), g.operand_batching_dims.begin(), g.operand_batching_dims.end());
  if (!IsUnique(mapped))
    return Fail(op, "gather_c18", "start index map and batching dims repeat: ", FormatDims(mapped));
  if (!AllInRange(g.start_index_map, 0, x.rank())) {
    return Fail(op, "gather_c19", "start index map ", FormatDims(g.start_index_map), " lies outside ", x.ToString());
  }
  DimVector dims;
  int64_t batch = 0, offset = 0;
  for (int64_t i = 0; i < result_rank; ++i) {
    if (Contains(g.offset_dims, i)) {
      while (Contains(dropped, offset)) ++offset;
      dims.push_back(sizes[offset++]);
    } else {
      if (batch == g.index_vector_dim) ++batch;
      dims.push_back(indices.dimensions(batch++));
    }
  }
  // A slice without elements cannot fill a result that has elements.
  for (int64_t d : dropped) {
    if (sizes[d] == 0 && !Contains(dims, 0)) {
      return Fail(op, Contains(g.collapsed_slice_dims, d) ? "gather_c9" : "gather_c12", "slice size 0 of dim ", d,
                  " leaves no element for the result");
    }
  }
  return Shape(x.element_type(), dims);
}

absl::StatusOr<Shape> InferScatter(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  const size_t total = op.operands.size();
  if (total < 3 || total % 2 == 0) return Fail(op, "scatter_c5", "has ", total, " operands, expected N, indices, N");
  const int n = static_cast<int>(total / 2);
  const Shape &x = op.operand(0), &indices = op.operand(n), &updates = op.operand(n + 1);
  const ScatterDimensions& s = op.attrs->Get<ScatterDimensions>(AttrId::kScatterDims);
  if (!IsIntegral(indices.element_type())) {
    return Fail(op, "scatter_i2", "scatter indices must be integers, found ", indices.ToString());
  }
  std::vector<PrimitiveType> types;
  for (int i = 0; i < n; ++i) {
    if (!SameDims(op.operand(i), x)) return Fail(op, "scatter_c1", "inputs differ in dims");
    if (!SameDims(op.operand(n + 1 + i), updates)) return Fail(op, "scatter_c3", "updates differ in dims");
    if (op.operand(i).element_type() != op.operand(n + 1 + i).element_type()) {
      return Fail(op, "scatter_c6", "input ", i, " is ", op.operand(i).ToString(), ", update ", i, " is ",
                  op.operand(n + 1 + i).ToString());
    }
    types.push_back(op.operand(i).element_type());
  }
  if (x.rank() != static_cast<int64_t>(s.update_window_dims.size() + s.inserted_window_dims.size() +
                                       s.input_batching_dims.size())) {
    return Fail(op, "scatter_c2", "input ", x.ToString(), " has rank ", x.rank(),
                ", window, inserted and batching dims are ", s.update_window_dims.size(), ", ",
                s.inserted_window_dims.size(), " and ", s.input_batching_dims.size());
  }
  if (!IsStrictlyIncreasing(s.update_window_dims)) {
    return Fail(op, "scatter_c7", "update window dims ", FormatDims(s.update_window_dims),
                " are not sorted and unique");
  }
  if (!AllInRange(s.update_window_dims, 0, updates.rank())) {
    return Fail(op, "scatter_c8", "update window dims ", FormatDims(s.update_window_dims), " lie outside ",
                updates.ToString());
  }
  Ints dropped = s.inserted_window_dims;
  dropped.insert(dropped.end(), s.input_batching_dims.begin(), s.input_batching_dims.end());
  if (!IsUnique(dropped)) return Fail(op, "scatter_c9", "inserted and batching dims repeat: ", FormatDims(dropped));
  if (!IsStrictlyIncreasing(s.inserted_window_dims)) {
    return Fail(op, "scatter_c10", "inserted window dims ", FormatDims(s.inserted_window_dims), " are not sorted");
  }
  if (!AllInRange(s.inserted_window_dims, 0, x.rank())) {
    return Fail(op, "scatter_c11", "inserted window dims ", FormatDims(s.inserted_window_dims), " lie outside ",
                x.ToString());
  }
  if (!IsStrictlyIncreasing(s.input_batching_dims)) {
    return Fail(op, "scatter_c12", "input batching dims ", FormatDims(s.input_batching_dims), " are not sorted");
  }
  if (!AllInRange(s.input_batching_dims, 0, x.rank())) {
    return Fail(op, "scatter_c13", "input batching dims ", FormatDims(s.input_batching_dims), " lie outside ",
                x.ToString());
  }
  if (!IsUnique(s.scatter_indices_batching_dims)) {
    return Fail(op, "scatter_c14", "scatter indices batching dims ", FormatDims(s.scatter_indices_batching_dims),
                " repeat");
  }
  if (!AllInRange(s.scatter_indices_batching_dims, 0, indices.rank())) {
    return Fail(op, "scatter_c15", "scatter indices batching dims ", FormatDims(s.scatter_indices_batching_dims),
                " lie outside ", indices.ToString());
  }
  if (Contains(s.scatter_indices_batching_dims, s.index_vector_dim)) {
    return Fail(op, "scatter_c16", "index vector dim ", s.index_vector_dim, " is a batching dim");
  }
  if (s.input_batching_dims.size() != s.scatter_indices_batching_dims.size()) {
    return Fail(op, "scatter_c17", "inputs and indices have different numbers of batching dims");
  }
  for (size_t i = 0; i < s.input_batching_dims.size(); ++i) {
    if (x.dimensions(s.input_batching_dims[i]) != indices.dimensions(s.scatter_indices_batching_dims[i])) {
      return Fail(op, "scatter_c18", "batching dims differ: ", x.ToString(), " dim ", s.input_batching_dims[i], ", ",
                  indices.ToString(), " dim ", s.scatter_indices_batching_dims[i]);
    }
  }
  if (s.index_vector_dim < 0 || s.index_vector_dim > indices.rank()) {
    return Fail(op, "scatter_c22", "index vector dim ", s.index_vector_dim, " lies outside ", indices.ToString());
  }
  const bool has_vector = s.index_vector_dim < indices.rank();
  const int64_t index_size = has_vector ? indices.dimensions(s.index_vector_dim) : 1;
  if (static_cast<int64_t>(s.scatter_dims_to_operand_dims.size()) != index_size) {
    return Fail(op, "scatter_c19", "scatter dims to operand dims ", FormatDims(s.scatter_dims_to_operand_dims),
                " must have ", index_size, " entries");
  }
  Ints mapped = s.scatter_dims_to_operand_dims;
  mapped.insert(mapped.end(), s.input_batching_dims.begin(), s.input_batching_dims.end());
  if (!IsUnique(mapped)) {
    return Fail(op, "scatter_c20", "scatter dims to operand dims and batching dims repeat: ", FormatDims(mapped));
  }
  if (!AllInRange(s.scatter_dims_to_operand_dims, 0, x.rank())) {
    return Fail(op, "scatter_c21", "scatter dims to operand dims ", FormatDims(s.scatter_dims_to_operand_dims),
                " lie outside ", x.ToString());
  }
  const int64_t batch_rank = indices.rank() - (has_vector ? 1 : 0);
  if (updates.rank() != batch_rank + static_cast<int64_t>(s.update_window_dims.size())) {
    return Fail(op, "scatter_c4", "updates ", updates.ToString(), " must have rank ",
                batch_rank + static_cast<int64_t>(s.update_window_dims.size()));
  }
  int64_t batch = 0, window = 0;
  for (int64_t i = 0; i < updates.rank(); ++i) {
    if (Contains(s.update_window_dims, i)) {
      while (Contains(dropped, window)) ++window;
      if (updates.dimensions(i) > x.dimensions(window)) {
        return Fail(op, "scatter_c4", "updates ", updates.ToString(), " dim ", i, " is larger than input ",
                    x.ToString(), " dim ", window);
      }
      ++window;
    } else {
      if (batch == s.index_vector_dim) ++batch;
      if (updates.dimensions(i) != indices.dimensions(batch)) {
        return Fail(op, "scatter_c4", "updates ", updates.ToString(), " dim ", i, " differs from scatter indices ",
                    indices.ToString(), " dim ", batch);
      }
      ++batch;
    }
  }
  ASSIGN_OR_RETURN(std::vector<PrimitiveType> results, CheckCombiner(op, 0, types, "scatter_c23"));
  std::vector<Shape> shapes;
  for (int i = 0; i < n; ++i) shapes.push_back(op.operand(i).WithElementType(results[i]).WithoutLayout());
  return n == 1 ? shapes[0] : Shape::Tuple(std::move(shapes));
}

}  // namespace

absl::StatusOr<Shape> InferIndexing(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  switch (op.opcode) {
    case Opcode::kDynamicSlice:
      return InferDynamicSlice(op);
    case Opcode::kDynamicUpdateSlice:
      return InferDynamicUpdateSlice(op);
    case Opcode::kGather:
      return InferGather(op);
    default:
      return InferScatter(op);
  }
}

Cost CostIndexing(const OpContext& op, const Shape& result) {
  Cost cost;
  switch (op.opcode) {
    case Opcode::kDynamicUpdateSlice:
      cost.bytes_accessed = 2 * CountShapeBytes(op.operand(1));
      break;
    case Opcode::kScatter: {
      const size_t n = op.operands.size() / 2;
      cost.bytes_accessed = CountShapeBytes(op.operand(static_cast<int>(n)));
      for (size_t i = 0; i < n; ++i) {
        cost.bytes_accessed += 3 * CountShapeBytes(op.operand(static_cast<int>(n + 1 + i)));
        cost.flops += ElementCount(op.operand(static_cast<int>(n + 1 + i)));
      }
      break;
    }
    default:  // only the elements taken are read
      cost.bytes_accessed = 2 * CountShapeBytes(result);
      for (size_t i = 1; i < op.operands.size(); ++i)
        cost.bytes_accessed += CountShapeBytes(op.operand(static_cast<int>(i)));
  }
  return cost;
}

}  // namespace backplane
