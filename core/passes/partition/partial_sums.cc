// Partial (unreduced) values: the value is the sum of the partial sums that the partitions hold. Linear operations are
// computed on the partial sums. The all-reduce can then run later and only once, for example after a loop.
#include <algorithm>
#include <numeric>
#include <set>

#include "core/eval/scalar_compiler.h"
#include "core/ir/builder.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int kMaxDepth = 100;        // bounds the recursion over chains of operations
constexpr size_t kMaxSearched = 100;  // and this one, which visits each value once

// Returns the partial tiling of an array of rank `rank` whose partial sums are held by the same partitions, if no
// dimension of the array is split: then partial sums can be reshaped and sliced like the array.
std::optional<Tiling> WithRank(const Tiling& partial_tiling, int64_t rank) {
  if (!DropPartialDim(partial_tiling).IsReplicated()) return std::nullopt;
  Ints from(static_cast<size_t>(rank), -1);
  from.push_back(partial_tiling.rank() - 1);
  return partial_tiling.SelectDims(from);
}

}  // namespace

bool Partitioner::IsZero(const Instruction* x) {
  const Literal* value = FindUniformConstant(x);
  return value != nullptr && value->num_elements() > 0 && value->IsAll(0);
}

Tiling DropPartialDim(const Tiling& partial_tiling) {
  Ints dims(static_cast<size_t>(partial_tiling.rank() - 1));
  std::iota(dims.begin(), dims.end(), 0);
  return partial_tiling.SelectDims(dims);
}

const Partitioner::Shards* Partitioner::FindPartial(const Instruction* full) const {
  auto at = partial_.find(full);
  return at == partial_.end() ? nullptr : &at->second;
}

// Returns the full value of partial sums.
absl::StatusOr<Instruction*> Partitioner::ReducePartial(const Shards& partial, const Instruction* like) {
  const int64_t partial_dim = partial.tiling.rank() - 1;
  ASSIGN_OR_RETURN(Computation * sum,
                   MakeScalarBinaryComputation(context_.module, Opcode::kAdd, partial.value->shape().element_type()));
  Instruction* x = AddAllReduce(like, partial.value, sum, partial.tiling.GroupPartitionsAlong({partial_dim}));
  return AllGather({x, DropPartialDim(partial.tiling)}, like);
}

// If `shard` is an all-reduce over the partial sums of `partial_tiling`, returns its operand. Otherwise returns null.
Instruction* Partitioner::FindUnreducedOperand(Instruction* shard, const Tiling& partial_tiling) const {
  if (!shard->Is(Opcode::kAllReduce) || shard->operand_count() != 1 || context_.replicas != 1) return nullptr;
  if (AsBinaryOp(*shard->called(0)) != std::optional<Opcode>(Opcode::kAdd)) return nullptr;
  std::vector<Ints> has = shard->attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand();
  std::vector<Ints> wants = partial_tiling.GroupPartitionsAlong({partial_tiling.rank() - 1});
  for (std::vector<Ints>* groups : {&has, &wants}) {
    for (Ints& g : *groups) std::sort(g.begin(), g.end());
    std::sort(groups->begin(), groups->end());
  }
  return has == wants ? shard->operand(0) : nullptr;
}

bool Partitioner::IsPartial(Instruction* full, const Tiling& partial_tiling, int depth) const {
  // An annotated value may be reduced already. Reducing its summands later would repeat the all-reduce.
  if (const Shards* known = FindPartial(full))
    return known->tiling == partial_tiling && !already_reduced_.contains(full);
  if (depth > kMaxDepth || context_.IsManual(full) || !full->shape().IsArray()) return false;
  auto operand = [&](int64_t k) { return IsPartial(full->operand(k), partial_tiling, depth + 1); };
  switch (full->opcode()) {
    case Opcode::kCustomCall:
      return IsShardingAnnotation(full) && FindShards(full) == nullptr && operand(0);
    case Opcode::kAdd:
    case Opcode::kSubtract:
      // Each partition may use zero as its summand.
      return (operand(0) || IsZero(full->operand(0))) && (operand(1) || IsZero(full->operand(1))) &&
             !(IsZero(full->operand(0)) && IsZero(full->operand(1)));
    case Opcode::kNegate:
      return operand(0);
    case Opcode::kMultiply:
      return IsFloat(full->shape().element_type()) && operand(0) != operand(1);
    case Opcode::kTranspose: {
      const Tiling operand_tiling = TransposePartialTiling(full, partial_tiling);
      return IsPartial(full->operand(0), operand_tiling, depth + 1);
    }
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kDynamicSlice: {
      const std::optional<Tiling> operand_tiling = WithRank(partial_tiling, full->operand(0)->shape().rank());
      return operand_tiling && IsPartial(full->operand(0), *operand_tiling, depth + 1);
    }
    case Opcode::kDynamicUpdateSlice:
      return DropPartialDim(partial_tiling).IsReplicated() && (operand(0) || IsZero(full->operand(0))) &&
             (operand(1) || IsZero(full->operand(1))) && !(IsZero(full->operand(0)) && IsZero(full->operand(1)));
    default:
      break;
  }
  const Shards* known = FindShards(full);
  const Tiling sum_tiling = DropPartialDim(partial_tiling);
  if (sum_tiling.IsReplicated()) return FindUnreducedOperand(full, partial_tiling) != nullptr;
  return known != nullptr && known->tiling == sum_tiling &&
         FindUnreducedOperand(known->value, partial_tiling) != nullptr;
}

