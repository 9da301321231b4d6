// Operations with a computation over elements.
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

absl::Status PromoteTo(Builder& b, const Computation& body, absl::Span<Value> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t n = static_cast<int64_t>(i);
    if (i >= body.parameters().size()) break;
    const PrimitiveType from = values[i]->shape().element_type(), to = body.parameter(n)->shape().element_type();
    const bool one_kind = (IsFloat(from) && IsFloat(to)) || (IsComplex(from) && IsComplex(to)) ||
                          (IsSigned(from) && IsSigned(to)) || (IsUnsigned(from) && IsUnsigned(to));
    if (!one_kind || BitWidth(to) <= BitWidth(from)) continue;
    ASSIGN_OR_RETURN(values[i], b.Convert(values[i], to));
  }
  return absl::OkStatus();
}

// Values and initial values come one list behind the other.
static absl::Status PromoteInputsAndInits(Builder& b, const Computation& body, std::vector<Value>& operands) {
  const size_t n = operands.size() / 2;
  if (operands.size() % 2 != 0) return absl::OkStatus();  // refused by the operation's own rule
  RETURN_IF_ERROR(PromoteTo(b, body, absl::MakeSpan(operands).first(n)));
  return PromoteTo(b, body, absl::MakeSpan(operands).last(n));
}

absl::Status Importer::ImportReduce(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kReduce, op));
  ASSIGN_OR_RETURN(Computation * body, ImportClosedRegion(op.regions[0], "reduce"));
  RETURN_IF_ERROR(PromoteInputsAndInits(scope.builder, *body, operands));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kReduce, std::move(operands), std::move(attrs), {body}));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportWindowed(Scope& scope, const SourceOp& op) {
  const bool selects = op.regions.size() == 2;  // select_and_scatter
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  const Opcode opcode = selects ? Opcode::kSelectAndScatter : Opcode::kReduceWindow;
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(opcode, op));
  std::vector<Computation*> called;
  for (const SourceRegion& region : op.regions) {
    const char* name = !selects ? "reduce_window" : called.empty() ? "select" : "scatter";
    ASSIGN_OR_RETURN(Computation * c, ImportClosedRegion(region, name));
    called.push_back(c);
  }
  if (!selects) RETURN_IF_ERROR(PromoteInputsAndInits(scope.builder, *called[0], operands));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(opcode, std::move(operands), std::move(attrs), std::move(called)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportSort(Scope& scope, const SourceOp& op) {
  if (op.operands.empty()) return absl::InvalidArgumentError("no operands");
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kSort, op));
  const int64_t dimension = attrs.GetInts(AttrId::kDimensions)[0];
  const int64_t rank = operands[0]->shape().rank();
  if (rank == 0) return BindResults(scope, op, operands);  // one element is in order
  if (dimension < 0) attrs.Set(AttrId::kDimensions, Ints{dimension + rank});
  ASSIGN_OR_RETURN(Computation * comparator, ImportClosedRegion(op.regions[0], "compare"));
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kSort, std::move(operands), std::move(attrs), {comparator}));
  return Bind(scope, op, y);
}

}  // namespace backplane::to_hlo
