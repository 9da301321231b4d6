// Shape rules and cost of reduce, scan, sort and top-k.
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

absl::StatusOr<Shape> InferReduce(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  const size_t total = op.operands.size();
  if (total == 0 || total % 2 != 0)
    return Fail(op, "reduce_c3", "has ", total, " operands, expected inputs and as many inits");
  const int n = static_cast<int>(total / 2);
  const Shape& x = op.operand(0);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  std::vector<PrimitiveType> types;
  for (int i = 0; i < n; ++i) {
    if (!SameDims(op.operand(i), x)) {
      return Fail(op, "reduce_c1", "inputs differ in dims: ", x.ToString(), " and ", op.operand(i).ToString());
    }
    const Shape& init = op.operand(n + i);
    if (init.rank() != 0 || !IsPromotable(op.operand(i).element_type(), init.element_type())) {
      return Fail(op, "reduce_c2", "init ", i, " is ", init.ToString(), ", input is ", op.operand(i).ToString());
    }
    types.push_back(op.operand(i).element_type());
  }
  if (!AllInRange(dims, 0, x.rank()))
    return Fail(op, "reduce_c4", "dimensions ", FormatDims(dims), " lie outside ", x.ToString());
  if (!IsUnique(dims)) return Fail(op, "reduce_c5", "dimensions ", FormatDims(dims), " repeat");
  ASSIGN_OR_RETURN(std::vector<PrimitiveType> results, CheckCombiner(op, 0, types, "reduce_c6"));
  DimVector kept;
  std::vector<int64_t> from;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (Contains(dims, d)) continue;
    kept.push_back(x.dimensions(d));
    from.push_back(d);
  }
  std::vector<Shape> shapes;
  for (int i = 0; i < n; ++i) {
    if (op.operand(n + i).element_type() != results[i]) {
      return Fail(op, "reduce_c2", "init ", i, " is ", op.operand(n + i).ToString(), ", the body computes ",
                  Name(results[i]));
    }
    Shape s(results[i], kept);
    for (size_t k = 0; k < from.size(); ++k) {
      if (op.operand(i).is_dynamic(from[k])) s.set_dynamic(static_cast<int64_t>(k), true);
    }
    shapes.push_back(std::move(s));
  }
  return n == 1 ? shapes[0] : Shape::Tuple(std::move(shapes));
}

// Operands: inputs, then initial carries. The body takes input slices and carries; it returns output slices and
// carries.
absl::StatusOr<Shape> InferScan(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  const int total = static_cast<int>(op.operands.size());
  const int64_t k = op.attrs->GetInt(AttrId::kNumCarries);
  if (k < 0 || k > total) return Fail(op, "scan_c1", k, " carries do not fit ", total, " operands");
  const int m = total - static_cast<int>(k);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  if (dims.size() != 1) return Fail(op, "scan_c2", "needs one scan dimension, found ", FormatDims(dims));
  const int64_t d = dims[0];
  const ProgramShape& body = op.called[0];
  if (static_cast<int>(body.parameters.size()) != total) {
    return Fail(op, "scan_c3", "the body takes ", body.parameters.size(), " values, expected ", total);
  }
  auto without = [&](const Shape& s) {
    DimVector kept = s.dimensions();
    kept.erase(kept.begin() + d);
    return Shape(s.element_type(), kept);
  };
  int64_t length = -1;
  for (int i = 0; i < m; ++i) {
    const Shape& s = op.operand(i);
    if (d < 0 || d >= s.rank()) return Fail(op, "scan_c2", "scan dimension ", d, " is not one of ", s.ToString());
    if (length >= 0 && s.dimensions(d) != length)
      return Fail(op, "scan_c4", "inputs differ in the scan dimension's size");
    length = s.dimensions(d);
    if (!SameTypeAndDims(body.parameters[i], without(s))) {
      return Fail(op, "scan_c3", "the body's parameter ", i, " is ", body.parameters[i].ToString(), ", input is ",
                  s.ToString());
    }
  }
  for (int i = m; i < total; ++i) {
    if (!SameTypeAndDims(body.parameters[i], op.operand(i))) {
      return Fail(op, "scan_c5", "the body's parameter ", i, " is ", body.parameters[i].ToString(), ", carry is ",
                  op.operand(i).ToString());
    }
  }
  std::vector<Shape> results = body.result.IsTuple() ? body.result.tuple_shapes() : std::vector<Shape>{body.result};
  if (static_cast<int64_t>(results.size()) < k)
    return Fail(op, "scan_c5", "the body returns fewer values than carries");
  const size_t n = results.size() - static_cast<size_t>(k);
  for (size_t i = n; i < results.size(); ++i) {
    if (!SameTypeAndDims(results[i], op.operand(m + static_cast<int>(i - n)))) {
      return Fail(op, "scan_c5", "the body returns carry ", results[i].ToString(), ", expected ",
                  op.operand(m + static_cast<int>(i - n)).ToString());
    }
  }
  if (length < 0) {  // no inputs: only the declared result knows the length
    ASSIGN_OR_RETURN(Shape declared, GetDeclaredShape(op));
    const Shape& first = declared.IsTuple() && declared.tuple_size() > 0 ? declared.tuple_shapes(0) : declared;
    if (n == 0 || d < 0 || d >= first.rank()) return Fail(op, "scan_c4", "the length of the scan is not known");
    length = first.dimensions(d);
  }
  for (size_t i = 0; i < n; ++i) {
    DimVector with = results[i].dimensions();
    if (!results[i].IsArray() || d > results[i].rank()) {
      return Fail(op, "scan_c2", "scan dimension ", d, " does not fit output ", results[i].ToString());
    }
    with.insert(with.begin() + d, length);
    results[i] = Shape(results[i].element_type(), with);
  }
  if (results.size() == 1 && op.declared != nullptr && op.declared->IsArray()) return results[0];
  return Shape::Tuple(std::move(results));
}

