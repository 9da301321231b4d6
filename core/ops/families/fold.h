// Folding a contiguous run of elements with one binary operation.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_FOLD_H_
#define BACKPLANE_CORE_OPS_FAMILIES_FOLD_H_

#include "core/ops/elementwise.h"

namespace backplane {

// *acc = op(*acc, x[0], x[step], ...) over n elements of a type that computes in itself (f32, f64, integers of a byte
// or more, complex, pred). Null: not such an operation or type.
using FoldFn = void (*)(void* acc, const void* x, int64_t n, int64_t step);
FoldFn FindFold(Opcode opcode, PrimitiveType type);

// A window of at most so many elements is folded in its element type, rounded at each step as its body says. A longer
// one of narrow floats is folded in f32 and rounded once: rounded step by step, a long sum would depend on its order
// more than on its terms, and no parallel one could agree with it.
constexpr int64_t kStepwiseWindow = 16;

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_FOLD_H_
