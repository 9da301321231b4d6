// Insertion of collectives and of the instructions around them.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

const Partitioner::Shards* Partitioner::FindShards(const Instruction* full) const {
  auto at = shards_.find(full);
  return at == shards_.end() ? nullptr : &at->second;
}

Instruction* Partitioner::AddOp(const Instruction* like, Opcode opcode, const Shape& shape,
                                std::vector<Instruction*> operands, Attributes attrs,
                                std::vector<Computation*> called) {
  return Make(c_, like, opcode, shape, std::move(operands), std::move(attrs), std::move(called));
}

Instruction* Partitioner::AddCollective(const Instruction* like, Opcode opcode, const Shape& shape,
                                        std::vector<Instruction*> operands, const std::vector<Ints>& groups,
                                        Attributes attrs, std::vector<Computation*> called) {
  InstructionSpec spec;
  spec.opcode = opcode;
  spec.shape = shape;
  spec.operands = std::move(operands);
  spec.called = std::move(called);
  spec.name = absl::StrCat(kCollectiveNamePrefix, "-", OpName(opcode));
  if (like != nullptr) spec.metadata = like->metadata();
  ReplicaGroups listed;
  if (opcode == Opcode::kCollectiveBroadcast) {
    listed.groups = groups;  // cross-partition mode: partition ids, applied to each replica
  } else {
    for (int64_t r = 0; r < context_.replicas; ++r) {
      for (Ints group : groups) {
        for (int64_t& p : group) p += r * partitions_;
        listed.groups.push_back(std::move(group));
      }
    }
    attrs.Set(AttrId::kUseGlobalDeviceIds, true);
  }
  listed.Compress();
  attrs.Set(AttrId::kReplicaGroups, std::move(listed));
  attrs.Set(AttrId::kChannelId, context_.next_channel++);
  spec.attrs = std::move(attrs);
  return c_->Add(std::move(spec));
}

Instruction* Partitioner::AddAllReduce(const Instruction* like, Instruction* partial, Computation* body,
                                       const std::vector<Ints>& groups) {
  return AddCollective(like, Opcode::kAllReduce, partial->shape().WithoutLayout(), {partial}, groups, {}, {body});
}

Instruction* Partitioner::AllGatherAlong(Instruction* x, const Tiling& tiling, int64_t dim, const Instruction* like) {
  DimVector dims = x->shape().dimensions();
  dims[static_cast<size_t>(dim)] *= tiling.tiles(dim);
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dim});
  return AddCollective(like, Opcode::kAllGather, Shape(x->shape().element_type(), dims), {x},
                       tiling.GroupPartitionsAlong({dim}), std::move(attrs));
}

Instruction* Partitioner::AllGather(const Shards& shards, const Instruction* like) {
  Tiling remaining = shards.tiling;
  Instruction* x = shards.value;
  for (int64_t d = remaining.rank(); d-- > 0;) {
    if (!remaining.IsTiled(d)) continue;
    x = AllGatherAlong(x, remaining, d, like);
    remaining = remaining.ReplicateDim(d);
  }
  return x;
}

Instruction* Partitioner::GetPartitionId(PrimitiveType type) {
  if (partition_id_ == nullptr)
    partition_id_ = AddOp(nullptr, Opcode::kPartitionId, Shape::Scalar(PrimitiveType::kU32), {});
  if (type == PrimitiveType::kU32) return partition_id_;
  return AddOp(nullptr, Opcode::kConvert, Shape::Scalar(type), {partition_id_});
}

PrimitiveType Partitioner::ChooseOffsetType(const Shape& full) {
  constexpr int64_t kMaxS32Dim = std::numeric_limits<int32_t>::max() / 2;  // leaves room for padding
  const bool fits_s32 =
      std::all_of(full.dimensions().begin(), full.dimensions().end(), [](int64_t d) { return d <= kMaxS32Dim; });
  return fits_s32 ? PrimitiveType::kS32 : PrimitiveType::kS64;
}

Instruction* Partitioner::GetShardOffset(const Tiling& tiling, int64_t dim, int64_t step, PrimitiveType type) {
  Ints table;
  for (int64_t p = 0; p < partitions_; ++p) table.push_back(tiling.tile_index(p, dim) * step);
  Instruction*& offset = offsets_[{type, table}];
  if (offset != nullptr) return offset;
  const bool same = std::all_of(table.begin(), table.end(), [&](int64_t n) { return n == table[0]; });
  if (same) return offset = MakeConstant(c_, nullptr, Literal::ScalarInt(type, table[0]));
  Literal values(Shape(type, {partitions_}));
  for (int64_t p = 0; p < partitions_; ++p) values.SetFromInt(p, table[static_cast<size_t>(p)]);
  Instruction* constant = MakeConstant(c_, nullptr, std::move(values));
  Attributes attrs;
  attrs.Set(AttrId::kDynamicSliceSizes, Ints{1});
  Instruction* slice =
      AddOp(nullptr, Opcode::kDynamicSlice, Shape(type, {1}), {constant, GetPartitionId(type)}, std::move(attrs));
  return offset = AddOp(nullptr, Opcode::kReshape, Shape::Scalar(type), {slice});
}

Instruction* Partitioner::ReplaceWithShards(Instruction* full, Shards shards) {
  if (shards.tiling.IsReplicated()) {
    full->ReplaceAllUsesWith(shards.value);
    return shards.value;
  }
  Instruction* gathered = AllGather(shards, full);
  full->ReplaceAllUsesWith(gathered);
  shards_[gathered] = std::move(shards);
  return gathered;
}

absl::Status Partitioner::ApplyPropagatedTiling(Instruction* full, const Tiling& propagated) {
  const Shards* known = FindShards(full);
  if (known != nullptr && (known->tiling == propagated || !propagated.Refines(known->tiling))) return absl::OkStatus();
  ASSIGN_OR_RETURN(Instruction * shards, ReshardTo(full, propagated));
  shards_[full] = {shards, propagated};
  return absl::OkStatus();
}

void Partitioner::ReplaceUses(Instruction* x, Instruction* by, const std::vector<Instruction*>& users) {
  for (Instruction* u : users) {
    for (int64_t k = 0; k < u->operand_count(); ++k) {
      if (u->operand(k) == x) u->ReplaceOperand(k, by);
    }
  }
  if (c_->root() == x) c_->set_root(by);
}

}  // namespace backplane