std::optional<Tiling> Partitioner::FindPartialSummand(Instruction* full,
                                                      absl::flat_hash_set<const Instruction*>& seen) const {
  if (const Shards* known = FindPartial(full))
    return already_reduced_.contains(full) ? std::nullopt : std::optional<Tiling>(known->tiling);
  if (seen.size() > kMaxSearched || context_.IsManual(full) || !full->shape().IsArray()) return std::nullopt;
  if (!seen.insert(full).second) return std::nullopt;
  auto operand = [&](int64_t k) { return FindPartialSummand(full->operand(k), seen); };
  switch (full->opcode()) {
    case Opcode::kCustomCall:
      return IsShardingAnnotation(full) && FindShards(full) == nullptr ? operand(0) : std::nullopt;
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kDynamicUpdateSlice: {
      std::optional<Tiling> second = operand(1);
      return second ? second : operand(0);
    }
    case Opcode::kNegate:
      return operand(0);
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kDynamicSlice: {
      const std::optional<Tiling> tiling = operand(0);
      return tiling ? WithRank(*tiling, full->shape().rank()) : std::nullopt;
    }
    case Opcode::kTranspose: {
      const std::optional<Tiling> tiling = operand(0);
      if (!tiling) return std::nullopt;
      Ints from(full->dimensions().begin(), full->dimensions().end());
      from.push_back(tiling->rank() - 1);
      return tiling->SelectDims(from);
    }
    default:
      return std::nullopt;
  }
}

Tiling Partitioner::TransposePartialTiling(const Instruction* transpose, const Tiling& partial_tiling) {
  Ints from(transpose->dimensions().size());
  for (size_t d = 0; d < from.size(); ++d) {
    from[static_cast<size_t>(transpose->dimensions()[d])] = static_cast<int64_t>(d);
  }
  from.push_back(partial_tiling.rank() - 1);
  return partial_tiling.SelectDims(from);
}

// If each group of partitions holds the value in disjoint shards, each partition pads its own shard with zeros. This
// needs no communication. Returns null otherwise.
absl::StatusOr<Instruction*> Partitioner::PlaceShardsInZeros(Instruction* full, const Tiling& partial_tiling) {
  Instruction* none = nullptr;
  const Shards* known = FindShards(full);
  const Tiling sum_tiling = DropPartialDim(partial_tiling);
  if (known == nullptr || known->tiling.manual_subgroups() != sum_tiling.manual_subgroups()) return none;
  if (!known->tiling.Divides(full->shape()) || !sum_tiling.Divides(full->shape())) return none;
  const Tiling tiling = known->tiling;
  const Shape sum_shard = sum_tiling.ShardShape(full->shape()).WithoutLayout(),
              shard = tiling.ShardShape(full->shape());
  const int64_t partial_dim = partial_tiling.rank() - 1;
  if (shard.num_elements() == 0 || sum_shard.num_elements() != shard.num_elements() * partial_tiling.tiles(partial_dim))
    return none;
  for (const Ints& group : partial_tiling.GroupPartitionsAlong({partial_dim})) {
    std::set<Ints> offsets;
    for (int64_t p : group) {
      Ints offset;
      for (int64_t d = 0; d < tiling.rank(); ++d) {
        offset.push_back(tiling.tile_index(p, d) * shard.dimensions(d) -
                         sum_tiling.tile_index(p, d) * sum_shard.dimensions(d));
        if (offset.back() < 0 || offset.back() + shard.dimensions(d) > sum_shard.dimensions(d)) return none;
      }
      if (!offsets.insert(std::move(offset)).second) return none;
    }
  }
  Instruction* zero = MakeConstant(c_, full, Literal(Shape::Scalar(sum_shard.element_type())));
  std::vector<Instruction*> operands = {MakeBroadcast(c_, full, zero, sum_shard, {}), known->value};
  const PrimitiveType index = ChooseOffsetType(full->shape());
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    Instruction* at = GetShardOffset(tiling, d, shard.dimensions(d), index);
    if (sum_tiling.IsTiled(d)) {
      at = AddOp(full, Opcode::kSubtract, Shape::Scalar(index),
                 {at, GetShardOffset(sum_tiling, d, sum_shard.dimensions(d), index)});
    }
    operands.push_back(at);
  }
  return AddOp(full, Opcode::kDynamicUpdateSlice, sum_shard, std::move(operands));
}

