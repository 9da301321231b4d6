// Types, constants and attribute values of StableHLO in the core's terms.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/source_build.h"
#include "core/import/to_hlo/importer.h"
#include "core/import/to_hlo/quantized.h"

namespace backplane::to_hlo {

using stablehlo::ElementKind;
using stablehlo::TypeKind;

namespace {

absl::Status Missing(absl::string_view name, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("attribute ", name, ": expected ", expected));
}

}  // namespace

absl::StatusOr<int64_t> GetInt(const SourceOp& op, absl::string_view name) {
  const SourceAttr* a = op.Find(name);
  if (!a || a->kind != stablehlo::AttrKind::kInteger) return Missing(name, "an integer");
  return a->integer;
}

absl::StatusOr<Ints> GetInts(const SourceOp& op, absl::string_view name) {
  absl::StatusOr<Ints> values = stablehlo::ReadDenseIntegers(op.Find(name));
  if (!values.ok()) return Missing(name, values.status().message());
  return values;
}

absl::StatusOr<bool> GetBool(const SourceOp& op, absl::string_view name) {
  const SourceAttr* a = op.Find(name);
  if (!a || a->kind != stablehlo::AttrKind::kBool) return Missing(name, "a bool");
  return a->integer != 0;
}

absl::StatusOr<absl::string_view> GetText(const SourceOp& op, absl::string_view name) {
  const SourceAttr* a = op.Find(name);
  if (!a || (a->kind != stablehlo::AttrKind::kString && a->kind != stablehlo::AttrKind::kEnum)) {
    return Missing(name, "a string");
  }
  return a->text;
}

absl::StatusOr<PrimitiveType> ConvertElementType(const SourceType* type) {
  if (type->kind == TypeKind::kComplex) {
    ASSIGN_OR_RETURN(PrimitiveType part, ConvertElementType(type->inner));
    PrimitiveType whole = GetComplexType(part);
    if (whole == PrimitiveType::kInvalid) {
      return absl::InvalidArgumentError(absl::StrCat("element type ", stablehlo::TypeToString(type)));
    }
    return whole;
  }
  if (type->kind == TypeKind::kQuantized) {
    return StorageElementType(*type->quantization);
  }
  if (type->kind != TypeKind::kScalar) {
    return absl::InvalidArgumentError(absl::StrCat("element type ", stablehlo::TypeToString(type)));
  }
  const PrimitiveType element = stablehlo::GetPrimitiveType(type->element);
  if (element != PrimitiveType::kInvalid) return element;
  return absl::UnimplementedError(
      absl::StrCat("arrays of element type ", stablehlo::TypeToString(type), " are not supported"));
}

absl::StatusOr<Shape> ConvertType(const SourceType* type) {
  switch (type->kind) {
    case TypeKind::kToken:
      return Shape::Token();
    case TypeKind::kTuple: {
      std::vector<Shape> elements;
      for (const SourceType* t : type->members) {
        ASSIGN_OR_RETURN(Shape s, ConvertType(t));
        elements.push_back(std::move(s));
      }
      return Shape::Tuple(std::move(elements));
    }
    case TypeKind::kTensor:
    case TypeKind::kBuffer: {
      if (FindQuantization(type) != nullptr) RETURN_IF_ERROR(CheckQuantization(type));
      ASSIGN_OR_RETURN(PrimitiveType element, ConvertElementType(type->inner));
      DimVector dims(type->dims.begin(), type->dims.end());
      for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] != stablehlo::kDynamic) continue;
        if (type->bounds.empty() || type->bounds[i] == stablehlo::kDynamic) {
          return absl::UnimplementedError(
              absl::StrCat("type ", stablehlo::TypeToString(type), ": dimension ", i, " is unknown and has no bound"));
        }
        dims[i] = type->bounds[i];
      }
      Shape shape(element, dims);
      for (size_t i = 0; i < dims.size(); ++i) {
        if (type->dims[i] == stablehlo::kDynamic) shape.set_dynamic(static_cast<int64_t>(i), true);
      }
      RETURN_IF_ERROR(shape.Validate());
      return shape;
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat("values of type ", stablehlo::TypeToString(type), " are not supported"));
  }
}

