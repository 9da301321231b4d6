// Values whose shardings the program states: parameters, annotated values and members of sharding groups.
#include "core/ir/builder.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

absl::StatusOr<bool> Partitioner::ShardParameter(Instruction* parameter, const Sharding& sharding) {
  const Shape shape = parameter->shape();
  const bool is_partial = Tiling::IsUnreduced(sharding);
  absl::StatusOr<Tiling> stated = is_partial ? Tiling::FromUnreducedSharding(sharding, shape, partitions_)
                                             : Tiling::FromSharding(sharding, shape, partitions_);
  if (!stated.ok()) return PrependName(parameter, stated.status());
  if (stated->IsReplicated()) return false;
  const Tiling tiling = is_partial ? DropPartialDim(*stated) : *stated;
  const std::vector<Instruction*> users(parameter->users().begin(), parameter->users().end());
  Shape shard = tiling.ShardShape(shape);
  if (shape.has_layout()) shard.set_layout(shape.layout());
  parameter->mutable_shape() = std::move(shard);
  if (is_partial && tiling.Divides(shape)) {
    ASSIGN_OR_RETURN(Instruction * full, ReducePartial({parameter, *stated}, parameter));
    ReplaceUses(parameter, full, users);
    partial_[full] = {parameter, *std::move(stated)};
    return true;
  }
  Shards shards{parameter, tiling};
  if (is_partial) {
    ASSIGN_OR_RETURN(Computation * sum,
                     MakeScalarBinaryComputation(context_.module, Opcode::kAdd, shape.element_type()));
    shards.value = AddAllReduce(parameter, parameter, sum, stated->GroupPartitionsAlong({stated->rank() - 1}));
  }
  shards = RemovePadding(std::move(shards), shape, parameter);
  Instruction* full = AllGather(shards, parameter);
  ReplaceUses(parameter, full, users);
  if (full != shards.value) shards_[full] = std::move(shards);
  return true;
}

absl::Status Partitioner::HandleAnnotation(Instruction* i) {
  Instruction* x = i->operand(0);
  if (!x->shape().IsArray() || i->sharding() == nullptr || x->shape().HasDynamicDimensions()) {
    i->ReplaceAllUsesWith(x);
    return absl::OkStatus();
  }
  // The annotation stays in the program as the full value until the end of the pass. Its tiling may differ from that of
  // its operand, so the two need separate entries in `shards_`.
  if (Tiling::IsUnreduced(*i->sharding())) {
    absl::StatusOr<Tiling> partial_tiling = Tiling::FromUnreducedSharding(*i->sharding(), x->shape(), partitions_);
    if (!partial_tiling.ok()) return PrependName(i, partial_tiling.status());
    if (!DropPartialDim(*partial_tiling).Divides(x->shape())) return absl::OkStatus();
    if (!IsPartial(x, *partial_tiling)) already_reduced_.insert(i);
    ASSIGN_OR_RETURN(Instruction * partial, ReshardToPartial(x, *partial_tiling));
    partial_[i] = {partial, *std::move(partial_tiling)};
    return absl::OkStatus();
  }
  absl::StatusOr<Tiling> tiling = Tiling::FromSharding(*i->sharding(), x->shape(), partitions_);
  if (!tiling.ok()) return PrependName(i, tiling.status());
  *tiling = tiling->WithoutUnevenDims(x->shape());
  // Unspecified dimensions keep their current tiling if it is compatible with the specified ones.
  if (const Shards* known = FindShards(x)) {
    for (int64_t d : GetUnspecifiedDims(i)) tiling->SplitLike(d, known->tiling, d);
  }
  const Tiling* propagated = depth_ == 0 ? context_.FindPropagated(i) : nullptr;
  if (propagated != nullptr && propagated->Refines(*tiling)) *tiling = *propagated;
  if (tiling->IsReplicated() || !tiling->Divides(x->shape())) return absl::OkStatus();
  ASSIGN_OR_RETURN(Instruction * shards, ReshardTo(x, *tiling));
  shards_[i] = {shards, *std::move(tiling)};
  return absl::OkStatus();
}

// Gives all members of a sharding group the finest tiling that one of them has.
absl::Status Partitioner::HandleShardingGroup(Instruction* i) {
  Instruction* x = i->operand(0);
  if (x->shape().HasDynamicDimensions()) return absl::OkStatus();
  const std::string& group = i->attrs().GetString(AttrId::kOpaque);
  const Shards* known = FindShards(x);
  if (context_.is_trial) {
    auto at = context_.sharding_groups.find(group);
    const bool is_finer = known != nullptr && (at == context_.sharding_groups.end() ||
                                               known->tiling.CountTiles() > at->second.CountTiles());
    if (is_finer) context_.sharding_groups.insert_or_assign(group, known->tiling);
  }
  const Tiling* propagated = depth_ == 0 ? context_.FindPropagated(i) : nullptr;
  if (propagated != nullptr) {
    const Tiling tiling = *propagated;
    ASSIGN_OR_RETURN(Instruction * shards, ReshardTo(x, tiling));
    shards_[i] = {shards, tiling};
    return absl::OkStatus();
  }
  auto at = context_.sharding_groups.find(group);
  if (at == context_.sharding_groups.end() || !x->shape().IsArray() || at->second.rank() != x->shape().rank() ||
      !at->second.Divides(x->shape())) {
    if (known != nullptr) {
      const Shards same = *known;  // a new entry moves those of the map
      shards_[i] = same;
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Instruction * shards, ReshardTo(x, at->second));
  shards_[i] = {shards, at->second};
  return absl::OkStatus();
}

}  // namespace backplane
