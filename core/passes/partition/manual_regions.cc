// Boundaries of manual regions: conversions between full values and the shards that manual code works on.
#include "absl/strings/str_cat.h"
#include "core/passes/partition/partitioner.h"
#include "core/types/integer_division.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::Status UnevenPartialError(const Instruction* i) {
  return absl::UnimplementedError(
      absl::StrCat(i->name(), ": partial sums of shards that do not divide ", i->shape().ToString()));
}

}  // namespace

// Drops the dimensions that the boundary does not split: the sharding splits them over axes that are not manual.
absl::StatusOr<Tiling> Partitioner::AdjustBoundaryTiling(const Instruction* i, Tiling tiling, const Shape& full,
                                                         const Shape& shard) {
  for (int64_t d = 0; d < full.rank(); ++d) {
    const int64_t full_size = full.dimensions(d), shard_size = shard.dimensions(d);
    if (full_size == shard_size) {
      tiling = tiling.ReplicateDim(d);
    } else if (CeilDiv(full_size, tiling.tiles(d)) != shard_size) {
      return absl::UnimplementedError(absl::StrCat(i->name(), ": dimension ", d, " of ", full.ToString(), " is ",
                                                   shard_size, " in the manual region, ", tiling.ToString(),
                                                   " splits it into ", tiling.tiles(d)));
    }
  }
  return tiling;
}

absl::Status Partitioner::EnterManualRegion(Instruction* i) {
  Instruction* x = i->operand(0);
  const Sharding* sharding = x->sharding().get();
  if (sharding == nullptr) sharding = i->sharding().get();
  if (!i->shape().IsArray() || (sharding == nullptr && x->shape() == i->shape())) {
    i->ReplaceAllUsesWith(x);
    return absl::OkStatus();
  }
  if (sharding == nullptr) return absl::InvalidArgumentError(absl::StrCat(i->name(), ": its operand has no sharding"));
  const bool is_partial = Tiling::IsUnreduced(*sharding);
  absl::StatusOr<Tiling> stated = is_partial ? Tiling::FromUnreducedSharding(*sharding, x->shape(), partitions_)
                                             : Tiling::FromSharding(*sharding, x->shape(), partitions_);
  if (!stated.ok()) return PrependName(i, stated.status());
  ASSIGN_OR_RETURN(Tiling tiling, AdjustBoundaryTiling(i, *std::move(stated), x->shape(), i->shape()));
  const bool even = (is_partial ? DropPartialDim(tiling) : tiling).Divides(x->shape());
  if (is_partial && !even) return UnevenPartialError(i);
  ASSIGN_OR_RETURN(Instruction * shard, is_partial ? ReshardToPartial(x, tiling)
                                        : even     ? ReshardTo(x, tiling)
                                                   : ReshardPadded(x, tiling));
  i->ReplaceAllUsesWith(shard);
  return absl::OkStatus();
}

absl::Status Partitioner::LeaveManualRegion(Instruction* i) {
  Instruction* x = i->operand(0);
  if (!i->shape().IsArray() || (i->sharding() == nullptr && x->shape() == i->shape())) {
    i->ReplaceAllUsesWith(x);
    return absl::OkStatus();
  }
  if (i->sharding() == nullptr) return absl::InvalidArgumentError(absl::StrCat(i->name(), ": has no sharding"));
  const bool is_partial = Tiling::IsUnreduced(*i->sharding());
  absl::StatusOr<Tiling> stated = is_partial ? Tiling::FromUnreducedSharding(*i->sharding(), i->shape(), partitions_)
                                             : Tiling::FromSharding(*i->sharding(), i->shape(), partitions_);
  if (!stated.ok()) return PrependName(i, stated.status());
  ASSIGN_OR_RETURN(Tiling tiling, AdjustBoundaryTiling(i, *std::move(stated), i->shape(), x->shape()));
  if (!is_partial) {
    ReplaceWithShards(i, RemovePadding({x, std::move(tiling)}, i->shape(), i));
    return absl::OkStatus();
  }
  if (!DropPartialDim(tiling).Divides(i->shape())) return UnevenPartialError(i);
  ASSIGN_OR_RETURN(Instruction * full, ReducePartial({x, tiling}, i));
  i->ReplaceAllUsesWith(full);
  partial_[full] = {x, std::move(tiling)};
  return absl::OkStatus();
}

}  // namespace backplane
