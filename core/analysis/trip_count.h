// Computes the trip counts of loops that count from a constant start by a constant step up to a constant limit.
#ifndef BACKPLANE_CORE_ANALYSIS_TRIP_COUNT_H_
#define BACKPLANE_CORE_ANALYSIS_TRIP_COUNT_H_

#include <cstdint>
#include <optional>

#include "core/ir/computation.h"

namespace backplane {

// Returns the number of iterations of `loop`, a while. Looks through fusions, copies and tuples. A caller may run the
// body that many times without evaluating the condition. Therefore the result is nullopt not only for an unknown trip
// count, but also if the condition has side effects or if the counter would overflow before it reaches the limit.
// Thread-safe.
std::optional<int64_t> ComputeTripCount(const Instruction& loop);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_TRIP_COUNT_H_
