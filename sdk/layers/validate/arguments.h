// The purpose of each field of each argument struct, as data: what the comments in the headers of api/ say.
#ifndef BACKPLANE_SDK_LAYERS_VALIDATE_ARGUMENTS_H_
#define BACKPLANE_SDK_LAYERS_VALIDATE_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "sdk/layers/functions.h"

namespace backplane::layers {

// The types of objects that have handles.
enum class Object : uint8_t {
  None,
#define BP_OBJECT(name) name,
#include "sdk/layers/validate/objects.def"
#undef BP_OBJECT
  kCount
};
const char* ObjectName(Object object);  // "Buffer"

enum class Direction : uint8_t { IN, SETS, MAY_SET, USES, DESTROYS, GIVES, LENDS };

struct Argument {
  Fn fn;
  const char* member;
  uint32_t offset, size;  // bytes
  Direction direction;
  Object object;
  bool pointer;   // an address of data or of a function
  bool integral;  // a count, a size, an id

  bool Out() const {
    return direction == Direction::SETS || direction == Direction::GIVES || direction == Direction::LENDS;
  }
};
// Returns the fields after struct_size and extension_start, in order. Empty for the few functions that have no list.
absl::Span<const Argument> GetArguments(Fn fn);

// Return the valid sizes of the args of a slot: `smallest` is that of the oldest known header, `at_minor` that of a
// plugin of this minor version. 0 for functions of extensions, whose older sizes are unknown.
size_t SmallestSize(Fn fn);
size_t SizeAtMinor(Fn fn, int minor);

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_VALIDATE_ARGUMENTS_H_
