// CHLO: operations above StableHLO. Hosts lower nearly all of them before they send a program; those that have a row of
// their own or a short exact expansion are read from text and composites all the same.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/to_hlo/importer.h"

namespace backplane::to_hlo {

absl::Status Importer::ImportTopK(Scope& scope, const SourceOp& op, int64_t k) {
  ASSIGN_OR_RETURN(Value x, Get(scope, op.operands[0]));
  Attributes attrs;
  attrs.Set(AttrId::kK, k);
  attrs.Set(AttrId::kLargest, true);
  ASSIGN_OR_RETURN(Value y, scope.builder.Op(Opcode::kTopK, {x}, std::move(attrs)));
  return Bind(scope, op, y);
}

namespace {

absl::StatusOr<Value> Full(Builder& b, Value like, double value) {
  ASSIGN_OR_RETURN(Value scalar, b.Scalar(like->shape().element_type(), value));
  return b.BroadcastInDim(scalar, like->shape().dimensions(), {});
}

}  // namespace

absl::StatusOr<Value> Importer::ExpandChloUnary(Builder& b, absl::string_view name, Value x) {
  PrimitiveType type = x->shape().element_type();
  if (name == "erf") return b.Unary(Opcode::kErf, x);
  if (name == "cosh") return b.Unary(Opcode::kCosh, x);
  if (name == "tan") return b.Unary(Opcode::kTan, x);
  if (name == "square") return b.Binary(Opcode::kMultiply, x, x);
  if (name == "conj") {
    if (!IsComplex(type)) return x;
    ASSIGN_OR_RETURN(Value re, b.Unary(Opcode::kReal, x));
    ASSIGN_OR_RETURN(Value im, b.Unary(Opcode::kImag, x));
    ASSIGN_OR_RETURN(im, b.Unary(Opcode::kNegate, im));
    return b.Binary(Opcode::kComplex, re, im);
  }
  if (name == "is_inf" || name == "is_pos_inf" || name == "is_neg_inf") {
    ASSIGN_OR_RETURN(Value infinity, Full(b, x, name == "is_neg_inf" ? -INFINITY : INFINITY));
    if (name == "is_inf") {
      ASSIGN_OR_RETURN(x, b.Unary(Opcode::kAbs, x));
    }
    return b.Compare(x, infinity, ComparisonDirection::kEq);
  }
  if (!IsFloat(type)) {
    return absl::UnimplementedError(
        absl::StrCat("chlo.", name, " of ", Name(type), " is not supported; lower CHLO to StableHLO"));
  }
  ASSIGN_OR_RETURN(Value one, Full(b, x, 1));
  if (name == "atan") return b.Binary(Opcode::kAtan2, x, one);
  if (name == "asin" || name == "acos") {
    // (1 - x)(1 + x) keeps the digits that 1 - x*x loses near one.
    ASSIGN_OR_RETURN(Value low, b.Binary(Opcode::kSubtract, one, x));
    ASSIGN_OR_RETURN(Value high, b.Binary(Opcode::kAdd, one, x));
    ASSIGN_OR_RETURN(Value cosine, b.Binary(Opcode::kMultiply, low, high));
    ASSIGN_OR_RETURN(cosine, b.Unary(Opcode::kSqrt, cosine));
    return name == "asin" ? b.Binary(Opcode::kAtan2, x, cosine) : b.Binary(Opcode::kAtan2, cosine, x);
  }
  if (name == "atanh") {
    // (log1p(x) - log1p(-x)) / 2
    ASSIGN_OR_RETURN(Value negative, b.Unary(Opcode::kNegate, x));
    ASSIGN_OR_RETURN(Value high, b.Unary(Opcode::kLog1p, x));
    ASSIGN_OR_RETURN(Value low, b.Unary(Opcode::kLog1p, negative));
    ASSIGN_OR_RETURN(Value difference, b.Binary(Opcode::kSubtract, high, low));
    ASSIGN_OR_RETURN(Value half, Full(b, x, 0.5));
    return b.Binary(Opcode::kMultiply, difference, half);
  }
  if (name == "sinh") {
    // With u = expm1(|x|): (u + u / (u + 1)) / 2; where e^|x| overflows but sinh does not, the square of e^(|x|/2)
    // halved in between.
    ASSIGN_OR_RETURN(Value size, b.Unary(Opcode::kAbs, x));
    ASSIGN_OR_RETURN(Value u, b.Unary(Opcode::kExpm1, size));
    ASSIGN_OR_RETURN(Value next, b.Binary(Opcode::kAdd, u, one));
    ASSIGN_OR_RETURN(Value ratio, b.Binary(Opcode::kDivide, u, next));
    ASSIGN_OR_RETURN(Value small, b.Binary(Opcode::kAdd, u, ratio));
    ASSIGN_OR_RETURN(Value half, Full(b, x, 0.5));
    ASSIGN_OR_RETURN(small, b.Binary(Opcode::kMultiply, small, half));
    ASSIGN_OR_RETURN(Value root, b.Binary(Opcode::kMultiply, size, half));
    ASSIGN_OR_RETURN(root, b.Unary(Opcode::kExp, root));
    ASSIGN_OR_RETURN(Value large, b.Binary(Opcode::kMultiply, root, half));
    ASSIGN_OR_RETURN(large, b.Binary(Opcode::kMultiply, large, root));
    ASSIGN_OR_RETURN(Value infinity, Full(b, x, INFINITY));
    ASSIGN_OR_RETURN(Value over, b.Compare(u, infinity, ComparisonDirection::kEq));
    ASSIGN_OR_RETURN(Value magnitude, b.Select(over, large, small));
    ASSIGN_OR_RETURN(Value sign, b.Unary(Opcode::kSign, x));
    return b.Binary(Opcode::kMultiply, sign, magnitude);
  }
  if (name == "asinh") {
    // sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2))); for huge |x|, where x^2 overflows, log|x| + log 2.
    ASSIGN_OR_RETURN(Value size, b.Unary(Opcode::kAbs, x));
    ASSIGN_OR_RETURN(Value square, b.Binary(Opcode::kMultiply, x, x));
    ASSIGN_OR_RETURN(Value inner, b.Binary(Opcode::kAdd, square, one));
    ASSIGN_OR_RETURN(inner, b.Unary(Opcode::kSqrt, inner));
    ASSIGN_OR_RETURN(inner, b.Binary(Opcode::kAdd, inner, one));
    ASSIGN_OR_RETURN(inner, b.Binary(Opcode::kDivide, square, inner));
    ASSIGN_OR_RETURN(inner, b.Binary(Opcode::kAdd, size, inner));
    ASSIGN_OR_RETURN(Value small, b.Unary(Opcode::kLog1p, inner));
    ASSIGN_OR_RETURN(Value log2, Full(b, x, 0.693147180559945309417));
    ASSIGN_OR_RETURN(Value large, b.Unary(Opcode::kLog, size));
    ASSIGN_OR_RETURN(large, b.Binary(Opcode::kAdd, large, log2));
    ASSIGN_OR_RETURN(Value infinity, Full(b, x, INFINITY));
    ASSIGN_OR_RETURN(Value over, b.Compare(square, infinity, ComparisonDirection::kEq));
    ASSIGN_OR_RETURN(Value magnitude, b.Select(over, large, small));
    ASSIGN_OR_RETURN(Value sign, b.Unary(Opcode::kSign, x));
    return b.Binary(Opcode::kMultiply, sign, magnitude);
  }
  if (name == "acosh") {
    // log(x + sqrt((x - 1)(x + 1))); for huge x, log x + log 2.
    ASSIGN_OR_RETURN(Value low, b.Binary(Opcode::kSubtract, x, one));
    ASSIGN_OR_RETURN(Value high, b.Binary(Opcode::kAdd, x, one));
    ASSIGN_OR_RETURN(Value square, b.Binary(Opcode::kMultiply, low, high));
    ASSIGN_OR_RETURN(Value root, b.Unary(Opcode::kSqrt, square));
    ASSIGN_OR_RETURN(Value inner, b.Binary(Opcode::kAdd, low, root));
    ASSIGN_OR_RETURN(Value small, b.Unary(Opcode::kLog1p, inner));
    ASSIGN_OR_RETURN(Value log2, Full(b, x, 0.693147180559945309417));
    ASSIGN_OR_RETURN(Value large, b.Unary(Opcode::kLog, x));
    ASSIGN_OR_RETURN(large, b.Binary(Opcode::kAdd, large, log2));
    ASSIGN_OR_RETURN(Value infinity, Full(b, x, INFINITY));
    ASSIGN_OR_RETURN(Value over, b.Compare(square, infinity, ComparisonDirection::kEq));
    return b.Select(over, large, small);
  }
  return absl::UnimplementedError(absl::StrCat("chlo.", name, " is not supported; lower CHLO to StableHLO"));
}

// Right-aligned, or as broadcast_dimensions says; sizes of one stretch.
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
    ASSIGN_OR_RETURN(absl::string_view direction, GetText(op, "comparison_direction"));
    std::optional<int> d = EnumFromText(AttrKind::EnumComparisonDirection, direction);
    if (!d) return absl::InvalidArgumentError(absl::StrCat("unknown direction ", direction));
    std::optional<ComparisonType> type;
    const SourceAttr* t = op.Find("compare_type");
    if (t && t->text == "TOTALORDER") type = ComparisonType::kTotalOrder;
    ASSIGN_OR_RETURN(Value y,
                     scope.builder.Compare(operands[0], operands[1], static_cast<ComparisonDirection>(*d), type));
    return Bind(scope, op, y);
  }
  for (int i = 0; i < kNumOpcodes; ++i) {
    const OpInfo& info = Info(static_cast<Opcode>(i));
    if (inner != info.stablehlo || info.arity != static_cast<int>(operands.size()) || !info.attributes.empty())
      continue;
    ASSIGN_OR_RETURN(Value y, scope.builder.Op(info.opcode, std::move(operands)));
    return Bind(scope, op, y);
  }
  return Unknown(op);
}

