#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

const Partitioner::Shards* Partitioner::FindShards(const Instruction* whole) const {
  auto at = shards_.find(whole);
  return at == shards_.end() ? nullptr : &at->second;
}

Instruction* Partitioner::Op(const Instruction* like, Opcode opcode, const Shape& shape,
                             std::vector<Instruction*> operands, Attributes attrs, std::vector<Computation*> called) {
  return Make(c_, like, opcode, shape, std::move(operands), std::move(attrs), std::move(called));
}

Instruction* Partitioner::Exchange(const Instruction* like, Opcode opcode, const Shape& shape,
                                   std::vector<Instruction*> operands, const std::vector<Ints>& groups,
                                   Attributes attrs, std::vector<Computation*> called) {
  InstructionSpec spec;
  spec.opcode = opcode;
  spec.shape = shape;
  spec.operands = std::move(operands);
  spec.called = std::move(called);
  spec.name = absl::StrCat(kExchangeName, "-", OpName(opcode));
  if (like != nullptr) spec.metadata = like->metadata();
  ReplicaGroups listed;
  if (opcode == Opcode::kCollectiveBroadcast) {
    listed.groups = groups;  // numbers of partitions, for each replica
  } else {
    for (int64_t r = 0; r < context_.replicas; ++r) {
      for (Ints group : groups) {
        for (int64_t& p : group) p += r * partitions_;
        listed.groups.push_back(std::move(group));
      }
    }
    attrs.Set(AttrId::kUseGlobalDeviceIds, true);
  }
  attrs.Set(AttrId::kReplicaGroups, std::move(listed));
  attrs.Set(AttrId::kChannelId, context_.next_channel++);
  spec.attrs = std::move(attrs);
  return c_->Add(std::move(spec));
}

Instruction* Partitioner::AllReduce(const Instruction* like, Instruction* partial, Computation* body,
                                    const std::vector<Ints>& groups) {
  return Exchange(like, Opcode::kAllReduce, partial->shape().WithoutLayout(), {partial}, groups, {}, {body});
}

Instruction* Partitioner::GatherAlong(Instruction* x, const Tiling& tiling, int64_t dim, const Instruction* like) {
  DimVector dims = x->shape().dimensions();
  dims[static_cast<size_t>(dim)] *= tiling.tiles(dim);
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, Ints{dim});
  return Exchange(like, Opcode::kAllGather, Shape(x->shape().element_type(), dims), {x}, tiling.GroupsAlong({dim}),
                  std::move(attrs));
}

Instruction* Partitioner::Gather(const Shards& shards, const Instruction* like) {
  Tiling left = shards.tiling;
  Instruction* x = shards.value;
  for (int64_t d = left.rank(); d-- > 0;) {
    if (!left.IsTiled(d)) continue;
    x = GatherAlong(x, left, d, like);
    left = left.Without(d);
  }
  return x;
}

Instruction* Partitioner::PartitionNumber(PrimitiveType type) {
  if (partition_ == nullptr) partition_ = Op(nullptr, Opcode::kPartitionId, Shape::Scalar(PrimitiveType::kU32), {});
  if (type == PrimitiveType::kU32) return partition_;
  return Op(nullptr, Opcode::kConvert, Shape::Scalar(type), {partition_});
}

PrimitiveType Partitioner::OffsetType(const Shape& whole) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;  // with what is padded
  const bool small =
      std::all_of(whole.dimensions().begin(), whole.dimensions().end(), [](int64_t d) { return d <= kMost; });
  return small ? PrimitiveType::kS32 : PrimitiveType::kS64;
}

Instruction* Partitioner::Offset(const Tiling& tiling, int64_t dim, int64_t step, PrimitiveType type) {
  Ints table;
  for (int64_t p = 0; p < partitions_; ++p) table.push_back(tiling.at(p, dim) * step);
  Instruction*& made = offsets_[{type, table}];
  if (made != nullptr) return made;
  const bool same = std::all_of(table.begin(), table.end(), [&](int64_t n) { return n == table[0]; });
  if (same) return made = MakeConstant(c_, nullptr, Literal::ScalarInt(type, table[0]));
  Literal values(Shape(type, {partitions_}));
  for (int64_t p = 0; p < partitions_; ++p) values.SetFromInt(p, table[static_cast<size_t>(p)]);
  Instruction* all = MakeConstant(c_, nullptr, std::move(values));
  Attributes attrs;
  attrs.Set(AttrId::kDynamicSliceSizes, Ints{1});
  Instruction* one =
      Op(nullptr, Opcode::kDynamicSlice, Shape(type, {1}), {all, PartitionNumber(type)}, std::move(attrs));
  return made = Op(nullptr, Opcode::kReshape, Shape::Scalar(type), {one});
}

Instruction* Partitioner::Adopt(Instruction* whole, Shards shards) {
  if (shards.tiling.IsWhole()) {
    whole->ReplaceAllUsesWith(shards.value);
    return shards.value;
  }
  Instruction* gathered = Gather(shards, whole);
  whole->ReplaceAllUsesWith(gathered);
  shards_[gathered] = std::move(shards);
  return gathered;
}

absl::Status Partitioner::Follow(Instruction* whole, const Tiling& proposed) {
  const Shards* known = FindShards(whole);
  if (known != nullptr && (known->tiling == proposed || !proposed.Extends(known->tiling))) return absl::OkStatus();
  ASSIGN_OR_RETURN(Instruction * shards, SliceTo(whole, proposed));
  shards_[whole] = {shards, proposed};
  return absl::OkStatus();
}

void Partitioner::Redirect(Instruction* x, Instruction* by, const std::vector<Instruction*>& users) {
  for (Instruction* u : users) {
    for (int64_t k = 0; k < u->operand_count(); ++k) {
      if (u->operand(k) == x) u->ReplaceOperand(k, by);
    }
  }
  if (c_->root() == x) c_->set_root(by);
}

}  // namespace backplane
