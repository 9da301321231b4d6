// Makes of a program about whole arrays the one program that every partition runs (SPMD).
//
// Before: parameters and results are whole arrays; a parameter's sharding says how the caller splits it; custom calls
// named Sharding carry shardings of values, and SPMDFullToShardShape / SPMDShardToFullShape bound regions that are
// written for one partition ("manual"). After: parameters and results have the shapes of one partition, no such calls
// are left, and what must be exchanged are collectives over partitions.
//
// What the pass does is always right and often plain: whoever needs a whole array gathers it, computes on it as every
// other partition does, and a slice of the result is kept. Work stays on the shards where an operation's operands are
// there in a fitting tiling: elementwise operations, broadcasts, transposes, reshapes, reductions (partial sums and an
// all-reduce), dots (split batch, free and contracting dimensions), slices, pads and joins along other dimensions,
// convolutions split by batch. local_rules.cc is the list of these, one rule each: the place to grow. Manual regions
// stay exactly as written. Loops and branches work on whole arrays outside manual regions.
//
// How everything is to lie that the program does not place is worked out beforehand (propagation.h), forwards and
// backwards from what it does place; results that it leaves open are handed back as they lie then.
//
// Operations that must happen once (custom calls with a maximal sharding) run on their device only, and their results
// are sent to the others; random numbers without a key are drawn on the first partition.
//
// The shardings that the executable has in the end, for every parameter and result leaf, are left as text in the
// module's frontend attributes (core/ir/partitioned_shardings.h; core's other passes keep them).
#ifndef BACKPLANE_CORE_PASSES_PARTITION_PARTITION_MODULE_H_
#define BACKPLANE_CORE_PASSES_PARTITION_PARTITION_MODULE_H_

#include <string>
#include <vector>

#include "core/ir/partitioned_shardings.h"
#include "core/passes/pass.h"

namespace backplane {

struct PartitionOptions {
  // For each result leaf whether it may be given back as it lies, where the program does not say how. Empty: all may.
  std::vector<bool> propagate_to_results;
  std::vector<std::string>* log = nullptr;  // a line for each exchange that was put in
  // For each parameter whether it may come split, where the program does not say how. Empty: none may.
  std::vector<bool> propagate_to_parameters;
};

class PartitionModule : public Pass {
 public:
  explicit PartitionModule(PartitionOptions options = {}) : options_(std::move(options)) {}
  absl::string_view name() const override { return "partition-module"; }
  // Nothing to do for one partition, or in a module that carries no annotation any more. Errors: InvalidArgument for
  // shardings that do not fit, Unimplemented for what cannot be partitioned, each naming the instruction.
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  PartitionOptions options_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_PARTITION_MODULE_H_
