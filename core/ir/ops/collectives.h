// Collectives, replica and partition ids, and the start and done halves of asynchronous operations.
//
// `replica_groups` lists, in order, the ids of the members of each group. An empty list means one group of all ids.
// Whether an id is a replica, a partition or a device depends on the channel and on use_global_device_ids, which
// requires a channel (core/analysis/process_groups.h). A tuple of arrays counts as several operands, and the result is
// then a tuple as well, except in AllToAll and RaggedAllToAll, which take arrays only.
//
// Errors that most functions return: an id is negative or listed twice, global ids without a channel, groups of
// different sizes where the group size determines the size of a dimension. Their labels are those of the rules of
// StableHLO, for example [all_gather_c2] and [all_reduce_c1].
#ifndef BACKPLANE_CORE_IR_OPS_COLLECTIVES_H_
#define BACKPLANE_CORE_IR_OPS_COLLECTIVES_H_

#include "core/ir/ops/common.h"

namespace backplane::hlo {

using Channel = std::optional<ChannelHandle>;
using LayoutHint = std::optional<Layout>;  // the result has this layout and must keep it

// Concatenates the operands of the group members along all_gather_dimension, whose size becomes shard_count times as
// large.
Result AllGather(Builder& b, Value operand, int64_t all_gather_dimension, int64_t shard_count,
                 const ReplicaGroups& replica_groups = {}, Channel channel_id = {}, LayoutHint layout = {},
                 std::optional<bool> use_global_device_ids = {});
// Reduces the operands of the group members elementwise. `computation` combines two scalars. `shape_with_layout`, if
// given, is the shape of the result, whose layout is then fixed.
Result AllReduce(Builder& b, Value operand, Computation* computation, const ReplicaGroups& replica_groups = {},
                 Channel channel_id = {}, const std::optional<Shape>& shape_with_layout = {},
                 std::optional<bool> use_global_device_ids = {});
// AllReduce with addition. The elements of a tuple must have one element type.
Result CrossReplicaSum(Builder& b, Value operand, const ReplicaGroups& replica_groups = {});
// Splits the operand, one array, into split_count blocks along split_dimension and sends block i to member i of the
// group. Concatenates the received blocks along concat_dimension.
Result AllToAll(Builder& b, Value operand, int64_t split_dimension, int64_t concat_dimension, int64_t split_count,
                const ReplicaGroups& replica_groups = {}, LayoutHint layout = {}, Channel channel_id = {});
// Sends send_sizes[i] rows of `input`, from input_offsets[i] on, to member i, which writes them to its `output` from
// output_offsets[i] on. Each operand is one array.
Result RaggedAllToAll(Builder& b, Value input, Value input_offsets, Value send_sizes, Value output,
                      Value output_offsets, Value recv_sizes, const ReplicaGroups& replica_groups = {},
                      Channel channel_id = {});
// Sends the value of the first member of each group to the other members. Processes in no group receive zeros.
Result CollectiveBroadcast(Builder& b, Value operand, const ReplicaGroups& replica_groups, Channel channel_id = {});
// Sends the value of each source to its target. Processes that are no target receive zeros.
Result CollectivePermute(Builder& b, Value operand, const Pairs& source_target_pairs, Channel channel_id = {},
                         std::optional<bool> inplace = {});
// Like AllReduce, but member i receives only block i of shard_count along scatter_dimension.
Result ReduceScatter(Builder& b, Value operand, Computation* computation, int64_t scatter_dimension,
                     int64_t shard_count, const ReplicaGroups& replica_groups = {}, Channel channel_id = {},
                     LayoutHint layout = {}, std::optional<bool> use_global_device_ids = {});
// ReplicaId returns a u32[]. BuildPartitionId returns the partition id in the given shape.
Result ReplicaId(Builder& b);
Result BuildPartitionId(Builder& b, const Shape& shape);

// Start and done halves, which exist in HLO only. A start takes the arguments of the complete operation. Its only user
// is the done, which returns the result. The operand must not change in between.
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
// Starts a copy. The done half returns it.
Result CreateCopyStart(Builder& b, Value operand);
Result CopyDone(Builder& b, Value operand);
// Starts a computation on the execution thread of this name; "" is the main thread. Any number of updates may follow,
// then one done.
Result CreateAsyncStart(Builder& b, Computation* computation, std::vector<Value> operands,
                        std::string async_execution_thread = "");
Result CreateAsyncUpdate(Builder& b, Value operand);
Result CreateAsyncDone(Builder& b, Value operand);

}  // namespace backplane::hlo

#endif  // BACKPLANE_CORE_IR_OPS_COLLECTIVES_H_
