// Functions that create SourceType and SourceAttr objects. Both readers use them, so equal values have equal
// representations.
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
#include "core/types/primitive_type.h"

namespace backplane::stablehlo {

// Returns the only object of each scalar type, which is never destroyed.
const SourceType* ScalarType(ElementKind kind);
const SourceType* NoneType();
const SourceType* TokenType();

// Returns the type of arrays with such elements; kInvalid for tf32, which only names a precision.
PrimitiveType GetPrimitiveType(ElementKind kind);
// Returns the scalar type of an element type that is not complex; null if StableHLO has no such type.
const SourceType* FindScalarType(PrimitiveType type);

const SourceType* MakeTensorType(SourceArena& arena, absl::Span<const int64_t> dims, const SourceType* element);

const SourceAttr* MakeUnit(SourceArena& arena);
const SourceAttr* MakeBool(SourceArena& arena, bool value);
const SourceAttr* MakeInteger(SourceArena& arena, int64_t value, ElementKind kind = ElementKind::kI64);
const SourceAttr* MakeFloat(SourceArena& arena, uint64_t bits, ElementKind kind);
// These do not copy `text`, which must live as long as the arena.
const SourceAttr* MakeString(SourceArena& arena, absl::string_view text);
const SourceAttr* MakeEnum(SourceArena& arena, absl::string_view text);
const SourceAttr* MakeShardy(SourceArena& arena, absl::string_view text);
const SourceAttr* MakeType(SourceArena& arena, const SourceType* type);
const SourceAttr* MakeArray(SourceArena& arena, const std::vector<const SourceAttr*>& elements);
// Creates a one-dimensional tensor of 64-bit integers, the representation of all lists of dimensions, sizes and
// strides.
const SourceAttr* MakeI64List(SourceArena& arena, absl::Span<const int64_t> values);
const SourceAttr* MakeDense(SourceArena& arena, const SourceType* type, absl::string_view bytes, bool splat);

// Compute the weight from the members, whose weights must be set. Return false if it exceeds the limit.
bool WeighType(SourceType* type);
bool WeighAttribute(SourceAttr* attr);

// Sorts entries by name. Returns false and sets *repeated if two entries have the same name.
bool SortEntries(std::vector<SourceNamedAttr>* entries, absl::string_view* repeated);
// Creates a dictionary. No name may occur twice.
const SourceAttr* MakeDict(SourceArena& arena, std::vector<SourceNamedAttr> entries);

// Returns the integers of a kDense attribute with an integer element type, with splats expanded. Returns an error for
// more than `limit` elements.
absl::StatusOr<std::vector<int64_t>> ReadDenseIntegers(const SourceAttr* attr, int64_t limit = int64_t{1} << 24);

// The enumerations of StableHLO. EnumName returns the name of a value in VHLO's numbering, or an empty view if there is
// none.
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
