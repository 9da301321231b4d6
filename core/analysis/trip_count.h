// How often a loop runs, where the program says it: a counter from a known start by a known step up to a known limit.
#ifndef BACKPLANE_CORE_ANALYSIS_TRIP_COUNT_H_
#define BACKPLANE_CORE_ANALYSIS_TRIP_COUNT_H_

#include <cstdint>
#include <optional>

#include "core/ir/computation.h"

namespace backplane {

// Number of times the body of `loop`, a while, runs. Its arithmetic may have been put into fusions. Nothing where it is
// not known, where the counter would wrap around before it reaches the limit, and where the condition has an effect of
// its own: whoever runs the body so many times need not run the condition. Thread-safe.
std::optional<int64_t> KnownTripCount(const Instruction& loop);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_TRIP_COUNT_H_