absl::Status Importer::ImportRaggedDot(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Operands(scope, op));
  ASSIGN_OR_RETURN(Shape result, ResultShape(op));
  const SourceAttr* given = op.Find("ragged_dot_dimension_numbers");
  if (operands.size() != 3 || given == nullptr || given->kind != stablehlo::AttrKind::kDict) {
    return absl::InvalidArgumentError("expected three operands and ragged_dot_dimension_numbers");
  }
  RaggedDotDimensions dims;
  const std::pair<const char*, Ints*> fields[] = {{"lhs_batching_dimensions", &dims.dot.lhs_batch},
                                                  {"rhs_batching_dimensions", &dims.dot.rhs_batch},
                                                  {"lhs_contracting_dimensions", &dims.dot.lhs_contracting},
                                                  {"rhs_contracting_dimensions", &dims.dot.rhs_contracting},
                                                  {"lhs_ragged_dimensions", &dims.lhs_ragged},
                                                  {"rhs_group_dimensions", &dims.rhs_group}};
  for (const auto& [name, list] : fields) {
    if (given->Find(name) == nullptr) continue;  // left out: empty
    ASSIGN_OR_RETURN(*list, stablehlo::DenseIntegers(given->Find(name)));
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
  ASSIGN_OR_RETURN(Shape result, ResultShape(op));
  ASSIGN_OR_RETURN(Value y,
                   scope.builder.Op(Opcode::kScan, std::move(operands), std::move(attrs), {body}, std::move(result)));
  return Bind(scope, op, y);
}

