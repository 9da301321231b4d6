// Counts the vector-unit work of a kernel, by class of operation.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_VECTOR_WORK_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_VECTOR_WORK_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/ir/instruction.h"
#include "plugins/tpu_emulator/machine/clock.h"

namespace backplane::tpu {

// Accumulates the work of the instructions of one kernel. Shapes have layouts. Not thread-safe.
class VectorWorkCounter {
 public:
  explicit VectorWorkCounter(const Machine& machine)
      : words_per_register_(machine.tile_rows * machine.tile_lanes), lanes_(machine.tile_lanes) {}

  // Adds the work of one instruction. A dot or convolution adds nothing: the clock times it as a matrix product.
  void AddInstruction(const Instruction& i);

  // The total so far, in whole registers. Classes without work are left out.
  std::vector<VectorWork> ToWork() const;

 private:
  // The registers that an array of this shape fills, padding included; at least 1. 64-bit elements take two words each.
  int64_t CountRegisters(const Shape& shape) const;
  void Add(VectorOp op, double registers) { counts_[static_cast<size_t>(op)] += registers; }
  void AddReduce(const Instruction& i);
  void AddSort(const Instruction& i);

  const int64_t words_per_register_, lanes_;
  std::array<double, 7> counts_{};  // registers, by VectorOp
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_VECTOR_WORK_H_
