// Describes the work of one kernel for the clock: matrix products, vector operations, bytes and collectives.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_WORK_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_WORK_H_

#include <string>
#include <vector>

#include "core/ir/instruction.h"
#include "plugins/tpu_emulator/machine/clock.h"

namespace backplane::tpu {

// An operand of a kernel or a leaf of its result, and how it moves between memories.
struct KernelPort {
  // The padded bytes that one execution moves. For a slice these are the bytes of the slice, and for an in-place update
  // those of the update.
  int64_t bytes = 0;
  bool in_place = false;  // an operand whose memory the result takes over, if no other kernel needs it
  // The result may be written over the operand, because each element is read before it is written.
  bool may_alias_result = false;
  int product = -1;  // 0, 1: part of the left or right operand of the matrix product; 2: its result; -1: neither
};

struct KernelDescription {
  std::string category;  // as in ScheduledKernel
  std::string contents;
  // Without the memory spaces and the ports' bytes, which depend on where the operands are. If an operand of the
  // product is computed in the kernel, lhs_bytes or rhs_bytes is set.
  KernelWork work;
  std::vector<KernelPort> operands;  // one per operand of the instruction; the leaves of a tuple count as one
  std::vector<KernelPort> results;   // one per array leaf of the result
  double flops = 0, transcendentals = 0;
  std::vector<std::string> notes;  // what the estimates do not cover
};

// Whether the instruction runs as a kernel. Control flow, aliases, parameters, constants and operations of the scalar
// unit do not.
bool IsKernel(const Instruction& i);

// Requires IsKernel(i) and shapes with layouts. For `torus` see PrepareOptions.
KernelDescription DescribeKernel(const Instruction& i, const Machine& machine, absl::Span<const int64_t> torus);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KERNEL_WORK_H_
