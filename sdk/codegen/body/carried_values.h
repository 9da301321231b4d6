// A loop carries plain IR values (LoopScopes::Repeat); a complex number is two of them.
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

inline std::vector<llvm::Value*> PartsOf(absl::Span<const Val> values) {
  std::vector<llvm::Value*> parts;
  AppendParts(values, parts);
  return parts;
}

// Values with as many parts each as those of `like`; the first part is parts[first].
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
