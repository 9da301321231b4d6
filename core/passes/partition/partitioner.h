// Partitions one computation for PartitionModule. Internal to this folder.
//
// Every value of the computation keeps its full shape (or, in a manual region, the shape that it is written with). The
// partitioner also tracks the shards of some values. If a rule can compute an operation from the shards of its
// operands, the partitioner adds the operation on shards and replaces the full result by an all-gather of the new
// shards. The all-gather is dead code if all users take the shards.
//
//   annotated_values.cc     parameters, sharding annotations, sharding groups
//   collectives.cc          all-gathers, all-reduces, offsets of shards
//   custom_partitioning.cc  custom calls that the host partitions
//   local_rules.cc          operations on shards: one rule per kind of operation
//   loops.cc                while loops with sharded state
//   manual_regions.cc       entry and exit of manual regions
//   padded_shards.cc        shards of arrays that do not divide evenly
//   partial_sums.cc         partial (unreduced) values
//   single_device.cc        operations that run on one device only
//   slicing.cc              resharding by slicing, and recomputation on slices
//
// In this folder `full` names a value or shape before partitioning. An argument `like` is an instruction whose metadata
// the new instructions take; it may be null.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_PARTITIONER_H_
#define BACKPLANE_CORE_PASSES_PARTITION_PARTITIONER_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "core/ir/module.h"
#include "core/passes/partition/annotations.h"
#include "core/passes/partition/custom_partitioning.h"
#include "core/passes/partition/factors.h"
#include "core/passes/partition/propagation.h"
#include "core/passes/partition/tiling.h"

namespace backplane {

// Prefix of the names of all collectives that the partitioner inserts.
inline constexpr char kCollectiveNamePrefix[] = "spmd";

// State that the computations of a module share.
struct PartitionContext {
  Module* module = nullptr;
  int64_t replicas = 1, partitions = 1;
  int64_t next_channel = 1;
  // Ids of the instructions in manual regions. Not pointers, because a new instruction may reuse the address of a
  // removed one.
  absl::flat_hash_set<int64_t> manual;
  bool IsManual(const Instruction* i) const { return manual.contains(i->id()); }
  // Set for a trial run on a copy of the module. It fills `sharding_groups` and `requested_loop_tilings` for the real
  // run.
  bool is_trial = false;
  // By name of the sharding group: the finest tiling of its members.
  std::map<std::string, Tiling> sharding_groups;
  // By name of the loop and element of its state: the tiling that users of the result request.
  std::map<std::pair<std::string, int64_t>, Tiling> requested_loop_tilings;

  PropagatedTilings propagated;
  const Tiling* FindPropagated(const Instruction* i, int64_t element = 0) const {
    auto at = propagated.find({i->id(), element});
    return at == propagated.end() ? nullptr : &at->second;
  }

  // Adds the instructions of `c` that are in manual regions, and those of the computations that it executes.
  // `parameters_are_manual` tells whether `c` is called from within a manual region.
  void MarkManual(const Computation* c, bool parameters_are_manual);
};

// Converts the tiling of partial sums to the tiling of their sum: drops the last dimension.
Tiling DropPartialDim(const Tiling& partial_tiling);

// Prepends the name of `i` to the message of an error.
absl::Status PrependName(const Instruction* i, const absl::Status& s);

class Partitioner {
 public:
  struct Shards {
    Instruction* value = nullptr;
    Tiling tiling;
  };

  // `depth` is the number of loops around the computation.
  Partitioner(Computation* computation, PartitionContext* context, int depth = 0)
      : c_(computation), context_(*context), partitions_(context->partitions), depth_(depth) {}

  // Partitions all instructions except parameters, in order, and the computations that they execute. Returns whether
  // anything changed.
  absl::StatusOr<bool> Rewrite();
  // Removes instructions with side effects that Rewrite replaced. Call it after dead code has been removed.
  absl::Status RemoveReplaced();

