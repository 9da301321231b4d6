// Makes types, attributes, values and ops, and converts between tuples and several results.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/import/export/from_hlo.h"
#include "core/import/stablehlo/op_table.h"
#include "core/import/stablehlo/text_parser.h"
#include "core/types/status_macros.h"

namespace backplane::from_hlo {

using stablehlo::ElementKind;
using stablehlo::TypeKind;

// ---- types ----

const SourceType* Exporter::ElementType(PrimitiveType type) {
  if (IsComplex(type)) {
    const SourceType*& made = complex_types_[static_cast<int>(type)];
    if (made == nullptr) {
      SourceType* t = arena_.New<SourceType>();
      t->kind = TypeKind::kComplex;
      t->inner = ElementType(ComplexPart(type));
      made = t;
    }
    return made;
  }
  return stablehlo::FindScalarType(type);
}

const SourceType* Exporter::GetTensorType(absl::Span<const int64_t> dims, const SourceType* element) {
  return stablehlo::MakeTensorType(arena_, dims, element);
}

absl::StatusOr<const SourceType*> Exporter::ExportType(const Shape& shape) {
  if (shape.IsToken()) return stablehlo::TokenType();
  if (shape.IsTuple()) {
    std::vector<const SourceType*> members;
    for (const Shape& s : shape.tuple_shapes()) {
      ASSIGN_OR_RETURN(const SourceType* member, ExportType(s));
      members.push_back(member);
    }
    SourceType* t = arena_.New<SourceType>();
    t->kind = TypeKind::kTuple;
    t->members = arena_.Copy(members);
    return t;
  }
  const SourceType* element = shape.IsArray() ? ElementType(shape.element_type()) : nullptr;
  if (element == nullptr) {
    return absl::UnimplementedError(absl::StrCat("StableHLO has no type for ", shape.ToString()));
  }
  if (!shape.HasDynamicDimensions()) return GetTensorType(shape.dimensions(), element);
  std::vector<int64_t> dims, bounds;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    dims.push_back(shape.is_dynamic(i) ? stablehlo::kDynamic : shape.dimensions(i));
    bounds.push_back(shape.is_dynamic(i) ? shape.dimensions(i) : stablehlo::kDynamic);
  }
  SourceType* t = arena_.New<SourceType>();
  t->kind = TypeKind::kTensor;
  t->dims = arena_.Copy(dims);
  t->bounds = arena_.Copy(bounds);
  t->inner = element;
  return t;
}

absl::Status Exporter::LeafTypes(const Shape& shape, std::vector<const SourceType*>* types) {
  absl::Status status;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    absl::StatusOr<const SourceType*> type = ExportType(leaf);
    if (type.ok()) {
      types->push_back(*type);
    } else {
      status.Update(type.status());
    }
  });
  return status;
}

// ---- attributes ----

const SourceAttr* Exporter::String(absl::string_view text) {
  return stablehlo::MakeString(arena_, arena_.CopyString(text));
}

const SourceAttr* Exporter::Matrix(const Ints& flat, int64_t rows, int64_t columns) {
  const SourceAttr* list = List(flat);
  return stablehlo::MakeDense(arena_, GetTensorType({rows, columns}, stablehlo::ScalarType(ElementKind::kI64)),
                              list->text, false);
}

const SourceAttr* Exporter::Strings(const StringMap& map) {
  NamedAttrs entries;
  for (const auto& [key, value] : map) entries.push_back({arena_.CopyString(key), String(value)});
  return stablehlo::MakeDict(arena_, std::move(entries));
}

