// What one kernel of a program asks of the machine, for the clock: products, vector operations, bytes, links.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_WORK_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_WORK_H_

#include <string>
#include <vector>

#include "core/ir/instruction.h"
#include "plugins/tpu_emulator/machine/clock.h"

namespace backplane::tpu {

// An operand of a kernel, or a leaf of its result, as it moves between memories.
struct KernelPort {
  // Padded bytes that one execution moves: of a slice's operand only the slice, of an array updated in place the
  // update.
  int64_t bytes = 0;
  bool in_place = false;   // an operand whose room the result takes, when nobody else needs it
  bool may_share = false;  // the result may be written over it: each element is read before its place is written
  int product = -1;        // 0, 1: what the left or right operand of the product is made of; 2: its result
};

struct KernelDescription {
  std::string category;  // ScheduledKernel's
  std::string contents;
  // Without the spaces of the product's operands and without the ports' bytes: they depend on where operands lie. A
  // product whose operands are made in the kernel has lhs_bytes and rhs_bytes.
  KernelWork work;
  std::vector<KernelPort> operands;  // one for each operand of the instruction (array leaves of tuples together)
  std::vector<KernelPort> results;   // one for each array leaf of the result
  double flops = 0, transcendentals = 0;
  std::vector<std::string> notes;  // what its figures leave out
};

// Whether it is a kernel: takes time of its own. Control flow, aliases, sources and the scalar unit's work do not.
bool IsKernel(const Instruction& i);

// Of an instruction for which IsKernel holds; shapes have layouts. `torus`: PrepareOptions::torus.
KernelDescription Describe(const Instruction& i, const Machine& machine, absl::Span<const int64_t> torus);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_WORK_H_
