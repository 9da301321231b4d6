// Random programs for tests of passes: functions called from many places, loops and branches that share their bodies,
// conditions that read state of their own, counters that wrap around, calls in loops in calls.
#ifndef BACKPLANE_CORE_PASSES_RANDOM_CONTROL_PROGRAM_H_
#define BACKPLANE_CORE_PASSES_RANDOM_CONTROL_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "core/ir/module.h"

namespace backplane {

// The same program for the same seed; it verifies and it ends. Its entry takes s32[3], s32[3], s32[] and pred[] and
// gives a tuple of arrays and single elements. All arithmetic is of integers: results are the same to the bit.
std::unique_ptr<Module> RandomControlProgram(uint32_t seed);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_RANDOM_CONTROL_PROGRAM_H_
