// Counts the work of an instruction by the definitions of the operations (core/ops).
#ifndef BACKPLANE_CORE_ANALYSIS_WORK_H_
#define BACKPLANE_CORE_ANALYSIS_WORK_H_

#include "core/ir/instruction.h"

namespace backplane {

// Returns the work of one execution. A fusion does the operations of its body, but accesses only the bytes of its own
// operands and results. A loop does its body as often as its trip count says, or once if that is unknown. A conditional
// does the branch with the most operations and bytes. Thread-safe.
Cost CountWork(const Instruction& instruction);

}  // namespace backplane

#endif  // BACKPLANE_CORE_ANALYSIS_WORK_H_
