// Makes the rounding of a TPU's kernels explicit as converts, so that any backend computes the same values.
//
// Inside of a fusion, bf16 and f16 are f32. Operands are widened once, elementwise operations and reductions are
// computed in f32, and each result of the fusion is rounded once. Floats of 8 bits and fewer are rounded after each
// operation. The operands of a contraction are rounded to their type, and its result is rounded to its type before any
// other use. The same holds for operations that look at bits (bitcast-convert). A convert in the program rounds where
// it is, because the maker's compiler keeps a convert to bf16 and back. So does reduce-precision.
//
// f64 is IEEE double precision here (see f64_pairs.h for pairs). Complex numbers and integers keep their types.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_ROUNDING_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_ROUNDING_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// Runs on a module that has been fused into kernels. Changes only the contents of fusions, not their operands and
// results.
class RoundOncePerFusion : public Pass {
 public:
  absl::string_view name() const override { return "round-once-per-fusion"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_ROUNDING_H_
