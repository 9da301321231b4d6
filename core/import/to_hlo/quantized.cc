// Quantized tensors. HLO has no such type: a tensor of !quant.uniform is held as an array of its storage integers, and
// what computes on it computes on the dequantized floats. The meaning is that of the StableHLO specification
// ("Quantization computations"): dequantize, operate, quantize. What only moves elements moves the integers.
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/import/to_hlo/importer.h"
#include "core/import/to_hlo/quantized.h"

namespace backplane::to_hlo {

using stablehlo::ElementKind;
using stablehlo::SourceQuantization;
using stablehlo::TypeKind;

const SourceQuantization* FindQuantization(const SourceType* type) {
  if (type->kind != TypeKind::kTensor || type->inner->kind != TypeKind::kQuantized) return nullptr;
  return type->inner->quantization;
}

absl::StatusOr<PrimitiveType> StorageElementType(const SourceQuantization& q) {
  // The flag tells whether the integers are signed; the storage type as written is signless.
  switch (stablehlo::ElementBits(q.storage->element)) {
    case 2:
      return q.storage_signed ? PrimitiveType::kS2 : PrimitiveType::kU2;
    case 4:
      return q.storage_signed ? PrimitiveType::kS4 : PrimitiveType::kU4;
    case 8:
      return q.storage_signed ? PrimitiveType::kS8 : PrimitiveType::kU8;
    case 16:
      return q.storage_signed ? PrimitiveType::kS16 : PrimitiveType::kU16;
    case 32:
      return q.storage_signed ? PrimitiveType::kS32 : PrimitiveType::kU32;
    default:
      return absl::UnimplementedError(
          absl::StrCat("quantized storage type ", stablehlo::TypeToString(q.storage), " is not supported"));
  }
}

absl::Status CheckQuantization(const SourceType* tensor) {
  const SourceQuantization& q = *tensor->inner->quantization;
  auto bad = [&](absl::string_view what, absl::string_view label) {
    return absl::InvalidArgumentError(
        absl::StrCat("type ", stablehlo::TypeToString(tensor), ": ", what, " [", label, "]"));
  };
  ASSIGN_OR_RETURN(PrimitiveType storage, StorageElementType(q));
  int bits = BitWidth(storage);
  int64_t low = q.storage_signed ? -(int64_t{1} << (bits - 1)) : 0;
  int64_t high = q.storage_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  if (q.storage_min < low || q.storage_max > high || q.storage_min >= q.storage_max) {
    return bad(absl::StrCat("storage range ", q.storage_min, " to ", q.storage_max, ", expected a range within ", low,
                            " to ", high),
               "quantized_c3");
  }
  for (double scale : q.scales) {
    if (!std::isfinite(scale)) return bad(absl::StrCat("scale ", scale, " is not finite"), "quantized_c6");
    if (scale <= 0) return bad(absl::StrCat("scale ", scale, " is not positive"), "quantized_c5");
  }
  for (int64_t zero : q.zero_points) {
    if (zero < q.storage_min || zero > q.storage_max) {
      return bad(absl::StrCat("zero point ", zero, " lies outside the storage range"), "quantized_c7");
    }
  }
  if (q.scales.size() != q.zero_points.size()) {
    return bad(absl::StrCat(q.scales.size(), " scales, ", q.zero_points.size(), " zero points"), "quantized_c9");
  }
  if (q.axis < 0) {
    if (q.scales.size() == 1) return absl::OkStatus();
    return bad(absl::StrCat(q.scales.size(), " scales for one tensor, expected 1"), "quantized_c10");
  }
  if (q.axis >= static_cast<int64_t>(tensor->dims.size())) {
    return bad(absl::StrCat("quantized dimension ", q.axis, " of rank ", tensor->dims.size()), "quantized_c12");
  }
  int64_t size = tensor->dims[q.axis];
  if (size != stablehlo::kDynamic && size != static_cast<int64_t>(q.scales.size())) {
    return bad(absl::StrCat(q.scales.size(), " scales, dimension ", q.axis, " has size ", size), "quantized_c13");
  }
  return absl::OkStatus();
}

namespace {

// One number for every element, or one for each slice along `axis`.
absl::StatusOr<Value> Parameters(Builder& b, absl::Span<const double> numbers, int64_t axis, PrimitiveType type,
                                 const Shape& like) {
  bool same = true;
  for (double n : numbers) same = same && n == numbers[0];
  if (same && !numbers.empty()) {
    ASSIGN_OR_RETURN(Value scalar, b.Scalar(type, numbers[0]));
    return b.BroadcastInDim(scalar, like.dimensions(), {});
  }
  Literal literal(Shape(type, {static_cast<int64_t>(numbers.size())}));
  for (size_t i = 0; i < numbers.size(); ++i) literal.SetFromDouble(static_cast<int64_t>(i), numbers[i]);
  ASSIGN_OR_RETURN(Value list, b.Constant(std::move(literal)));
  return b.BroadcastInDim(list, like.dimensions(), {axis});
}

std::vector<double> AsDoubles(absl::Span<const int64_t> numbers) {
  return std::vector<double>(numbers.begin(), numbers.end());
}

bool AllZero(absl::Span<const int64_t> numbers) {
  for (int64_t n : numbers) {
    if (n != 0) return false;
  }
  return true;
}

// (stored - zero point) * scale
absl::StatusOr<Value> Dequantize(Builder& b, Value x, const SourceQuantization& q) {
  ASSIGN_OR_RETURN(PrimitiveType expressed, ConvertElementType(q.expressed));
  // The difference needs one bit more than the storage.
  PrimitiveType wide = BitWidth(x->shape().element_type()) < 32 ? PrimitiveType::kS32 : PrimitiveType::kS64;
  if (!AllZero(q.zero_points)) {
    ASSIGN_OR_RETURN(x, b.Convert(x, wide));
    ASSIGN_OR_RETURN(Value zeros, Parameters(b, AsDoubles(q.zero_points), q.axis, wide, x->shape()));
    ASSIGN_OR_RETURN(x, b.Binary(Opcode::kSubtract, x, zeros));
  }
  ASSIGN_OR_RETURN(x, b.Convert(x, expressed));
  ASSIGN_OR_RETURN(Value scales, Parameters(b, q.scales, q.axis, expressed, x->shape()));
  return b.Binary(Opcode::kMultiply, x, scales);
}

// round(clamp(min, x / scale + zero point, max)), ties to even
absl::StatusOr<Value> Quantize(Builder& b, Value x, const SourceQuantization& q) {
  ASSIGN_OR_RETURN(PrimitiveType expressed, ConvertElementType(q.expressed));
  ASSIGN_OR_RETURN(PrimitiveType storage, StorageElementType(q));
  if (x->shape().element_type() != expressed) {
    return absl::InvalidArgumentError(absl::StrCat("found ", x->shape().ToString(), ", the quantized type expresses ",
                                                   Name(expressed), " [uniform_quantize_c2]"));
  }
  const Shape& shape = x->shape();
  ASSIGN_OR_RETURN(Value scales, Parameters(b, q.scales, q.axis, expressed, shape));
  ASSIGN_OR_RETURN(x, b.Binary(Opcode::kDivide, x, scales));
  if (!AllZero(q.zero_points)) {
    ASSIGN_OR_RETURN(Value zeros, Parameters(b, AsDoubles(q.zero_points), q.axis, expressed, shape));
    ASSIGN_OR_RETURN(x, b.Binary(Opcode::kAdd, x, zeros));
  }
  ASSIGN_OR_RETURN(Value low, b.Scalar(expressed, static_cast<double>(q.storage_min)));
  ASSIGN_OR_RETURN(Value high, b.Scalar(expressed, static_cast<double>(q.storage_max)));
  ASSIGN_OR_RETURN(low, b.BroadcastInDim(low, shape.dimensions(), {}));
  ASSIGN_OR_RETURN(high, b.BroadcastInDim(high, shape.dimensions(), {}));
  ASSIGN_OR_RETURN(x, b.Op(Opcode::kClamp, {low, x, high}));
  ASSIGN_OR_RETURN(x, b.Unary(Opcode::kRoundNearestEven, x));
  return b.Convert(x, storage);
}

// What an op does with quantized tensors.
enum class Use {
  kFloats,   // computes on the dequantized values
  kMoves,    // moves integers; operand and result are of one quantization
  kStorage,  // passes integers on to a region, another function or another device
};

Use UseOf(absl::string_view op) {
  static constexpr absl::string_view kMovementOps[] = {"stablehlo.broadcast",
                                                       "stablehlo.broadcast_in_dim",
                                                       "stablehlo.concatenate",
                                                       "stablehlo.dynamic_gather",
                                                       "stablehlo.dynamic_pad",
                                                       "stablehlo.dynamic_broadcast_in_dim",
                                                       "stablehlo.dynamic_reshape",
                                                       "stablehlo.dynamic_slice",
                                                       "stablehlo.dynamic_update_slice",
                                                       "stablehlo.gather",
                                                       "stablehlo.pad",
                                                       "stablehlo.real_dynamic_slice",
                                                       "stablehlo.reshape",
                                                       "stablehlo.reverse",
                                                       "stablehlo.set_dimension_size",
                                                       "stablehlo.slice",
                                                       "stablehlo.torch_index_select",
                                                       "stablehlo.transpose"};
  // And those with regions, and collectives.
  static constexpr absl::string_view kStorageOps[] = {"func.call",
                                                      "stablehlo.async_done",
                                                      "stablehlo.bitcast_convert",
                                                      "stablehlo.collective_reduce",
                                                      "stablehlo.composite",
                                                      "stablehlo.constant",
                                                      "stablehlo.cross-replica-sum",
                                                      "stablehlo.custom_call",
                                                      "stablehlo.get_dimension_size",
                                                      "stablehlo.get_tuple_element",
                                                      "stablehlo.infeed",
                                                      "stablehlo.optimization_barrier",
                                                      "stablehlo.outfeed",
                                                      "stablehlo.recv",
                                                      "stablehlo.send",
                                                      "stablehlo.tuple"};
  for (absl::string_view name : kMovementOps) {
    if (op == name) return Use::kMoves;
  }
  for (absl::string_view name : kStorageOps) {
    if (op == name) return Use::kStorage;
  }
  absl::string_view name = op;
  const OpInfo* info = absl::ConsumePrefix(&name, "stablehlo.") ? FindByStablehlo(name) : nullptr;
  if (info != nullptr && (info->Has(kHasCalled) || info->Has(kCollective))) return Use::kStorage;
  return absl::StartsWith(op, "sdy.") ? Use::kStorage : Use::kFloats;
}

absl::Status CheckSameQuantization(const SourceOp& op) {
  if (op.operands.empty() || op.results.empty()) return absl::OkStatus();
  const SourceQuantization *from = FindQuantization(op.operands[0]->type), *to = FindQuantization(op.results[0].type);
  bool same = (from == nullptr) == (to == nullptr);
  if (same && from != nullptr) {
    same = stablehlo::SameType(from->storage, to->storage) && stablehlo::SameType(from->expressed, to->expressed) &&
           from->storage_signed == to->storage_signed && from->storage_min == to->storage_min &&
           from->storage_max == to->storage_max && (from->axis < 0) == (to->axis < 0);
    // Along an axis a reshape or broadcast may repeat or reorder the parameters.
    if (same && from->axis < 0) same = from->scales == to->scales && from->zero_points == to->zero_points;
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("quantizations differ: operand ",
                                                 stablehlo::TypeToString(op.operands[0]->type), ", result ",
                                                 stablehlo::TypeToString(op.results[0].type)));
}

}  // namespace

bool TouchesQuantized(const SourceOp& op) {
  for (const SourceValue* v : op.operands) {
    if (FindQuantization(v->type) != nullptr) return true;
  }
  for (const SourceValue& v : op.results) {
    if (FindQuantization(v.type) != nullptr) return true;
  }
  return false;
}

absl::Status Importer::ImportQuantized(Scope& scope, const SourceOp& op) {
  for (const SourceValue& v : op.results) RETURN_IF_ERROR(ConvertType(v.type).status());
  Use use = UseOf(op.name);
  if (use == Use::kMoves) RETURN_IF_ERROR(CheckSameQuantization(op));
  if (use != Use::kFloats) return Dispatch(scope, op);

  // The same op on the floats: its quantized operands and results are replaced by values of the expressed type.
  auto expressed = [&](const SourceType* type) {
    SourceType* t = arena_.New<SourceType>(*type);
    t->inner = type->inner->quantization->expressed;
    return t;
  };
  Builder& b = scope.builder;
  SourceOp plain = op;
  absl::Span<SourceValue> inputs = arena_.NewArray<SourceValue>(op.operands.size());
  absl::Span<const SourceValue*> operands = arena_.NewArray<const SourceValue*>(op.operands.size());
  for (size_t i = 0; i < op.operands.size(); ++i) {
    operands[i] = op.operands[i];
    const SourceQuantization* q = FindQuantization(op.operands[i]->type);
    if (q == nullptr) continue;
    ASSIGN_OR_RETURN(Value stored, Get(scope, op.operands[i]));
    ASSIGN_OR_RETURN(Value x, Dequantize(b, stored, *q));
    inputs[i].type = expressed(op.operands[i]->type);
    scope.values[&inputs[i]] = {x, -1};
    operands[i] = &inputs[i];
  }
  plain.operands = operands;
  plain.results = arena_.NewArray<SourceValue>(op.results.size());
  for (size_t i = 0; i < op.results.size(); ++i) {
    plain.results[i].type =
        FindQuantization(op.results[i].type) != nullptr ? expressed(op.results[i].type) : op.results[i].type;
  }
  if (op.name == "stablehlo.uniform_quantize" || op.name == "stablehlo.uniform_dequantize") {
    // Nothing but the change of type.
    bool quantizes = op.name == "stablehlo.uniform_quantize";
    const SourceType* type = quantizes ? op.results[0].type : op.operands[0]->type;
    if (FindQuantization(type) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("found ", stablehlo::TypeToString(type), ", expected a quantized tensor"));
    }
    ASSIGN_OR_RETURN(Value x, Get(scope, plain.operands[0]));
    RETURN_IF_ERROR(Bind(scope, plain, x));
  } else {
    RETURN_IF_ERROR(Dispatch(scope, plain));
    // The floats are integers times a scale. Where products are rounded coarsely by default, the error would be larger
    // than that of the quantization itself.
    for (const SourceValue& result : plain.results) {
      ASSIGN_OR_RETURN(Value y, Get(scope, &result));
      if (!y->Is(Opcode::kDot) && !y->Is(Opcode::kConvolution)) continue;
      y->mutable_attrs().Set(AttrId::kOperandPrecision, Precisions(2, Precision::kHighest));
    }
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    ASSIGN_OR_RETURN(Value y, Get(scope, &plain.results[i]));
    if (const SourceQuantization* q = FindQuantization(op.results[i].type)) {
      ASSIGN_OR_RETURN(y, Quantize(b, y, *q));
    }
    RETURN_IF_ERROR(CheckResult(op, i, y->shape()));
    scope.values[&op.results[i]] = {y, -1};
  }
  return absl::OkStatus();
}

}  // namespace backplane::to_hlo
