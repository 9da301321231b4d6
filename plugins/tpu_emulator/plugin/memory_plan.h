// What a program needs of the machine's memory at its fullest moment, before it is run.
//
// Arguments and results take their padded sizes all the time; a result that takes a donated argument's place counts
// once. Between them the entry computation is walked in its order. What a TPU's compiler would fuse into its users
// (elementwise operations, broadcasts, reshapes, slices and the like) takes no memory of its own; every other value
// lives, in the default layout, from where it is made to the last use of it or of what was fused from it. The bodies of
// loops, branches and calls add the most that one of them needs beside what their callers keep.
//
// It is an estimate from below: a real compiler's buffers are at least these, so that a program refused here is one
// that a machine refuses too.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_MEMORY_PLAN_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_MEMORY_PLAN_H_

#include <vector>

#include "core/ir/module.h"
#include "plugins/tpu_emulator/machine/capacity.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {

struct MemoryPlan {
  int64_t peak_bytes = 0;
  std::vector<Allocation> allocations;  // what is there at the peak; arguments and results first
};

// Of a module whose entry layouts are set (ModuleConfig::parameter_layouts, result_layout).
MemoryPlan PlanMemory(const Module& module, TileShape tile);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_MEMORY_PLAN_H_
