// Corrects operations that NVIDIA's instructions do differently from IEEE arithmetic.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_FLOATS_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_FLOATS_H_

#include "sdk/codegen/llvm_includes.h"

namespace backplane::hip {

// PTX converts each NaN to the positive one (PTX ISA, "cvt"), but an order of all numbers (totalOrder) needs its sign.
// Gives the results of conversions between f16 and f32 the sign of their operands. Call it after other passes, because
// they remove pairs of opposite conversions.
void KeepSignsOfNans(llvm::Module& module);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_NVPTX_FLOATS_H_
