// Small makers of SourceType and SourceAttr, shared by the two readers so that equal things look equal.
#ifndef BACKPLANE_CORE_IMPORT_STABLEHLO_SOURCE_BUILD_H_
#define BACKPLANE_CORE_IMPORT_STABLEHLO_SOURCE_BUILD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/import/stablehlo/source.h"

namespace backplane::stablehlo {

// The one object for each scalar type; lives for ever.
const SourceType* ScalarType(ElementKind kind);
const SourceType* NoneType();
const SourceType* TokenType();

const SourceType* MakeTensorType(SourceArena& arena, absl::Span<const int64_t> dims, const SourceType* element);

const SourceAttr* MakeUnit(SourceArena& arena);
const SourceAttr* MakeBool(SourceArena& arena, bool value);
const SourceAttr* MakeInteger(SourceArena& arena, int64_t value, ElementKind kind = ElementKind::kI64);
const SourceAttr* MakeFloat(SourceArena& arena, uint64_t bits, ElementKind kind);
// text is not copied.
const SourceAttr* MakeString(SourceArena& arena, absl::string_view text);
const SourceAttr* MakeEnum(SourceArena& arena, absl::string_view text);
const SourceAttr* MakeShardy(SourceArena& arena, absl::string_view text);
const SourceAttr* MakeType(SourceArena& arena, const SourceType* type);
const SourceAttr* MakeArray(SourceArena& arena, const std::vector<const SourceAttr*>& elements);
// A one-dimensional tensor of 64-bit integers: how every list of dimensions, sizes and strides is held.
const SourceAttr* MakeI64List(SourceArena& arena, absl::Span<const int64_t> values);
const SourceAttr* MakeDense(SourceArena& arena, const SourceType* type, absl::string_view bytes, bool splat);

// Sets weight from the members, whose weights are set. False when it exceeds the cap.
bool WeighType(SourceType* type);
bool WeighAttribute(SourceAttr* attr);

// Sorts by name. False when two entries have the same name (*repeated).
bool SortEntries(std::vector<SourceNamedAttr>* entries, absl::string_view* repeated);
// Entries must be free of repeats.
const SourceAttr* MakeDict(SourceArena& arena, std::vector<SourceNamedAttr> entries);

// The integers of a kDense attribute with an integer element type, splats expanded. Refuses more than `limit` elements.
absl::StatusOr<std::vector<int64_t>> DenseIntegers(const SourceAttr* attr, int64_t limit = int64_t{1} << 24);

// Names of StableHLO's enumerations in VHLO's numbering; empty where there is no such case.
enum class EnumKind {
  kComparisonDirection,
  kComparisonType,
  kCustomCallApi,
  kFft,
  kPrecision,
  kRngAlgorithm,
  kRngDistribution,
  kTranspose,
  kAccuracyMode,
};
absl::string_view EnumName(EnumKind kind, uint64_t value);
bool IsEnumName(EnumKind kind, absl::string_view name);

}  // namespace backplane::stablehlo

#endif  // BACKPLANE_CORE_IMPORT_STABLEHLO_SOURCE_BUILD_H_
