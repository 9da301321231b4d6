#include "core/import/stablehlo/hlo_structures.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/import/stablehlo/source_build.h"
#include "core/types/status_macros.h"

namespace backplane::stablehlo {
namespace {

// A field is a list or a number.
template <typename S>
struct Field {
  const char* name;
  Ints S::*list = nullptr;
  int64_t S::*number = nullptr;
};

constexpr Field<DotDimensions> kDotFields[] = {
    {"lhs_batching_dimensions", &DotDimensions::lhs_batch},
    {"rhs_batching_dimensions", &DotDimensions::rhs_batch},
    {"lhs_contracting_dimensions", &DotDimensions::lhs_contracting},
    {"rhs_contracting_dimensions", &DotDimensions::rhs_contracting},
};
constexpr Field<GatherDimensions> kGatherFields[] = {
    {"offset_dims", &GatherDimensions::offset_dims},
    {"collapsed_slice_dims", &GatherDimensions::collapsed_slice_dims},
    {"operand_batching_dims", &GatherDimensions::operand_batching_dims},
    {"start_indices_batching_dims", &GatherDimensions::start_indices_batching_dims},
    {"start_index_map", &GatherDimensions::start_index_map},
    {"index_vector_dim", nullptr, &GatherDimensions::index_vector_dim},
};
constexpr Field<ScatterDimensions> kScatterFields[] = {
    {"update_window_dims", &ScatterDimensions::update_window_dims},
    {"inserted_window_dims", &ScatterDimensions::inserted_window_dims},
    {"input_batching_dims", &ScatterDimensions::input_batching_dims},
    {"scatter_indices_batching_dims", &ScatterDimensions::scatter_indices_batching_dims},
    {"scatter_dims_to_operand_dims", &ScatterDimensions::scatter_dims_to_operand_dims},
    {"index_vector_dim", nullptr, &ScatterDimensions::index_vector_dim},
};
constexpr Field<ConvolutionDimensions> kConvolutionFields[] = {
    {"input_batch_dimension", nullptr, &ConvolutionDimensions::input_batch},
    {"input_feature_dimension", nullptr, &ConvolutionDimensions::input_feature},
    {"input_spatial_dimensions", &ConvolutionDimensions::input_spatial},
    {"kernel_input_feature_dimension", nullptr, &ConvolutionDimensions::kernel_input_feature},
    {"kernel_output_feature_dimension", nullptr, &ConvolutionDimensions::kernel_output_feature},
    {"kernel_spatial_dimensions", &ConvolutionDimensions::kernel_spatial},
    {"output_batch_dimension", nullptr, &ConvolutionDimensions::output_batch},
    {"output_feature_dimension", nullptr, &ConvolutionDimensions::output_feature},
    {"output_spatial_dimensions", &ConvolutionDimensions::output_spatial},
};

// Structures with an entry for each dimension; StableHLO has a list for each field.
constexpr std::pair<const char*, int64_t SliceDimension::*> kSliceFields[] = {
    {"start_indices", &SliceDimension::start},
    {"limit_indices", &SliceDimension::limit},
    {"strides", &SliceDimension::stride},
};
constexpr std::pair<const char*, int64_t PaddingDimension::*> kPaddingFields[] = {
    {"edge_padding_low", &PaddingDimension::low},
    {"edge_padding_high", &PaddingDimension::high},
    {"interior_padding", &PaddingDimension::interior},
};

// The names that the fields of a window have in an op; null where the op does not have the field.
struct WindowNames {
  Opcode opcode;
  const char* size;
  const char* base_dilation;
  const char* window_dilation;
  const char* reversal;
};
constexpr WindowNames kWindowNames[] = {
    {Opcode::kReduceWindow, "window_dimensions", "base_dilations", "window_dilations", nullptr},
    {Opcode::kSelectAndScatter, "window_dimensions", nullptr, nullptr, nullptr},
    {Opcode::kConvolution, nullptr, "lhs_dilation", "rhs_dilation", "window_reversal"},
};
const WindowNames* FindWindowNames(Opcode opcode) {
  for (const WindowNames& names : kWindowNames) {
    if (names.opcode == opcode) return &names;
  }
  return nullptr;
}

constexpr char kPairs[] = "source_target_pairs";

absl::Status MakeKindError(absl::string_view name, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("attribute ", name, ": expected ", expected));
}

template <typename S, size_t n>
std::vector<FieldName> NamesOf(const Field<S> (&fields)[n]) {
  std::vector<FieldName> names;
  for (const Field<S>& f : fields) names.push_back({f.name, f.list != nullptr});
  return names;
}

template <typename S, size_t n>
absl::StatusOr<std::optional<AttrValue>> ReadFields(const Field<S> (&fields)[n], FindAttribute find) {
  S s;
  for (const Field<S>& f : fields) {
    if (f.list != nullptr) {
      ASSIGN_OR_RETURN(s.*f.list, FindList(find, f.name));
    } else {
      ASSIGN_OR_RETURN(s.*f.number, FindInteger(find, f.name));
    }
  }
  return AttrValue(std::move(s));
}

template <typename S, size_t n>
void AppendFields(const Field<S> (&fields)[n], const S& s, SourceArena& arena, std::vector<SourceNamedAttr>* out) {
  for (const Field<S>& f : fields) {
    out->push_back({f.name, f.list != nullptr ? MakeI64List(arena, s.*f.list) : MakeInteger(arena, s.*f.number)});
  }
}

template <typename D, size_t n>
absl::StatusOr<std::optional<AttrValue>> ReadColumns(const std::pair<const char*, int64_t D::*> (&fields)[n],
                                                     FindAttribute find) {
  std::vector<D> dimensions;
  for (const auto& [name, field] : fields) {
    ASSIGN_OR_RETURN(const Ints column, FindList(find, name));
    if (field == fields[0].second) dimensions.resize(column.size());
    if (column.size() != dimensions.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields[0].first, " has ", dimensions.size(), " entries, ", name, " ", column.size()));
    }
    for (size_t i = 0; i < column.size(); ++i) dimensions[i].*field = column[i];
  }
  return AttrValue(std::move(dimensions));
}

