// Works on one computation for PartitionModule; declared for its own source files.
//
// Every value of the computation stays a whole array (or, in a manual region, what it is). Beside that some values are
// known to lie on the partitions as shards. A rule that can compute an operation's result from shards makes the local
// operation; a gather of it takes the place of the whole result, and goes again when nobody needs it.
//
//   slicing.cc      a whole value under a tiling: slices, and operations worked out anew on slices
//   exchange.cc     gathers, a partition's place
//   partial_sums.cc values that are still to be added up
//   uneven.cc       shards that were filled up to be of equal size
//   local_rules.cc  operations on shards, one rule for each kind
//   boundaries.cc   parameters, annotations, manual regions, calls that happen once
//   loops.cc        loops whose state lies as shards
//   custom_partitioning.cc  calls that ask the host how they are split
#ifndef BACKPLANE_CORE_PASSES_PARTITION_PARTITIONER_H_
#define BACKPLANE_CORE_PASSES_PARTITION_PARTITIONER_H_

#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/module.h"
#include "core/passes/partition/annotations.h"
#include "core/passes/partition/custom_partitioning.h"
#include "core/passes/partition/propagation.h"
#include "core/passes/partition/tiling.h"

namespace backplane {

// The names of instructions that the partitioner made for an exchange begin so.
inline constexpr char kExchangeName[] = "spmd";

// What the computations of a module share.
struct PartitionContext {
  Module* module = nullptr;
  int64_t replicas = 1, partitions = 1;
  int64_t next_channel = 1;
  // Instructions of manual regions, by id: those that are gone make room for others at their address.
  absl::flat_hash_set<int64_t> manual;
  bool IsManual(const Instruction* i) const { return manual.contains(i->id()); }
  // Values that are to lie alike, by the name of their group: how some of them lie. Filled by `learning` runs.
  bool learning = false;
  std::map<std::string, Tiling> groups;
  // How results of loops are wanted by what comes after them, by the loop's name and the element of its state.
  std::map<std::pair<std::string, int64_t>, Tiling> wanted;

  // How values of the program are to lie, where its own word or that of their neighbours says so.
  ProposedTilings proposed;
  const Tiling* Proposed(const Instruction* i, int64_t element = 0) const {
    auto at = proposed.find({i->id(), element});
    return at == proposed.end() ? nullptr : &at->second;
  }

  // Adds the manual instructions of a computation and of those it runs; `parameters`: its parameters are inside.
  void MarkManual(const Computation* c, bool parameters);
};

// The tiles of an array whose partial sums lie so: without the dimension that numbers the parts.
Tiling TilesOfParts(const Tiling& parts);

class Partitioner {
 public:
  struct Shards {
    Instruction* value = nullptr;
    Tiling tiling;
  };

  Partitioner(Computation* computation, PartitionContext* context, int depth = 0)
      : c_(computation), context_(*context), partitions_(context->partitions), depth_(depth) {}

  // All instructions but the parameters, in order, and the computations they run. True when something changed.
  absl::StatusOr<bool> Rewrite();
  // Takes out what Rewrite replaced though it has effects. After dead code is gone.
  absl::Status RemoveReplaced();

  // A parameter that comes as shards: takes their shape, users see the whole. False where each partition has all of it.
  absl::StatusOr<bool> ShardParameter(Instruction* parameter, const Sharding& sharding);
  // The value under a tiling: its shards where they are known, else a slice of the whole.
  absl::StatusOr<Instruction*> SliceTo(Instruction* whole, const Tiling& tiling);
  const Shards* FindShards(const Instruction* whole) const;
  // The same under a tiling that does not divide the value: with zeros behind its end (uneven.cc).
  absl::StatusOr<Instruction*> WithFilling(Instruction* whole, const Tiling& tiling);
  // Partial sums of a value: the tiling has one more dimension than it, the number of the part.
  absl::StatusOr<Instruction*> PartialTo(Instruction* whole, const Tiling& parts);
  const Shards* FindPartial(const Instruction* whole) const;

 private:
  using MaybeShards = absl::StatusOr<std::optional<Shards>>;

  // local_rules.cc: the result's shards out of the operands' shards; nullopt where no rule fits.
  MaybeShards ComputeLocally(Instruction* i);
  MaybeShards Elementwise(Instruction* i);
  MaybeShards Broadcast(Instruction* i);
  MaybeShards Transpose(Instruction* i);
  MaybeShards Reshape(Instruction* i);
  MaybeShards Reduce(Instruction* i);
  MaybeShards Dot(Instruction* i);
  MaybeShards Convolution(Instruction* i);
  MaybeShards AlongOthers(Instruction* i);
  MaybeShards Rows(Instruction* i);
  MaybeShards Windows(Instruction* i);
  MaybeShards UpdatesInParts(Instruction* i);
  absl::StatusOr<bool> BatchedCall(Instruction* i);

