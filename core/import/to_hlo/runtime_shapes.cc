#include "core/import/to_hlo/runtime_shapes.h"

#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/formula.h"
#include "core/types/status_macros.h"

namespace backplane::to_hlo {

namespace {

// Element `i` of a vector of integers, as a scalar s64.
absl::StatusOr<Value> Entry(Builder& b, Value vector, int64_t i) {
  ASSIGN_OR_RETURN(Value part, b.Slice(vector, {{i, i + 1, 1}}));
  ASSIGN_OR_RETURN(part, b.Reshape(part, {}));
  return b.Convert(part, PrimitiveType::kS64);
}

absl::Status CheckVector(Value vector, int64_t rank, absl::string_view what) {
  const Shape& s = vector->shape();
  if (s.IsArray() && s.rank() == 1 && s.dimensions(0) == rank && IsIntegral(s.element_type())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", s.ToString(), ", expected a vector of ", rank, " integers"));
}

// The rows of dimension `d` that `indices`, s64[n], names; indices are in range after clamping.
absl::StatusOr<Value> Take(Builder& b, Value x, int64_t d, Value indices) {
  const Shape& s = x->shape();
  GatherDimensions dims;
  Ints sizes(s.dimensions().begin(), s.dimensions().end());
  sizes[d] = 1;
  for (int64_t i = 0; i < s.rank(); ++i) {
    if (i != d) dims.offset_dims.push_back(i);
  }
  dims.collapsed_slice_dims = {d};
  dims.start_index_map = {d};
  dims.index_vector_dim = 1;
  Attributes attrs;
  attrs.Set(AttrId::kGatherDims, std::move(dims));
  attrs.Set(AttrId::kSliceSizes, std::move(sizes));
  return b.Op(Opcode::kGather, {x, indices}, std::move(attrs));
}

}  // namespace

absl::StatusOr<Value> SliceAtRuntime(Builder& b, Value x, Value start, Value stride, absl::Span<const int64_t> dims) {
  const int64_t rank = x->shape().rank();
  if (static_cast<int64_t>(dims.size()) != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("operand ", x->shape().ToString(), ", result of rank ", dims.size()));
  }
  RETURN_IF_ERROR(CheckVector(start, rank, "start_indices"));
  RETURN_IF_ERROR(CheckVector(stride, rank, "strides"));
  for (int64_t d = 0; d < rank; ++d) {
    if (dims[d] > 0 && x->shape().dimensions(d) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", d, " of ", x->shape().ToString(), " is empty"));
    }
    if (x->shape().dimensions(d) == 0) continue;
    ASSIGN_OR_RETURN(Value from, Entry(b, start, d));
    ASSIGN_OR_RETURN(Value step, Entry(b, stride, d));
    Shape line(PrimitiveType::kS64, {dims[d]});
    ASSIGN_OR_RETURN(Value index, b.Iota(line, 0));
    ASSIGN_OR_RETURN(step, b.BroadcastInDim(step, line.dimensions(), {}));
    ASSIGN_OR_RETURN(from, b.BroadcastInDim(from, line.dimensions(), {}));
    ASSIGN_OR_RETURN(index, b.Binary(Opcode::kMultiply, index, step));
    ASSIGN_OR_RETURN(index, b.Binary(Opcode::kAdd, index, from));
    ASSIGN_OR_RETURN(x, Take(b, x, d, index));
  }
  return x;
}

absl::StatusOr<Value> PadAtRuntime(Builder& b, Value x, Value value, Value low, Value interior,
                                   absl::Span<const int64_t> dims) {
  const int64_t rank = x->shape().rank();
  if (static_cast<int64_t>(dims.size()) != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("operand ", x->shape().ToString(), ", result of rank ", dims.size()));
  }
  RETURN_IF_ERROR(CheckVector(low, rank, "edge_padding_low"));
  RETURN_IF_ERROR(CheckVector(interior, rank, "interior_padding"));
  ASSIGN_OR_RETURN(Value padding, b.BroadcastInDim(value, dims, {}));
  for (int64_t size : x->shape().dimensions()) {
    if (size == 0) return padding;
  }
  Value taken = x, inside = nullptr;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = x->shape().dimensions(d);
    ASSIGN_OR_RETURN(Value before, Entry(b, low, d));
    ASSIGN_OR_RETURN(Value between, Entry(b, interior, d));
    Shape line(PrimitiveType::kS64, {dims[d]});
    ASSIGN_OR_RETURN(Value at, b.Iota(line, 0));
    ASSIGN_OR_RETURN(before, b.BroadcastInDim(before, line.dimensions(), {}));
    ASSIGN_OR_RETURN(between, b.BroadcastInDim(between, line.dimensions(), {}));
    // Position i - low in the operand with interior padding. It is an element where the step divides it.
    Formula f(&b, line);
    Term offset = f.Of(at) - f.Of(before), step = f.Of(between) + 1.0;
    Term quotient = offset / step;
    Term good = GreaterEqual(offset, 0.0) & Equal(quotient * step, offset) & Less(quotient, static_cast<double>(size));
    ASSIGN_OR_RETURN(Value index, f.Result(quotient));
    ASSIGN_OR_RETURN(Value mask, f.Result(good));
    ASSIGN_OR_RETURN(taken, Take(b, taken, d, index));
    ASSIGN_OR_RETURN(mask, b.BroadcastInDim(mask, dims, {d}));
    if (inside != nullptr) {
      ASSIGN_OR_RETURN(mask, b.Binary(Opcode::kAnd, inside, mask));
    }
    inside = mask;
  }
  return inside == nullptr ? taken : b.Select(inside, taken, padding);
}

}  // namespace backplane::to_hlo