namespace {

// Storage of a literal: as a constant's bytes, but narrow signed integers are sign-extended.
std::string StorageBytes(absl::string_view bytes, PrimitiveType type) {
  std::string out(bytes.data(), bytes.size());
  if (type == PrimitiveType::kS4 || type == PrimitiveType::kS2) {
    int shift = type == PrimitiveType::kS4 ? 4 : 6;
    for (char& c : out) c = static_cast<char>(static_cast<int8_t>(static_cast<uint8_t>(c) << shift) >> shift);
  }
  return out;
}

absl::StatusOr<Literal> FromBytes(const Shape& shape, const std::string& bytes) {
  return Literal::FromBytes(
      shape, absl::Span<const std::byte>(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
}

absl::Status CheckDense(const SourceAttr* value) {
  if (value && value->kind == stablehlo::AttrKind::kDense) return absl::OkStatus();
  return absl::InvalidArgumentError("expected a constant tensor");
}

}  // namespace

absl::StatusOr<Literal> ConvertSplat(const SourceAttr* value) {
  RETURN_IF_ERROR(CheckDense(value));
  ASSIGN_OR_RETURN(PrimitiveType element, ConvertElementType(value->type->inner));
  size_t step = stablehlo::ConstantElementBytes(value->type->inner);
  return FromBytes(Shape::Scalar(element), StorageBytes(value->text.substr(0, step), element));
}

absl::StatusOr<Literal> ConvertConstant(const SourceAttr* value) {
  RETURN_IF_ERROR(CheckDense(value));
  ASSIGN_OR_RETURN(Shape shape, ConvertType(value->type));
  if (!value->splat) return FromBytes(shape, StorageBytes(value->text, shape.element_type()));
  if (shape.byte_size() > (int64_t{1} << 31)) {
    return absl::ResourceExhaustedError(absl::StrCat("constant of shape ", shape.ToString(), " is too large"));
  }
  std::string one = StorageBytes(value->text, shape.element_type()), all;
  all.reserve(shape.byte_size());
  for (int64_t i = 0; i < shape.num_elements(); ++i) all += one;
  return FromBytes(shape, all);
}

namespace {

absl::Status SpendBytes(absl::string_view name, int64_t bytes, int64_t* budget) {
  if (bytes > *budget) {
    return absl::ResourceExhaustedError(absl::StrCat("custom call attribute ", name, " of ", bytes,
                                                     " bytes: the attributes of custom calls are too large"));
  }
  *budget -= bytes;
  return absl::OkStatus();
}

absl::StatusOr<FfiAttribute> ConvertFfi(absl::string_view name, const SourceAttr* value, int64_t* budget) {
  FfiAttribute out;
  RETURN_IF_ERROR(SpendBytes(name, static_cast<int64_t>(sizeof(FfiAttribute)), budget));
  switch (value->kind) {
    case stablehlo::AttrKind::kBool:
      out.type = PrimitiveType::kPred;
      out.bytes.assign(1, static_cast<char>(value->integer));
      return out;
    case stablehlo::AttrKind::kInteger:
    case stablehlo::AttrKind::kFloat: {
      ASSIGN_OR_RETURN(out.type, ConvertElementType(value->type));
      uint64_t bits = value->kind == stablehlo::AttrKind::kFloat ? value->bits : static_cast<uint64_t>(value->integer);
      for (int b = 0; b < ByteWidth(out.type); ++b) out.bytes.push_back(static_cast<char>(bits >> (8 * b)));
      return out;
    }
    case stablehlo::AttrKind::kString:
      out.kind = FfiAttribute::Kind::kString;
      RETURN_IF_ERROR(SpendBytes(name, static_cast<int64_t>(value->text.size()), budget));
      out.bytes = std::string(value->text);
      return out;
    case stablehlo::AttrKind::kDense: {
      out.kind = FfiAttribute::Kind::kArray;
      ASSIGN_OR_RETURN(const Shape shape, ConvertType(value->type));
      RETURN_IF_ERROR(SpendBytes(name, shape.byte_size(), budget));
      ASSIGN_OR_RETURN(Literal literal, ConvertConstant(value));
      out.type = literal.shape().element_type();
      if (literal.byte_size() > 0) {
        out.bytes.assign(reinterpret_cast<const char*>(literal.bytes()), static_cast<size_t>(literal.byte_size()));
      }
      return out;
    }
    case stablehlo::AttrKind::kDict: {
      out.kind = FfiAttribute::Kind::kDictionary;
      ASSIGN_OR_RETURN(out.dictionary, ConvertFfiDictionary(value, budget));
      return out;
    }
    case stablehlo::AttrKind::kArray: {
      // An array of numbers of one type is a typed array.
      out.kind = FfiAttribute::Kind::kArray;
      for (const SourceAttr* e : value->elements) {
        ASSIGN_OR_RETURN(FfiAttribute part, ConvertFfi(name, e, budget));
        if (part.kind != FfiAttribute::Kind::kScalar ||
            (out.type != PrimitiveType::kInvalid && out.type != part.type)) {
          return absl::UnimplementedError(absl::StrCat("custom call attribute ", name, " is an array of mixed values"));
        }
        out.type = part.type;
        out.bytes += part.bytes;
      }
      if (value->elements.empty()) out.type = PrimitiveType::kS64;
      return out;
    }
    default:
      return absl::UnimplementedError(absl::StrCat("custom call attribute ", name, " has no form in the FFI"));
  }
}

}  // namespace

absl::StatusOr<FfiDictionary> ConvertFfiDictionary(const SourceAttr* dictionary, int64_t* budget) {
  FfiDictionary out;
  for (const stablehlo::SourceNamedAttr& e : dictionary->entries) {
    ASSIGN_OR_RETURN(FfiAttribute value, ConvertFfi(e.name, e.value, budget));
    out.emplace(std::string(e.name), std::move(value));
  }
  return out;
}

absl::StatusOr<ReplicaGroups> ConvertReplicaGroups(const SourceAttr* a) {
  ReplicaGroups out;
  absl::StatusOr<Ints> ids = stablehlo::ReadDenseIntegers(a, kMaxDevices);
  if (!ids.ok() || a->type->dims.size() != 2) return Missing("replica_groups", "a tensor of rank 2");
  const Ints& flat = *ids;
  if (a->splat && flat.size() > 1) return absl::InvalidArgumentError("replica_groups repeats one id");
  int64_t groups = a->type->dims[0], size = a->type->dims[1];
  if (groups * size == 0) return out;
  for (int64_t g = 0; g < groups; ++g) {
    Ints group;
    for (int64_t i = 0; i < size; ++i) {
      int64_t id = flat[g * size + i];
      if (id != -1) group.push_back(id);  // -1 fills groups that are shorter than others
    }
    out.groups.push_back(std::move(group));
  }
  out.Compress();
  return out;
}

}  // namespace backplane::to_hlo