  // slicing.cc: the operation itself on slices of its operands; null where that is no gain.
  absl::StatusOr<Instruction*> ComputeSlice(Instruction* whole, const Tiling& tiling);
  absl::StatusOr<Instruction*> SliceIota(Instruction* iota, const Tiling& tiling);
  absl::StatusOr<Instruction*> Cut(Instruction* whole, const Tiling& tiling);

  // partial_sums.cc: whether a value has parts under `parts` without an exchange, and they; the sum of some.
  bool IsInParts(Instruction* whole, const Tiling& parts, int depth) const;
  absl::StatusOr<Instruction*> OnParts(Instruction* whole, const Tiling& parts);
  absl::StatusOr<Instruction*> AmongZeros(Instruction* whole, const Tiling& parts);
  Instruction* AddendOf(Instruction* shard, const Tiling& parts) const;
  static Tiling TransposedParts(const Instruction* transpose, const Tiling& parts);
  absl::StatusOr<Instruction*> SumParts(const Shards& partial, const Instruction* like);

  // uneven.cc: shards that may be filled up, as shards along the dimensions that divide.
  Shards WithoutFilling(Shards shards, const Shape& whole, const Instruction* like);

  // boundaries.cc
  absl::Status Annotation(Instruction* i);
  absl::Status Alike(Instruction* i);
  absl::Status EnterManual(Instruction* i);
  absl::Status LeaveManual(Instruction* i);
  absl::Status RunOnce(Instruction* i, int64_t device);
  absl::Status DrawOnce(Instruction* i);
  absl::StatusOr<Tiling> BoundaryTiling(const Instruction* i, Tiling tiling, const Shape& whole, const Shape& shard);

  // custom_partitioning.cc
  Tiling TilingOf(const Instruction* whole) const;  // as it lies, else as it is to lie
  absl::Status Inspect(Instruction* i, const CustomPartitioning& host);
  absl::Status SplitAsHostSays(Instruction* i, const CustomPartitioning& host);

  // loops.cc
  absl::Status RewriteLoop(Instruction* loop);
  absl::Status RewriteCalled(Instruction* i);

  // exchange.cc
  Instruction* Gather(const Shards& shards, const Instruction* like);
  Instruction* GatherAlong(Instruction* x, const Tiling& tiling, int64_t dim, const Instruction* like);
  Instruction* Exchange(const Instruction* like, Opcode opcode, const Shape& shape, std::vector<Instruction*> operands,
                        const std::vector<Ints>& groups, Attributes attrs = {}, std::vector<Computation*> called = {});
  Instruction* AllReduce(const Instruction* like, Instruction* partial, Computation* body,
                         const std::vector<Ints>& groups);
  Instruction* Op(const Instruction* like, Opcode opcode, const Shape& shape, std::vector<Instruction*> operands,
                  Attributes attrs = {}, std::vector<Computation*> called = {});
  Instruction* PartitionNumber(PrimitiveType type);
  // For places in `whole`, what fills up uneven shards included: s32 where that holds them, else s64.
  static PrimitiveType OffsetType(const Shape& whole);
  // Of this partition: the number of an array's tile along a dimension, times `step`. `type` must hold the highest one.
  Instruction* Offset(const Tiling& tiling, int64_t dim, int64_t step, PrimitiveType type = PrimitiveType::kS32);
  // The whole value `whole` is computed as `shards` from here on; returns what stands for it.
  Instruction* Adopt(Instruction* whole, Shards shards);
  // Has a value lie as proposed too, where that takes no exchange.
  absl::Status Follow(Instruction* whole, const Tiling& proposed);
  // All users of `x` that there are now, the root too, see `by` instead. For values that stay in the program.
  void Redirect(Instruction* x, Instruction* by, const std::vector<Instruction*>& users);

  Computation* const c_;
  PartitionContext& context_;
  const int64_t partitions_;
  const int depth_;  // loops around this computation
  int slicing_ = 0;  // operations above the one that is being sliced
  absl::flat_hash_map<const Instruction*, Shards> shards_, partial_;
  absl::flat_hash_set<const Instruction*> summed_;  // annotated as partial sums where the sum had been taken already
  absl::flat_hash_map<const Instruction*, std::vector<Shards>> slices_;
  std::map<std::pair<PrimitiveType, Ints>, Instruction*> offsets_;
  Instruction* partition_ = nullptr;
  std::vector<Instruction*> replaced_;
  absl::flat_hash_map<const Instruction*, std::pair<std::string, int64_t>> loop_results_;  // that are whole
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_PARTITIONER_H_
