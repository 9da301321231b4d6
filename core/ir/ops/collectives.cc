#include "core/ir/ops/collectives.h"

#include <algorithm>

#include "core/ir/ops/internal.h"

namespace backplane::hlo {
namespace {

using internal::Fail;
using internal::RuleLabel;

Attributes CollectiveAttributes(const ReplicaGroups& groups, const Channel& channel,
                                const std::optional<bool>& use_global_device_ids) {
  Attributes attrs;
  attrs.Set(AttrId::kReplicaGroups, groups);
  if (channel && channel->handle > 0) attrs.Set(AttrId::kChannelId, channel->handle);
  if (use_global_device_ids) attrs.Set(AttrId::kUseGlobalDeviceIds, *use_global_device_ids);
  return attrs;
}

// An operation on the elements of a tuple makes a tuple, even of one.
absl::StatusOr<Value> Like(Builder& b, Value operand, Value result) {
  if (!operand->shape().IsTuple() || result->shape().IsTuple()) return result;
  return b.Tuple({result});
}

absl::StatusOr<std::vector<Value>> Arrays(Builder& b, Opcode opcode, Value operand) {
  ASSIGN_OR_RETURN(std::vector<Value> elements, internal::Elements(b, opcode, operand));
  if (elements.empty()) return Fail(opcode, RuleLabel(opcode, "arity"), "needs an operand, found an empty tuple");
  RETURN_IF_ERROR(internal::CheckArrays(b, opcode, elements));
  return elements;
}

Shape Together(std::vector<Shape> shapes) {
  return shapes.size() == 1 ? std::move(shapes[0]) : Shape::Tuple(std::move(shapes));
}

Shape GetShape(const std::vector<Value>& values) {
  std::vector<Shape> shapes;
  for (Value v : values) shapes.push_back(v->shape().WithoutLayout());
  return Together(std::move(shapes));
}

// The operands with one dimension multiplied (gather) or divided by `count`.
absl::StatusOr<Shape> Resized(Opcode opcode, const std::vector<Value>& operands, int64_t dimension, int64_t count,
                              bool gather, const LayoutHint& layout) {
  std::vector<Shape> shapes;
  for (Value v : operands) {
    const Shape& x = v->shape();
    if (dimension < 0 || dimension >= x.rank()) {
      return Fail(opcode, gather ? "all_gather_c1" : "reduce_scatter_c2", "dimension ", dimension, " is not one of ",
                  x.ToString());
    }
    if (count < 1) {
      return Fail(opcode, gather ? "all_gather_c6" : "reduce_scatter_c8", "shard count ", count, " is not positive");
    }
    int64_t size = x.dimensions(dimension);
    if (gather) {
      ASSIGN_OR_RETURN(size, internal::Product(opcode, "all_gather_c6", size, count));
    } else if (size % count != 0) {
      return Fail(opcode, "reduce_scatter_c1", "dim ", dimension, " of ", x.ToString(),
                  " is not divisible by shard count ", count);
    } else {
      size /= count;
    }
    Shape result = x.WithoutLayout();
    result.set_dimension(dimension, size);
    if (layout) result.set_layout(*layout);
    shapes.push_back(std::move(result));
  }
  return Together(std::move(shapes));
}

struct Parts {
  std::vector<Value> operands;
  Attributes attrs;
  Shape result;
};

absl::StatusOr<Parts> GatherParts(Builder& b, Opcode opcode, Value operand, int64_t dimension, int64_t shard_count,
                                  const ReplicaGroups& groups, const Channel& channel, const LayoutHint& layout,
                                  const std::optional<bool>& global) {
  Parts p;
  ASSIGN_OR_RETURN(p.operands, Arrays(b, opcode, operand));
  ASSIGN_OR_RETURN(p.result, Resized(opcode, p.operands, dimension, shard_count, true, layout));
  p.attrs = CollectiveAttributes(groups, channel, global);
  p.attrs.Set(AttrId::kDimensions, Ints{dimension});
  if (layout) p.attrs.Set(AttrId::kConstrainLayout, true);
  return p;
}

absl::StatusOr<Parts> ReduceParts(Builder& b, Opcode opcode, Value operand, const ReplicaGroups& groups,
                                  const Channel& channel, const std::optional<Shape>& shape_with_layout,
                                  const std::optional<bool>& global) {
  Parts p;
  ASSIGN_OR_RETURN(p.operands, Arrays(b, opcode, operand));
  p.attrs = CollectiveAttributes(groups, channel, global);
  p.result = GetShape(p.operands);
  if (shape_with_layout) {
    // A tuple of one is an operand of its own here.
    const Shape& given = *shape_with_layout;
    const bool one = given.IsTuple() && given.tuple_size() == 1 && p.operands.size() == 1;
    p.result = one ? given.tuple_shapes(0) : given;
    p.attrs.Set(AttrId::kConstrainLayout, true);
  }
  return p;
}

absl::StatusOr<Parts> PermuteParts(Builder& b, Opcode opcode, Value operand, const Pairs& pairs, const Channel& channel,
                                   const std::optional<bool>& inplace) {
  Parts p;
  ASSIGN_OR_RETURN(p.operands, Arrays(b, opcode, operand));
  if (channel && channel->handle > 0) p.attrs.Set(AttrId::kChannelId, channel->handle);
  p.attrs.Set(AttrId::kSourceTargetPairs, pairs);
  if (inplace) p.attrs.Set(AttrId::kInplace, *inplace);
  p.result = GetShape(p.operands);
  return p;
}

}  // namespace

Result AllGather(Builder& b, Value operand, int64_t all_gather_dimension, int64_t shard_count,
                 const ReplicaGroups& replica_groups, Channel channel_id, LayoutHint layout,
                 std::optional<bool> use_global_device_ids) {
  ASSIGN_OR_RETURN(Parts p, GatherParts(b, Opcode::kAllGather, operand, all_gather_dimension, shard_count,
                                        replica_groups, channel_id, layout, use_global_device_ids));
  ASSIGN_OR_RETURN(Value y, b.Op(Opcode::kAllGather, p.operands, std::move(p.attrs), {}, std::move(p.result)));
  return Like(b, operand, y);
}

Result AllReduce(Builder& b, Value operand, Computation* computation, const ReplicaGroups& replica_groups,
                 Channel channel_id, const std::optional<Shape>& shape_with_layout,
                 std::optional<bool> use_global_device_ids) {
  ASSIGN_OR_RETURN(Parts p, ReduceParts(b, Opcode::kAllReduce, operand, replica_groups, channel_id, shape_with_layout,
                                        use_global_device_ids));
  ASSIGN_OR_RETURN(Value y,
                   b.Op(Opcode::kAllReduce, p.operands, std::move(p.attrs), {computation}, std::move(p.result)));
  return Like(b, operand, y);
}

Result CrossReplicaSum(Builder& b, Value operand, const ReplicaGroups& replica_groups) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kAllReduce, {operand}));
  const Shape& s = operand->shape();
  const Shape& first = s.IsTuple() && s.tuple_size() > 0 ? s.tuple_shapes(0) : s;
  for (const Shape& t : s.tuple_shapes()) {
    if (t.element_type() != first.element_type()) {
      return Fail(Opcode::kAllReduce, "cross_replica_sum_types", "the elements of ", s.ToString(), " differ in type");
    }
  }
  if (!first.IsArray()) {
    return Fail(Opcode::kAllReduce, "all_reduce_operand", "operand 0 must be an array or a tuple of such, found ",
                s.ToString());
  }
  ASSIGN_OR_RETURN(Computation * add, MakeScalarBinaryComputation(b.module(), Opcode::kAdd, first.element_type()));
  return AllReduce(b, operand, add, replica_groups);
}

