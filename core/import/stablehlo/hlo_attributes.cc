#include "core/import/stablehlo/hlo_attributes.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/import/stablehlo/source_build.h"
#include "core/types/status_macros.h"

namespace backplane::stablehlo {
namespace {

using As = AttributeForm::As;

// The attributes of one operation stand together.
constexpr AttributeForm kAttributeForms[] = {
    {Opcode::kIota, "iota_dimension", AttrId::kIotaDimension, As::kI64},
    {Opcode::kReducePrecision, "exponent_bits", AttrId::kExponentBits, As::kI32},
    {Opcode::kReducePrecision, "mantissa_bits", AttrId::kMantissaBits, As::kI32},
    {Opcode::kBroadcast, "broadcast_dimensions", AttrId::kDimensions, As::kList},
    {Opcode::kConcatenate, "dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kReverse, "dimensions", AttrId::kDimensions, As::kList},
    {Opcode::kTranspose, "permutation", AttrId::kDimensions, As::kList},
    {Opcode::kDynamicSlice, "slice_sizes", AttrId::kDynamicSliceSizes, As::kList},
    {Opcode::kGetDimensionSize, "dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kSetDimensionSize, "dimension", AttrId::kDimensions, As::kOnlyElement},
    {Opcode::kMap, "dimensions", AttrId::kDimensions, As::kList},
    {Opcode::kReduce, "dimensions", AttrId::kDimensions, As::kList},
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
};

// HLO's text of a random algorithm is "rng_three_fry", StableHLO's "THREE_FRY"; other enumerations have one text.
std::string EnumTextOf(::backplane::AttrKind kind, int value) {
  absl::string_view text = EnumText(kind, value);
  absl::ConsumePrefix(&text, "rng_");
  return absl::AsciiStrToUpper(text);
}

// The number of the enumerator with this text in StableHLO; -1 when there is none. No enumeration has that many.
int EnumNumber(::backplane::AttrKind kind, absl::string_view text) {
  constexpr int kMaxEnumerators = 8;
  for (int value = 0; value < kMaxEnumerators; ++value) {
    if (!EnumText(kind, value).empty() && EnumTextOf(kind, value) == text) return value;
  }
  return -1;
}

}  // namespace

absl::Span<const AttributeForm> AttributeFormsOf(Opcode opcode) {
  auto is = [&](const AttributeForm& form) { return form.opcode == opcode; };
  const auto first = std::find_if(std::begin(kAttributeForms), std::end(kAttributeForms), is);
  const auto last = std::find_if_not(first, std::end(kAttributeForms), is);
  return absl::MakeConstSpan(first, last);
}

absl::StatusOr<AttrValue> ToHloAttribute(const AttributeForm& form, const SourceOp& op) {
  const SourceAttr* a = op.Find(form.name);
  auto bad = [&](absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat("attribute ", form.name, ": expected ", expected));
  };
  switch (form.as) {
    case As::kBool:
      if (a == nullptr || a->kind != AttrKind::kBool) return bad("a bool");
      return AttrValue(a->integer != 0);
    case As::kI32:
    case As::kI64:
      if (a == nullptr || a->kind != AttrKind::kInteger) return bad("an integer");
      return AttrValue(a->integer);
    case As::kOnlyElement:
      if (a == nullptr || a->kind != AttrKind::kInteger) return bad("an integer");
      return AttrValue(Ints{a->integer});
    case As::kF32:
      if (a == nullptr || a->kind != AttrKind::kFloat || a->type->element != ElementKind::kF32) return bad("an f32");
      return AttrValue(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(a->bits))));
    case As::kEnum: {
      if (a == nullptr || (a->kind != AttrKind::kString && a->kind != AttrKind::kEnum)) return bad("a string");
      const int value = EnumNumber(KindOf(form.id), a->text);
      if (value < 0) return absl::InvalidArgumentError(absl::StrCat(form.name, " is ", a->text));
      return AttrValue(EnumValue{value});
    }
    case As::kList: {
      absl::StatusOr<Ints> values = DenseIntegers(a);
      if (!values.ok()) return bad(values.status().message());
      return AttrValue(*std::move(values));
    }
  }
  return bad("another kind");
}

absl::StatusOr<const SourceAttr*> FromHloAttribute(const AttributeForm& form, const Attributes& attributes,
                                                   SourceArena& arena) {
  switch (form.as) {
    case As::kBool:
      return MakeBool(arena, attributes.GetBool(form.id));
    case As::kI32:
      return MakeInteger(arena, attributes.GetInt(form.id), ElementKind::kI32);
    case As::kI64:
      return MakeInteger(arena, attributes.GetInt(form.id));
    case As::kOnlyElement: {
      const Ints& values = attributes.GetInts(form.id);
      if (values.size() != 1) return absl::InvalidArgumentError("needs one dimension");
      return MakeInteger(arena, values[0]);
    }
    case As::kF32: {
      const float value = static_cast<float>(attributes.GetDouble(form.id));
      return MakeFloat(arena, std::bit_cast<uint32_t>(value), ElementKind::kF32);
    }
    case As::kEnum: {
      int value = attributes.Has(form.id) ? attributes.Get<EnumValue>(form.id).value : 0;
      // An absent attribute is the first enumerator, whose number may be 1.
      if (EnumText(KindOf(form.id), value).empty()) value = 1;
      return MakeEnum(arena, arena.CopyString(EnumTextOf(KindOf(form.id), value)));
    }
    case As::kList:
      return MakeI64List(arena, attributes.GetInts(form.id));
  }
  return absl::InternalError("an attribute of no kind");
}

}  // namespace backplane::stablehlo