// Prefers, in this order: known partial sums, shards padded with zeros, a linear operation on partial sums, the operand
// of an all-reduce. Otherwise the first partition of each group holds the value and the others hold zeros.
absl::StatusOr<Instruction*> Partitioner::ReshardToPartial(Instruction* full, const Tiling& partial_tiling) {
  const Shards* known = FindPartial(full);
  if (known != nullptr && known->tiling == partial_tiling) return known->value;
  if (known == nullptr) {
    ASSIGN_OR_RETURN(Instruction * padded, PlaceShardsInZeros(full, partial_tiling));
    if (padded != nullptr) return padded;
  }
  if (known == nullptr && IsShardingAnnotation(full)) return ReshardToPartial(full->operand(0), partial_tiling);
  if (known == nullptr && IsPartial(full, partial_tiling, 0)) {
    ASSIGN_OR_RETURN(Instruction * partial, ComputeOnPartials(full, partial_tiling));
    if (partial != nullptr) {
      partial_[full] = {partial, partial_tiling};
      return partial;
    }
  }
  const int64_t partial_dim = partial_tiling.rank() - 1;
  ASSIGN_OR_RETURN(Instruction * shard, ReshardTo(full, DropPartialDim(partial_tiling)));
  if (Instruction* operand = FindUnreducedOperand(shard, partial_tiling)) return operand;
  if (IsZero(full)) return shard;
  const Shape shape = shard->shape().WithoutLayout();
  const Shape predicate = shape.WithElementType(PrimitiveType::kPred);
  Attributes equal;
  equal.SetEnum(AttrId::kDirection, ComparisonDirection::kEq);
  Instruction* zero = MakeConstant(c_, full, Literal::ScalarInt(PrimitiveType::kS32, 0));
  Instruction* is_first = AddOp(full, Opcode::kCompare, Shape::Scalar(PrimitiveType::kPred),
                                {GetShardOffset(partial_tiling, partial_dim, 1), zero}, std::move(equal));
  Instruction* zeros = MakeConstant(c_, full, Literal(Shape::Scalar(shape.element_type())));
  if (!shape.IsScalar()) {
    is_first = MakeBroadcast(c_, full, is_first, predicate, {});
    zeros = MakeBroadcast(c_, full, zeros, shape, {});
  }
  return AddOp(full, Opcode::kSelect, shape, {is_first, shard, zeros});
}

// Computes an operation on the partial sums of its operands. Returns null for operations that IsPartial does not
// support.
absl::StatusOr<Instruction*> Partitioner::ComputeOnPartials(Instruction* full, const Tiling& partial_tiling) {
  Instruction* none = nullptr;
  const Tiling sum_tiling = DropPartialDim(partial_tiling);
  const Shape shard = sum_tiling.ShardShape(full->shape());
  std::vector<Instruction*> operands;
  switch (full->opcode()) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kNegate:
      for (Instruction* o : full->operands()) {
        ASSIGN_OR_RETURN(Instruction * x, ReshardToPartial(o, partial_tiling));
        operands.push_back(x);
      }
      break;
    case Opcode::kMultiply:
      for (Instruction* o : full->operands()) {
        ASSIGN_OR_RETURN(Instruction * x, IsPartial(o, partial_tiling, 0) ? ReshardToPartial(o, partial_tiling)
                                                                          : ReshardTo(o, sum_tiling));
        operands.push_back(x);
      }
      break;
    case Opcode::kTranspose: {
      ASSIGN_OR_RETURN(Instruction * x,
                       ReshardToPartial(full->operand(0), TransposePartialTiling(full, partial_tiling)));
      operands.push_back(x);
      break;
    }
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice: {
      const int64_t arrays = full->Is(Opcode::kDynamicUpdateSlice) ? 2 : 1;
      for (int64_t k = 0; k < full->operand_count(); ++k) {
        Instruction* o = full->operand(k);
        const std::optional<Tiling> tiling = WithRank(partial_tiling, o->shape().rank());
        if (!tiling) return none;
        ASSIGN_OR_RETURN(Instruction * x,
                         k < arrays ? ReshardToPartial(o, *tiling) : ReshardTo(o, DropPartialDim(*tiling)));
        operands.push_back(x);
      }
      break;
    }
    default:
      return none;
  }
  return c_->AddClone(full, shard, operands);
}

}  // namespace backplane
