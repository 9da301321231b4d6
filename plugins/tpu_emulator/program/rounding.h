// Rounding as a TPU's kernels round: made explicit, as converts in the program, so that whoever runs it computes the
// same values.
//
// Inside a fusion a float narrower than 32 bits (bf16, f16, the 8-bit floats) is f32: operands are widened once,
// elementwise operations and reductions are f32's, and each result of the fusion is rounded once. A contraction takes
// its operands rounded to their type and its result is rounded to its type before anything else reads it; so does
// whatever looks at bits (bitcast-convert). A convert that the program itself asks for rounds where it stands (the
// maker's compiler keeps a convert to bf16 and back), and so does reduce-precision.
//
// f64 is IEEE double precision (a TPU computes with pairs of f32 instead), complex numbers and integers are computed in
// their types.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_ROUNDING_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_ROUNDING_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// Of a module cut into kernels. Changes the contents of fusions only, never what they take and give.
class RoundOncePerFusion : public Pass {
 public:
  absl::string_view name() const override { return "round-once-per-fusion"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_ROUNDING_H_