absl::StatusOr<const SourceAttr*> Exporter::Dense(const Literal& literal, bool lasting) {
  Shape shape = literal.shape();
  ASSIGN_OR_RETURN(const SourceType* type, ExportType(shape.WithoutLayout()));
  if (!type->bounds.empty()) return absl::UnimplementedError("a constant of dynamic shape");
  const int64_t n = literal.num_elements();
  if (n == 0) return stablehlo::MakeDense(arena_, type, {}, false);
  const bool splat = n > 1 && literal.IsAllEqual();
  const size_t size = static_cast<size_t>(splat ? ByteWidth(shape.element_type()) : literal.byte_size());
  absl::string_view bytes(reinterpret_cast<const char*>(literal.bytes()), size);
  if (const int bits = BitWidth(shape.element_type()); bits < 8) {
    char* masked = arena_.NewBytes(size);
    for (size_t i = 0; i < size; ++i) masked[i] = static_cast<char>(bytes[i] & ((1 << bits) - 1));
    bytes = absl::string_view(masked, size);
  } else if (!lasting) {
    bytes = arena_.CopyString(bytes);
  }
  return stablehlo::MakeDense(arena_, type, bytes, splat);
}

absl::StatusOr<const SourceAttr*> Exporter::Ffi(const FfiDictionary& dictionary) {
  NamedAttrs entries;
  for (const auto& [key, value] : dictionary) {
    const SourceAttr* made = nullptr;
    const SourceType* element = IsArrayType(value.type) ? ElementType(value.type) : nullptr;
    switch (value.kind) {
      case FfiAttribute::Kind::kString:
        made = String(value.bytes);
        break;
      case FfiAttribute::Kind::kDictionary: {
        ASSIGN_OR_RETURN(made, Ffi(value.dictionary));
        break;
      }
      case FfiAttribute::Kind::kArray: {
        if (element == nullptr || element->kind != TypeKind::kScalar) {
          return absl::UnimplementedError(absl::StrCat("attribute ", key, ": an array of ", Name(value.type)));
        }
        made = stablehlo::MakeDense(arena_, GetTensorType({value.array_size()}, element),
                                    arena_.CopyString(value.bytes), false);
        break;
      }
      case FfiAttribute::Kind::kScalar: {
        if (element == nullptr || element->kind != TypeKind::kScalar || value.bytes.size() > 8) {
          return absl::UnimplementedError(absl::StrCat("attribute ", key, ": a number of type ", Name(value.type)));
        }
        uint64_t bits = 0;
        std::memcpy(&bits, value.bytes.data(), value.bytes.size());
        if (element->element == ElementKind::kBool) {
          made = Bool(bits != 0);
        } else if (stablehlo::IsFloatElement(element->element)) {
          made = stablehlo::MakeFloat(arena_, bits, element->element);
        } else {
          const int unused = 64 - 8 * static_cast<int>(value.bytes.size());
          int64_t v = static_cast<int64_t>(bits);
          if (IsSigned(value.type)) v = static_cast<int64_t>(bits << unused) >> unused;
          made = stablehlo::MakeInteger(arena_, v, element->element);
        }
        break;
      }
    }
    entries.push_back({arena_.CopyString(key), made});
  }
  return stablehlo::MakeDict(arena_, std::move(entries));
}

absl::StatusOr<const SourceAttr*> Exporter::ParseText(absl::string_view attribute) {
  const absl::string_view text = arena_.CopyString(absl::StrCat("module attributes {a = ", attribute, "} {\n}\n"));
  ASSIGN_OR_RETURN(std::unique_ptr<stablehlo::SourceModule> parsed, stablehlo::ParseStablehloText(text));
  const SourceAttr* found = parsed->Find("a");
  if (found == nullptr) return absl::InternalError("an attribute was lost");
  out_.parsed.push_back(std::move(parsed));
  return found;
}

// ---- ops ----

