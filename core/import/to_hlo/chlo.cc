// CHLO: operations above StableHLO. Hosts lower nearly all of them before they send a program. Those that HLO has, or
// that have a short exact expansion, are read from text and composites.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/chlo_functions.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

namespace {

// The numbers of operands and results of the operations that have not one of each or two operands and one result.
struct ChloForm {
  const char* name;
  int operands;
  int results;
};
constexpr ChloForm kChloForms[] = {
    {"constant", 0, 1}, {"constant_like", 1, 1}, {"mulhi", 2, 1}, {"ragged_dot", 3, 1}, {"top_k", 1, 2},
};

// The readers do not know the operations of CHLO, so their forms are checked here.
absl::Status CheckChloForm(const SourceOp& op, absl::string_view name) {
  const int operands = static_cast<int>(op.operands.size()), results = static_cast<int>(op.results.size());
  auto wrong = [&](absl::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", operands, " operands and ", results, " results, expected ", expected));
  };
  for (const ChloForm& form : kChloForms) {
    if (name != form.name) continue;
    if (operands == form.operands && results == form.results) return absl::OkStatus();
    return wrong(absl::StrCat(form.operands, " and ", form.results));
  }
  if (name == "scan") return absl::OkStatus();
  if (results != 1 || operands < 1 || operands > 3) return wrong("one to three operands and one result");
  for (const SourceValue* v : op.operands) {
    if (v->type->kind != stablehlo::TypeKind::kTensor) {
      return absl::InvalidArgumentError(
          absl::StrCat("operand is ", stablehlo::TypeToString(v->type), ", expected a tensor"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Importer::ImportTopK(Scope& scope, const SourceOp& op, int64_t k, bool largest) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  Attributes attrs;
  attrs.Set(AttrId::kK, k);
  attrs.Set(AttrId::kLargest, largest);
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kTopK, {x}, std::move(attrs)));
  return Bind(scope, op, y);
}

// Dimensions are right-aligned, or mapped by broadcast_dimensions; sizes of one are broadcast.
absl::Status Importer::ImportChloBroadcast(Scope& scope, const SourceOp& op, absl::string_view inner) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  if (op.results.size() != 1) return Unknown(op);
  DimVector dims;
  for (Value v : operands) {
    const Shape& s = v->shape();
    if (s.rank() > static_cast<int64_t>(dims.size())) dims.insert(dims.begin(), s.rank() - dims.size(), 1);
  }
  const SourceAttr* given = op.Find("broadcast_dimensions");
  std::vector<Ints> maps;
  for (Value v : operands) {
    const Shape& s = v->shape();
    Ints map(static_cast<size_t>(s.rank()));
    std::iota(map.begin(), map.end(), static_cast<int64_t>(dims.size()) - s.rank());
    if (given != nullptr && operands.size() == 2 && s.rank() < static_cast<int64_t>(dims.size())) {
      ASSIGN_OR_RETURN(map, GetInts(op, "broadcast_dimensions"));
    }
    if (static_cast<int64_t>(map.size()) != s.rank()) {
      return absl::InvalidArgumentError(absl::StrCat("broadcast_dimensions does not fit ", s.ToString()));
    }
    if (std::adjacent_find(map.begin(), map.end(), std::greater_equal<>()) != map.end()) {
      return absl::InvalidArgumentError("broadcast_dimensions do not increase");
    }
    for (size_t i = 0; i < map.size(); ++i) {
      if (map[i] < 0 || map[i] >= static_cast<int64_t>(dims.size())) {
        return absl::InvalidArgumentError(absl::StrCat("broadcast dimension ", map[i], " of rank ", dims.size()));
      }
      int64_t size = s.dimensions(static_cast<int64_t>(i));
      if (dims[map[i]] != 1 && size != 1 && dims[map[i]] != size) {
        return absl::InvalidArgumentError(absl::StrCat("sizes ", dims[map[i]], " and ", size, " do not broadcast"));
      }
      if (size != 1) dims[map[i]] = size;
    }
    maps.push_back(std::move(map));
  }
  // A size of zero against one is zero, which the loop above keeps: zero is not one.
  for (size_t i = 0; i < operands.size(); ++i) {
    ASSIGN_OR_RETURN(operands[i], scope.builder.BroadcastInDim(operands[i], dims, maps[i]));
  }
  if (inner == "compare") {
    if (operands.size() != 2) return Unknown(op);
    ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kCompare, op));
    const ComparisonDirection direction = attrs.GetEnum<ComparisonDirection>(AttrId::kDirection);
    std::optional<ComparisonType> type;
    const SourceAttr* t = op.Find("compare_type");
    if (t && t->text == "TOTALORDER") type = ComparisonType::kTotalOrder;
    ASSIGN_OR_RETURN(Value y, scope.builder.Compare(operands[0], operands[1], direction, type));
    return Bind(scope, op, y);
  }
  if (inner == "next_after" || inner == "polygamma" || inner == "zeta") {
    if (operands.size() != 2) return Unknown(op);
    ASSIGN_OR_RETURN(Value y, ExpandChloBinary(scope.builder, inner, operands[0], operands[1]));
    return Bind(scope, op, y);
  }
  const OpInfo* info = FindByStablehlo(inner);
  if (info == nullptr || info->arity != static_cast<int>(operands.size()) || !info->attributes.empty() ||
      info->Has(kDeclared)) {
    return Unknown(op);
  }
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(info->opcode, std::move(operands)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportRaggedDot(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Shape result, ResultShape(op));
  const SourceAttr* given = op.Find("ragged_dot_dimension_numbers");
  // A composite has the lists in this order, without their names.
  const bool listed = given != nullptr && given->kind == stablehlo::AttrKind::kArray && given->elements.size() == 6;
  if (operands.size() != 3 || given == nullptr || (!listed && given->kind != stablehlo::AttrKind::kDict)) {
    return absl::InvalidArgumentError("expected three operands and ragged_dot_dimension_numbers");
  }
  RaggedDotDimensions dims;
  const std::pair<const char*, Ints*> fields[] = {{"lhs_batching_dimensions", &dims.dot.lhs_batch},
                                                  {"rhs_batching_dimensions", &dims.dot.rhs_batch},
                                                  {"lhs_contracting_dimensions", &dims.dot.lhs_contracting},
                                                  {"rhs_contracting_dimensions", &dims.dot.rhs_contracting},
                                                  {"lhs_ragged_dimensions", &dims.lhs_ragged},
                                                  {"rhs_group_dimensions", &dims.rhs_group}};
  for (size_t k = 0; k < 6; ++k) {
    const SourceAttr* list = listed ? given->elements[k] : given->Find(fields[k].first);
    if (list == nullptr) continue;  // left out: empty
    ASSIGN_OR_RETURN(*fields[k].second, stablehlo::ReadDenseIntegers(list));
  }
  Attributes attrs;
  attrs.Set(AttrId::kRaggedDotDims, std::move(dims));
  ASSIGN_OR_RETURN(Value y,
                   scope.builder.Op(Opcode::kRaggedDot, std::move(operands), std::move(attrs), {}, std::move(result)));
  return Bind(scope, op, y);
}

absl::Status Importer::ImportScan(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(int64_t dimension, GetInt(op, "dimension"));
  ASSIGN_OR_RETURN(Ints segments, GetInts(op, "operandSegmentSizes"));
  if (segments.size() != 2 || op.regions.size() != 1) {
    return absl::InvalidArgumentError("expected inputs, initial carries and one region");
  }
  ASSIGN_OR_RETURN(Computation * body, ImportClosedRegion(op.regions[0], "scan"));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dimension});
  attrs.Set(AttrId::kNumCarries, segments[1]);
  if (op.Find("is_reverse") != nullptr) {
    ASSIGN_OR_RETURN(bool reverse, GetBool(op, "is_reverse"));
    if (reverse) attrs.Set(AttrId::kIsReverse, true);
  }
  if (op.Find("is_associative") != nullptr) {
    ASSIGN_OR_RETURN(bool associative, GetBool(op, "is_associative"));
    attrs.Set(AttrId::kIsAssociative, associative);
  }
  ASSIGN_OR_RETURN(Shape result, ResultShape(op));
  ASSIGN_OR_RETURN(Value y,
                   scope.builder.Op(Opcode::kScan, std::move(operands), std::move(attrs), {body}, std::move(result)));
  return Bind(scope, op, y);
}

