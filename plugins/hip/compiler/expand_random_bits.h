// Expresses random bit generators by arithmetic on the number of each element, which kernels compute as any other.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_EXPAND_RANDOM_BITS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_EXPAND_RANDOM_BITS_H_

#include "core/passes/pass.h"

namespace backplane::hip {

// A rng-bit-generator becomes a map over the numbers of the elements: its computation makes the bits of one element by
// Philox-4x32 or Threefry-2x32 (core/ops/families/counter_random.h), so every element is computed independently of the
// others. The bits and the next state are those of the definition (core/ops/families/random_eval.cc).
//
// Run it after LegalizeTypes: elements narrower than a byte are bytes by then.
class ExpandRandomBits : public Pass {
 public:
  absl::string_view name() const override { return "expand-random-bits"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_EXPAND_RANDOM_BITS_H_