absl::StatusOr<SourceOp*> Exporter::Emit(Frame& frame, absl::string_view name, const Values& operands,
                                         NamedAttrs attributes, const std::vector<const SourceType*>& results,
                                         std::vector<SourceRegion> regions) {
  if (++op_count_ > kMaxExportedOps) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxExportedOps, " operations when written out"));
  }
  if (const stablehlo::OpForm* form = stablehlo::FindNewestForm(name); form != nullptr && name != "func.return") {
    RETURN_IF_ERROR(stablehlo::CompleteAttributes(arena_, *form, &attributes));
  } else {
    absl::string_view repeated;
    if (!stablehlo::SortEntries(&attributes, &repeated)) {
      return absl::InternalError(absl::StrCat("attribute ", repeated, " stands twice"));
    }
  }
  SourceOp* op = arena_.New<SourceOp>();
  op->name = name;
  op->location = location_;
  op->operands = arena_.Copy(operands);
  op->attributes = arena_.Copy(attributes);
  op->results = arena_.NewArray<SourceValue>(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    op->results[i] = {results[i], op, static_cast<uint32_t>(i), next_value_++, 0};
  }
  op->regions = arena_.NewArray<SourceRegion>(regions.size());
  std::copy(regions.begin(), regions.end(), op->regions.begin());
  frame.ops->push_back(op);
  return op;
}

absl::StatusOr<const SourceValue*> Exporter::EmitOne(Frame& frame, absl::string_view name, const Values& operands,
                                                     NamedAttrs attributes, const SourceType* result) {
  ASSIGN_OR_RETURN(SourceOp * op, Emit(frame, name, operands, std::move(attributes), {result}));
  return &op->results[0];
}

absl::StatusOr<Bundle> Exporter::EmitFor(Frame& frame, const Instruction& instruction, absl::string_view name,
                                         const Values& operands, NamedAttrs attributes,
                                         std::vector<SourceRegion> regions) {
  RETURN_IF_ERROR(AddAnnotations(instruction, &attributes));
  std::vector<const SourceType*> types;
  RETURN_IF_ERROR(LeafTypes(instruction.shape(), &types));
  ASSIGN_OR_RETURN(SourceOp * op, Emit(frame, name, operands, std::move(attributes), types, std::move(regions)));
  size_t next = 0;
  return Unflatten(instruction.shape(), op->results, &next);
}

absl::Status Exporter::AddAnnotations(const Instruction& instruction, NamedAttrs* attributes) {
  if (instruction.sharding()) attributes->push_back({"mhlo.sharding", String(instruction.sharding()->ToString())});
  if (!instruction.frontend_attributes().empty()) {
    attributes->push_back({"mhlo.frontend_attributes", Strings(instruction.frontend_attributes())});
  }
  return absl::OkStatus();
}

SourceBlock* Exporter::NewBlock(const std::vector<const SourceType*>& arguments) {
  SourceBlock* block = arena_.New<SourceBlock>();
  block->arguments = arena_.NewArray<SourceValue>(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    block->arguments[i] = {arguments[i], nullptr, static_cast<uint32_t>(i), next_value_++, 0};
  }
  return block;
}

SourceRegion Exporter::CloseRegion(SourceBlock* block, const std::vector<SourceOp*>& ops) {
  block->ops = arena_.Copy(ops);
  SourceRegion region;
  region.blocks = absl::Span<SourceBlock>(block, 1);
  return region;
}

void Exporter::Return(std::vector<SourceOp*>* ops, absl::string_view name, const Values& values) {
  SourceOp* op = arena_.New<SourceOp>();
  op->name = name;
  op->location = location_;
  op->operands = arena_.Copy(values);
  ops->push_back(op);
}

absl::StatusOr<const SourceValue*> Exporter::Constant(Frame& frame, const Literal& literal) {
  ASSIGN_OR_RETURN(const SourceAttr* value, Dense(literal, false));
  return EmitOne(frame, "stablehlo.constant", {}, {{"value", value}}, value->type);
}

absl::StatusOr<const SourceValue*> Exporter::EmitFilled(Frame& frame, const SourceType* type, PrimitiveType element,
                                                        double value) {
  ASSIGN_OR_RETURN(const SourceValue* scalar, Constant(frame, Literal::Scalar(element, value)));
  if (type->dims.empty()) return scalar;
  return EmitOne(frame, "stablehlo.broadcast_in_dim", {scalar}, {{"broadcast_dimensions", List({})}}, type);
}

// ---- values ----

