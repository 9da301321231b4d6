// Emits transposes.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_MAKE_TRANSPOSE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_MAKE_TRANSPOSE_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "core/passes/rewrite.h"

namespace backplane::tpu {

// Transposes x: dimension k of the result is dimension permutation[k] of x. Returns x if the permutation is the
// identity.
inline Instruction* MakeTranspose(Computation* c, Instruction* x, const Ints& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  std::vector<int64_t> dims;
  for (int64_t p : permutation) dims.push_back(x->shape().dimensions(p));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, permutation);
  return Make(c, x, Opcode::kTranspose, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
}

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_MAKE_TRANSPOSE_H_