namespace {

// The high half of the product of two 64-bit numbers, from products of 32-bit halves.
absl::StatusOr<Value> WideMulhi(Builder& b, Value x, Value y) {
  PrimitiveType type = x->shape().element_type();
  bool is_signed = IsSigned(type);
  Formula f(&b, x->shape());
  auto shift = [&](Term t, Opcode opcode) { return f.Op(opcode, {t, f.Number(32, PrimitiveType::kU64)}); };
  auto high = [&](Term t) { return shift(t, Opcode::kShiftRightLogical); };
  auto low = [&](Term t) { return t & f.Number(0xFFFFFFFFu, PrimitiveType::kU64); };
  Term u = Bitcast(f.Of(x), PrimitiveType::kU64), v = Bitcast(f.Of(y), PrimitiveType::kU64);
  Term first = low(u) * low(v), second = high(u) * low(v), third = low(u) * high(v);
  Term middle = high(first) + low(second) + low(third);
  Term top = high(u) * high(v) + high(second) + high(third) + high(middle);
  if (is_signed) {
    // A negative number as unsigned is too large by 2^64.
    Term zero = f.Number(0, PrimitiveType::kU64);
    top = top - Select(Less(f.Of(x), 0.0), v, zero) - Select(Less(f.Of(y), 0.0), u, zero);
  }
  return f.Result(Bitcast(top, type));
}

}  // namespace