// HLO's array form exchanges blocks of one dimension in place. When the pieces are to be joined along another one, the
// block number gets a dimension of its own, is exchanged, moved there and merged.
Result AllToAll(Builder& b, Value operand, int64_t split_dimension, int64_t concat_dimension, int64_t split_count,
                const ReplicaGroups& replica_groups, LayoutHint layout, Channel channel_id) {
  constexpr Opcode kOp = Opcode::kAllToAll;
  RETURN_IF_ERROR(internal::CheckArrays(b, kOp, {operand}));
  const Shape x = operand->shape().WithoutLayout();
  if (split_dimension < 0 || split_dimension >= x.rank()) {
    return Fail(kOp, "all_to_all_c1", "split dimension ", split_dimension, " is not one of ", x.ToString());
  }
  if (concat_dimension < 0 || concat_dimension >= x.rank()) {
    return Fail(kOp, "all_to_all_c3", "concat dimension ", concat_dimension, " is not one of ", x.ToString());
  }
  if (split_count < 1) return Fail(kOp, "all_to_all_c4", "split count ", split_count, " is not positive");
  if (x.dimensions(split_dimension) % split_count != 0) {
    return Fail(kOp, "all_to_all_c2", "dim ", split_dimension, " of ", x.ToString(),
                " is not divisible by split count ", split_count);
  }
  if (auto other = replica_groups.FindOtherSize(split_count)) {
    return Fail(kOp, "all_to_all_c8", "split count is ", split_count, ", a group has ", *other, " members");
  }
  Attributes attrs = CollectiveAttributes(replica_groups, channel_id, std::nullopt);
  attrs.Set(AttrId::kDimensions, Ints{split_dimension});
  if (split_dimension == concat_dimension) {
    Shape result = x;
    if (layout) {
      result.set_layout(*layout);
      attrs.Set(AttrId::kConstrainLayout, true);
    }
    return b.Op(kOp, {operand}, std::move(attrs), {}, std::move(result));
  }
  ASSIGN_OR_RETURN(int64_t joined,
                   internal::Product(kOp, "all_to_all_c9", x.dimensions(concat_dimension), split_count));
  DimVector dims = x.dimensions();
  dims[split_dimension] /= split_count;
  dims.insert(dims.begin() + split_dimension, split_count);
  ASSIGN_OR_RETURN(Value y, b.Reshape(operand, dims));
  ASSIGN_OR_RETURN(y, b.Op(kOp, {y}, std::move(attrs), {}, y->shape()));
  Ints permutation;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d == concat_dimension) permutation.push_back(split_dimension);
    permutation.push_back(d < split_dimension ? d : d + 1);
  }
  ASSIGN_OR_RETURN(y, b.Transpose(y, permutation));
  Shape merged = x;
  merged.set_dimension(split_dimension, x.dimensions(split_dimension) / split_count);
  merged.set_dimension(concat_dimension, joined);
  if (layout) merged.set_layout(*layout);
  return b.Op(Opcode::kReshape, {y}, {}, {}, std::move(merged));
}

