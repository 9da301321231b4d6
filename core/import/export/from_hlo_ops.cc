// Operations without control flow. Most have the same name in StableHLO, with their attributes under other names.
#include <algorithm>
#include <bit>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/export/from_hlo.h"
#include "core/import/stablehlo/hlo_attributes.h"
#include "core/types/status_macros.h"

namespace backplane::from_hlo {

using stablehlo::ElementKind;

namespace {

const char* ComparisonTypeName(const Instruction& i) {
  if (i.attrs().Has(AttrId::kComparisonType)) {
    switch (i.attrs().GetEnum<ComparisonType>(AttrId::kComparisonType)) {
      case ComparisonType::kFloat:
        return "FLOAT";
      case ComparisonType::kTotalOrder:
        return "TOTALORDER";
      case ComparisonType::kSigned:
        return "SIGNED";
      case ComparisonType::kUnsigned:
        return "UNSIGNED";
    }
  }
  const PrimitiveType t = i.operand(0)->shape().element_type();
  return IsSigned(t) ? "SIGNED" : IsUnsigned(t) || t == PrimitiveType::kPred ? "UNSIGNED" : "FLOAT";
}

}  // namespace

absl::StatusOr<Bundle> Exporter::ExportPlain(Frame& frame, const Instruction& i) {
  const Attributes& a = i.attrs();
  absl::string_view name = i.info().stablehlo;
  name = name.substr(0, name.find(';'));
  NamedAttrs attrs;
  std::vector<SourceRegion> regions;
  switch (i.opcode()) {
    case Opcode::kConstant: {
      if (i.shape().IsTuple()) {
        // Each leaf is a constant of its own.
        auto make = [&](auto& self, const Literal& literal) -> absl::StatusOr<Bundle> {
          if (!literal.shape().IsTuple()) {
            ASSIGN_OR_RETURN(const SourceValue* v, Constant(frame, literal));
            return Bundle::Of(v);
          }
          std::vector<Bundle> elements;
          for (const Literal& e : literal.elements()) {
            ASSIGN_OR_RETURN(Bundle element, self(self, e));
            elements.push_back(std::move(element));
          }
          return Bundle::Tuple(std::move(elements));
        };
        return make(make, i.literal());
      }
      if (!i.shape().IsArray()) return absl::UnimplementedError("a constant that is no array");
      ASSIGN_OR_RETURN(const SourceAttr* value, Dense(i.literal(), true));
      return EmitFor(frame, i, "stablehlo.constant", {}, {{"value", value}});
    }
    case Opcode::kBitcast:
      return ExportBitcast(frame, i);
    case Opcode::kAbs:
      // StableHLO's abs takes no unsigned integers, of which it would change nothing.
      if (!i.shape().IsArray() || !IsUnsigned(i.shape().element_type())) break;
      return Get(frame, i.operand(0));
    case Opcode::kSign: {
      const Shape& shape = i.shape();
      if (!shape.IsArray() || !IsUnsigned(shape.element_type())) break;
      // StableHLO's sign takes no unsigned integers. Theirs is whether they are not zero.
      Shape flags = shape;
      flags.set_element_type(PrimitiveType::kPred);
      ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
      ASSIGN_OR_RETURN(const SourceType* type, ExportType(flags));
      ASSIGN_OR_RETURN(const SourceValue* some, EmitOne(frame, "stablehlo.convert", operands, {}, type));
      return EmitFor(frame, i, "stablehlo.convert", {some}, {});
    }
    case Opcode::kRng:
      return ExportRng(frame, i);
    case Opcode::kDynamicReshape:
      return ExportDynamicReshape(frame, i);
    case Opcode::kRngGetAndUpdateState:
      return absl::UnimplementedError("StableHLO has no random state");
    case Opcode::kAddDependency: {
      // A barrier ties the value to the token.
      ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
      ASSIGN_OR_RETURN(SourceOp * op, Emit(frame, "stablehlo.optimization_barrier", operands, {},
                                           {operands[0]->type, operands[1]->type}));
      return Bundle::Of(&op->results[0]);
    }
    case Opcode::kOptimizationBarrier: {
      Values leaves;
      RETURN_IF_ERROR(Flatten(frame, Get(frame, i.operand(0)), i.operand(0)->shape(), &leaves));
      return EmitFor(frame, i, "stablehlo.optimization_barrier", leaves, {});
    }
    case Opcode::kAfterAll:
      if (i.operand_count() == 0) return EmitFor(frame, i, "stablehlo.create_token", {}, {});
      name = "after_all";
      break;
    case Opcode::kCompare: {
      ASSIGN_OR_RETURN(attrs, stablehlo::FromHloAttributes(i.opcode(), a, arena_));
      attrs.push_back({"compare_type", Enum(ComparisonTypeName(i))});
      break;
    }
    case Opcode::kParameter:
      return absl::InternalError("a parameter behind the parameters");
    default: {
      const bool plain =
          stablehlo::HasAllAttributes(i.opcode()) && (i.called().empty() || i.info().Has(kCallsPerElement));
      if (name == "-" || absl::StartsWith(name, "chlo.") || !plain) {
        return absl::UnimplementedError("StableHLO has no such operation");
      }
      ASSIGN_OR_RETURN(attrs, stablehlo::FromHloAttributes(i.opcode(), a, arena_));
      for (const Computation* c : i.called()) {
        ASSIGN_OR_RETURN(SourceRegion region, Region(*c));
        regions.push_back(region);
      }
    }
  }
  if (i.result_accuracy() && i.info().accuracy_since != 0) {
    const ResultAccuracy& r = *i.result_accuracy();
    attrs.push_back(
        {"result_accuracy",
         stablehlo::MakeDict(
             arena_, {{"atol", stablehlo::MakeFloat(arena_, std::bit_cast<uint64_t>(r.atol), ElementKind::kF64)},
                      {"mode", Enum(r.mode == ResultAccuracy::Mode::kHighest     ? "HIGHEST"
                                    : r.mode == ResultAccuracy::Mode::kTolerance ? "TOLERANCE"
                                                                                 : "DEFAULT")},
                      {"rtol", stablehlo::MakeFloat(arena_, std::bit_cast<uint64_t>(r.rtol), ElementKind::kF64)},
                      {"ulps", Int(r.ulps)}})});
  }
  for (const Instruction* o : i.operands()) {
    if (o->shape().IsTuple()) return absl::UnimplementedError("an operand that is a tuple");
  }
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  return EmitFor(frame, i, arena_.CopyString(absl::StrCat("stablehlo.", name)), operands, std::move(attrs),
                 std::move(regions));
}

// A bitcast keeps the bytes and changes the shape: transpose to the physical order of the operand, reshape to the
// result's dimensions in its physical order, and transpose from that order.
absl::StatusOr<Bundle> Exporter::ExportBitcast(Frame& frame, const Instruction& i) {
  const Shape &from = i.operand(0)->shape(), &to = i.shape();
  ASSIGN_OR_RETURN(const SourceValue* x, GetValue(frame, i.operand(0)));
  auto physical = [](const Shape& s) {
    Ints order;  // major to minor
    if (s.has_layout()) {
      order.assign(s.layout().minor_to_major.rbegin(), s.layout().minor_to_major.rend());
    } else {
      order.resize(static_cast<size_t>(s.rank()));
      std::iota(order.begin(), order.end(), 0);
    }
    return order;
  };
  for (const Shape* s : {&from, &to}) {
    if (s->has_layout() && (!s->layout().tiles.empty() || s->layout().element_size_in_bits != 0)) {
      return absl::UnimplementedError(absl::StrCat("a bitcast of a tiled or packed layout: ", s->ToString(true)));
    }
  }
  auto moved = [&](const SourceValue* v, const Ints& permutation) -> absl::StatusOr<const SourceValue*> {
    if (std::is_sorted(permutation.begin(), permutation.end())) return v;
    Ints dims;
    for (int64_t d : permutation) dims.push_back(v->type->dims[d]);
    return EmitOne(frame, "stablehlo.transpose", {v}, {{"permutation", List(permutation)}},
                   GetTensorType(dims, v->type->inner));
  };
  ASSIGN_OR_RETURN(x, moved(x, physical(from)));
  const Ints order = physical(to);
  Ints dims;
  for (int64_t d : order) dims.push_back(to.dimensions(d));
  if (from.element_type() != to.element_type()) {
    if (BitWidth(from.element_type()) != BitWidth(to.element_type())) {
      return absl::UnimplementedError(
          absl::StrCat("a bitcast between widths: ", from.ToString(), " to ", to.ToString()));
    }
    const SourceType* element = ElementType(to.element_type());
    if (element == nullptr) return absl::UnimplementedError(absl::StrCat("StableHLO has no type for ", to.ToString()));
    ASSIGN_OR_RETURN(x, EmitOne(frame, "stablehlo.bitcast_convert", {x}, {}, GetTensorType(x->type->dims, element)));
  }
  if (x->type->dims != absl::Span<const int64_t>(dims)) {
    ASSIGN_OR_RETURN(x, EmitOne(frame, "stablehlo.reshape", {x}, {}, GetTensorType(dims, x->type->inner)));
  }
  Ints back(order.size());
  for (size_t k = 0; k < order.size(); ++k) back[order[k]] = static_cast<int64_t>(k);
  ASSIGN_OR_RETURN(x, moved(x, back));
  return Bundle::Of(x);
}

absl::StatusOr<Bundle> Exporter::ExportRng(Frame& frame, const Instruction& i) {
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  if (operands.size() != 2) return absl::InvalidArgumentError("needs two operands");
  const DimVector& dims = i.shape().dimensions();
  Literal shape(Shape(PrimitiveType::kS64, {i.shape().rank()}));
  for (size_t k = 0; k < dims.size(); ++k) shape.mutable_data<int64_t>()[k] = dims[k];
  ASSIGN_OR_RETURN(const SourceValue* sizes, Constant(frame, shape));
  operands.push_back(sizes);
  ASSIGN_OR_RETURN(NamedAttrs attrs, stablehlo::FromHloAttributes(i.opcode(), i.attrs(), arena_));
  return EmitFor(frame, i, "stablehlo.rng", operands, std::move(attrs));
}

// HLO takes a scalar for each size, StableHLO one vector.
absl::StatusOr<Bundle> Exporter::ExportDynamicReshape(Frame& frame, const Instruction& i) {
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  Values sizes;
  for (size_t k = 1; k < operands.size(); ++k) {
    ASSIGN_OR_RETURN(const SourceValue* one, EmitOne(frame, "stablehlo.reshape", {operands[k]}, {},
                                                     GetTensorType({1}, operands[k]->type->inner)));
    sizes.push_back(one);
  }
  const SourceValue* vector = nullptr;
  if (sizes.empty()) {
    ASSIGN_OR_RETURN(vector, Constant(frame, Literal(Shape(PrimitiveType::kS32, {0}))));
  } else {
    ASSIGN_OR_RETURN(vector, EmitOne(frame, "stablehlo.concatenate", sizes, {{"dimension", Int(0)}},
                                     GetTensorType({static_cast<int64_t>(sizes.size())}, sizes[0]->type->inner)));
  }
  return EmitFor(frame, i, "stablehlo.dynamic_reshape", {operands[0], vector}, {});
}

}  // namespace backplane::from_hlo