  // Changes the parameter to its shard shape and replaces it by the full value for its users. Returns false, and
  // changes nothing, if the sharding is replicated.
  absl::StatusOr<bool> ShardParameter(Instruction* parameter, const Sharding& sharding);
  // Returns the shards of `full` under `tiling`, which must divide the shape. Adds slices and all-gathers as needed.
  absl::StatusOr<Instruction*> ReshardTo(Instruction* full, const Tiling& tiling);
  // Returns null if `full` has no known shards.
  const Shards* FindShards(const Instruction* full) const;
  // Like ReshardTo for a tiling that does not divide the shape: pads the last shards with zeros.
  absl::StatusOr<Instruction*> ReshardPadded(Instruction* full, const Tiling& tiling);
  // Returns partial sums of `full`. The last dimension of `partial_tiling` numbers the partial sums.
  absl::StatusOr<Instruction*> ReshardToPartial(Instruction* full, const Tiling& partial_tiling);
  // Returns null if `full` has no known partial sums.
  const Shards* FindPartial(const Instruction* full) const;

 private:
  using MaybeShards = absl::StatusOr<std::optional<Shards>>;

  // local_rules.cc. Each rule returns the shards of the result, or nullopt if it does not apply.
  MaybeShards ComputeOnShards(Instruction* i);
  MaybeShards PartitionReshape(Instruction* i);
  MaybeShards PartitionReduce(Instruction* i);
  MaybeShards PartitionDot(Instruction* i);
  MaybeShards PartitionConvolution(Instruction* i);
  // Splits an operation whose operands with factors list the same ones, in the same order. Each element of a tuple has
  // the tiling that is returned.
  MaybeShards PartitionAlongFactors(Instruction* i);
  // Returns the tiling with the most tiles of those of the operands, restricted to the dimensions along which each
  // shard of the result needs one shard of every operand. None if no operand has tiles there.
  std::optional<Tiling> ChooseOperandTiling(const Instruction& i, const Factors& factors) const;
  // `tiling` has one dimension for each factor, `factors` lists those of the dimensions of `x`. Splits dimensions of
  // `tiling` that are not split yet like the shards of `x`.
  void SplitFactorsLike(const Instruction* x, const Ints& factors, Tiling& tiling) const;
  MaybeShards PartitionGather(Instruction* i);
  MaybeShards PartitionScatter(Instruction* i);
  MaybeShards PartitionScatterByUpdates(Instruction* i);
  // These two replace an operation with several results, if it can be split. Return whether they have done so.
  absl::StatusOr<bool> PartitionBatchedCall(Instruction* i);
  absl::StatusOr<bool> PartitionMultiOutput(Instruction* i);

  // slicing.cc
  // Recomputes `full` on slices of its operands. Returns null if slicing the result is cheaper.
  absl::StatusOr<Instruction*> RecomputeSlice(Instruction* full, const Tiling& tiling);
  absl::StatusOr<Instruction*> SliceIota(Instruction* iota, const Tiling& tiling);
  absl::StatusOr<Instruction*> GatherAndSlice(Instruction* full, const Tiling& tiling);

  // partial_sums.cc
  static bool IsZero(const Instruction* x);  // a constant, or a broadcast of one
  static bool IsFinite(const Instruction* x);
  // Whether partial sums of `full`, which is annotated as unreduced, are available without communication.
  bool IsPartial(Instruction* full, const Tiling& partial_tiling) const;
  // The same for a value that is not annotated. It is no product of partial sums with a factor that may be infinite: a
  // partition with a partial sum of 0 would compute 0 * inf. An annotation of the product asks for that.
  bool IsImplicitlyPartial(Instruction* full, const Tiling& partial_tiling) const;
  // What one search has found of values and tilings, so that shared ones are searched once. There are few tilings of a
  // value.
  using PartialAnswers = absl::flat_hash_map<const Instruction*, std::vector<std::pair<Tiling, bool>>>;
  bool SearchPartial(Instruction* full, const Tiling& partial_tiling, int depth, PartialAnswers& answers) const;
  bool ComputeIsPartial(Instruction* full, const Tiling& partial_tiling, int depth, PartialAnswers& answers) const;
  // Returns the partial tiling of a value that `full` adds up or contains, through linear operations; none if there is
  // no such value. IsPartial tells whether `full` itself is partial.
  // `seen` holds the values in which none was found, so that shared ones are searched once.
  std::optional<Tiling> FindPartialSummand(Instruction* full, absl::flat_hash_set<const Instruction*>& seen) const;
  absl::StatusOr<Instruction*> ComputeOnPartials(Instruction* full, const Tiling& partial_tiling);
  absl::StatusOr<Instruction*> PlaceShardsInZeros(Instruction* full, const Tiling& partial_tiling);
  Instruction* FindUnreducedOperand(Instruction* shard, const Tiling& partial_tiling) const;
  absl::StatusOr<Instruction*> ReducePartial(const Shards& partial, const Instruction* like);

