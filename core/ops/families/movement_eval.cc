// Evaluation of operations that make or move elements without arithmetic.
#include "core/ops/families/elements.h"
#include "core/types/integer_division.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

int Width(const Literal& x) { return ByteWidth(x.shape().element_type()); }

absl::StatusOr<Literal> Iota(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const int64_t d = op.attrs->GetInt(AttrId::kIotaDimension), size = shape.dimensions(d);
  int64_t inner = 1, outer = 1;
  for (int64_t i = 0; i < d; ++i) outer *= shape.dimensions(i);
  for (int64_t i = d + 1; i < shape.rank(); ++i) inner *= shape.dimensions(i);
  if (outer * inner * size == 0) return out;
  const int width = ByteWidth(shape.element_type());
  std::vector<int64_t> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i)] = i;
  std::vector<std::byte> line(static_cast<size_t>(size * width));
  WriteElements(shape.element_type(), line.data(), 0, size, values.data());
  StridedCopy(width, {outer, size, inner}, line.data(), {0, {0, 1, 0}}, out.mutable_bytes(),
              {0, {size * inner, inner, 1}});
  return out;
}

absl::StatusOr<Literal> Broadcast(const OpContext& op, const Literal& x) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  const DimVector from = RowMajorStrides(x.shape().dimensions());
  StridedSide source{0, DimVector(shape.rank(), 0)};
  for (size_t i = 0; i < dims.size(); ++i) source.strides[dims[i]] = from[i];
  StridedCopy(Width(x), shape.dimensions(), x.bytes(), source, out.mutable_bytes(),
              {0, RowMajorStrides(shape.dimensions())});
  for (size_t i = 0; i < dims.size(); ++i) {
    if (shape.is_dynamic(dims[i])) out.set_dynamic_size(dims[i], x.dynamic_size(static_cast<int64_t>(i)));
  }
  return out;
}

absl::StatusOr<Literal> Concatenate(const OpContext& op, Args args) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  if (args.size() == 1) return *args[0];
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const int64_t d = op.attrs->GetInts(AttrId::kDimensions)[0];
  const DimVector strides = RowMajorStrides(shape.dimensions());
  std::byte* target = out.mutable_bytes();
  int64_t at = 0;
  for (const Literal* a : args) {
    const DimVector from = RowMajorStrides(a->shape().dimensions());
    StridedCopy(Width(*a), a->shape().dimensions(), a->bytes(), {0, from}, target, {at * strides[d], strides});
    at += a->shape().dimensions(d);
  }
  return out;
}

absl::StatusOr<Literal> Pad(const OpContext& op, const Literal& x, const Literal& value) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const PaddingConfig& padding = op.attrs->Get<PaddingConfig>(AttrId::kPadding);
  std::byte* target = out.mutable_bytes();
  FillElements(Width(x), value.bytes(), target, out.num_elements());
  const DimVector from = RowMajorStrides(x.shape().dimensions()), to = RowMajorStrides(shape.dimensions());
  StridedSide source, sink;
  DimVector dims;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    // Elements first..last of the operand are inside the result.
    const int64_t step = padding[i].interior + 1, low = padding[i].low;
    const int64_t first = low >= 0 ? 0 : CeilDiv(-low, step);
    const int64_t room = shape.dimensions(i) - 1 - low;
    const int64_t last = room < 0 ? -1 : std::min(x.shape().dimensions(i) - 1, room / step);
    if (last < first) return out;
    dims.push_back(last - first + 1);
    source.strides.push_back(from[i]);
    source.offset += first * from[i];
    sink.strides.push_back(to[i] * step);
    sink.offset += (low + first * step) * to[i];
  }
  StridedCopy(Width(x), dims, x.bytes(), source, target, sink);
  return out;
}

absl::StatusOr<Literal> Slice(const OpContext& op, const Literal& x) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const SliceConfig& slices = op.attrs->Get<SliceConfig>(AttrId::kSlices);
  StridedSide source{0, RowMajorStrides(x.shape().dimensions())};
  for (int64_t i = 0; i < shape.rank(); ++i) {
    source.offset += slices[i].start * source.strides[i];
    source.strides[i] *= slices[i].stride;
  }
  StridedCopy(Width(x), shape.dimensions(), x.bytes(), source, out.mutable_bytes(),
              {0, RowMajorStrides(shape.dimensions())});
  return out;
}

absl::StatusOr<Literal> Reverse(const OpContext& op, const Literal& x) {
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, x.shape()));
  StridedSide source{0, RowMajorStrides(x.shape().dimensions())};
  const StridedSide target = source;
  for (int64_t d : op.attrs->GetInts(AttrId::kDimensions)) {
    source.offset += std::max<int64_t>(x.shape().dimensions(d) - 1, 0) * source.strides[d];
    source.strides[d] = -source.strides[d];
  }
  StridedCopy(Width(x), x.shape().dimensions(), x.bytes(), source, out.mutable_bytes(), target);
  return out;
}