Result RaggedAllToAll(Builder& b, Value input, Value input_offsets, Value send_sizes, Value output,
                      Value output_offsets, Value recv_sizes, const ReplicaGroups& replica_groups, Channel channel_id) {
  return b.Op(Opcode::kRaggedAllToAll, {input, output, input_offsets, send_sizes, output_offsets, recv_sizes},
              CollectiveAttributes(replica_groups, channel_id, std::nullopt));
}

Result CollectiveBroadcast(Builder& b, Value operand, const ReplicaGroups& replica_groups, Channel channel_id) {
  ASSIGN_OR_RETURN(std::vector<Value> operands, Arrays(b, Opcode::kCollectiveBroadcast, operand));
  ASSIGN_OR_RETURN(Value y, b.Op(Opcode::kCollectiveBroadcast, std::move(operands),
                                 CollectiveAttributes(replica_groups, channel_id, std::nullopt)));
  return Like(b, operand, y);
}

Result CollectivePermute(Builder& b, Value operand, const Pairs& source_target_pairs, Channel channel_id,
                         std::optional<bool> inplace) {
  ASSIGN_OR_RETURN(Parts p,
                   PermuteParts(b, Opcode::kCollectivePermute, operand, source_target_pairs, channel_id, inplace));
  ASSIGN_OR_RETURN(Value y, b.Op(Opcode::kCollectivePermute, p.operands, std::move(p.attrs)));
  return Like(b, operand, y);
}

Result ReduceScatter(Builder& b, Value operand, Computation* computation, int64_t scatter_dimension,
                     int64_t shard_count, const ReplicaGroups& replica_groups, Channel channel_id, LayoutHint layout,
                     std::optional<bool> use_global_device_ids) {
  constexpr Opcode kOp = Opcode::kReduceScatter;
  ASSIGN_OR_RETURN(std::vector<Value> operands, Arrays(b, kOp, operand));
  ASSIGN_OR_RETURN(Shape result, Resized(kOp, operands, scatter_dimension, shard_count, false, layout));
  Attributes attrs = CollectiveAttributes(replica_groups, channel_id, use_global_device_ids);
  attrs.Set(AttrId::kDimensions, Ints{scatter_dimension});
  if (layout) attrs.Set(AttrId::kConstrainLayout, true);
  ASSIGN_OR_RETURN(Value y, b.Op(kOp, std::move(operands), std::move(attrs), {computation}, std::move(result)));
  return Like(b, operand, y);
}