template <typename D>
Ints ColumnOf(const std::vector<D>& dimensions, int64_t D::*field) {
  Ints column;
  for (const D& d : dimensions) column.push_back(d.*field);
  return column;
}

absl::StatusOr<std::optional<AttrValue>> ReadWindow(const WindowNames& names, FindAttribute find) {
  ASSIGN_OR_RETURN(const Ints strides, FindList(find, "window_strides"));
  ASSIGN_OR_RETURN(const Ints padding, FindList(find, "padding"));
  auto read = [&](const char* name, int64_t otherwise) -> absl::StatusOr<Ints> {
    if (name == nullptr) return Ints(strides.size(), otherwise);
    return FindList(find, name);
  };
  ASSIGN_OR_RETURN(const Ints sizes, read(names.size, 0));
  ASSIGN_OR_RETURN(const Ints base, read(names.base_dilation, 1));
  ASSIGN_OR_RETURN(const Ints dilation, read(names.window_dilation, 1));
  ASSIGN_OR_RETURN(const Ints reversal, read(names.reversal, 0));
  const size_t n = sizes.size();
  if (strides.size() != n || padding.size() != 2 * n || base.size() != n || dilation.size() != n ||
      reversal.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat("window attributes do not have ", n, " entries each"));
  }
  Window window;
  for (size_t i = 0; i < n; ++i) {
    WindowDimension d;
    d.size = sizes[i];
    d.stride = strides[i];
    d.padding_low = padding[2 * i];
    d.padding_high = padding[2 * i + 1];
    d.base_dilation = base[i];
    d.window_dilation = dilation[i];
    d.window_reversal = reversal[i] != 0;
    window.dimensions.push_back(d);
  }
  return AttrValue(std::move(window));
}

