// The width of an element while a kernel computes it.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_COMPUTED_BYTES_H_
#define BACKPLANE_SDK_CODEGEN_BODY_COMPUTED_BYTES_H_

#include <algorithm>

#include "core/types/primitive_type.h"

namespace backplane::codegen {

// Returns the bytes of an element in its compute type, as MemoryAccess::StoreComputed stores it. Narrow floats have the
// size of f32.
inline int ComputedBytes(PrimitiveType t) {
  return IsFloat(t) && !IsComplex(t) ? std::max(ByteWidth(t), 4) : ByteWidth(t);
}
// Returns the bytes of an element in one register. A complex number uses two registers.
inline int ComputedWidth(PrimitiveType t) { return ComputedBytes(ComplexPart(t)); }

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_COMPUTED_BYTES_H_
