// Operations element by element, and those that make values from nothing.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

absl::Status Importer::ImportCompare(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kCompare, op));
  ASSIGN_OR_RETURN(absl::string_view type, GetText(op, "compare_type"));
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  std::optional<ComparisonType> t;
  if (type != "NOTYPE") {
    std::optional<int> number = ParseEnum(backplane::AttrKind::EnumComparisonType, type);
    if (!number) return absl::InvalidArgumentError(absl::StrCat("unknown comparison type ", type));
    t = static_cast<ComparisonType>(*number);
    const PrimitiveType e =
        operands[0]->shape().IsArray() ? operands[0]->shape().element_type() : PrimitiveType::kInvalid;
    const bool fits = *t == ComparisonType::kTotalOrder ? IsFloat(e)
                      : *t == ComparisonType::kFloat    ? IsFloat(e) || IsComplex(e)
                      : *t == ComparisonType::kSigned   ? IsSigned(e)
                                                        : IsUnsigned(e) || e == PrimitiveType::kPred;
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("comparison type ", type, " does not fit element type ", Name(e), " [compare_c3]"));
    }
    // Total order is the only type that changes anything; the others repeat the element type.
    if (*t != ComparisonType::kTotalOrder) t = std::nullopt;
  }
  const ComparisonDirection direction = attrs.GetEnum<ComparisonDirection>(AttrId::kDirection);
  ASSIGN_OR_RETURN(Value result, scope.builder.Compare(operands[0], operands[1], direction, t));
  return Bind(scope, op, result);
}

namespace {

// An i1 of StableHLO is one bit, a pred of HLO a byte: conversions from and to wider types pack and unpack the bits.
// Element 0 of the last dimension is the least significant bit.
absl::StatusOr<Value> BitcastBits(Module* module, Builder& b, Value x, const Shape& to) {
  const Shape& from = x->shape();
  bool joins = from.element_type() == PrimitiveType::kPred;
  const Shape &bits = joins ? from : to, &packed = joins ? to : from;
  PrimitiveType number = UnsignedOfWidth(BitWidth(packed.element_type()));
  int64_t width = BitWidth(packed.element_type());
  DimVector dims = packed.dimensions();
  dims.push_back(width);
  if (number == PrimitiveType::kInvalid || bits.dimensions() != dims) {
    return absl::InvalidArgumentError(absl::StrCat("found ", from.ToString(), " to ", to.ToString(),
                                                   ", expected a last dimension of ", width,
                                                   " bits [bitcast_convert_c1]"));
  }
  ASSIGN_OR_RETURN(Value bit, b.Iota(Shape(number, dims), packed.rank()));
  if (joins) {
    ASSIGN_OR_RETURN(x, b.Convert(x, number));
    ASSIGN_OR_RETURN(x, b.Binary(Opcode::kShiftLeft, x, bit));
    ASSIGN_OR_RETURN(Value zero, b.Scalar(number, 0));
    ASSIGN_OR_RETURN(Computation * either, MakeScalarBinaryComputation(module, Opcode::kOr, number));
    ASSIGN_OR_RETURN(x, b.Reduce({x}, {zero}, either, {packed.rank()}));
    return number == to.element_type() ? absl::StatusOr<Value>(x) : b.Op(Opcode::kBitcastConvert, {x}, {}, {}, to);
  }
  if (number != from.element_type()) {
    ASSIGN_OR_RETURN(x, b.Op(Opcode::kBitcastConvert, {x}, {}, {}, from.WithElementType(number).WithoutLayout()));
  }
  Ints kept(static_cast<size_t>(packed.rank()));
  std::iota(kept.begin(), kept.end(), 0);
  ASSIGN_OR_RETURN(x, b.BroadcastInDim(x, dims, kept));
  ASSIGN_OR_RETURN(x, b.Binary(Opcode::kShiftRightLogical, x, bit));
  ASSIGN_OR_RETURN(Value one, b.Scalar(number, 1));
  ASSIGN_OR_RETURN(one, b.BroadcastInDim(one, dims, {}));
  ASSIGN_OR_RETURN(x, b.Binary(Opcode::kAnd, x, one));
  return b.Convert(x, PrimitiveType::kPred);
}

}  // namespace

absl::Status Importer::ImportConvert(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  ASSIGN_OR_RETURN(Shape to, ConvertType(op.results[0].type));
  if (op.name == "stablehlo.bitcast_convert" && x->shape().IsArray() && to.IsArray() &&
      (x->shape().element_type() == PrimitiveType::kPred) != (to.element_type() == PrimitiveType::kPred)) {
    ASSIGN_OR_RETURN(Value y, BitcastBits(module_.get(), scope.builder, x, to));
    return Bind(scope, op, y);
  }
  Opcode opcode = op.name == "stablehlo.convert" ? Opcode::kConvert : Opcode::kBitcastConvert;
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(opcode, {x}, {}, {}, std::move(to)));
  return Bind(scope, op, result);
}

absl::Status Importer::ImportConstant(Scope& scope, const SourceOp& op) {
  const SourceAttr* value = op.Find("value");
  if (value == nullptr || value->kind != stablehlo::AttrKind::kDense) {
    return absl::InvalidArgumentError("attribute value: expected a constant tensor");
  }
  if (value->splat) {
    // One element and a broadcast take less memory.
    ASSIGN_OR_RETURN(Shape shape, ConvertType(value->type));
    ASSIGN_OR_RETURN(Literal element, ConvertSplat(value));
    ASSIGN_OR_RETURN(Value scalar, scope.builder.Constant(std::move(element)));
    ASSIGN_OR_RETURN(Value all, scope.builder.BroadcastInDim(scalar, shape.dimensions(), {}));
    return Bind(scope, op, all);
  }
  std::shared_ptr<const Literal>& known = literals_[value];
  if (known == nullptr) {
    ASSIGN_OR_RETURN(Literal literal, ConvertConstant(value));
    known = std::make_shared<const Literal>(std::move(literal));
  }
  ASSIGN_OR_RETURN(Value constant, scope.builder.Constant(known));
  return Bind(scope, op, constant);
}

absl::Status Importer::ImportIota(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kIota, op));
  ASSIGN_OR_RETURN(Shape shape, ConvertType(op.results[0].type));
  ASSIGN_OR_RETURN(Value result, scope.builder.Iota(shape, attrs.GetInt(AttrId::kIotaDimension)));
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
  ASSIGN_OR_RETURN(Attributes attrs, BuildAttributes(Opcode::kRng, op));
  ASSIGN_OR_RETURN(Shape shape, ConvertType(op.results[0].type));
  ASSIGN_OR_RETURN(Value result, scope.builder.Op(Opcode::kRng, {a, b}, std::move(attrs), {}, std::move(shape)));
  return Bind(scope, op, result);
}

}  // namespace backplane::to_hlo
