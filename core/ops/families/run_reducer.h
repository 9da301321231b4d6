// Reduces a run of equally spaced elements with one binary operation.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_RUN_REDUCER_H_
#define BACKPLANE_CORE_OPS_FAMILIES_RUN_REDUCER_H_

#include "core/ops/elementwise.h"

namespace backplane {

// Computes *acc = op(*acc, x[0], x[step], ...) over n elements; `step` is in elements. Supports types whose arithmetic
// needs no conversion: f32, f64, integers of at least a byte, complex numbers and pred. FindRunReducer returns null for
// other operations and types.
using RunReducer = void (*)(void* acc, const void* x, int64_t n, int64_t step);
RunReducer FindRunReducer(Opcode opcode, PrimitiveType type);

// A window of at most this many elements is reduced in its element type: each step is rounded. A longer window of
// narrow floats is reduced in f32 and rounded once. If each step of a long sum were rounded, the result would depend
// more on the order of the terms than on the terms, and no parallel sum could reproduce it.
constexpr int64_t kStepwiseWindow = 16;

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_RUN_REDUCER_H_
