#include "core/ops/op_info.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/ops/families/checks.h"
#include "core/ops/families/used_sizes.h"
#include "core/ops/family.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

const std::vector<OpInfo>& Table() {
  static const std::vector<OpInfo>* table = new std::vector<OpInfo>{
#define OP(e, text, arity, family, traits, stablehlo, ...)                                                           \
  OpInfo{Opcode::e,         text,         arity, traits, stablehlo, std::vector<AttrId> __VA_ARGS__, &Infer##family, \
         &Evaluate##family, &Cost##family},
#define OP_UNARY(e, text, types, stablehlo, since, builder)                           \
  OpInfo{Opcode::e,   text,           1,          kElementwise,        stablehlo, {}, \
         &InferUnary, &EvaluateUnary, &CostUnary, OperandTypes::types, since},
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder) \
  OpInfo{Opcode::e,   text,                                                    \
         1,           kElementwise | kTranscendental | kResultAccuracy,        \
         stablehlo,   {},                                                      \
         &InferUnary, &EvaluateUnary,                                          \
         &CostUnary,  OperandTypes::types,                                     \
         since,       accuracy_since},
#define OP_BINARY(e, text, types, traits, stablehlo, since, builder)                                                  \
  OpInfo{                                                                                                             \
      Opcode::e,           text, 2, kElementwise | traits, stablehlo, {}, &InferBinary, &EvaluateBinary, &CostBinary, \
      OperandTypes::types, since},
#include "core/ops/op_table.def"
  };
  return *table;
}

absl::Status CheckArity(const OpContext& op, const OpInfo& info) {
  if (info.arity >= 0 && static_cast<int>(op.operands.size()) != info.arity) {
    return Fail(op, Label(op, "arity"), "has ", op.operands.size(), " operands, expected ", info.arity);
  }
  if (!info.Has(kHasCalled) && !op.called.empty() && op.opcode != Opcode::kCustomCall) {
    return Fail(op, Label(op, "called"), "calls a computation, but the operation takes none");
  }
  return absl::OkStatus();
}

absl::Status CheckAttributes(const OpContext& op, const OpInfo& info) {
  for (const auto& [id, value] : op.attrs->entries()) {
    if (std::find(info.attributes.begin(), info.attributes.end(), id) == info.attributes.end()) {
      return Fail(op, Label(op, "attributes"), "does not take attribute ", AttrName(id));
    }
    if (!HasTypeOfAttribute(id, value))
      return Fail(op, Label(op, "attributes"), "attribute ", AttrName(id), " has a value of another kind");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OpContext::Error(absl::string_view label, absl::string_view text) const {
  return absl::InvalidArgumentError(absl::StrCat(name.empty() ? OpName(opcode) : name, ": ", text, " [", label, "]"));
}

bool Includes(OperandTypes types, PrimitiveType t) {
  switch (types) {
    case OperandTypes::kFloat:
      return IsFloat(t);
    case OperandTypes::kComplexPart:
      return GetComplexType(t) != PrimitiveType::kInvalid;
    case OperandTypes::kInteger:
      return IsIntegral(t);
    case OperandTypes::kBits:
      return IsIntegral(t) || t == PrimitiveType::kPred;
    case OperandTypes::kInexact:
      return IsFloat(t) || IsComplex(t);
    case OperandTypes::kReal:
      return IsIntegral(t) || IsFloat(t);
    case OperandTypes::kNumber:
      return IsIntegral(t) || IsFloat(t) || IsComplex(t);
    case OperandTypes::kAny:
      return true;
  }
  return false;
}

absl::Span<const OpInfo> Operations() { return Table(); }
const OpInfo& Info(Opcode opcode) { return Table()[static_cast<size_t>(opcode)]; }

absl::string_view OpName(Opcode opcode) {
  return static_cast<size_t>(opcode) < Table().size() ? absl::string_view(Info(opcode).text) : "invalid";
}

std::optional<Opcode> ParseOpcode(absl::string_view text) {
  static const auto* names = [] {
    auto* m = new absl::flat_hash_map<absl::string_view, Opcode>();
    for (const OpInfo& info : Table()) m->emplace(info.text, info.opcode);
    return m;
  }();
  auto it = names->find(text);
  if (it == names->end()) return std::nullopt;
  return it->second;
}

const OpInfo* FindByStablehlo(absl::string_view name) {
  static const auto* names = [] {
    auto* m = new absl::flat_hash_map<absl::string_view, const OpInfo*>();
    for (const OpInfo& info : Table()) {
      for (absl::string_view n : absl::StrSplit(info.stablehlo, ';')) {
        if (n != "-") m->emplace(n, &info);
      }
    }
    return m;
  }();
  auto it = names->find(name);
  return it == names->end() ? nullptr : it->second;
}

absl::StatusOr<Shape> InferShape(const OpContext& op) {
  const OpInfo& info = Info(op.opcode);
  RETURN_IF_ERROR(CheckArity(op, info));
  RETURN_IF_ERROR(CheckAttributes(op, info));
  if (op.declared != nullptr) {
    if (absl::Status s = op.declared->Validate(); !s.ok()) return Fail(op, Label(op, "shape"), s.message());
  }
  ASSIGN_OR_RETURN(Shape result, info.infer(op));
  if (absl::Status s = result.Validate(); !s.ok()) return Fail(op, Label(op, "shape"), s.message());
  if (op.declared == nullptr) return result;
  if (!SameTypeAndDims(result, *op.declared)) {
    return Fail(op, Label(op, "result"), "declared ", op.declared->ToString(), ", inferred ", result.ToString());
  }
  return *op.declared;
}

absl::StatusOr<Literal> EvaluateOp(const OpContext& op, absl::Span<const Literal* const> operands, EvalEnv& env) {
  RETURN_IF_ERROR(CheckUsedSizes(op, operands));
  if (NeedsUsedSizes(op, operands)) return EvaluateOverUsedSizes(op, operands, env);
  return Info(op.opcode).evaluate(op, operands, env);
}

Cost EstimateCost(const OpContext& op, const Shape& result) {
  const OpInfo& info = Info(op.opcode);
  return info.cost != nullptr ? info.cost(op, result) : ElementCost(op, result, 0);
}

}  // namespace backplane