Result ReplicaId(Builder& b) { return b.Op(Opcode::kReplicaId, {}, {}, {}, Shape::Scalar(PrimitiveType::kU32)); }
Result BuildPartitionId(Builder& b, const Shape& shape) { return b.Op(Opcode::kPartitionId, {}, {}, {}, shape); }

Result CreateAllGatherStart(Builder& b, Value operand, int64_t all_gather_dimension, int64_t shard_count,
                            const ReplicaGroups& replica_groups, Channel channel_id, LayoutHint layout,
                            std::optional<bool> use_global_device_ids) {
  ASSIGN_OR_RETURN(Parts p, GatherParts(b, Opcode::kAllGatherStart, operand, all_gather_dimension, shard_count,
                                        replica_groups, channel_id, layout, use_global_device_ids));
  Shape both = Shape::Tuple({GetShape(p.operands), std::move(p.result)});
  return b.Op(Opcode::kAllGatherStart, p.operands, std::move(p.attrs), {}, std::move(both));
}

Result AllGatherDone(Builder& b, Value operand) { return b.Op(Opcode::kAllGatherDone, {operand}); }

Result CreateAllReduceStart(Builder& b, Value operand, Computation* computation, const ReplicaGroups& replica_groups,
                            Channel channel_id, const std::optional<Shape>& shape_with_layout,
                            std::optional<bool> use_global_device_ids) {
  ASSIGN_OR_RETURN(Parts p, ReduceParts(b, Opcode::kAllReduceStart, operand, replica_groups, channel_id,
                                        shape_with_layout, use_global_device_ids));
  return b.Op(Opcode::kAllReduceStart, p.operands, std::move(p.attrs), {computation}, std::move(p.result));
}

Result AllReduceDone(Builder& b, Value operand) { return b.Op(Opcode::kAllReduceDone, {operand}); }

Result CreateCollectivePermuteStart(Builder& b, Value operand, const Pairs& source_target_pairs, Channel channel_id,
                                    std::optional<bool> inplace) {
  ASSIGN_OR_RETURN(Parts p,
                   PermuteParts(b, Opcode::kCollectivePermuteStart, operand, source_target_pairs, channel_id, inplace));
  Shape both = Shape::Tuple({p.result, p.result});
  return b.Op(Opcode::kCollectivePermuteStart, p.operands, std::move(p.attrs), {}, std::move(both));
}

Result CollectivePermuteDone(Builder& b, Value operand) { return b.Op(Opcode::kCollectivePermuteDone, {operand}); }

Result CreateCopyStart(Builder& b, Value operand) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kCopyStart, {operand}));
  const Shape x = operand->shape().WithoutLayout();
  return b.Op(Opcode::kCopyStart, {operand}, {}, {}, Shape::Tuple({x, x, Shape::Scalar(PrimitiveType::kU32)}));
}

Result CopyDone(Builder& b, Value operand) { return b.Op(Opcode::kCopyDone, {operand}); }

Result CreateAsyncStart(Builder& b, Computation* computation, std::vector<Value> operands,
                        std::string async_execution_thread) {
  RETURN_IF_ERROR(internal::CheckValues(b, Opcode::kAsyncStart, operands));
  if (computation == nullptr || computation->root() == nullptr) {
    return Fail(Opcode::kAsyncStart, "called", "the computation is missing or has no root");
  }
  std::vector<Shape> shapes;
  for (Value v : operands) shapes.push_back(v->shape().WithoutLayout());
  Shape context = Shape::Tuple({Shape::Tuple(std::move(shapes)), computation->root()->shape().WithoutLayout(),
                                Shape::Scalar(PrimitiveType::kU32)});
  Attributes attrs;
  if (!async_execution_thread.empty()) attrs.Set(AttrId::kAsyncExecutionThread, std::move(async_execution_thread));
  return b.Op(Opcode::kAsyncStart, std::move(operands), std::move(attrs), {computation}, std::move(context));
}

Result CreateAsyncUpdate(Builder& b, Value operand) { return b.Op(Opcode::kAsyncUpdate, {operand}); }
Result CreateAsyncDone(Builder& b, Value operand) { return b.Op(Opcode::kAsyncDone, {operand}); }

}  // namespace backplane::hlo
