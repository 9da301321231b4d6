// Cuts a program into kernels, as a TPU's compiler would: what one fusion holds is read from memory once, computed in
// registers, and written once.
//
// Afterwards every computation that runs by itself (the entry, loop bodies and conditions, branches) holds fusions and
// what no fusion takes: parameters, constants, tuples, transposes and reshapes that a layout has to decide about, sort,
// gather, scatter, control flow, collectives, calls. The kinds of fusion are those of HLO:
//
//   kOutput   a dot or convolution, what prepares its operands cheaply, the elementwise operations on its result and a
//             reduction of that. A contraction is always in one
//   kInput    a reduction, with what makes its operand and the arithmetic on its result
//   kLoop     anything else: elementwise operations, broadcasts, slices, pads, concatenations
//
// Rules, from consumers to producers:
//   - A producer whose users are all in one kernel joins it, if each of its elements is computed about once there.
//     Behind a broadcast that holds for cheap arithmetic only.
//   - Constants, iotas and broadcasts are copied into each kernel that reads them. So is cheap arithmetic where
//     computing it again moves fewer bytes than storing it.
//   - A producer with further users becomes one more result of a kernel over the same elements, where no cycle arises.
//   - Arithmetic on single integers is the scalar unit's and is no kernel.
//
// Deterministic; the time is linear in the size of the program but for a bounded search for cycles.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_CUT_INTO_KERNELS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_CUT_INTO_KERNELS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// `widen`: whether fusions are to compute narrow floats in f32 (rounding.h); a reduction of such is then a fusion even
// alone.
class CutIntoKernels : public Pass {
 public:
  explicit CutIntoKernels(bool widen = true) : widen_(widen) {}
  absl::string_view name() const override { return "cut-into-kernels"; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  const bool widen_;
};

// Puts the contents of every fusion in its place; get-tuple-elements of fusions become the values themselves.
absl::StatusOr<bool> InlineFusions(Module* module);

// Operations of the vector unit that one register of an elementwise operation's results takes (clock.h, VectorOp): 1,
// 2, 4 or 8.
double VectorCost(Opcode opcode);

// Whether the arithmetic is the scalar unit's: one integer or truth value from such, outside every kernel.
bool IsScalarUnitOp(const Instruction& i);

// Narrower than 32 bits and floating: bf16, f16, the 8-bit floats and below.
bool IsNarrowFloat(PrimitiveType type);

// Whether the elements keep their places in tiles of memory, whatever the order of the major dimensions: the two most
// minor dimensions that are not 1 stay, or only dimensions before whole tiles are split and merged.
bool KeepsTiles(const Shape& from, const Shape& to);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_CUT_INTO_KERNELS_H_
