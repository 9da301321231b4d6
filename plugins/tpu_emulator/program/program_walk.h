// Flattens a program to one list of kernels, with the buffers that they read and write. BuildSchedule works on it.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_WALK_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_WALK_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/program/kernel_work.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

struct WalkedKernel {
  const Instruction* instruction;
  KernelDescription work;
  int64_t loop = -1;
  // Buffers by number: for each operand those of its leaves, and one for each array leaf of the result. -1 stands for
  // no buffer (values of the scalar unit, tokens).
  std::vector<std::vector<int>> operands;
  std::vector<int> results;
};

struct WalkedBuffer {
  ScheduledBuffer info;
  bool pinned_to_hbm = false;     // must not be moved to VMEM or CMEM
  bool aliases_argument = false;  // a result in the memory of a donated argument
  bool used = false;              // read or written by a kernel, and not merged into another buffer
};

struct WalkedProgram {
  std::vector<WalkedKernel> kernels;
  std::vector<WalkedBuffer> buffers;  // buffers that were merged into others have used = false
  std::vector<ScheduledLoop> loops;
  std::vector<std::string> notes;  // without duplicates
  // For each value in the visited computations: the buffer of each of its leaves.
  absl::flat_hash_map<const Instruction*, std::vector<int>> values;
};

// `kernels` has layouts. Sets the lifetime of each buffer; all spaces are HBM.
WalkedProgram WalkProgram(const Module& kernels, const Machine& machine, absl::Span<const int64_t> torus);

Origin GetOrigin(const Instruction& i);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_WALK_H_
