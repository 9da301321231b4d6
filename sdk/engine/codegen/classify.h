// Facts about single operations and called computations that planning and emission share.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_CLASSIFY_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_CLASSIFY_H_

#include "core/ir/computation.h"
#include "sdk/codegen/body/can_evaluate.h"

namespace backplane::engine::codegen {

using backplane::codegen::CanCall;

// Whether a reduce-window is a cumulative reduction along one dimension. Sets the dimension and the direction.
bool IsCumulative(const Instruction& reduce_window, int64_t* dimension, bool* reverse);

// Whether the last dimension of the updates is a window along the last dimension of the operand. If not, a scatter
// computes its updates one by one, and not in vectors.
bool ScattersRows(const Instruction& scatter);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_CLASSIFY_H_
