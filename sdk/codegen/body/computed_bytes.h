// How wide an element is while a kernel computes it.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_COMPUTED_BYTES_H_
#define BACKPLANE_SDK_CODEGEN_BODY_COMPUTED_BYTES_H_

#include <algorithm>

#include "core/types/primitive_type.h"

namespace backplane::codegen {

// Bytes of an element as it is computed, and as MemoryAccess::StoreComputed stores it: narrow floats take those of f32.
inline int ComputedBytes(PrimitiveType t) {
  return IsFloat(t) && !IsComplex(t) ? std::max(ByteWidth(t), 4) : ByteWidth(t);
}
// Of one register's element: a complex number is computed as two.
inline int ComputedWidth(PrimitiveType t) { return ComputedBytes(ComplexPart(t)); }

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_COMPUTED_BYTES_H_
