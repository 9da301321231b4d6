// Random programs for tests of passes: functions with many callers, loops and branches that share bodies, conditions
// that read separate state, counters that wrap around, and calls in loops in calls.
#ifndef BACKPLANE_CORE_PASSES_RANDOM_CONTROL_PROGRAM_H_
#define BACKPLANE_CORE_PASSES_RANDOM_CONTROL_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "core/ir/module.h"

namespace backplane {

// Returns the same program for the same seed. It verifies and terminates. The entry takes s32[3], s32[3], s32[] and
// pred[] and returns a tuple of arrays and scalars. All arithmetic is on integers, so passes keep its results bit by
// bit.
std::unique_ptr<Module> MakeRandomControlProgram(uint32_t seed);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_RANDOM_CONTROL_PROGRAM_H_
