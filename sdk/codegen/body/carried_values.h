// Converts between element values and the IR values that a loop carries (LoopScopes::Repeat). A complex number is
// carried as two IR values.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_CARRIED_VALUES_H_
#define BACKPLANE_SDK_CODEGEN_BODY_CARRIED_VALUES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::codegen {

inline void AppendParts(absl::Span<const Val> values, std::vector<llvm::Value*>& parts) {
  for (const Val& v : values) {
    parts.push_back(v.v);
    if (v.im) parts.push_back(v.im);
  }
}

inline std::vector<llvm::Value*> GetParts(absl::Span<const Val> values) {
  std::vector<llvm::Value*> parts;
  AppendParts(values, parts);
  return parts;
}

// Rebuilds values from their parts. The result has as many values as `like`, each complex if that of `like` is;
// parts[first] is the first part.
inline Vals FromParts(absl::Span<const Val> like, absl::Span<llvm::Value* const> parts, size_t first = 0) {
  Vals values;
  for (const Val& v : like) {
    Val value{parts[first++]};
    if (v.im) value.im = parts[first++];
    values.push_back(value);
  }
  return values;
}

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_CARRIED_VALUES_H_
