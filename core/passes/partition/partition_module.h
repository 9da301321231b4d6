// Partitions a program on full arrays (SPMD): produces the one program that every partition runs.
//
// Input: parameters and results have their full shapes. The sharding of a parameter states how the caller splits it.
// "Sharding" custom calls state shardings of values. SPMDFullToShardShape and SPMDShardToFullShape delimit manual
// regions, which are written for one partition. Output: parameters and results have shard shapes, no such custom calls
// are left, and partitions communicate by collectives.
//
// An operation stays on shards if a rule of local_rules.cc supports it and its operands have a compatible tiling:
// elementwise operations, broadcasts, transposes, reshapes, reductions (partial results and an all-reduce), dots (split
// along batch, free and contracting dimensions), convolutions split by batch, and slices, pads, concatenations, sorts,
// top-k, reductions with several results, Fourier transforms and factorizations along other dimensions. Any other
// operation all-gathers its operands and runs replicated. Manual regions stay as written.
//
// Propagation (propagation.h) first infers the tilings that the program does not state. Results without a stated
// sharding are returned with the tiling that they end up with. One that every partition has computed gets the tiling of
// the operand of which it has the dimensions.
//
// Custom calls and host transfers with a maximal sharding run on their device only; the other partitions receive the
// results. Random numbers without an explicit state are drawn on the first partition.
//
// The final shardings of all parameter and result leaves are stored as text in frontend attributes of the module
// (core/ir/partitioned_shardings.h).
#ifndef BACKPLANE_CORE_PASSES_PARTITION_PARTITION_MODULE_H_
#define BACKPLANE_CORE_PASSES_PARTITION_PARTITION_MODULE_H_

#include <string>
#include <vector>

#include "core/ir/partitioned_shardings.h"
#include "core/passes/pass.h"

namespace backplane {

struct PartitionOptions {
  // For each result leaf: whether propagation may choose its sharding if the program states none. Empty: all may.
  std::vector<bool> propagate_to_results;
  std::vector<std::string>* log = nullptr;  // receives one line per collective that the pass inserts
  // For each parameter: whether propagation may choose its sharding if the program states none. Empty: none may.
  std::vector<bool> propagate_to_parameters;
};

class PartitionModule : public Pass {
 public:
  explicit PartitionModule(PartitionOptions options = {}) : options_(std::move(options)) {}
  absl::string_view name() const override { return "partition-module"; }
  // Does nothing if the module has been partitioned already, or has one partition and no annotations. Returns
  // InvalidArgument for a sharding that does not fit its value, and Unimplemented for what cannot be partitioned.
  // Errors name the instruction.
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  PartitionOptions options_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_PARTITION_MODULE_H_
