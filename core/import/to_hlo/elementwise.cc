// Operations element by element, and those that make values from nothing.
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

absl::Status Importer::ImportElementwise(Scope& scope, const SourceOp& op, Opcode opcode) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(opcode, std::move(operands)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportCompare(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(absl::string_view direction, GetText(op, "comparison_direction"));
  ASSIGN_OR_RETURN(absl::string_view type, GetText(op, "compare_type"));
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  std::optional<int> d = EnumFromText(AttrKind::EnumComparisonDirection, direction);
  if (!d) return absl::InvalidArgumentError(absl::StrCat("unknown direction ", direction));
  std::optional<ComparisonType> t;
  if (type != "NOTYPE") {
    std::optional<int> number = EnumFromText(AttrKind::EnumComparisonType, type);
    if (!number) return absl::InvalidArgumentError(absl::StrCat("unknown comparison type ", type));
    t = static_cast<ComparisonType>(*number);
    // Total order is the only type that changes anything; the others repeat the element type.
    if (*t != ComparisonType::kTotalOrder) t = std::nullopt;
  }
  ASSIGN_OR_RETURN(Value result,
                   scope.builder.Compare(operands[0], operands[1], static_cast<ComparisonDirection>(*d), t));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportConvert(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
  Opcode opcode = op.name == "stablehlo.convert" ? Opcode::kConvert : Opcode::kBitcastConvert;
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(opcode, {x}, {}, {}, std::move(to)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportReducePrecision(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(int64_t exponent, GetInt(op, "exponent_bits"));
  ASSIGN_OR_RETURN(int64_t mantissa, GetInt(op, "mantissa_bits"));
  Attributes attrs;
  attrs.Set(AttrId::kExponentBits, exponent);
  attrs.Set(AttrId::kMantissaBits, mantissa);
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(Opcode::kReducePrecision, {x}, std::move(attrs)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportConstant(Scope& scope, const SourceOp& op) {
  const SourceAttr* value = op.Find("value");
  if (value->splat) {
    // One element and a broadcast say the same in less memory.
    ASSIGN_OR_RETURN(Shape shape, ConvertType(value->type));
    ASSIGN_OR_RETURN(Literal element, ConvertSplat(value));
    ASSIGN_OR_RETURN(Value scalar, scope.builder.Constant(std::move(element)));
    ASSIGN_OR_RETURN(Value all, scope.builder.BroadcastInDim(scalar, shape.dimensions(), {}));
    return Bind(scope, op, all);
  }
  ASSIGN_OR_RETURN(Literal literal, ConvertConstant(value));
  ASSIGN_OR_RETURN(Value constant, scope.builder.Constant(std::move(literal)));
  return Bind(scope, op, constant);
}

absl::Status Importer::ImportIota(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(int64_t dimension, GetInt(op, "iota_dimension"));
  ASSIGN_OR_RETURN(Shape shape, ConvertType(op.results[0].type));
  ASSIGN_OR_RETURN(Value result, scope.builder.Iota(shape, dimension));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportId(Scope& scope, const SourceOp& op) {
  Opcode opcode = op.name == "stablehlo.partition_id" ? Opcode::kPartitionId : Opcode::kReplicaId;
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(opcode, {}, {}, {}, Shape::Scalar(PrimitiveType::kU32)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportRng(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value a, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Value b, Get(scope, op.operands[1]));
  ASSIGN_OR_RETURN(absl::string_view distribution, GetText(op, "rng_distribution"));
  ASSIGN_OR_RETURN(Shape shape, ConvertType(op.results[0].type));
  Attributes attrs;
  attrs.SetEnum(AttrId::kRandomDistribution,
                distribution == "UNIFORM" ? RandomDistribution::kUniform : RandomDistribution::kNormal);
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(Opcode::kRng, {a, b}, std::move(attrs), {}, std::move(shape)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportRngBits(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value state, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(absl::string_view algorithm, GetText(op, "rng_algorithm"));
  ASSIGN_OR_RETURN(Shape shape, ResultShape(op));
  Attributes attrs;
  attrs.SetEnum(AttrId::kRandomAlgorithm, algorithm == "THREE_FRY" ? RandomAlgorithm::kThreeFry
                                          : algorithm == "PHILOX"  ? RandomAlgorithm::kPhilox
                                                                   : RandomAlgorithm::kDefault);
  ASSIGN_OR_RETURN(Value result,
                   scope.builder.Op(Opcode::kRngBitGenerator, {state}, std::move(attrs), {}, std::move(shape)));
  return Bind(scope, op, result);
}

}  // namespace backplane::to_hlo