absl::StatusOr<Shape> InferSort(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  if (op.operands.empty()) return Fail(op, "sort_c1", "needs at least one operand");
  const Shape& x = op.operand(0);
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  std::vector<Shape> shapes, parameters;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Shape& s = op.operand(static_cast<int>(i));
    if (!SameDims(s, x)) return Fail(op, "sort_c3", "operands differ in dims: ", x.ToString(), " and ", s.ToString());
    shapes.push_back(s.WithoutLayout());
    parameters.push_back(Shape::Scalar(s.element_type()));
    parameters.push_back(parameters.back());
  }
  const int64_t rank = x.rank();
  if (rank == 0) return Fail(op, "sort_c4", "a scalar has no dimension to sort along");
  if (dims.size() > 1 || (dims.size() == 1 && (dims[0] < 0 || dims[0] >= rank))) {
    return Fail(op, "sort_c4", "dimension ", FormatDims(dims), " is not one of ", x.ToString());
  }
  RETURN_IF_ERROR(CheckSignature(op, 0, parameters, Shape::Scalar(PrimitiveType::kPred), "sort_c5"));
  return shapes.size() == 1 ? shapes[0] : Shape::Tuple(std::move(shapes));
}

absl::StatusOr<Shape> InferTopK(const OpContext& op) {
  const Shape& x = op.operand(0);
  const int64_t k = op.attrs->GetInt(AttrId::kK);
  if (x.rank() < 1) return Fail(op, "topk_c1", "needs rank 1 or more, found ", x.ToString());
  if (k < 0 || k > x.dimensions(x.rank() - 1)) {
    return Fail(op, "topk_c2", "k is ", k, ", the last dimension of ", x.ToString(), " is ",
                x.dimensions(x.rank() - 1));
  }
  if (IsComplex(x.element_type())) return Fail(op, "topk_i1", "does not take element type ", Name(x.element_type()));
  DimVector dims = x.dimensions();
  dims.back() = k;
  return Shape::Tuple({Shape(x.element_type(), dims), Shape(PrimitiveType::kS32, dims)});
}

}  // namespace

absl::StatusOr<Shape> InferReduction(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  switch (op.opcode) {
    case Opcode::kReduce:
      return InferReduce(op);
    case Opcode::kScan:
      return InferScan(op);
    case Opcode::kSort:
      return InferSort(op);
    default:
      return InferTopK(op);
  }
}

Cost CostReduction(const OpContext& op, const Shape& result) {
  Cost cost = ElementCost(op, result, 0);
  const double n = op.operands.empty() ? 0 : ElementCount(op.operand(0));
  double log_n = 1;
  if (op.opcode == Opcode::kSort || op.opcode == Opcode::kTopK) {
    for (double m = 2; m < n; m *= 2) log_n += 1;
  }
  cost.flops = n * log_n;
  return cost;
}

}  // namespace backplane