absl::StatusOr<Literal> Transpose(const OpContext& op, const Literal& x) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const Ints& permutation = op.attrs->GetInts(AttrId::kDimensions);
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const DimVector from = RowMajorStrides(x.shape().dimensions());
  StridedSide source;
  for (int64_t d : permutation) source.strides.push_back(from[d]);
  StridedCopy(Width(x), shape.dimensions(), x.bytes(), source, out.mutable_bytes(),
              {0, RowMajorStrides(shape.dimensions())});
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (shape.is_dynamic(static_cast<int64_t>(i)))
      out.set_dynamic_size(static_cast<int64_t>(i), x.dynamic_size(permutation[i]));
  }
  return out;
}

// Moves the elements inside the dynamic sizes to the front, in row-major order.
Literal CompactUsedElements(const Literal& x) {
  Literal out(Shape(x.shape().element_type(), x.shape().dimensions()));
  DimVector sizes;
  for (int64_t d = 0; d < x.shape().rank(); ++d) sizes.push_back(x.dynamic_size(d));
  StridedCopy(Width(x), sizes, x.bytes(), {0, RowMajorStrides(x.shape().dimensions())}, out.mutable_bytes(),
              {0, RowMajorStrides(sizes)});
  return out;
}

}  // namespace

absl::StatusOr<Literal> EvaluateSource(const OpContext& op, Args args, EvalEnv& env) {
  if (op.opcode == Opcode::kConstant) return *op.literal;
  if (op.opcode == Opcode::kIota) return Iota(op);
  return absl::InternalError(absl::StrCat(op.name, ": a parameter has no value outside its computation"));
}

absl::StatusOr<Literal> EvaluateMovement(const OpContext& op, Args args, EvalEnv& env) {
  switch (op.opcode) {
    case Opcode::kBroadcast:
      return Broadcast(op, *args[0]);
    case Opcode::kConcatenate:
      return Concatenate(op, args);
    case Opcode::kCopy:
      return *args[0];
    case Opcode::kPad:
      return Pad(op, *args[0], *args[1]);
    case Opcode::kReshape: {
      ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
      return env.TakeOperand(0, *args[0]).Reshape(shape.dimensions());
    }
    case Opcode::kReverse:
      return Reverse(op, *args[0]);
    case Opcode::kTranspose:
      return Transpose(op, *args[0]);
    default:
      return Slice(op, *args[0]);
  }
}

absl::StatusOr<Literal> EvaluateDynamic(const OpContext& op, Args args, EvalEnv& env) {
  const Literal& x = *args[0];
  if (op.opcode == Opcode::kGetDimensionSize) {
    return Literal::ScalarInt(PrimitiveType::kS32, x.dynamic_size(op.attrs->GetInts(AttrId::kDimensions)[0]));
  }
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  if (op.opcode == Opcode::kSetDimensionSize) {
    const int64_t d = op.attrs->GetInts(AttrId::kDimensions)[0], size = args[1]->GetAsInt(0);
    if (size < 0 || size > shape.dimensions(d)) {
      return Fail(op, "set_dimension_size_value", "size ", size, " lies outside dim ", d, " of ", shape.ToString());
    }
    shape.set_dynamic(d, true);
    ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
    std::memcpy(out.mutable_bytes(), x.bytes(), static_cast<size_t>(out.byte_size()));
    for (int64_t i = 0; i < shape.rank(); ++i) out.set_dynamic_size(i, i == d ? size : x.dynamic_size(i));
    return out;
  }
  int64_t count = 1, want = 1;
  for (int64_t i = 0; i < x.shape().rank(); ++i) count *= x.dynamic_size(i);
  DimVector sizes;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    const int64_t size = args[static_cast<size_t>(i) + 1]->GetAsInt(0);
    if (size < 0 || size > shape.dimensions(i)) {
      return Fail(op, "dynamic_reshape_value", "size ", size, " of dim ", i, " lies outside ", shape.ToString());
    }
    sizes.push_back(size);
    want *= size;
  }
  if (want != count) return Fail(op, "dynamic_reshape_c2", "the operand has ", count, " elements, the result ", want);
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const Literal dense = CompactUsedElements(x);
  StridedCopy(Width(x), sizes, dense.bytes(), {0, RowMajorStrides(sizes)}, out.mutable_bytes(),
              {0, RowMajorStrides(shape.dimensions())});
  for (int64_t i = 0; i < shape.rank(); ++i) {
    if (shape.is_dynamic(i)) out.set_dynamic_size(i, sizes[i]);
  }
  return out;
}

}  // namespace backplane
