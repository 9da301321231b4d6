// The attributes of an instruction: a small list of (id, value), sorted by id, with typed access. attributes.def lists
// the ids with their text names and kinds of value.
#ifndef BACKPLANE_CORE_OPS_ATTRIBUTES_H_
#define BACKPLANE_CORE_OPS_ATTRIBUTES_H_

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/ops/attribute_values.h"

namespace backplane {

enum class AttrId : uint8_t {
#define ATTR(id, name, kind) id,
#include "core/ops/attributes.def"
#undef ATTR
};

enum class AttrKind : uint8_t {
  Bool,
  Int,
  Double,
  String,
  Ints,
  Type,
  Shapes,
  Window,
  ConvDims,
  DotDims,
  RaggedDims,
  GatherDims,
  ScatterDims,
  Padding,
  Slices,
  Groups,
  Pairs,
  Precisions,
  Algorithm,
  Aliases,
  Ffi,
  EnumComparisonDirection,
  EnumComparisonType,
  EnumFftType,
  EnumTriangularTranspose,
  EnumRandomDistribution,
  EnumRandomAlgorithm,
  EnumCustomCallApiVersion,
  EnumCustomCallSchedule,
  EnumFusionKind,
};

using AttrValue = std::variant<bool, int64_t, double, std::string, Ints, PrimitiveType, std::vector<Shape>, Window,
                               ConvolutionDimensions, DotDimensions, RaggedDotDimensions, GatherDimensions,
                               ScatterDimensions, PaddingConfig, SliceConfig, ReplicaGroups, Pairs, Precisions,
                               DotAlgorithm, OutputOperandAliases, FfiDictionary, EnumValue>;

absl::string_view AttrName(AttrId id);
AttrKind KindOf(AttrId id);
// Whether `value` has the C++ type that the attribute's kind requires.
bool HasTypeOfAttribute(AttrId id, const AttrValue& value);
// Convert an enumerated value to its HLO text ("LT", "FFT", "rng_three_fry", ...) and back.
absl::string_view EnumText(AttrKind kind, int value);
std::optional<int> EnumFromText(AttrKind kind, absl::string_view text);

class Attributes {
 public:
  const AttrValue* Find(AttrId id) const;
  bool Has(AttrId id) const { return Find(id) != nullptr; }
  void Set(AttrId id, AttrValue value);  // requires HasTypeOfAttribute(id, value)
  void SetEnum(AttrId id, auto e) { Set(id, AttrValue(EnumValue{static_cast<int32_t>(e)})); }
  void Erase(AttrId id);

  // Returns the value of the attribute, or a default-constructed T if it is absent. T must be the type of the
  // attribute's kind; another type throws std::bad_variant_access.
  template <typename T>
  const T& Get(AttrId id) const {
    static const T kEmpty{};
    const AttrValue* v = Find(id);
    return v ? std::get<T>(*v) : kEmpty;
  }
  bool GetBool(AttrId id) const { return Get<bool>(id); }
  int64_t GetInt(AttrId id, int64_t fallback = 0) const {
    const AttrValue* v = Find(id);
    return v ? std::get<int64_t>(*v) : fallback;
  }
  double GetDouble(AttrId id) const { return Get<double>(id); }
  const Ints& GetInts(AttrId id) const { return Get<Ints>(id); }
  const std::string& GetString(AttrId id) const { return Get<std::string>(id); }
  template <typename E>
  E GetEnum(AttrId id, E fallback = E{}) const {
    const AttrValue* v = Find(id);
    return v ? static_cast<E>(std::get<EnumValue>(*v).value) : fallback;
  }

  const std::vector<std::pair<AttrId, AttrValue>>& entries() const { return entries_; }  // sorted by id
  bool operator==(const Attributes&) const = default;

 private:
  std::vector<std::pair<AttrId, AttrValue>> entries_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_ATTRIBUTES_H_
