// The attributes of an instruction: a small list of (id, value), sorted by id, with typed access. attributes.def lists
// the ids with their text names and kinds of value.
#ifndef BACKPLANE_CORE_OPS_ATTRIBUTES_H_
#define BACKPLANE_CORE_OPS_ATTRIBUTES_H_

#include <algorithm>
#include <string>
#include <type_traits>
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

inline constexpr AttrKind kAttrKinds[] = {
#define ATTR(id, name, kind) AttrKind::kind,
#include "core/ops/attributes.def"
#undef ATTR
};

constexpr AttrKind GetKind(AttrId id) { return kAttrKinds[static_cast<size_t>(id)]; }
// The index of the alternative of AttrValue that an attribute has. The kinds up to Ffi are in the order of the
// alternatives; all enumerations share the last one.
constexpr size_t GetAlternative(AttrId id) {
  return std::min(static_cast<size_t>(GetKind(id)), std::variant_size_v<AttrValue> - 1);
}
absl::string_view AttrName(AttrId id);
// Whether `value` has the C++ type that the attribute's kind requires.
bool HasTypeOfAttribute(AttrId id, const AttrValue& value);
// Convert an enumerated value to its HLO text ("LT", "FFT", "rng_three_fry", ...) and back.
absl::string_view FormatEnum(AttrKind kind, int value);
std::optional<int> ParseEnum(AttrKind kind, absl::string_view text);

template <typename T, typename... Ts>
constexpr size_t FindAlternative(const std::variant<Ts...>*) {
  size_t index = 0;
  static_cast<void>(((std::is_same_v<T, Ts> || (++index, false)) || ...));
  return index;
}

// The id of an attribute whose values are of type T. It converts from a constant AttrId; an attribute of another type
// does not compile.
template <typename T>
struct TypedAttrId {
  consteval TypedAttrId(AttrId attribute) : id(attribute) {  // NOLINT: implicit, as the argument of a getter
    // Not a constant expression for another type, so the conversion does not compile.
    if (FindAlternative<T>(static_cast<const AttrValue*>(nullptr)) != GetAlternative(attribute)) throw attribute;
  }
  AttrId id;
};

// Returns the T in `value`, or a default-constructed T if it holds another type.
template <typename T>
const T& ValueAs(const AttrValue& value) {
  static const T kEmpty{};
  const T* v = std::get_if<T>(&value);
  return v ? *v : kEmpty;
}

class Attributes {
 public:
  const AttrValue* Find(AttrId id) const;
  bool Has(AttrId id) const { return Find(id) != nullptr; }
  // A value of another type is kept (HasTypeOfAttribute); the verifier then refuses the module.
  void Set(AttrId id, AttrValue value);
  void SetEnum(AttrId id, auto e) { Set(id, AttrValue(EnumValue{static_cast<int32_t>(e)})); }
  void Erase(AttrId id);

  // Returns the value of the attribute, or null if it is absent or of another type than T.
  template <typename T>
  const T* FindAs(AttrId id) const {
    return std::get_if<T>(Find(id));
  }
  // The same with a default-constructed T in place of null. The code that knows the attribute calls Get, which does not
  // compile for a T that is not the type of the attribute; GetAs is for ids that are known only at run time.
  template <typename T>
  const T& GetAs(AttrId id) const {
    static const AttrValue kNone{T{}};
    const AttrValue* v = Find(id);
    return ValueAs<T>(v ? *v : kNone);
  }
  template <typename T>
  const T& Get(TypedAttrId<T> typed) const {
    return GetAs<T>(typed.id);
  }
  bool GetBool(TypedAttrId<bool> typed) const { return Get(typed); }
  int64_t GetInt(TypedAttrId<int64_t> typed, int64_t fallback = 0) const {
    const int64_t* v = FindAs<int64_t>(typed.id);
    return v ? *v : fallback;
  }
  double GetDouble(TypedAttrId<double> typed) const { return Get(typed); }
  const Ints& GetInts(TypedAttrId<Ints> typed) const { return Get(typed); }
  const std::string& GetString(TypedAttrId<std::string> typed) const { return Get(typed); }
  template <typename E>
  E GetEnum(TypedAttrId<EnumValue> typed, E fallback = E{}) const {
    const EnumValue* v = FindAs<EnumValue>(typed.id);
    return v ? static_cast<E>(v->value) : fallback;
  }

  const std::vector<std::pair<AttrId, AttrValue>>& entries() const { return entries_; }  // sorted by id
  bool operator==(const Attributes&) const = default;

 private:
  std::vector<std::pair<AttrId, AttrValue>> entries_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_ATTRIBUTES_H_
