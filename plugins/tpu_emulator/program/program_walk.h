// The program as one list of kernels, with the buffers they read and write: what BuildSchedule works on.
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
  // Buffers by number, -1 where there is none (scalars of the scalar unit, tokens): for each operand the leaves', and
  // for each array leaf of the result.
  std::vector<std::vector<int>> operands;
  std::vector<int> results;
};

struct WalkedBuffer {
  ScheduledBuffer info;
  bool stays_in_hbm = false;    // whatever its size
  bool takes_argument = false;  // a result in a donated argument's place
  bool used = false;            // by a kernel
};

struct WalkedProgram {
  std::vector<WalkedKernel> kernels;
  std::vector<WalkedBuffer> buffers;  // some may have been merged into others: `used` is then false
  std::vector<ScheduledLoop> loops;
  std::vector<std::string> notes;  // each once
  // The buffers of every leaf of every value in the computations that were walked.
  absl::flat_hash_map<const Instruction*, std::vector<int>> values;
};

// `kernels`: with layouts. Intervals of buffers are set, spaces are all HBM.
WalkedProgram WalkProgram(const Module& kernels, const Machine& machine, absl::Span<const int64_t> torus);

Origin OriginOf(const Instruction& i);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_PROGRAM_WALK_H_
