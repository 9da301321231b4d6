// Shape rules and cost of reduce-window and select-and-scatter.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::StatusOr<DimVector> WindowedDims(const OpContext& op, const Shape& x, absl::string_view count,
                                       absl::string_view size, absl::string_view stride, absl::string_view base,
                                       absl::string_view dilation, absl::string_view overflow) {
  const Window& w = op.attrs->Get<Window>(AttrId::kWindow);
  if (static_cast<int64_t>(w.dimensions.size()) != x.rank()) {
    return Fail(op, count, "the window has ", w.dimensions.size(), " dimensions, operand ", x.ToString(), " has rank ",
                x.rank());
  }
  DimVector dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const WindowDimension& d = w.dimensions[i];
    if (d.size <= 0) return Fail(op, size, "window size ", d.size, " of dim ", i, " is not positive");
    if (d.stride <= 0) return Fail(op, stride, "stride ", d.stride, " of dim ", i, " is not positive");
    if (d.base_dilation <= 0)
      return Fail(op, base, "base dilation ", d.base_dilation, " of dim ", i, " is not positive");
    if (d.window_dilation <= 0) {
      return Fail(op, dilation, "window dilation ", d.window_dilation, " of dim ", i, " is not positive");
    }
    const int64_t out = ComputeWindowedSize(x.dimensions(i), d);
    if (out < 0)
      return Fail(op, overflow, "dim ", i, " of ", x.ToString(), " would get a size that is negative or too large");
    dims.push_back(out);
  }
  return dims;
}

absl::StatusOr<Shape> InferReduceWindow(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  const size_t total = op.operands.size();
  if (total == 0 || total % 2 != 0) {
    return Fail(op, "reduce_window_c1", "has ", total, " operands, expected inputs and as many inits");
  }
  const int n = static_cast<int>(total / 2);
  const Shape& x = op.operand(0);
  std::vector<PrimitiveType> types;
  for (int i = 0; i < n; ++i) {
    if (!SameDims(op.operand(i), x)) {
      return Fail(op, "reduce_window_c2", "inputs differ in dims: ", x.ToString(), " and ", op.operand(i).ToString());
    }
    const Shape& init = op.operand(n + i);
    if (init.rank() != 0 || !IsPromotable(op.operand(i).element_type(), init.element_type())) {
      return Fail(op, "reduce_window_c3", "init ", i, " is ", init.ToString(), ", input is ", op.operand(i).ToString());
    }
    types.push_back(op.operand(i).element_type());
  }
  ASSIGN_OR_RETURN(DimVector dims, WindowedDims(op, x, "reduce_window_c4", "reduce_window_c5", "reduce_window_c7",
                                                "reduce_window_c9", "reduce_window_c11", "reduce_window_c15"));
  ASSIGN_OR_RETURN(std::vector<PrimitiveType> results, CheckCombiner(op, 0, types, "reduce_window_c13"));
  std::vector<Shape> shapes;
  for (int i = 0; i < n; ++i) {
    if (op.operand(n + i).element_type() != results[i]) {
      return Fail(op, "reduce_window_c3", "init ", i, " is ", op.operand(n + i).ToString(), ", the body computes ",
                  Name(results[i]));
    }
    shapes.emplace_back(results[i], dims);
  }
  return n == 1 ? shapes[0] : Shape::Tuple(std::move(shapes));
}

absl::StatusOr<Shape> InferSelectAndScatter(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 2));
  const Shape &x = op.operand(0), &source = op.operand(1), &init = op.operand(2);
  if (x.element_type() != source.element_type()) {
    return Fail(op, "select_and_scatter_c1", "element types differ: ", x.ToString(), " and ", source.ToString());
  }
  if (init.rank() != 0 || !IsPromotable(x.element_type(), init.element_type())) {
    return Fail(op, "select_and_scatter_c3", "init is ", init.ToString(), ", operand is ", x.ToString());
  }
  for (const WindowDimension& d : op.attrs->Get<Window>(AttrId::kWindow).dimensions) {
    if (d.base_dilation != 1 || d.window_dilation != 1) return Fail(op, "select_and_scatter_i4", "takes no dilation");
  }
  ASSIGN_OR_RETURN(DimVector dims,
                   WindowedDims(op, x, "select_and_scatter_c4", "select_and_scatter_c5", "select_and_scatter_c7",
                                "select_and_scatter_c5", "select_and_scatter_c5", "select_and_scatter_c2"));
  if (source.dimensions() != dims) {
    return Fail(op, "select_and_scatter_c2", "source ", source.ToString(), " must have dims ", FormatDims(dims));
  }
  const Shape scalar = Shape::Scalar(x.element_type());
  RETURN_IF_ERROR(
      CheckSignature(op, 0, {scalar, scalar}, Shape::Scalar(PrimitiveType::kPred), "select_and_scatter_c9"));
  ASSIGN_OR_RETURN(std::vector<PrimitiveType> types,
                   CheckCombiner(op, 1, {x.element_type()}, "select_and_scatter_c10"));
  if (init.element_type() != types[0]) {
    return Fail(op, "select_and_scatter_c3", "init is ", init.ToString(), ", the scatter computes ", Name(types[0]));
  }
  return x.WithElementType(types[0]).WithoutLayout();
}

}  // namespace

absl::StatusOr<Shape> InferWindow(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  return op.opcode == Opcode::kReduceWindow ? InferReduceWindow(op) : InferSelectAndScatter(op);
}

Cost CostWindow(const OpContext& op, const Shape& result) {
  Cost cost = ElementCost(op, result, 0);
  const double window = static_cast<double>(op.attrs->Get<Window>(AttrId::kWindow).CountElements());
  cost.flops = window * (op.opcode == Opcode::kReduceWindow ? ElementCount(result) : ElementCount(op.operand(1)));
  return cost;
}

}  // namespace backplane