  // padded_shards.cc
  // Returns shards along the evenly split dimensions only, without padding.
  Shards RemovePadding(Shards shards, const Shape& full_shape, const Instruction* like);

  // annotated_values.cc
  absl::Status HandleAnnotation(Instruction* i);
  absl::Status HandleShardingGroup(Instruction* i);

  // manual_regions.cc
  absl::Status EnterManualRegion(Instruction* i);
  absl::Status LeaveManualRegion(Instruction* i);
  absl::StatusOr<Tiling> AdjustBoundaryTiling(const Instruction* i, Tiling tiling, const Shape& full,
                                              const Shape& shard);

  // single_device.cc
  absl::Status RunOnOneDevice(Instruction* i, int64_t device);
  absl::Status BroadcastRandomValue(Instruction* i);

  // custom_partitioning.cc
  // Returns the tiling of the known shards, else the propagated tiling, else Replicated.
  Tiling GetTiling(const Instruction* full) const;
  absl::Status ReportSharding(Instruction* i, const CustomPartitioning& host);
  absl::Status PartitionByHost(Instruction* i, const CustomPartitioning& host);

  // loops.cc
  absl::Status RewriteLoop(Instruction* loop);
  absl::Status RewriteCalledComputations(Instruction* i);

  // collectives.cc
  Instruction* AllGather(const Shards& shards, const Instruction* like);
  Instruction* AllGatherAlong(Instruction* x, const Tiling& tiling, int64_t dim, const Instruction* like);
  // `groups` lists partitions. The collective does the same for each replica.
  Instruction* AddCollective(const Instruction* like, Opcode opcode, const Shape& shape,
                             std::vector<Instruction*> operands, const std::vector<Ints>& groups, Attributes attrs = {},
                             std::vector<Computation*> called = {});
  Instruction* AddAllReduce(const Instruction* like, Instruction* partial, Computation* body,
                            const std::vector<Ints>& groups);
  Instruction* AddOp(const Instruction* like, Opcode opcode, const Shape& shape, std::vector<Instruction*> operands,
                     Attributes attrs = {}, std::vector<Computation*> called = {});
  Instruction* GetPartitionId(PrimitiveType type);
  // Returns the type for offsets into an array, padding included: s32 if it holds them, else s64.
  static PrimitiveType ChooseOffsetType(const Shape& full);
  // Returns a scalar of `type`: the tile index of this partition along `dim`, times `step`.
  Instruction* GetShardOffset(const Tiling& tiling, int64_t dim, int64_t step,
                              PrimitiveType type = PrimitiveType::kS32);
  // Replaces `full` by an all-gather of `shards` and records them. Returns the replacement.
  Instruction* ReplaceWithShards(Instruction* full, Shards shards);
  // The same for all results of `full`, a tuple of arrays. `tilings` are those of the elements of `on_shards`.
  void ReplaceWithShardsOfTuple(Instruction* full, Instruction* on_shards, std::vector<Tiling> tilings);
  // Reshards the value to its propagated tiling if that needs no communication.
  absl::Status ApplyPropagatedTiling(Instruction* full, const Tiling& propagated);
  // Replaces `x` by `by` in `users`, and as the root.
  void ReplaceUses(Instruction* x, Instruction* by, const std::vector<Instruction*>& users);

  Computation* const c_;
  PartitionContext& context_;
  const int64_t partitions_;
  const int depth_;
  int recompute_depth_ = 0;  // of nested calls of RecomputeSlice
  absl::flat_hash_map<const Instruction*, Shards> shards_, partial_;
  // Values annotated as partial although they have been reduced already.
  absl::flat_hash_set<const Instruction*> already_reduced_;
  absl::flat_hash_map<const Instruction*, std::vector<Shards>> slices_;
  std::map<std::pair<PrimitiveType, Ints>, Instruction*> offsets_;
  Instruction* partition_id_ = nullptr;
  std::vector<Instruction*> replaced_;
  // Loop results that are replicated: name of the loop and element of its state.
  absl::flat_hash_map<const Instruction*, std::pair<std::string, int64_t>> replicated_loop_results_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_PARTITIONER_H_