absl::StatusOr<const SourceValue*> Exporter::Materialize(Frame& frame, const Bundle& bundle) {
  if (bundle.value != nullptr) return bundle.value;
  if (!bundle.is_tuple) {
    return absl::UnimplementedError("the context of an asynchronous operation is used as a value");
  }
  Values members;
  std::vector<const SourceType*> types;
  for (const Bundle& element : bundle.elements) {
    ASSIGN_OR_RETURN(const SourceValue* v, Materialize(frame, element));
    members.push_back(v);
    types.push_back(v->type);
  }
  SourceType* t = arena_.New<SourceType>();
  t->kind = TypeKind::kTuple;
  t->members = arena_.Copy(types);
  return EmitOne(frame, "stablehlo.tuple", members, {}, t);
}

absl::StatusOr<const SourceValue*> Exporter::GetValue(Frame& frame, const Instruction* instruction) {
  return Materialize(frame, Get(frame, instruction));
}

absl::StatusOr<Values> Exporter::Operands(Frame& frame, const Instruction& instruction) {
  Values out;
  for (const Instruction* o : instruction.operands()) {
    ASSIGN_OR_RETURN(const SourceValue* v, GetValue(frame, o));
    out.push_back(v);
  }
  return out;
}

absl::StatusOr<Bundle> Exporter::Element(Frame& frame, const Bundle& bundle, int64_t index) {
  if (bundle.is_tuple) {
    if (index >= static_cast<int64_t>(bundle.elements.size())) return absl::InternalError("a tuple lost an element");
    return bundle.elements[index];
  }
  ASSIGN_OR_RETURN(const SourceValue* tuple, Materialize(frame, bundle));
  if (tuple->type->kind != TypeKind::kTuple || index >= static_cast<int64_t>(tuple->type->members.size())) {
    return absl::InternalError("an element of what is no tuple");
  }
  ASSIGN_OR_RETURN(const SourceValue* v, EmitOne(frame, "stablehlo.get_tuple_element", {tuple},
                                                 {{"index", Int32(index)}}, tuple->type->members[index]));
  return Bundle::Of(v);
}

absl::Status Exporter::Flatten(Frame& frame, const Bundle& bundle, const Shape& shape, Values* leaves) {
  if (!shape.IsTuple()) {
    ASSIGN_OR_RETURN(const SourceValue* v, Materialize(frame, bundle));
    leaves->push_back(v);
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < shape.tuple_size(); ++i) {
    ASSIGN_OR_RETURN(Bundle element, Element(frame, bundle, i));
    RETURN_IF_ERROR(Flatten(frame, element, shape.tuple_shapes(i), leaves));
  }
  return absl::OkStatus();
}

Bundle Exporter::Unflatten(const Shape& shape, absl::Span<const SourceValue> leaves, size_t* next) {
  if (!shape.IsTuple()) return Bundle::Of(&leaves[(*next)++]);
  std::vector<Bundle> elements;
  for (const Shape& s : shape.tuple_shapes()) elements.push_back(Unflatten(s, leaves, next));
  return Bundle::Tuple(std::move(elements));
}

absl::StatusOr<SourceRegion> Exporter::Region(const Computation& computation) {
  std::vector<const SourceType*> types;
  for (const Instruction* p : computation.parameters()) RETURN_IF_ERROR(LeafTypes(p->shape(), &types));
  SourceBlock* block = NewBlock(types);
  std::vector<SourceOp*> ops;
  std::vector<Bundle> parameters;
  size_t next = 0;
  for (const Instruction* p : computation.parameters())
    parameters.push_back(Unflatten(p->shape(), block->arguments, &next));
  ASSIGN_OR_RETURN(Bundle root, ExportComputation(computation, &ops, parameters));
  Values leaves;
  Frame frame{&ops, {}};
  RETURN_IF_ERROR(Flatten(frame, root, computation.root()->shape(), &leaves));
  Return(&ops, "stablehlo.return", leaves);
  return CloseRegion(block, ops);
}

}  // namespace backplane::from_hlo
