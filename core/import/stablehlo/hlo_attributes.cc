#include "core/import/stablehlo/hlo_attributes.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "core/import/stablehlo/source_build.h"
#include "core/types/status_macros.h"

namespace backplane::stablehlo {
namespace {

using As = AttributeEncoding;

struct AttributeForm {
  Opcode opcode;
  const char* name;  // in StableHLO; a structure has the names of its fields
  AttrId id;
  AttributeEncoding as;
};

// The attributes of one operation stand together.
constexpr AttributeForm kAttributeForms[] = {
    {Opcode::kIota, "iota_dimension", AttrId::kIotaDimension, As::kI64},
    {Opcode::kReducePrecision, "exponent_bits", AttrId::kExponentBits, As::kI32},
    {Opcode::kReducePrecision, "mantissa_bits", AttrId::kMantissaBits, As::kI32},
    {Opcode::kBroadcast, "broadcast_dimensions", AttrId::kDimensions, As::kList},
    {Opcode::kConcatenate, "dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kPad, "", AttrId::kPadding, As::kStructure},
    {Opcode::kReverse, "dimensions", AttrId::kDimensions, As::kList},
    {Opcode::kTranspose, "permutation", AttrId::kDimensions, As::kList},
    {Opcode::kSlice, "", AttrId::kSlices, As::kStructure},
    {Opcode::kGather, "", AttrId::kGatherDims, As::kStructure},
    {Opcode::kGather, "slice_sizes", AttrId::kSliceSizes, As::kList},
    {Opcode::kGather, "indices_are_sorted", AttrId::kIndicesAreSorted, As::kFlag},
    {Opcode::kScatter, "", AttrId::kScatterDims, As::kStructure},
    {Opcode::kScatter, "indices_are_sorted", AttrId::kIndicesAreSorted, As::kFlag},
    {Opcode::kScatter, "unique_indices", AttrId::kUniqueIndices, As::kFlag},
    {Opcode::kDynamicSlice, "slice_sizes", AttrId::kDynamicSliceSizes, As::kList},
    {Opcode::kGetDimensionSize, "dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kSetDimensionSize, "dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kMap, "dimensions", AttrId::kDimensions, As::kList},
    {Opcode::kReduce, "dimensions", AttrId::kDimensions, As::kList},
    {Opcode::kReduceWindow, "", AttrId::kWindow, As::kStructure},
    {Opcode::kSelectAndScatter, "", AttrId::kWindow, As::kStructure},
    {Opcode::kDot, "", AttrId::kDotDims, As::kStructure},
    {Opcode::kDot, "", AttrId::kOperandPrecision, As::kStructure},
    {Opcode::kDot, "", AttrId::kDotAlgorithm, As::kStructure},
    {Opcode::kConvolution, "", AttrId::kWindow, As::kStructure},
    {Opcode::kConvolution, "", AttrId::kConvolutionDims, As::kStructure},
    {Opcode::kConvolution, "feature_group_count", AttrId::kFeatureGroupCount, As::kCount},
    {Opcode::kConvolution, "batch_group_count", AttrId::kBatchGroupCount, As::kCount},
    {Opcode::kConvolution, "", AttrId::kOperandPrecision, As::kStructure},
    {Opcode::kBatchNormGrad, "epsilon", AttrId::kEpsilon, As::kF32},
    {Opcode::kBatchNormGrad, "feature_index", AttrId::kFeatureIndex, As::kI64},
    {Opcode::kBatchNormInference, "epsilon", AttrId::kEpsilon, As::kF32},
    {Opcode::kBatchNormInference, "feature_index", AttrId::kFeatureIndex, As::kI64},
    {Opcode::kBatchNormTraining, "epsilon", AttrId::kEpsilon, As::kF32},
    {Opcode::kBatchNormTraining, "feature_index", AttrId::kFeatureIndex, As::kI64},
    {Opcode::kCholesky, "lower", AttrId::kLower, As::kBool},
    {Opcode::kTriangularSolve, "left_side", AttrId::kLeftSide, As::kBool},
    {Opcode::kTriangularSolve, "lower", AttrId::kLower, As::kBool},
    {Opcode::kTriangularSolve, "unit_diagonal", AttrId::kUnitDiagonal, As::kBool},
    {Opcode::kTriangularSolve, "transpose_a", AttrId::kTransposeA, As::kEnum},
    {Opcode::kFft, "fft_type", AttrId::kFftType, As::kEnum},
    {Opcode::kFft, "fft_length", AttrId::kFftLength, As::kList},
    {Opcode::kRngBitGenerator, "rng_algorithm", AttrId::kRandomAlgorithm, As::kEnum},
    {Opcode::kRng, "rng_distribution", AttrId::kRandomDistribution, As::kEnum},
    {Opcode::kCompare, "comparison_direction", AttrId::kDirection, As::kEnum},
    {Opcode::kSort, "dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kSort, "is_stable", AttrId::kIsStable, As::kFlag},
    {Opcode::kAllGather, "all_gather_dim", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kAllGather, "channel_id", AttrId::kChannelId, As::kPositive},
    {Opcode::kAllGather, "use_global_device_ids", AttrId::kUseGlobalDeviceIds, As::kFlag},
    {Opcode::kAllReduce, "channel_id", AttrId::kChannelId, As::kPositive},
    {Opcode::kAllReduce, "use_global_device_ids", AttrId::kUseGlobalDeviceIds, As::kFlag},
    {Opcode::kReduceScatter, "scatter_dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kReduceScatter, "channel_id", AttrId::kChannelId, As::kPositive},
    {Opcode::kReduceScatter, "use_global_device_ids", AttrId::kUseGlobalDeviceIds, As::kFlag},
    {Opcode::kAllToAll, "split_dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kAllToAll, "channel_id", AttrId::kChannelId, As::kPositive},
    {Opcode::kRaggedAllToAll, "channel_id", AttrId::kChannelId, As::kPositive},
    {Opcode::kCollectiveBroadcast, "channel_id", AttrId::kChannelId, As::kPositive},
    {Opcode::kCollectivePermute, "", AttrId::kSourceTargetPairs, As::kStructure},
    {Opcode::kCollectivePermute, "channel_id", AttrId::kChannelId, As::kPositive},
};

// HLO's text of a random algorithm is "rng_three_fry", StableHLO's "THREE_FRY"; other enumerations have one text.
std::string EnumTextOf(::backplane::AttrKind kind, int value) {
  absl::string_view text = FormatEnum(kind, value);
  absl::ConsumePrefix(&text, "rng_");
  return absl::AsciiStrToUpper(text);
}

// The number of the enumerator with this text in StableHLO; -1 when there is none. No enumeration has that many.
int EnumNumber(::backplane::AttrKind kind, absl::string_view text) {
  constexpr int kMaxEnumerators = 8;
  for (int value = 0; value < kMaxEnumerators; ++value) {
    if (!FormatEnum(kind, value).empty() && EnumTextOf(kind, value) == text) return value;
  }
  return -1;
}

absl::Span<const AttributeForm> AttributeFormsOf(Opcode opcode) {
  auto is = [&](const AttributeForm& form) { return form.opcode == opcode; };
  const auto first = std::find_if(std::begin(kAttributeForms), std::end(kAttributeForms), is);
  const auto last = std::find_if_not(first, std::end(kAttributeForms), is);
  return absl::MakeConstSpan(first, last);
}

// Returns nullopt for a value that HLO leaves out.
absl::StatusOr<std::optional<AttrValue>> ToHloAttribute(const AttributeForm& form, FindAttribute find) {
  const SourceAttr* a = form.as == As::kStructure ? nullptr : find(form.name);
  auto bad = [&](absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat("attribute ", form.name, ": expected ", expected));
  };
  switch (form.as) {
    case As::kStructure:
      return ToHloStructure(form.opcode, form.id, find);
    case As::kBool:
    case As::kFlag:
      if (a == nullptr || a->kind != AttrKind::kBool) return bad("a bool");
      if (form.as == As::kFlag && a->integer == 0) return std::optional<AttrValue>();
      return AttrValue(a->integer != 0);
    case As::kI32:
    case As::kI64:
    case As::kCount:
    case As::kPositive:
    case As::kOnlyElement: {
      ASSIGN_OR_RETURN(const int64_t value, FindInteger(find, form.name));
      if (form.as == As::kOnlyElement) return AttrValue(Ints{value});
      if (form.as == As::kCount && value == 1) return std::optional<AttrValue>();
      if (form.as == As::kPositive && value <= 0) return std::optional<AttrValue>();
      return AttrValue(value);
    }
    case As::kF32:
      if (a == nullptr || a->kind != AttrKind::kFloat || a->type->element != ElementKind::kF32) return bad("an f32");
      return AttrValue(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(a->bits))));
    case As::kEnum: {
      if (a == nullptr || (a->kind != AttrKind::kString && a->kind != AttrKind::kEnum)) return bad("a string");
      const int value = EnumNumber(GetKind(form.id), a->text);
      if (value < 0) return absl::InvalidArgumentError(absl::StrCat(form.name, " is ", a->text));
      return AttrValue(EnumValue{value});
    }
    case As::kList: {
      ASSIGN_OR_RETURN(Ints values, FindList(find, form.name));
      return AttrValue(std::move(values));
    }
  }
  return bad("another kind");
}

absl::StatusOr<const SourceAttr*> FromHloAttribute(const AttributeForm& form, const Attributes& attributes,
                                                   SourceArena& arena) {
  switch (form.as) {
    case As::kBool:
    case As::kFlag:
      return MakeBool(arena, attributes.GetAs<bool>(form.id));
    case As::kI32:
      return MakeInteger(arena, attributes.GetAs<int64_t>(form.id), ElementKind::kI32);
    case As::kI64:
      return MakeInteger(arena, attributes.GetAs<int64_t>(form.id));
    case As::kCount:
      return MakeInteger(arena, attributes.Has(form.id) ? attributes.GetAs<int64_t>(form.id) : 1);
    case As::kPositive:
      return MakeInteger(arena, std::max<int64_t>(attributes.GetAs<int64_t>(form.id), 0));
    case As::kOnlyElement: {
      const Ints& values = attributes.GetAs<Ints>(form.id);
      if (values.size() != 1) return absl::InvalidArgumentError("needs one dimension");
      return MakeInteger(arena, values[0]);
    }
    case As::kF32: {
      const float value = static_cast<float>(attributes.GetAs<double>(form.id));
      return MakeFloat(arena, std::bit_cast<uint32_t>(value), ElementKind::kF32);
    }
    case As::kEnum: {
      int value = attributes.GetAs<EnumValue>(form.id).value;
      // An absent attribute is the first enumerator, whose number may be 1.
      if (FormatEnum(GetKind(form.id), value).empty()) value = 1;
      return MakeEnum(arena, arena.CopyString(EnumTextOf(GetKind(form.id), value)));
    }
    case As::kList:
      return MakeI64List(arena, attributes.GetAs<Ints>(form.id));
    case As::kStructure:
      break;
  }
  return absl::InternalError("an attribute of no kind");
}

}  // namespace

bool HasAllAttributes(Opcode opcode) { return AttributeFormsOf(opcode).size() == Info(opcode).attributes.size(); }

absl::StatusOr<Attributes> ToHloAttributes(Opcode opcode, FindAttribute find) {
  Attributes attributes;
  for (const AttributeForm& form : AttributeFormsOf(opcode)) {
    ASSIGN_OR_RETURN(std::optional<AttrValue> value, ToHloAttribute(form, find));
    if (value) attributes.Set(form.id, *std::move(value));
  }
  return attributes;
}

absl::StatusOr<std::vector<SourceNamedAttr>> FromHloAttributes(Opcode opcode, const Attributes& attributes,
                                                               SourceArena& arena) {
  std::vector<SourceNamedAttr> out;
  for (const AttributeForm& form : AttributeFormsOf(opcode)) {
    if (form.as == As::kStructure) {
      RETURN_IF_ERROR(AppendStructure(form.opcode, form.id, attributes, arena, &out));
      continue;
    }
    ASSIGN_OR_RETURN(const SourceAttr* value, FromHloAttribute(form, attributes, arena));
    out.push_back({form.name, value});
  }
  return out;
}

}  // namespace backplane::stablehlo
