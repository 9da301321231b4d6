// Reduces a run of elements, which lie a constant step apart, with one binary operation.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_RUN_REDUCER_H_
#define BACKPLANE_CORE_OPS_FAMILIES_RUN_REDUCER_H_

#include "core/ops/elementwise.h"

namespace backplane {

// *acc = op(*acc, x[0], x[step], ...) over n elements of a type that computes in itself (f32, f64, integers of a byte
// or more, complex, pred). Null: not such an operation or type.
using RunReducer = void (*)(void* acc, const void* x, int64_t n, int64_t step);
RunReducer FindRunReducer(Opcode opcode, PrimitiveType type);

// A window of at most so many elements is reduced in its element type: each step is rounded, as the reducer says. A
// longer window of narrow floats is reduced in f32 and rounded once. Rounded at each step, a long sum would depend on
// the order of its terms more than on the terms, and no parallel sum could agree with it.
constexpr int64_t kStepwiseWindow = 16;

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_RUN_REDUCER_H_
