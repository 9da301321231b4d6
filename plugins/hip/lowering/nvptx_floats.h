// What NVIDIA's instructions do differently from IEEE arithmetic.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_FLOATS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_FLOATS_H_

#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// PTX converts each NaN to the positive one (PTX ISA, "cvt"), but an order of all numbers (totalOrder) needs its sign.
// Conversions between f16 and f32 get the sign of what they convert. To be called after other passes, which remove
// conversions there and back.
void KeepSignsOfNans(llvm::Module& module);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_FLOATS_H_
