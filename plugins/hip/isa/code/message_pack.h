// Reads MessagePack (the format's specification: msgpack.org), as far as metadata uses it: no floats, binaries and
// extensions. LLVM's reader expects valid input; this one reads bytes from outside.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_CODE_MESSAGE_PACK_H_
#define BACKPLANE_PLUGINS_HIP_ISA_CODE_MESSAGE_PACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::hip::isa {

struct PackedValue {
  enum class Kind : uint8_t { kNil, kBool, kInteger, kString, kArray, kMap } kind = Kind::kNil;
  int64_t integer = 0;  // also of a bool; unsigned numbers beyond its range are errors
  std::string text;
  std::vector<PackedValue> items;  // of an array; the values of a map
  std::vector<std::string> keys;   // of a map

  // Returns null if this is no map or has no such field.
  const PackedValue* Find(absl::string_view name) const;
};

// Reads one value. Returns InvalidArgument if `bytes` are not exactly one value.
absl::StatusOr<PackedValue> ReadMessagePack(absl::string_view bytes);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_CODE_MESSAGE_PACK_H_
