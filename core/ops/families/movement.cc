// Shape rules and cost of operations that only move elements.
#include <algorithm>

#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::StatusOr<Shape> InferBroadcast(const OpContext& op) {
  ASSIGN_OR_RETURN(Shape to, GetDeclaredArrayShape(op));
  const Shape& x = op.operand(0);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  if (x.element_type() != to.element_type()) {
    return Fail(op, "broadcast_c1", "element types differ: ", x.ToString(), " to ", to.ToString());
  }
  if (static_cast<int64_t>(dims.size()) != x.rank()) {
    return Fail(op, "broadcast_c2", "dimensions ", FormatDims(dims), " must have one entry for each of ", x.ToString());
  }
  if (!AllInRange(dims, 0, to.rank())) {
    return Fail(op, "broadcast_c3", "dimensions ", FormatDims(dims), " lie outside ", to.ToString());
  }
  if (!IsUnique(dims)) return Fail(op, "broadcast_c4", "dimensions ", FormatDims(dims), " repeat");
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (x.dimensions(i) != to.dimensions(dims[i])) {
      return Fail(op, "broadcast_c5", "operand ", x.ToString(), " dim ", i, " is ", x.dimensions(i), ", result ",
                  to.ToString(), " dim ", dims[i], " is ", to.dimensions(dims[i]));
    }
  }
  return to;
}

absl::StatusOr<Shape> InferConcatenate(const OpContext& op) {
  if (op.operands.empty()) return Fail(op, "concatenate_c3", "needs at least one operand");
  const Shape& first = op.operand(0);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  if (dims.size() != 1 || dims[0] < 0 || dims[0] >= first.rank()) {
    return Fail(op, "concatenate_c4", "dimension ", FormatDims(dims), " is not one of ", first.ToString());
  }
  const int64_t d = dims[0];
  Shape result = first.WithoutLayout();
  __int128 total = first.dimensions(d);
  for (size_t i = 1; i < op.operands.size(); ++i) {
    const Shape& x = op.operand(static_cast<int>(i));
    if (x.element_type() != first.element_type()) {
      return Fail(op, "concatenate_c1", "element types differ: ", first.ToString(), " and ", x.ToString());
    }
    bool same = x.rank() == first.rank();
    for (int64_t k = 0; same && k < x.rank(); ++k) same = k == d || x.dimensions(k) == first.dimensions(k);
    if (!same) {
      return Fail(op, "concatenate_c2", "dims differ outside dimension ", d, ": ", first.ToString(), " and ",
                  x.ToString());
    }
    total += x.dimensions(d);
    CopyDynamic(x, result);
  }
  if (total > (int64_t{1} << 62)) return Fail(op, "concatenate_c6", "the result is too large");
  result.set_dimension(d, static_cast<int64_t>(total));
  return result;
}

absl::StatusOr<Shape> InferPad(const OpContext& op) {
  const Shape &x = op.operand(0), &value = op.operand(1);
  const PaddingConfig& padding = op.attrs->Get<PaddingConfig>(AttrId::kPadding);
  if (value.rank() != 0) return Fail(op, "pad_i2", "the padding value must be a scalar, found ", value.ToString());
  if (value.element_type() != x.element_type()) {
    return Fail(op, "pad_c1", "element types differ: ", x.ToString(), " and ", value.ToString());
  }
  if (static_cast<int64_t>(padding.size()) != x.rank()) {
    return Fail(op, "pad_c2", "padding has ", padding.size(), " dimensions, operand ", x.ToString(), " has ", x.rank());
  }
  Shape result = x.WithoutLayout();
  for (int64_t i = 0; i < x.rank(); ++i) {
    const PaddingDimension& p = padding[i];
    if (p.interior < 0) return Fail(op, "pad_c3", "interior padding ", p.interior, " of dim ", i, " is negative");
    const int64_t d = x.dimensions(i);
    __int128 size =
        static_cast<__int128>(p.low) + p.high + d + static_cast<__int128>(std::max<int64_t>(d - 1, 0)) * p.interior;
    if (size < 0 || size > (int64_t{1} << 62)) {
      return Fail(op, "pad_c4", "dim ", i, " of ", x.ToString(), " would get a size that is negative or too large");
    }
    result.set_dimension(i, static_cast<int64_t>(size));
  }
  return result;
}

absl::StatusOr<Shape> InferSlice(const OpContext& op) {
  const Shape& x = op.operand(0);
  const SliceConfig& slices = op.attrs->Get<SliceConfig>(AttrId::kSlices);
  if (static_cast<int64_t>(slices.size()) != x.rank()) {
    return Fail(op, "slice_c2", "has ", slices.size(), " ranges, operand ", x.ToString(), " has rank ", x.rank());
  }
  Shape result = x.WithoutLayout();
  for (int64_t i = 0; i < x.rank(); ++i) {
    const SliceDimension& s = slices[i];
    if (s.start < 0 || s.start > s.limit || s.limit > x.dimensions(i)) {
      return Fail(op, "slice_c3", "range [", s.start, ":", s.limit, "] lies outside dim ", i, " of ", x.ToString());
    }
    if (s.stride <= 0) return Fail(op, "slice_c4", "stride ", s.stride, " of dim ", i, " is not positive");
    const int64_t span = s.limit - s.start;
    result.set_dimension(i, span == 0 ? 0 : (span - 1) / s.stride + 1);
  }
  return result;
}

}  // namespace

absl::StatusOr<Shape> InferMovement(const OpContext& op) {
  if (op.opcode == Opcode::kCopy) return op.operand(0).WithoutLayout();
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  switch (op.opcode) {
    case Opcode::kBroadcast:
      return InferBroadcast(op);
    case Opcode::kConcatenate:
      return InferConcatenate(op);
    case Opcode::kPad:
      return InferPad(op);
    case Opcode::kSlice:
      return InferSlice(op);
    default:
      break;
  }
  const Shape& x = op.operand(0);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  if (op.opcode == Opcode::kReshape) {
    ASSIGN_OR_RETURN(Shape to, GetDeclaredArrayShape(op));
    if (to.element_type() != x.element_type()) {
      return Fail(op, "reshape_c1", "element types differ: ", x.ToString(), " to ", to.ToString());
    }
    if (to.num_elements() != x.num_elements()) {
      return Fail(op, "reshape_c2", "element counts differ: ", x.ToString(), " to ", to.ToString());
    }
    return to;
  }
  if (op.opcode == Opcode::kReverse) {
    if (!IsUnique(dims)) return Fail(op, "reverse_c2", "dimensions ", FormatDims(dims), " repeat");
    if (!AllInRange(dims, 0, x.rank())) {
      return Fail(op, "reverse_c3", "dimensions ", FormatDims(dims), " lie outside ", x.ToString());
    }
    return x.WithoutLayout();
  }
  if (!IsPermutation(dims, x.rank())) {  // transpose
    return Fail(op, "transpose_c2", "dimensions ", FormatDims(dims), " are no permutation of those of ", x.ToString());
  }
  DimVector out;
  for (int64_t d : dims) out.push_back(x.dimensions(d));
  Shape result(x.element_type(), out);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (x.is_dynamic(dims[i])) result.set_dynamic(static_cast<int64_t>(i), true);
  }
  return result;
}

Cost CostMovement(const OpContext& op, const Shape& result) { return ElementCost(op, result, 0); }

}  // namespace backplane
