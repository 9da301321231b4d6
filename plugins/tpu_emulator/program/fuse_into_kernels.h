// Fuses the operations of a program into kernels as a TPU's compiler does. A fusion reads its operands from memory
// once, computes in registers, and writes its results once.
//
// The pass runs on the entry, on loop bodies and conditions, and on branches. Afterwards they hold fusions and the
// operations that are not fused: parameters, constants, tuples, transposes and reshapes that layout assignment decides
// about, sort, gather, scatter, control flow, collectives and calls. The kinds of fusions are those of HLO:
//
//   kOutput   a dot or convolution, cheap operations that produce its operands, elementwise operations on its result,
//             and a reduction of that. Every contraction is in such a fusion
//   kInput    a reduction, the operations that produce its operand, and the elementwise operations on its result
//   kLoop     anything else: elementwise operations, broadcasts, slices, pads, concatenations
//
// The rules, applied from consumers to producers:
//   - A producer whose users are all in one kernel is fused into this kernel if each of its elements is then computed
//     about once. Behind a broadcast, which reads elements repeatedly, only cheap arithmetic is fused.
//   - Constants, iotas and broadcasts are duplicated into each kernel that reads them. Cheap arithmetic is duplicated,
//     too, if recomputing it moves fewer bytes than storing it.
//   - A producer with other users becomes an additional result of a kernel over the same elements, if that does not
//     create a cycle.
//   - Arithmetic on single integers runs on the scalar unit and is in no kernel.
//
// The pass is deterministic. Its time is linear in the size of the program, apart from a bounded search for cycles.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_FUSE_INTO_KERNELS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_FUSE_INTO_KERNELS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// `widen`: whether fusions will compute narrow floats in f32 (rounding.h). A reduction of narrow floats then becomes a
// fusion even if it is alone.
class FuseIntoKernels : public Pass {
 public:
  explicit FuseIntoKernels(bool widen = true) : widen_(widen) {}
  absl::string_view name() const override { return "fuse-into-kernels"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  const bool widen_;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_FUSE_INTO_KERNELS_H_
