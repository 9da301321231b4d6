// Gives searches for the largest or smallest element to more blocks.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_SELECTIONS_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_SELECTIONS_H_

#include <cstdint>
#include <vector>

#include "core/ir/module.h"

namespace backplane::hip {

// Divides a reduction that chooses a value and its index (argmax): each of `parts` parts, about, finds its best
// element, and two small reductions find the best of these. Only for indices that count the elements from 0 on, where
// the first of equal elements is chosen, and for an initial value that every other one beats, with index 0. Returns
// whether the reduction was replaced.
bool SplitSelection(Computation* c, Instruction* reduce, int64_t parts);

// Replaces a reduction that has a tuple of results.
void ReplaceResults(Computation* c, Instruction* reduce, const std::vector<Instruction*>& results);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SPLIT_SELECTIONS_H_
