// How often a loop runs, where the program says it: a counter from a known start by a known step up to a known limit.
#ifndef BACKPLANE_CORE_ANALYSIS_LOOP_TURNS_H_
#define BACKPLANE_CORE_ANALYSIS_LOOP_TURNS_H_

#include <cstdint>
#include <optional>

#include "core/ir/computation.h"

namespace backplane {

// `loop` is a while, whose arithmetic may have been put into fusions.
std::optional<int64_t> KnownTurns(const Instruction& loop);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_LOOP_TURNS_H_
