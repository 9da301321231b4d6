// How every array of a program is to lie on the partitions, worked out from
// what the program says of some.
//
// A program names the tilings of its parameters, of annotated values and of the
// bounds of manual regions. Everything else follows from those, forwards and
// backwards: dimensions of operands and results that an operation walks through
// together (its factors) are split alike. Only what splits evenly and gives
// each tile to equally many partitions is proposed. Operations that only pass
// elements on are heard first, so that a contraction is not asked how a value
// lies that the program has placed already; where two operands differ, the
// larger one is followed.
//
// The result is a proposal: any way to lie is right, and the Partitioner
// computes what it cannot split whole.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_PROPAGATION_H_
#define BACKPLANE_CORE_PASSES_PARTITION_PROPAGATION_H_

#include <map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/ir/module.h"
#include "core/passes/partition/tiling.h"

namespace backplane {

// By instruction's id and the element of its tuple (0 for an array). Values
// that lie whole are not in it.
using ProposedTilings = std::map<std::pair<int64_t, int64_t>, Tiling>;

struct PropagationInput {
  int64_t partitions = 1;
  const absl::flat_hash_set<int64_t>* manual = nullptr;  // ids of the instructions of manual regions
  // For each parameter of the entry whether it may be split though the program
  // does not say so. Empty: none may.
  std::vector<bool> open_parameters;
};

// Of the entry's values, and of the loops and branches that it runs. `module`
// is one whose calls are inlined and whose computations have one caller each.
// Errors: InvalidArgument for shardings that do not fit their values.
absl::StatusOr<ProposedTilings> PropagateTilings(const Module& module, const PropagationInput& input);

// The partitions that share the manual coordinates of a region bounded by
// `boundary` (SPMDFullToShardShape or its counterpart), as a number for each
// partition; empty where the region is manual over all of them.
Ints ManualFamilies(const Sharding& sharding, int64_t rank, int64_t partitions);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_PROPAGATION_H_
