// Shards of arrays that their tiles do not divide. All shards are of the size that the first has, as GSPMD defines it;
// the last ones are filled up, and what fills them is nobody's value: it is cut off where shards come in, and zero
// where they go out. Only the bounds of a program and of a manual region have such shards; inside, a dimension that
// does not divide is whole.
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

Partitioner::Shards Partitioner::WithoutFilling(Shards shards, const Shape& whole, const Instruction* like) {
  Tiling left = shards.tiling;
  Instruction* x = shards.value;
  SliceConfig slices(static_cast<size_t>(whole.rank()));
  bool cut = false;
  for (int64_t d = left.rank(); d-- > 0;) {
    if (whole.dimensions(d) % left.tiles(d) == 0) continue;
    x = GatherAlong(x, left, d, like);
    left = left.Without(d);
    cut = true;
  }
  if (!cut) return shards;
  const Shape kept = left.ShardOf(whole);
  for (int64_t d = 0; d < whole.rank(); ++d) slices[static_cast<size_t>(d)] = {0, kept.dimensions(d), 1};
  Attributes attrs;
  attrs.Set(AttrId::kSlices, std::move(slices));
  return {Op(like, Opcode::kSlice, kept, {x}, std::move(attrs)), std::move(left)};
}

absl::StatusOr<Instruction*> Partitioner::WithFilling(Instruction* whole, const Tiling& tiling) {
  const Tiling even = tiling.EvenPart(whole->shape());
  ASSIGN_OR_RETURN(Instruction * x, SliceTo(whole, even));
  const Shape shard = tiling.ShardOf(whole->shape());
  PaddingConfig padding(static_cast<size_t>(tiling.rank()));
  DimVector filled = x->shape().dimensions();
  std::vector<Instruction*> operands = {nullptr};
  const Tiling nothing = Tiling::Whole(1, partitions_);
  const PrimitiveType index = OffsetType(whole->shape());
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    const bool here = tiling.IsTiled(d) && !even.IsTiled(d);
    if (here) {
      filled[static_cast<size_t>(d)] = shard.dimensions(d) * tiling.tiles(d);
      padding[static_cast<size_t>(d)].high = filled[static_cast<size_t>(d)] - x->shape().dimensions(d);
    }
    operands.push_back(here ? Offset(tiling, d, shard.dimensions(d), index) : Offset(nothing, 0, 0, index));
  }
  const PrimitiveType type = shard.element_type();
  Instruction* zero = MakeConstant(c_, whole, Literal(Shape::Scalar(type)));
  Attributes pad, cut;
  pad.Set(AttrId::kPadding, std::move(padding));
  cut.Set(AttrId::kDynamicSliceSizes, Ints(shard.dimensions().begin(), shard.dimensions().end()));
  operands[0] = Op(whole, Opcode::kPad, Shape(type, filled), {x, zero}, std::move(pad));
  return Op(whole, Opcode::kDynamicSlice, shard, std::move(operands), std::move(cut));
}

}  // namespace backplane
