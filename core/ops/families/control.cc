// Shape rules and cost of calls, branches, loops, tuples and ordering.
#include "absl/strings/ascii.h"
#include "core/ops/families/checks.h"

namespace backplane {
namespace {

// "ns.op": two or more names of letters, digits, '_' and '$', joined by dots.
bool IsNamespaced(absl::string_view name) {
  bool dot = false, at_start = true;
  for (char c : name) {
    if (c == '.') {
      if (at_start) return false;
      dot = at_start = true;
    } else {
      if (!absl::ascii_isalnum(c) && c != '_' && c != '$' && c != '-') return false;
      at_start = false;
    }
  }
  return dot && !at_start;
}

absl::Status CheckComposite(const OpContext& op) {
  const std::string& name = op.attrs->GetString(AttrId::kCompositeName);
  if (!IsNamespaced(name)) {
    return Fail(op, "composite_c1", "the name of a composite has a namespace, as in ns.op, found '", name.substr(0, 60),
                "'");
  }
  const int64_t version = op.attrs->GetInt(AttrId::kCompositeVersion);
  if (version < 0) return Fail(op, "composite_i5", "the version of a composite must not be negative, found ", version);
  return absl::OkStatus();
}

absl::StatusOr<Shape> InferCall(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  std::vector<Shape> parameters;
  for (const Shape* s : op.operands) parameters.push_back(*s);
  RETURN_IF_ERROR(
      CheckSignature(op, 0, parameters, op.called[0].result, op.opcode == Opcode::kCall ? "call_c3" : "fusion_c3"));
  if (op.attrs->GetBool(AttrId::kIsComposite)) RETURN_IF_ERROR(CheckComposite(op));
  if (op.opcode == Opcode::kFusion) RETURN_IF_ERROR(CheckOutputAliases(op, op.called[0].result, "fusion_i7"));
  return op.called[0].result.WithoutLayout();
}

absl::StatusOr<Shape> InferConditional(const OpContext& op) {
  if (op.called.empty()) return Fail(op, "conditional_c1", "needs at least one branch");
  if (op.operands.size() != op.called.size() + 1) {
    return Fail(op, "conditional_c2", "has ", op.called.size(), " branches and ", op.operands.size(),
                " operands, expected a selector and one for each branch");
  }
  const Shape& selector = op.operand(0);
  if (selector.IsScalar() && selector.element_type() == PrimitiveType::kPred) {
    if (op.called.size() != 2)
      return Fail(op, "conditional_c1", "a pred selects between 2 branches, found ", op.called.size());
  } else if (!selector.IsScalar() || selector.element_type() != PrimitiveType::kS32) {
    return Fail(op, "conditional_i1", "the selector must be pred[] or s32[], found ", selector.ToString());
  }
  for (size_t i = 0; i < op.called.size(); ++i) {
    const int k = static_cast<int>(i);
    if (!SameTypeAndDims(op.called[i].result, op.called[0].result)) {
      return Fail(op, "conditional_c3", "branch ", i, " returns ", op.called[i].result.ToString(),
                  ", branch 0 returns ", op.called[0].result.ToString());
    }
    RETURN_IF_ERROR(CheckSignature(op, k, {op.operand(k + 1)}, op.called[0].result, "conditional_c2"));
  }
  return op.called[0].result.WithoutLayout();
}

absl::StatusOr<Shape> InferMap(const OpContext& op) {
  RETURN_IF_ERROR(CheckOperandsAreArrays(op));
  RETURN_IF_ERROR(CheckCalledCount(op, 1));
  if (op.operands.empty()) return Fail(op, "map_c2", "needs at least one operand");
  const Shape& x = op.operand(0);
  std::vector<Shape> parameters;
  for (const Shape* s : op.operands) {
    if (!SameDims(*s, x)) return Fail(op, "map_c1", "operands differ in dims: ", x.ToString(), " and ", s->ToString());
    parameters.push_back(Shape::Scalar(s->element_type()));
  }
  const Ints& dims = op.attrs->GetInts(AttrId::kDimensions);
  bool range = static_cast<int64_t>(dims.size()) == x.rank();
  for (size_t i = 0; range && i < dims.size(); ++i) range = dims[i] == static_cast<int64_t>(i);
  if (!range) return Fail(op, "map_c3", "dimensions ", FormatDims(dims), " must be all of ", x.ToString(), " in order");
  const Shape& result = op.called[0].result;
  if (!result.IsScalar()) return Fail(op, "map_c4", "the computation must return a scalar, found ", result.ToString());
  RETURN_IF_ERROR(CheckSignature(op, 0, parameters, result, "map_c4"));
  return x.WithElementType(result.element_type()).WithoutLayout();
}

absl::StatusOr<Shape> InferWhile(const OpContext& op) {
  RETURN_IF_ERROR(CheckCalledCount(op, 2));
  const Shape& t = op.operand(0);
  RETURN_IF_ERROR(CheckSignature(op, 0, {t}, Shape::Scalar(PrimitiveType::kPred), "while_c1"));
  RETURN_IF_ERROR(CheckSignature(op, 1, {t}, t, "while_c2"));
  return t.WithoutLayout();
}

// Tuples of tuples double with each operation.
constexpr int64_t kMaxLeaves = int64_t{1} << 17;

absl::StatusOr<Shape> InferTuple(const OpContext& op) {
  int64_t leaves = 0;
  for (const Shape* s : op.operands) leaves += CountLeaves(*s);
  if (leaves > kMaxLeaves) {
    return absl::ResourceExhaustedError(
        absl::StrCat(op.name, ": a tuple of ", leaves, " arrays, at most ", kMaxLeaves, " are supported [tuple_size]"));
  }
  std::vector<Shape> elements;
  for (const Shape* s : op.operands) elements.push_back(s->WithoutLayout());
  return Shape::Tuple(std::move(elements));
}

}  // namespace

absl::StatusOr<Shape> InferControl(const OpContext& op) {
  switch (op.opcode) {
    case Opcode::kAddDependency:
      if (!op.operand(1).IsToken())
        return Fail(op, "add_dependency_i2", "operand 1 must be a token, found ", op.operand(1).ToString());
      return op.operand(0).WithoutLayout();
    case Opcode::kAfterAll:
      for (const Shape* s : op.operands) {
        if (!s->IsToken()) return Fail(op, "after_all_i1", "operands must be tokens, found ", s->ToString());
      }
      return Shape::Token();
    case Opcode::kCall:
    case Opcode::kFusion:
      return InferCall(op);
    case Opcode::kConditional:
      return InferConditional(op);
    case Opcode::kMap:
      return InferMap(op);
    case Opcode::kWhile:
      return InferWhile(op);
    case Opcode::kTuple:
      return InferTuple(op);
    case Opcode::kGetTupleElement: {
      const Shape& t = op.operand(0);
      const int64_t i = op.attrs->GetInt(AttrId::kTupleIndex, -1);
      if (!t.IsTuple()) return Fail(op, "get_tuple_element_i1", "the operand must be a tuple, found ", t.ToString());
      if (i < 0 || i >= t.tuple_size()) {
        return Fail(op, "get_tuple_element_c1", "index ", i, " lies outside ", t.ToString());
      }
      return t.tuple_shapes(i).WithoutLayout();
    }
    default:
      return op.operand(0).WithoutLayout();  // domain, opt-barrier
  }
}

// Whoever walks the module counts the work of called computations (core/analysis).
Cost CostControl(const OpContext& op, const Shape& result) {
  return op.opcode == Opcode::kMap ? ElementCost(op, result, 1) : Cost{};
}

}  // namespace backplane
