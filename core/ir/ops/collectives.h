// Operations of several devices together, and their asynchronous halves.
//
// replica_groups lists, in order, which participants work together; empty means all replicas in one group. What the ids
// are depends on the channel and on use_global_device_ids (which needs a channel): core/analysis/process_groups.h. An
// operand that is a tuple of arrays counts as as many operands, and the result is a tuple again. Errors common to all:
// an id stands twice or is negative, global ids without a channel, groups of different sizes where a dimension changes
// by the size. Their labels are those of StableHLO's rules, e.g. [all_gather_c2], [all_reduce_c1].
#ifndef BACKPLANE_CORE_IR_OPS_COLLECTIVES_H_
#define BACKPLANE_CORE_IR_OPS_COLLECTIVES_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

using Channel = std::optional<ChannelHandle>;
using LayoutHint = std::optional<Layout>;  // the result has this layout and must keep it

// One after another along a dimension, which becomes shard_count times as large.
Result AllGather(Builder& b, Value operand, int64_t all_gather_dimension, int64_t shard_count,
                 const ReplicaGroups& replica_groups = {}, Channel channel_id = {}, LayoutHint layout = {},
                 std::optional<bool> use_global_device_ids = {});
// Reduced element by element with a computation of two scalars. shape_with_layout: the result's shape, layout kept.
Result AllReduce(Builder& b, Value operand, Computation* computation, const ReplicaGroups& replica_groups = {},
                 Channel channel_id = {}, const std::optional<Shape>& shape_with_layout = {},
                 std::optional<bool> use_global_device_ids = {});
// AllReduce with addition. One element type in a tuple.
Result CrossReplicaSum(Builder& b, Value operand, const ReplicaGroups& replica_groups = {});
// Block i of split_count along split_dimension goes to member i; what arrives is joined along concat_dimension.
Result AllToAll(Builder& b, Value operand, int64_t split_dimension, int64_t concat_dimension, int64_t split_count,
                const ReplicaGroups& replica_groups = {}, LayoutHint layout = {}, Channel channel_id = {});
// Rows [input_offsets[i], + send_sizes[i]) of input go to peer i, into its output at output_offsets[i].
Result RaggedAllToAll(Builder& b, Value input, Value input_offsets, Value send_sizes, Value output,
                      Value output_offsets, Value recv_sizes, const ReplicaGroups& replica_groups = {},
                      Channel channel_id = {});
// From each group's first member to the others; who is in no group gets zeros.
Result CollectiveBroadcast(Builder& b, Value operand, const ReplicaGroups& replica_groups, Channel channel_id = {});
// From source to target; who is no target gets zeros.
Result CollectivePermute(Builder& b, Value operand, const Pairs& source_target_pairs, Channel channel_id = {},
                         std::optional<bool> inplace = {});
// AllReduce of which member i keeps block i of shard_count along scatter_dimension.
Result ReduceScatter(Builder& b, Value operand, Computation* computation, int64_t scatter_dimension,
                     int64_t shard_count, const ReplicaGroups& replica_groups = {}, Channel channel_id = {},
                     LayoutHint layout = {}, std::optional<bool> use_global_device_ids = {});
// u32[].
Result ReplicaId(Builder& b);
Result BuildPartitionId(Builder& b, const Shape& shape);

// Halves, of HLO level. A start has the arguments of the whole; its one user is the done, which yields the result. The
// operand must not change in between.
Result CreateAllGatherStart(Builder& b, Value operand, int64_t all_gather_dimension, int64_t shard_count,
                            const ReplicaGroups& replica_groups = {}, Channel channel_id = {}, LayoutHint layout = {},
                            std::optional<bool> use_global_device_ids = {});
Result AllGatherDone(Builder& b, Value operand);
Result CreateAllReduceStart(Builder& b, Value operand, Computation* computation,
                            const ReplicaGroups& replica_groups = {}, Channel channel_id = {},
                            const std::optional<Shape>& shape_with_layout = {},
                            std::optional<bool> use_global_device_ids = {});
Result AllReduceDone(Builder& b, Value operand);
Result CreateCollectivePermuteStart(Builder& b, Value operand, const Pairs& source_target_pairs,
                                    Channel channel_id = {}, std::optional<bool> inplace = {});
Result CollectivePermuteDone(Builder& b, Value operand);
// Begins a copy; its done yields it.
Result CreateCopyStart(Builder& b, Value operand);
Result CopyDone(Builder& b, Value operand);
// Begins a computation, on the thread of that name ("" the main one); updates may follow, and one done.
Result CreateAsyncStart(Builder& b, Computation* computation, std::vector<Value> operands,
                        std::string async_execution_thread = "");
Result CreateAsyncUpdate(Builder& b, Value operand);
Result CreateAsyncDone(Builder& b, Value operand);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_COLLECTIVES_H_
