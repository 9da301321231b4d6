// Propagates shardings: infers the tilings of all arrays of a program from those that the program states.
//
// A program states the tilings of parameters, of annotated values and of the boundaries of manual regions. Propagation
// proceeds forwards and backwards: dimensions of operands and results that share a factor (factors.h) are tiled alike.
// A tiling is propagated only if it splits the dimension evenly and assigns each tile to the same number of partitions.
// Pass-through operations come before contractions, so that a contraction does not override a tiling that the program
// states nearby. If operands disagree, the larger one wins.
//
// The result is a hint. Any tiling is correct: the Partitioner replicates what it cannot split.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_PROPAGATION_H_
#define BACKPLANE_CORE_PASSES_PARTITION_PROPAGATION_H_

#include <map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/ir/module.h"
#include "core/passes/partition/tiling.h"

namespace backplane {

// By instruction id and tuple element (0 for an array). Omits replicated values.
using PropagatedTilings = std::map<std::pair<int64_t, int64_t>, Tiling>;

struct PropagationInput {
  int64_t partitions = 1;
  const absl::flat_hash_set<int64_t>* manual = nullptr;  // ids of the instructions in manual regions
  // For each entry parameter: whether propagation may split it if the program states no sharding. Empty: none may.
  std::vector<bool> propagate_to_parameters;
};

// Infers the tilings of the values of the entry and of the loops and branches that it executes. All calls of `module`
// must be inlined, and each computation must have one caller. Returns InvalidArgument for a sharding that does not fit
// its value.
absl::StatusOr<PropagatedTilings> PropagateTilings(const Module& module, const PropagationInput& input);

// Returns for each partition the manual subgroup that it belongs to: the partitions of a subgroup share the manual
// coordinates of `sharding`, the sharding at a boundary of a manual region. Empty if the region is manual over all
// axes.
Ints ComputeManualSubgroups(const Sharding& sharding, int64_t rank, int64_t partitions);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_PROPAGATION_H_
