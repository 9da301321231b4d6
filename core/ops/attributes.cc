#include "core/ops/attributes.h"

#include <algorithm>
#include <iterator>

namespace backplane {
namespace {

constexpr absl::string_view kAttrNames[] = {
#define ATTR(id, name, kind) name,
#include "core/ops/attributes.def"
#undef ATTR
};

struct EnumLine {
  AttrKind kind;
  int value;
  absl::string_view text;
};

constexpr EnumLine kEnums[] = {
    {AttrKind::EnumComparisonDirection, 0, "EQ"},
    {AttrKind::EnumComparisonDirection, 1, "NE"},
    {AttrKind::EnumComparisonDirection, 2, "GE"},
    {AttrKind::EnumComparisonDirection, 3, "GT"},
    {AttrKind::EnumComparisonDirection, 4, "LE"},
    {AttrKind::EnumComparisonDirection, 5, "LT"},
    {AttrKind::EnumComparisonType, 0, "FLOAT"},
    {AttrKind::EnumComparisonType, 1, "TOTALORDER"},
    {AttrKind::EnumComparisonType, 2, "SIGNED"},
    {AttrKind::EnumComparisonType, 3, "UNSIGNED"},
    {AttrKind::EnumFftType, 0, "FFT"},
    {AttrKind::EnumFftType, 1, "IFFT"},
    {AttrKind::EnumFftType, 2, "RFFT"},
    {AttrKind::EnumFftType, 3, "IRFFT"},
    {AttrKind::EnumTriangularTranspose, 1, "NO_TRANSPOSE"},
    {AttrKind::EnumTriangularTranspose, 2, "TRANSPOSE"},
    {AttrKind::EnumTriangularTranspose, 3, "ADJOINT"},
    {AttrKind::EnumRandomDistribution, 0, "rng_invalid"},
    {AttrKind::EnumRandomDistribution, 1, "rng_uniform"},
    {AttrKind::EnumRandomDistribution, 2, "rng_normal"},
    {AttrKind::EnumRandomAlgorithm, 0, "rng_default"},
    {AttrKind::EnumRandomAlgorithm, 1, "rng_three_fry"},
    {AttrKind::EnumRandomAlgorithm, 2, "rng_philox"},
    {AttrKind::EnumCustomCallApiVersion, 0, "API_VERSION_UNSPECIFIED"},
    {AttrKind::EnumCustomCallApiVersion, 1, "API_VERSION_ORIGINAL"},
    {AttrKind::EnumCustomCallApiVersion, 2, "API_VERSION_STATUS_RETURNING"},
    {AttrKind::EnumCustomCallApiVersion, 3, "API_VERSION_STATUS_RETURNING_UNIFIED"},
    {AttrKind::EnumCustomCallApiVersion, 4, "API_VERSION_TYPED_FFI"},
    {AttrKind::EnumCustomCallSchedule, 0, "SCHEDULE_NONE"},
    {AttrKind::EnumCustomCallSchedule, 1, "SCHEDULE_LATEST"},
    {AttrKind::EnumCustomCallSchedule, 2, "SCHEDULE_EARLIEST"},
    {AttrKind::EnumFusionKind, 0, "kLoop"},
    {AttrKind::EnumFusionKind, 1, "kInput"},
    {AttrKind::EnumFusionKind, 2, "kOutput"},
    {AttrKind::EnumFusionKind, 3, "kCustom"},
};

bool BeforeId(const std::pair<AttrId, AttrValue>& entry, AttrId id) { return entry.first < id; }

}  // namespace

absl::string_view AttrName(AttrId id) { return kAttrNames[static_cast<size_t>(id)]; }

bool HasTypeOfAttribute(AttrId id, const AttrValue& value) { return value.index() == GetAlternative(id); }

absl::string_view FormatEnum(AttrKind kind, int value) {
  for (const EnumLine& e : kEnums) {
    if (e.kind == kind && e.value == value) return e.text;
  }
  return "";
}

std::optional<int> ParseEnum(AttrKind kind, absl::string_view text) {
  for (const EnumLine& e : kEnums) {
    if (e.kind == kind && e.text == text) return e.value;
  }
  return std::nullopt;
}

const AttrValue* Attributes::Find(AttrId id) const {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), id, BeforeId);
  return it != entries_.end() && it->first == id ? &it->second : nullptr;
}

void Attributes::Set(AttrId id, AttrValue value) {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), id, BeforeId);
  if (it != entries_.end() && it->first == id) {
    it->second = std::move(value);
  } else {
    entries_.emplace(it, id, std::move(value));
  }
}

void Attributes::Erase(AttrId id) {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), id, BeforeId);
  if (it != entries_.end() && it->first == id) entries_.erase(it);
}

}  // namespace backplane
