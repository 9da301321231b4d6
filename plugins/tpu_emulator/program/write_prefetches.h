// Inserts prefetches of operands into a program as a TPU's compiler does: a copy-start where the copy begins, and a
// copy-done before the kernel that reads the copy.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_WRITE_PREFETCHES_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_WRITE_PREFETCHES_H_

#include <vector>

#include "absl/types/span.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/machine/clock.h"

namespace backplane::tpu {

struct PrefetchedOperand {
  const Instruction* kernel = nullptr;
  int64_t operand = 0;                 // an array
  const Instruction* start = nullptr;  // the copy begins before this one, in the kernel's computation; may be `kernel`
  Space space = Space::kVmem;
};

void WritePrefetches(Module* kernels, absl::Span<const PrefetchedOperand> prefetches);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_WRITE_PREFETCHES_H_
