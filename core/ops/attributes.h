// Attributes of an instruction: a small sorted list of (id, value), with typed access. Ids, text names and value kinds
// are the lines of attributes.def.
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
// Whether a value holds the C++ alternative that the attribute's kind has.
bool HoldsKindOf(AttrId id, const AttrValue& value);
// Text of an enumerated value ("LT", "FFT", "rng_three_fry", ...), and back.
absl::string_view EnumText(AttrKind kind, int value);
std::optional<int> EnumFromText(AttrKind kind, absl::string_view text);

class Attributes {
 public:
  const AttrValue* Find(AttrId id) const;
  bool Has(AttrId id) const { return Find(id) != nullptr; }
  void Set(AttrId id, AttrValue value);  // the value's alternative must be the id's kind
  void SetEnum(AttrId id, auto e) { Set(id, AttrValue(EnumValue{static_cast<int32_t>(e)})); }
  void Erase(AttrId id);

  // Value of the attribute, or a default when it is absent.
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
