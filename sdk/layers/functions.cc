#include "sdk/layers/functions.h"

#include "sdk/layers/extensions.h"

namespace backplane::layers {
namespace {

template <typename F>
struct ReturnsOf;
template <typename Args>
struct ReturnsOf<PJRT_Error* (*)(Args*)> {
  static constexpr Returns value = Returns::kError;
};
template <typename Args>
struct ReturnsOf<void (*)(Args*)> {
  static constexpr Returns value = Returns::kNothing;
};
template <typename Args>
struct ReturnsOf<PLUGIN_Profiler_Error* (*)(Args*)> {
  static constexpr Returns value = Returns::kOther;
};

template <typename Args>
constexpr bool HasChain() {
  return requires(Args a) { a.extension_start; };
}

constexpr FunctionInfo kFunctions[] = {
#define BP_SLOT(name, since) \
  {#name, nullptr, name##_Args_STRUCT_SIZE, ReturnsOf<decltype(PJRT_Api::name)>::value, HasChain<name##_Args>()},
#include "sdk/host/slots.def"
#undef BP_SLOT
#define BP_EXTENSION(type_name, type)
#define BP_EXTENSION_FUNCTION(type_name, member, name) \
  {#name, #type_name, name##_Args_STRUCT_SIZE, ReturnsOf<decltype(type_name::member)>::value, HasChain<name##_Args>()},
#define BP_PROFILER_FUNCTION(member, name)                                                                             \
  {#name, "PJRT_Profiler_Extension", name##_Args_STRUCT_SIZE, ReturnsOf<decltype(PLUGIN_Profiler_Api::member)>::value, \
   false},
#include "sdk/layers/extension_functions.def"
#undef BP_EXTENSION
#undef BP_EXTENSION_FUNCTION
#undef BP_PROFILER_FUNCTION
};
static_assert(sizeof(kFunctions) / sizeof(kFunctions[0]) == kNumFunctions);

}  // namespace

const FunctionInfo& GetInfo(Fn fn) { return kFunctions[Index(fn)]; }

Fn FunctionByName(absl::string_view name) {
  for (size_t i = 0; i < kNumFunctions; ++i) {
    if (name == kFunctions[i].name) return static_cast<Fn>(i);
  }
  return Fn::kCount;
}

}  // namespace backplane::layers