// The high half of the product, by way of a type twice as wide.
absl::Status Importer::ImportMulhi(Scope& scope, const SourceOp& op) {
  ASSIGN_OR_RETURN(std::vector<Value> x, Operands(scope, op));
  if (x.size() != 2) return Unknown(op);
  PrimitiveType type = x[0]->shape().element_type(), wide = PrimitiveType::kInvalid;
  switch (type) {
    case PrimitiveType::kS8:
      wide = PrimitiveType::kS16;
      break;
    case PrimitiveType::kU8:
      wide = PrimitiveType::kU16;
      break;
    case PrimitiveType::kS16:
      wide = PrimitiveType::kS32;
      break;
    case PrimitiveType::kU16:
      wide = PrimitiveType::kU32;
      break;
    case PrimitiveType::kS32:
      wide = PrimitiveType::kS64;
      break;
    case PrimitiveType::kU32:
      wide = PrimitiveType::kU64;
      break;
    default:
      return absl::UnimplementedError(absl::StrCat("chlo.mulhi of ", Name(type), " is not supported"));
  }
  Builder& b = scope.builder;
  for (Value& v : x) {
    ASSIGN_OR_RETURN(v, b.Convert(v, wide));
  }
  ASSIGN_OR_RETURN(Value product, b.Binary(Opcode::kMultiply, x[0], x[1]));
  ASSIGN_OR_RETURN(Value bits, Full(b, product, BitWidth(type)));
  ASSIGN_OR_RETURN(
      Value high, b.Binary(IsSigned(type) ? Opcode::kShiftRightArithmetic : Opcode::kShiftRightLogical, product, bits));
  ASSIGN_OR_RETURN(high, b.Convert(high, type));
  return Bind(scope, op, high);
}

absl::Status Importer::ImportChlo(Scope& scope, const SourceOp& op) {
  absl::string_view name = op.name;
  name.remove_prefix(5);
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
  return absl::UnimplementedError(absl::StrCat(op.name, " is not supported; lower CHLO to StableHLO"));
}

}  // namespace backplane::to_hlo
