// Operations that StableHLO lacks. Those that hosts send as composites are exported as such: the name tells the
// meaning, and a reader that does not know the name uses the decomposition.
//
// erf for |x| <= 1 and 1 - erfc beyond it: rational approximations of S. L. Moshier's Cephes library (ndtr), good to a
// few units in the last place of f64; narrower floats are computed in f32 by the rational approximation of odd degree
// 13 over even degree 8 on [-4, 4] that Eigen published.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/import/erfc_coefficients.h"
#include "core/import/export/from_hlo.h"
#include "core/types/status_macros.h"

namespace backplane::from_hlo {

using stablehlo::ElementKind;

namespace {

// The operations of CHLO have its names; a scaled dot has that of XLA's composite.
const char* CompositeName(Opcode opcode) {
  return opcode == Opcode::kScaledDot ? "xla.scaled_dot" : Info(opcode).stablehlo;
}

}  // namespace

absl::StatusOr<Bundle> Exporter::ExportComposite(Frame& frame, const Instruction& i) {
  ASSIGN_OR_RETURN(Values operands, Operands(frame, i));
  if (i.Is(Opcode::kTopK) && i.attrs().Has(AttrId::kLargest) && !i.attrs().GetBool(AttrId::kLargest)) {
    // The composite means the largest; the smallest are written out.
    ASSIGN_OR_RETURN(Values both, ExpandTopK(frame, operands[0], i));
    return Bundle::Tuple({Bundle::Of(both[0]), Bundle::Of(both[1])});
  }
  ASSIGN_OR_RETURN(absl::string_view decomposition, Decomposition(i));
  NamedAttrs attributes;
  if (i.Is(Opcode::kTopK)) {
    attributes.push_back({"k", Int(i.attrs().GetInt(AttrId::kK))});
  } else if (i.Is(Opcode::kScaledDot)) {
    auto list = [&](const Ints& values) {
      std::vector<const SourceAttr*> elements;
      for (int64_t v : values) elements.push_back(Int(v));
      return stablehlo::MakeArray(arena_, elements);
    };
    const DotDimensions& d = i.dot_dims();
    attributes.push_back(
        {"dimension_numbers",
         stablehlo::MakeArray(arena_, {stablehlo::MakeArray(arena_, {list(d.lhs_contracting), list(d.rhs_contracting)}),
                                       stablehlo::MakeArray(arena_, {list(d.lhs_batch), list(d.rhs_batch)})})});
    attributes.push_back(
        {"preferred_element_type", stablehlo::MakeType(arena_, ElementType(i.shape().element_type()))});
  }
  const int64_t version = i.Is(Opcode::kScaledDot) ? 0 : 1;
  return EmitFor(frame, i, "stablehlo.composite", operands,
                 {{"composite_attributes", stablehlo::MakeDict(arena_, std::move(attributes))},
                  {"decomposition", stablehlo::MakeString(arena_, decomposition)},
                  {"name", String(CompositeName(i.opcode()))},
                  {"version", Int32(version)}});
}

// The function that computes the instruction in StableHLO alone; one for each operation and signature.
absl::StatusOr<absl::string_view> Exporter::Decomposition(const Instruction& i) {
  std::string key = absl::StrCat(CompositeName(i.opcode()), i.shape().ToString());
  for (const Instruction* o : i.operands()) absl::StrAppend(&key, o->shape().ToString());
  if (i.Is(Opcode::kScaledDot)) {
    const DotDimensions& d = i.dot_dims();
    for (const Ints* list : {&d.lhs_batch, &d.rhs_batch, &d.lhs_contracting, &d.rhs_contracting}) {
      absl::StrAppend(&key, ";", absl::StrJoin(*list, ","));
    }
  }
  if (auto it = decompositions_.find(key); it != decompositions_.end()) return it->second;
  const stablehlo::LocationId outer = location_;
  location_ = 0;
  std::vector<const SourceType*> arguments, results;
  for (const Instruction* o : i.operands()) RETURN_IF_ERROR(LeafTypes(o->shape(), &arguments));
  RETURN_IF_ERROR(LeafTypes(i.shape(), &results));
  SourceBlock* block = NewBlock(arguments);
  std::vector<SourceOp*> ops;
  Frame frame{&ops, {}};
  Values in, out;
  for (const SourceValue& v : block->arguments) in.push_back(&v);
  const PrimitiveType type = i.operand(0)->shape().element_type();
  switch (i.opcode()) {
    case Opcode::kErf: {
      ASSIGN_OR_RETURN(const SourceValue* y, ExpandErf(frame, in[0], type));
      out.push_back(y);
      break;
    }
    case Opcode::kCosh: {
      ASSIGN_OR_RETURN(const SourceValue* y, ExpandCosh(frame, in[0], type));
      out.push_back(y);
      break;
    }
    case Opcode::kTopK: {
      ASSIGN_OR_RETURN(out, ExpandTopK(frame, in[0], i));
      break;
    }
    default: {
      ASSIGN_OR_RETURN(const SourceValue* y, ExpandScaledDot(frame, in, i));
      out.push_back(y);
    }
  }
  Return(&ops, "func.return", out);
  const absl::string_view name = UniqueSymbol(absl::StrCat(CompositeName(i.opcode()), ".impl"));
  AddFunction(name, false, arguments, results, {}, {}, block, ops);
  location_ = outer;
  decompositions_.emplace(std::move(key), name);
  return name;
}

absl::StatusOr<const SourceValue*> Exporter::ExpandErf(Frame& frame, const SourceValue* x, PrimitiveType type) {
  if (!IsFloat(type)) return absl::UnimplementedError(absl::StrCat("erf of ", Name(type)));
  const SourceType* given = x->type;
  if (!given->bounds.empty()) return absl::UnimplementedError("erf of a dynamic shape");
  const bool wide = type == PrimitiveType::kF64;
  const PrimitiveType inner = wide ? PrimitiveType::kF64 : PrimitiveType::kF32;
  const SourceType* t = GetTensorType(given->dims, ElementType(inner));
  auto unary = [&](const char* name, const SourceValue* a) { return EmitOne(frame, name, {a}, {}, t); };
  auto binary = [&](const char* name, const SourceValue* a, const SourceValue* b) {
    return EmitOne(frame, name, {a, b}, {}, t);
  };
  auto number = [&](double v) { return EmitFilled(frame, t, inner, v); };
  // Highest power first.
  auto polynomial = [&](const SourceValue* a, absl::Span<const double> c) -> absl::StatusOr<const SourceValue*> {
    ASSIGN_OR_RETURN(const SourceValue* sum, number(c[0]));
    for (size_t k = 1; k < c.size(); ++k) {
      ASSIGN_OR_RETURN(sum, binary("stablehlo.multiply", sum, a));
      ASSIGN_OR_RETURN(const SourceValue* next, number(c[k]));
      ASSIGN_OR_RETURN(sum, binary("stablehlo.add", sum, next));
    }
    return sum;
  };
  ASSIGN_OR_RETURN(const SourceValue* one, number(1));
  if (!wide) {
    static constexpr double kTop[] = {-2.72614225801306e-10, 2.77068142495902e-08,  -2.10102402082508e-06,
                                      -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03,
                                      -1.60960333262415e-02};
    static constexpr double kBottom[] = {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
                                         -7.37332916720468e-03, -1.42647390514189e-02};
    if (type != inner) {
      ASSIGN_OR_RETURN(x, unary("stablehlo.convert", x));
    }
    ASSIGN_OR_RETURN(const SourceValue* low, number(-4));
    ASSIGN_OR_RETURN(const SourceValue* high, number(4));
    ASSIGN_OR_RETURN(x, EmitOne(frame, "stablehlo.clamp", {low, x, high}, {}, t));
    ASSIGN_OR_RETURN(const SourceValue* square, binary("stablehlo.multiply", x, x));
    ASSIGN_OR_RETURN(const SourceValue* top, polynomial(square, kTop));
    ASSIGN_OR_RETURN(top, binary("stablehlo.multiply", x, top));
    ASSIGN_OR_RETURN(const SourceValue* bottom, polynomial(square, kBottom));
    ASSIGN_OR_RETURN(const SourceValue* y, binary("stablehlo.divide", top, bottom));
    ASSIGN_OR_RETURN(const SourceValue* least, number(-1));
    ASSIGN_OR_RETURN(y, EmitOne(frame, "stablehlo.clamp", {least, y, one}, {}, t));
    if (type != inner) {
      ASSIGN_OR_RETURN(y, EmitOne(frame, "stablehlo.convert", {y}, {}, given));
    }
    return y;
  }
  static constexpr double kT[] = {9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3,
                                  7.00332514112805075473e3, 5.55923013010394962768e4};
  static constexpr double kU[] = {1.0,
                                  3.35617141647503099647e1,
                                  5.21357949780152679795e2,
                                  4.59432382970980127987e3,
                                  2.26290000613890934246e4,
                                  4.92673942608635921086e4};
  ASSIGN_OR_RETURN(const SourceValue* size, unary("stablehlo.abs", x));
  ASSIGN_OR_RETURN(const SourceValue* square, binary("stablehlo.multiply", x, x));
  ASSIGN_OR_RETURN(const SourceValue* top, polynomial(square, kT));
  ASSIGN_OR_RETURN(const SourceValue* bottom, polynomial(square, kU));
  ASSIGN_OR_RETURN(const SourceValue* near, binary("stablehlo.divide", top, bottom));
  ASSIGN_OR_RETURN(near, binary("stablehlo.multiply", x, near));
  // Beyond 6 the result is one in f64.
  ASSIGN_OR_RETURN(const SourceValue* six, number(6));
  ASSIGN_OR_RETURN(const SourceValue* far, binary("stablehlo.minimum", size, six));
  ASSIGN_OR_RETURN(const SourceValue* power, binary("stablehlo.multiply", far, far));
  ASSIGN_OR_RETURN(power, unary("stablehlo.negate", power));
  ASSIGN_OR_RETURN(power, unary("stablehlo.exponential", power));
  ASSIGN_OR_RETURN(top, polynomial(far, kErfcNumerator));
  ASSIGN_OR_RETURN(bottom, polynomial(far, kErfcDenominator));
  ASSIGN_OR_RETURN(const SourceValue* rest, binary("stablehlo.divide", top, bottom));
  ASSIGN_OR_RETURN(rest, binary("stablehlo.multiply", power, rest));
  ASSIGN_OR_RETURN(rest, binary("stablehlo.subtract", one, rest));
  ASSIGN_OR_RETURN(const SourceValue* sign, unary("stablehlo.sign", x));
  ASSIGN_OR_RETURN(rest, binary("stablehlo.multiply", sign, rest));
  const SourceType* flags = GetTensorType(given->dims, stablehlo::ScalarType(ElementKind::kBool));
  ASSIGN_OR_RETURN(const SourceValue* is_far,
                   EmitOne(frame, "stablehlo.compare", {size, one},
                           {{"comparison_direction", Enum("GT")}, {"compare_type", Enum("FLOAT")}}, flags));
  return EmitOne(frame, "stablehlo.select", {is_far, rest, near}, {}, t);
}

// exp(x + log 1/2) + exp(-x + log 1/2): overflows only where cosh does.
absl::StatusOr<const SourceValue*> Exporter::ExpandCosh(Frame& frame, const SourceValue* x, PrimitiveType type) {
  const SourceType* t = x->type;
  if (!t->bounds.empty()) return absl::UnimplementedError("cosh of a dynamic shape");
  ASSIGN_OR_RETURN(const SourceValue* half, EmitFilled(frame, t, type, -0.693147180559945309417));
  ASSIGN_OR_RETURN(const SourceValue* up, EmitOne(frame, "stablehlo.add", {half, x}, {}, t));
  ASSIGN_OR_RETURN(const SourceValue* down, EmitOne(frame, "stablehlo.subtract", {half, x}, {}, t));
  ASSIGN_OR_RETURN(up, EmitOne(frame, "stablehlo.exponential", {up}, {}, t));
  ASSIGN_OR_RETURN(down, EmitOne(frame, "stablehlo.exponential", {down}, {}, t));
  return EmitOne(frame, "stablehlo.add", {up, down}, {}, t);
}

// A stable sort of the values with their indices; the first k are the result.
absl::StatusOr<Values> Exporter::ExpandTopK(Frame& frame, const SourceValue* x, const Instruction& i) {
  const Shape& shape = i.operand(0)->shape();
  const int64_t last = shape.rank() - 1;
  const bool largest = !i.attrs().Has(AttrId::kLargest) || i.attrs().GetBool(AttrId::kLargest);
  const SourceType* value_type = x->type;
  if (!value_type->bounds.empty()) return absl::UnimplementedError("top-k of a dynamic shape");
  const SourceType* s32 = stablehlo::ScalarType(ElementKind::kI32);
  const SourceType* index_type = GetTensorType(shape.dimensions(), s32);
  ASSIGN_OR_RETURN(const SourceValue* indices,
                   EmitOne(frame, "stablehlo.iota", {}, {{"iota_dimension", Int(last)}}, index_type));
  const SourceType *value = GetTensorType({}, value_type->inner), *index = GetTensorType({}, s32);
  SourceBlock* block = NewBlock({value, value, index, index});
  std::vector<SourceOp*> body;
  Frame inner{&body, {}};
  const PrimitiveType type = shape.element_type();
  const char* how = IsFloat(type) ? "TOTALORDER" : IsSigned(type) ? "SIGNED" : "UNSIGNED";
  ASSIGN_OR_RETURN(const SourceValue* before,
                   EmitOne(inner, "stablehlo.compare", {&block->arguments[0], &block->arguments[1]},
                           {{"comparison_direction", Enum(largest ? "GT" : "LT")}, {"compare_type", Enum(how)}},
                           GetTensorType({}, stablehlo::ScalarType(ElementKind::kBool))));
  Return(&body, "stablehlo.return", {before});
  const SourceRegion region = CloseRegion(block, body);
  ASSIGN_OR_RETURN(SourceOp * sorted,
                   Emit(frame, "stablehlo.sort", {x, indices}, {{"dimension", Int(last)}, {"is_stable", Bool(true)}},
                        {value_type, index_type}, {region}));
  Values out;
  for (const SourceValue& v : sorted->results) {
    const Shape& kept = i.shape().tuple_shapes(0);
    const Ints start(static_cast<size_t>(shape.rank()), 0), stride(static_cast<size_t>(shape.rank()), 1),
        limit(kept.dimensions().begin(), kept.dimensions().end());
    ASSIGN_OR_RETURN(
        const SourceValue* front,
        EmitOne(frame, "stablehlo.slice", {&v},
                {{"start_indices", List(start)}, {"limit_indices", List(limit)}, {"strides", List(stride)}},
                GetTensorType(limit, v.type->inner)));
    out.push_back(front);
  }
  return out;
}

// Both operands times their scales in bf16, each scale broadcast over its block; then the product.
absl::StatusOr<const SourceValue*> Exporter::ExpandScaledDot(Frame& frame, const Values& x, const Instruction& i) {
  const SourceType* bf16 = stablehlo::ScalarType(ElementKind::kBF16);
  Values sides;
  for (size_t side = 0; side < 2; ++side) {
    const SourceType *whole = x[side]->type, *scale = x[side + 2]->type;
    // [.. s ..] -> [.. s, n/s ..] -> [.. n ..]
    Ints broadcast, dims;
    for (size_t d = 0; d < whole->dims.size(); ++d) {
      dims.push_back(static_cast<int64_t>(broadcast.size()));
      broadcast.push_back(scale->dims[d]);
      broadcast.push_back(scale->dims[d] == 0 ? 0 : whole->dims[d] / scale->dims[d]);
    }
    ASSIGN_OR_RETURN(const SourceValue* factor,
                     EmitOne(frame, "stablehlo.convert", {x[side + 2]}, {}, GetTensorType(scale->dims, bf16)));
    ASSIGN_OR_RETURN(factor, EmitOne(frame, "stablehlo.broadcast_in_dim", {factor},
                                     {{"broadcast_dimensions", List(dims)}}, GetTensorType(broadcast, bf16)));
    const SourceType* to = GetTensorType(whole->dims, bf16);
    ASSIGN_OR_RETURN(factor, EmitOne(frame, "stablehlo.reshape", {factor}, {}, to));
    ASSIGN_OR_RETURN(const SourceValue* values, EmitOne(frame, "stablehlo.convert", {x[side]}, {}, to));
    ASSIGN_OR_RETURN(values, EmitOne(frame, "stablehlo.multiply", {values, factor}, {}, to));
    sides.push_back(values);
  }
  const DotDimensions& d = i.dot_dims();
  ASSIGN_OR_RETURN(const SourceType* result, ExportType(i.shape()));
  return EmitOne(frame, "stablehlo.dot_general", sides,
                 {{"lhs_batching_dimensions", List(d.lhs_batch)},
                  {"rhs_batching_dimensions", List(d.rhs_batch)},
                  {"lhs_contracting_dimensions", List(d.lhs_contracting)},
                  {"rhs_contracting_dimensions", List(d.rhs_contracting)}},
                 result);
}

}  // namespace backplane::from_hlo