absl::Status AppendWindow(const WindowNames& names, const Window& window, SourceArena& arena,
                          std::vector<SourceNamedAttr>* out) {
  const auto n = static_cast<int64_t>(window.dimensions.size());
  Ints padding;
  char* reversal = arena.NewBytes(window.dimensions.size());
  for (size_t i = 0; i < window.dimensions.size(); ++i) {
    const WindowDimension& d = window.dimensions[i];
    padding.push_back(d.padding_low);
    padding.push_back(d.padding_high);
    reversal[i] = d.window_reversal;
    if (names.reversal == nullptr && d.window_reversal) {
      return absl::UnimplementedError("StableHLO has no reversed window here");
    }
    if (names.base_dilation == nullptr && (d.base_dilation != 1 || d.window_dilation != 1)) {
      return absl::UnimplementedError("StableHLO has no dilated window here");
    }
  }
  auto append = [&](const char* name, int64_t WindowDimension::*field) {
    if (name != nullptr) out->push_back({name, MakeI64List(arena, ColumnOf(window.dimensions, field))});
  };
  append(names.size, &WindowDimension::size);
  append("window_strides", &WindowDimension::stride);
  append(names.base_dilation, &WindowDimension::base_dilation);
  append(names.window_dilation, &WindowDimension::window_dilation);
  const SourceType* pairs = MakeTensorType(arena, {n, 2}, ScalarType(ElementKind::kI64));
  out->push_back({"padding", MakeDense(arena, pairs, MakeI64List(arena, padding)->text, false)});
  if (names.reversal != nullptr) {
    const SourceType* flags = MakeTensorType(arena, {n}, ScalarType(ElementKind::kBool));
    const absl::string_view bytes(reversal, window.dimensions.size());
    out->push_back({names.reversal, MakeDense(arena, flags, bytes, false)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<AttrValue>> ReadPrecisions(FindAttribute find) {
  const SourceAttr* a = find("precision_config");
  if (a == nullptr || a->kind != AttrKind::kArray) return MakeKindError("precision_config", "an array");
  Precisions precisions;
  bool plain = true;
  for (const SourceAttr* e : a->elements) {
    precisions.push_back(e->text == "HIGHEST" ? Precision::kHighest
                         : e->text == "HIGH"  ? Precision::kHigh
                                              : Precision::kDefault);
    plain = plain && precisions.back() == Precision::kDefault;
  }
  if (plain) return std::optional<AttrValue>();
  return AttrValue(std::move(precisions));
}

absl::Status AppendPrecisions(const Precisions& precisions, SourceArena& arena, std::vector<SourceNamedAttr>* out) {
  std::vector<const SourceAttr*> entries;
  for (Precision p : precisions) {
    if (p == Precision::kPackedNibble) return absl::UnimplementedError("StableHLO has no precision packed_nibble");
    entries.push_back(MakeEnum(arena, p == Precision::kHighest ? "HIGHEST"
                                      : p == Precision::kHigh  ? "HIGH"
                                                               : "DEFAULT"));
  }
  while (entries.size() < 2) entries.push_back(MakeEnum(arena, "DEFAULT"));
  out->push_back({"precision_config", MakeArray(arena, entries)});
  return absl::OkStatus();
}

// A dot algorithm is one attribute in HLO and one for each of these fields in StableHLO, which has all of them or none.
constexpr std::pair<const char*, PrimitiveType DotAlgorithm::*> kAlgorithmTypes[] = {
    {"lhs_precision_type", &DotAlgorithm::lhs_type},
    {"rhs_precision_type", &DotAlgorithm::rhs_type},
    {"accumulation_type", &DotAlgorithm::accumulation_type},
};
constexpr std::pair<const char*, int64_t DotAlgorithm::*> kAlgorithmNumbers[] = {
    {"lhs_component_count", &DotAlgorithm::lhs_components},
    {"rhs_component_count", &DotAlgorithm::rhs_components},
    {"num_primitive_operations", &DotAlgorithm::primitive_operations},
};
constexpr char kImpreciseAccumulation[] = "allow_imprecise_accumulation";

// The algorithms that HLO has a name for; tf32 counts as f32 here. No other one may replace them.
bool IsKnown(const DotAlgorithm& a) {
  using T = PrimitiveType;
  const auto is_f8 = [](T t) { return IsFloat(t) && BitWidth(t) == 8 && t != T::kF8E8M0FNU; };
  if (a.lhs_components > 3 || a.rhs_components > 3) return false;
  if (is_f8(a.lhs_type) && is_f8(a.rhs_type)) return a.accumulation_type == T::kF32 && a.primitive_operations == 1;
  if (a.lhs_type != a.rhs_type) return false;
  const int64_t n = a.primitive_operations;
  switch (a.lhs_type) {
    case T::kF16:
      return n == 1 && (a.accumulation_type == T::kF16 || a.accumulation_type == T::kF32);
    case T::kBF16:
      return a.accumulation_type == T::kBF16 ? n == 1
                                             : a.accumulation_type == T::kF32 && (n == 1 || n == 3 || n == 6 || n == 9);
    case T::kF32:
      return a.accumulation_type == T::kF32 && (n == 1 || n == 3);
    case T::kF64:
      return a.accumulation_type == T::kF64 && n == 1;
    default:
      return false;
  }
}

absl::StatusOr<std::optional<AttrValue>> ReadAlgorithm(FindAttribute find) {
  const SourceAttr* lhs = find(kAlgorithmTypes[0].first);
  if (lhs == nullptr || lhs->kind != AttrKind::kType || lhs->type->kind == TypeKind::kNone) {
    return std::optional<AttrValue>();
  }
  DotAlgorithm a;
  for (const auto& [name, field] : kAlgorithmTypes) {
    const SourceAttr* t = find(name);
    if (t == nullptr || t->kind != AttrKind::kType) return MakeKindError(name, "a type");
    // tf32 names a precision, not the type of an array: nothing in the core holds it, so it is computed in f32.
    const bool is_tf32 = t->type->kind == TypeKind::kScalar && t->type->element == ElementKind::kTF32;
    a.*field = is_tf32                              ? PrimitiveType::kF32
               : t->type->kind == TypeKind::kScalar ? GetPrimitiveType(t->type->element)
                                                    : PrimitiveType::kInvalid;
    if (a.*field == PrimitiveType::kInvalid) {
      return absl::UnimplementedError(absl::StrCat("no dot algorithm of ", TypeToString(t->type)));
    }
  }
  for (const auto& [name, field] : kAlgorithmNumbers) {
    ASSIGN_OR_RETURN(a.*field, FindInteger(find, name));
  }
  const SourceAttr* imprecise = find(kImpreciseAccumulation);
  if (imprecise == nullptr || imprecise->kind != AttrKind::kBool)
    return MakeKindError(kImpreciseAccumulation, "a bool");
  a.allow_imprecise_accumulation = imprecise->integer != 0;
  // Counts that are no counts are for the rules of dot to name.
  if (a.lhs_components > 0 && a.rhs_components > 0 && a.primitive_operations > 0 && !IsKnown(a)) {
    return absl::UnimplementedError(absl::StrCat("no dot algorithm of ", Name(a.lhs_type), " and ", Name(a.rhs_type),
                                                 " into ", Name(a.accumulation_type), " with ", a.primitive_operations,
                                                 " operations"));
  }
  return AttrValue(a);
}

void AppendAlgorithm(const DotAlgorithm& a, SourceArena& arena, std::vector<SourceNamedAttr>* out) {
  if (a.accumulation_type == PrimitiveType::kInvalid) return;
  for (const auto& [name, field] : kAlgorithmTypes) {
    // An operand type left open is tf32, which is no type of arrays.
    const bool is_tf32 = a.*field == PrimitiveType::kInvalid;
    out->push_back({name, MakeType(arena, is_tf32 ? ScalarType(ElementKind::kTF32) : FindScalarType(a.*field))});
  }
  for (const auto& [name, field] : kAlgorithmNumbers) out->push_back({name, MakeInteger(arena, a.*field)});
  out->push_back({kImpreciseAccumulation, MakeBool(arena, a.allow_imprecise_accumulation)});
}

absl::StatusOr<std::optional<AttrValue>> ReadPairs(FindAttribute find) {
  ASSIGN_OR_RETURN(const Ints flat, FindList(find, kPairs));
  if (flat.size() % 2 != 0) return absl::InvalidArgumentError("source_target_pairs has an odd number of entries");
  Pairs pairs;
  for (size_t i = 0; i < flat.size(); i += 2) pairs.emplace_back(flat[i], flat[i + 1]);
  return AttrValue(std::move(pairs));
}

void AppendPairs(const Pairs& pairs, SourceArena& arena, std::vector<SourceNamedAttr>* out) {
  Ints flat;
  for (const auto& [source, target] : pairs) flat.insert(flat.end(), {source, target});
  const SourceType* type =
      MakeTensorType(arena, {static_cast<int64_t>(pairs.size()), 2}, ScalarType(ElementKind::kI64));
  out->push_back({kPairs, MakeDense(arena, type, MakeI64List(arena, flat)->text, false)});
}

}  // namespace

absl::StatusOr<int64_t> FindInteger(FindAttribute find, absl::string_view name) {
  const SourceAttr* a = find(name);
  if (a == nullptr || a->kind != AttrKind::kInteger) return MakeKindError(name, "an integer");
  return a->integer;
}

absl::StatusOr<Ints> FindList(FindAttribute find, absl::string_view name) {
  absl::StatusOr<Ints> values = ReadDenseIntegers(find(name));
  if (!values.ok()) return MakeKindError(name, values.status().message());
  return values;
}

std::vector<FieldName> DimensionFields(AttrId id) {
  switch (id) {
    case AttrId::kDotDims:
      return NamesOf(kDotFields);
    case AttrId::kGatherDims:
      return NamesOf(kGatherFields);
    case AttrId::kScatterDims:
      return NamesOf(kScatterFields);
    case AttrId::kConvolutionDims:
      return NamesOf(kConvolutionFields);
    default:
      return {};
  }
}

absl::StatusOr<std::optional<AttrValue>> ToHloStructure(Opcode opcode, AttrId id, FindAttribute find) {
  switch (id) {
    case AttrId::kDotDims:
      return ReadFields(kDotFields, find);
    case AttrId::kGatherDims:
      return ReadFields(kGatherFields, find);
    case AttrId::kScatterDims:
      return ReadFields(kScatterFields, find);
    case AttrId::kConvolutionDims:
      return ReadFields(kConvolutionFields, find);
    case AttrId::kSlices:
      return ReadColumns(kSliceFields, find);
    case AttrId::kPadding:
      return ReadColumns(kPaddingFields, find);
    case AttrId::kOperandPrecision:
      return ReadPrecisions(find);
    case AttrId::kDotAlgorithm:
      return ReadAlgorithm(find);
    case AttrId::kSourceTargetPairs:
      return ReadPairs(find);
    case AttrId::kWindow:
      if (const WindowNames* names = FindWindowNames(opcode)) return ReadWindow(*names, find);
      break;
    default:
      break;
  }
  return absl::InternalError("a structure without fields");
}

absl::Status AppendStructure(Opcode opcode, AttrId id, const Attributes& attributes, SourceArena& arena,
                             std::vector<SourceNamedAttr>* out) {
  auto append_columns = [&](const auto& fields, const auto& dimensions) {
    for (const auto& [name, field] : fields) out->push_back({name, MakeI64List(arena, ColumnOf(dimensions, field))});
  };
  switch (id) {
    case AttrId::kDotDims:
      AppendFields(kDotFields, attributes.GetAs<DotDimensions>(id), arena, out);
      return absl::OkStatus();
    case AttrId::kGatherDims:
      AppendFields(kGatherFields, attributes.GetAs<GatherDimensions>(id), arena, out);
      return absl::OkStatus();
    case AttrId::kScatterDims:
      AppendFields(kScatterFields, attributes.GetAs<ScatterDimensions>(id), arena, out);
      return absl::OkStatus();
    case AttrId::kConvolutionDims:
      AppendFields(kConvolutionFields, attributes.GetAs<ConvolutionDimensions>(id), arena, out);
      return absl::OkStatus();
    case AttrId::kSlices:
      append_columns(kSliceFields, attributes.GetAs<SliceConfig>(id));
      return absl::OkStatus();
    case AttrId::kPadding:
      append_columns(kPaddingFields, attributes.GetAs<PaddingConfig>(id));
      return absl::OkStatus();
    case AttrId::kOperandPrecision:
      return AppendPrecisions(attributes.GetAs<Precisions>(id), arena, out);
    case AttrId::kDotAlgorithm:
      AppendAlgorithm(attributes.GetAs<DotAlgorithm>(id), arena, out);
      return absl::OkStatus();
    case AttrId::kSourceTargetPairs:
      AppendPairs(attributes.GetAs<Pairs>(id), arena, out);
      return absl::OkStatus();
    case AttrId::kWindow:
      if (const WindowNames* names = FindWindowNames(opcode)) {
        return AppendWindow(*names, attributes.GetAs<Window>(id), arena, out);
      }
      break;
    default:
      break;
  }
  return absl::InternalError("a structure without fields");
}

}  // namespace backplane::stablehlo
