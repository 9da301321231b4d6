#include "sdk/layers/validate/arguments.h"

#include <array>
#include <type_traits>

#include "api/first_sizes.h"
#include "sdk/host/struct_sizes.h"
#include "sdk/layers/extensions.h"

namespace backplane::layers {
namespace {

constexpr const char* kObjectNames[] = {
    "object",
#define BP_OBJECT(name) #name,
#include "sdk/layers/validate/objects.def"
#undef BP_OBJECT
};

// In the order of Fn, like the list; checked below.
constexpr Argument kArguments[] = {
#define BP_ARG(fn, member, direction, object)      \
  {Fn::fn,                                         \
   #member,                                        \
   offsetof(fn##_Args, member),                    \
   sizeof(fn##_Args::member),                      \
   Direction::direction,                           \
   Object::object,                                 \
   std::is_pointer_v<decltype(fn##_Args::member)>, \
   std::is_integral_v<decltype(fn##_Args::member)> && !std::is_same_v<decltype(fn##_Args::member), bool>},
#include "sdk/layers/validate/arguments.def"
#include "sdk/layers/validate/extension_arguments.def"
#undef BP_ARG
};

constexpr bool InOrder() {
  for (size_t i = 1; i < std::size(kArguments); ++i) {
    if (Index(kArguments[i].fn) < Index(kArguments[i - 1].fn)) return false;
  }
  return true;
}
static_assert(InOrder());

constexpr std::array<uint16_t, kNumFunctions + 1> Starts() {
  std::array<uint16_t, kNumFunctions + 1> starts{};
  size_t at = 0;
  for (size_t f = 0; f <= kNumFunctions; ++f) {
    while (at < std::size(kArguments) && Index(kArguments[at].fn) < f) ++at;
    starts[f] = static_cast<uint16_t>(at);
  }
  return starts;
}
constexpr auto kStarts = Starts();

struct Sizes {
  size_t smallest;
  size_t (*at_minor)(int minor);
};
constexpr Sizes kSizes[] = {
#define BP_SLOT(name, since)                                                                              \
  {name##_Args_FIRST_SIZE, [](int minor) {                                                                \
     return host::StructSizeAt(minor, static_cast<const name##_Args*>(nullptr), name##_Args_STRUCT_SIZE); \
   }},
#include "sdk/host/slots.def"
#undef BP_SLOT
};

}  // namespace

const char* ObjectName(Object object) { return kObjectNames[static_cast<size_t>(object)]; }

absl::Span<const Argument> GetArguments(Fn fn) {
  const size_t from = kStarts[Index(fn)], to = kStarts[Index(fn) + 1];
  return absl::MakeConstSpan(kArguments + from, to - from);
}

size_t SmallestSize(Fn fn) { return Index(fn) < std::size(kSizes) ? kSizes[Index(fn)].smallest : 0; }
size_t SizeAtMinor(Fn fn, int minor) { return Index(fn) < std::size(kSizes) ? kSizes[Index(fn)].at_minor(minor) : 0; }

}  // namespace backplane::layers