// The high half of the product, computed in a type twice as wide where there is one.
absl::Status Importer::ImportMulhi(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> x, Operands(scope, op));
  if (x.size() != 2) return Unknown(op);
  PrimitiveType type = x[0]->shape().element_type();
  Builder& b = scope.builder;
  if (!IsIntegral(type) || x[1]->shape().element_type() != type) {
    return absl::InvalidArgumentError(absl::StrCat("operands are ", x[0]->shape().ToString(), " and ",
                                                   x[1]->shape().ToString(), ", expected integers of one type"));
  }
  if (BitWidth(type) == 64) {
    ASSIGN_OR_RETURN(Value y, WideMulhi(b, x[0], x[1]));
    return Bind(scope, op, y);
  }
  int width = BitWidth(type);
  PrimitiveType wide = width <= 4    ? PrimitiveType::kS8
                       : width == 8  ? PrimitiveType::kS16
                       : width == 16 ? PrimitiveType::kS32
                                     : PrimitiveType::kS64;
  if (!IsSigned(type)) {
    wide = width <= 4    ? PrimitiveType::kU8
           : width == 8  ? PrimitiveType::kU16
           : width == 16 ? PrimitiveType::kU32
                         : PrimitiveType::kU64;
  }
  Formula f(&b, x[0]->shape());
  Term product = Convert(f.Of(x[0]), wide) * Convert(f.Of(x[1]), wide);
  Opcode shift = IsSigned(type) ? Opcode::kShiftRightArithmetic : Opcode::kShiftRightLogical;
  ASSIGN_OR_RETURN(Value high, f.Result(Convert(f.Op(shift, {product, f.Number(width, wide)}), type)));
  return Bind(scope, op, high);
}

absl::Status Importer::ImportChlo(Scope& scope, const SourceOp& op) {
  absl::string_view name = op.name;
  name.remove_prefix(5);
  RETURN_IF_ERROR(CheckChloForm(op, name));
  if (name == "constant") return ImportConstant(scope, op);
  if (name == "top_k") {
    ASSIGN_OR_RETURN(int64_t k, GetInt(op, "k"));
    return ImportTopK(scope, op, k);
  }
  if (name == "ragged_dot") return ImportRaggedDot(scope, op);
  if (name == "scan") return ImportScan(scope, op);
  if (name == "mulhi") return ImportMulhi(scope, op);
  if (name == "constant_like" && op.operands.size() == 1) {
    const SourceAttr* value = op.Find("value");
    ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
    if (value == nullptr ||
        (value->kind != stablehlo::AttrKind::kFloat && value->kind != stablehlo::AttrKind::kInteger)) {
      return absl::UnimplementedError("attribute value is no number");
    }
    ASSIGN_OR_RETURN(PrimitiveType type, ConvertElementType(value->type));
    uint64_t bits = value->kind == stablehlo::AttrKind::kFloat ? value->bits : static_cast<uint64_t>(value->integer);
    char raw[8];
    for (int b = 0; b < 8; ++b) raw[b] = static_cast<char>(bits >> (8 * b));
    ASSIGN_OR_RETURN(
        Literal literal,
        Literal::FromBytes(Shape::Scalar(type),
                           absl::Span<const std::byte>(reinterpret_cast<const std::byte*>(raw), ByteWidth(type))));
    ASSIGN_OR_RETURN(Value scalar, scope.builder.Constant(std::move(literal)));
    ASSIGN_OR_RETURN(Value y, scope.builder.BroadcastInDim(scalar, x->shape().dimensions(), {}));
    return Bind(scope, op, y);
  }
  if (absl::StartsWith(name, "broadcast_")) return ImportChloBroadcast(scope, op, name.substr(10));
  if (op.operands.size() == 1 && op.results.size() == 1) {
    ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
    ASSIGN_OR_RETURN(Value y, ExpandChloUnary(scope.builder, name, x));
    return Bind(scope, op, y);
  }
  if (op.operands.size() == 2 && op.results.size() == 1) {
    ASSIGN_OR_RETURN(std::vector<Value> x, Operands(scope, op));
    ASSIGN_OR_RETURN(Value y, ExpandChloBinary(scope.builder, name, x[0], x[1]));
    return Bind(scope, op, y);
  }
  return Unknown(op);
}

}  // namespace backplane::to_hlo
