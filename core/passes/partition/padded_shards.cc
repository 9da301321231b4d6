// Shards of arrays that do not divide evenly. All shards have the size of the first, as in GSPMD, so the last ones are
// padded. Input padding has unspecified contents and is sliced off. Output padding is zero. Only parameters, results
// and the boundaries of manual regions have such shards. Inside the program a dimension that does not divide is
// replicated.
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

Partitioner::Shards Partitioner::RemovePadding(Shards shards, const Shape& full_shape, const Instruction* like) {
  Tiling remaining = shards.tiling;
  Instruction* x = shards.value;
  SliceConfig slices(static_cast<size_t>(full_shape.rank()));
  bool any_uneven = false;
  for (int64_t d = remaining.rank(); d-- > 0;) {
    if (full_shape.dimensions(d) % remaining.tiles(d) == 0) continue;
    x = AllGatherAlong(x, remaining, d, like);
    remaining = remaining.ReplicateDim(d);
    any_uneven = true;
  }
  if (!any_uneven) return shards;
  const Shape unpadded = remaining.ShardShape(full_shape);
  for (int64_t d = 0; d < full_shape.rank(); ++d) slices[static_cast<size_t>(d)] = {0, unpadded.dimensions(d), 1};
  Attributes attrs;
  attrs.Set(AttrId::kSlices, std::move(slices));
  return {AddOp(like, Opcode::kSlice, unpadded, {x}, std::move(attrs)), std::move(remaining)};
}

absl::StatusOr<Instruction*> Partitioner::ReshardPadded(Instruction* full, const Tiling& tiling) {
  const Tiling even = tiling.WithoutUnevenDims(full->shape());
  ASSIGN_OR_RETURN(Instruction * x, ReshardTo(full, even));
  const Shape shard = tiling.ShardShape(full->shape());
  PaddingConfig padding(static_cast<size_t>(tiling.rank()));
  DimVector padded_dims = x->shape().dimensions();
  std::vector<Instruction*> operands = {nullptr};
  const Tiling replicated = Tiling::Replicated(1, partitions_);
  const PrimitiveType index = ChooseOffsetType(full->shape());
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    const bool is_uneven = tiling.IsTiled(d) && !even.IsTiled(d);
    if (is_uneven) {
      padded_dims[static_cast<size_t>(d)] = shard.dimensions(d) * tiling.tiles(d);
      padding[static_cast<size_t>(d)].high = padded_dims[static_cast<size_t>(d)] - x->shape().dimensions(d);
    }
    operands.push_back(is_uneven ? GetShardOffset(tiling, d, shard.dimensions(d), index)
                                 : GetShardOffset(replicated, 0, 0, index));
  }
  const PrimitiveType type = shard.element_type();
  Instruction* zero = MakeConstant(c_, full, Literal(Shape::Scalar(type)));
  Attributes pad, slice;
  pad.Set(AttrId::kPadding, std::move(padding));
  slice.Set(AttrId::kDynamicSliceSizes, Ints(shard.dimensions().begin(), shard.dimensions().end()));
  operands[0] = AddOp(full, Opcode::kPad, Shape(type, padded_dims), {x, zero}, std::move(pad));
  return AddOp(full, Opcode::kDynamicSlice, shard, std::move(operands), std::move(slice));
}

}  // namespace backplane
