// Partial (unreduced) values: the value is the sum of the partial sums that the partitions hold. Linear operations are
// computed on the partial sums. The all-reduce can then run later and only once, for example after a loop.
#include <algorithm>
#include <cmath>
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

// How the partial tiling of a linear operation's result follows from that of its operands.
enum class TilingChange : uint8_t {
  kNone,
  kTransposed,
  kRank,  // the dimensions change, so none may be split (WithRank)
};

// An operation that is linear in its first `sums` operands, so that it can be computed on their partial sums.
struct LinearOperation {
  Opcode opcode;
  int64_t sums;
  TilingChange change;
  // Linear in each of the first operands, but not in both together: one is partial, and the other one is not.
  bool is_product = false;
};

constexpr LinearOperation kLinearOperations[] = {
    {Opcode::kAdd, 2, TilingChange::kNone},
    {Opcode::kSubtract, 2, TilingChange::kNone},
    {Opcode::kNegate, 1, TilingChange::kNone},
    {Opcode::kMultiply, 2, TilingChange::kNone, true},
    {Opcode::kTranspose, 1, TilingChange::kTransposed},
    {Opcode::kBroadcast, 1, TilingChange::kRank},
    {Opcode::kReshape, 1, TilingChange::kRank},
    {Opcode::kDynamicSlice, 1, TilingChange::kRank},
    {Opcode::kDynamicUpdateSlice, 2, TilingChange::kRank},
};

// Returns null for an operation that is not linear.
const LinearOperation* FindLinearOperation(Opcode opcode) {
  for (const LinearOperation& op : kLinearOperations) {
    if (op.opcode == opcode) return &op;
  }
  return nullptr;
}

// Returns the partial tiling of operand k that gives a result of tiling `result`; none if there is no such tiling.
std::optional<Tiling> FindOperandTiling(const LinearOperation& op, const Instruction& full, int64_t k,
                                        const Tiling& result) {
  switch (op.change) {
    case TilingChange::kNone:
      return result;
    case TilingChange::kRank:
      return WithRank(result, full.operand(k)->shape().rank());
    case TilingChange::kTransposed:
      break;
  }
  Ints from(full.dimensions().size());
  for (size_t d = 0; d < from.size(); ++d) from[static_cast<size_t>(full.dimensions()[d])] = static_cast<int64_t>(d);
  from.push_back(result.rank() - 1);
  return result.SelectDims(from);
}

// The inverse of FindOperandTiling.
std::optional<Tiling> FindResultTiling(const LinearOperation& op, const Instruction& full, const Tiling& operand) {
  switch (op.change) {
    case TilingChange::kNone:
      return operand;
    case TilingChange::kRank:
      return WithRank(operand, full.shape().rank());
    case TilingChange::kTransposed:
      break;
  }
  Ints from(full.dimensions().begin(), full.dimensions().end());
  from.push_back(operand.rank() - 1);
  return operand.SelectDims(from);
}

}  // namespace

bool Partitioner::IsZero(const Instruction* x) {
  const Literal* value = FindUniformConstant(x);
  return value != nullptr && value->num_elements() > 0 && value->IsAll(0);
}

// Whether x is known to have finite elements only.
bool Partitioner::IsFinite(const Instruction* x) {
  const Literal* value = FindUniformConstant(x);
  return value != nullptr && value->num_elements() > 0 && std::isfinite(value->GetAsDouble(0));
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

bool Partitioner::IsPartial(Instruction* full, const Tiling& partial_tiling) const {
  PartialAnswers answers;
  return SearchPartial(full, partial_tiling, 0, answers);
}

bool Partitioner::IsImplicitlyPartial(Instruction* full, const Tiling& partial_tiling) const {
  PartialAnswers answers;
  return SearchPartial(full, partial_tiling, 1, answers);
}

bool Partitioner::SearchPartial(Instruction* full, const Tiling& partial_tiling, int depth,
                                PartialAnswers& answers) const {
  for (const auto& [tiling, answer] : answers[full]) {
    if (tiling == partial_tiling) return answer;
  }
  const bool answer = ComputeIsPartial(full, partial_tiling, depth, answers);
  answers[full].emplace_back(partial_tiling, answer);
  return answer;
}

bool Partitioner::ComputeIsPartial(Instruction* full, const Tiling& partial_tiling, int depth,
                                   PartialAnswers& answers) const {
  // An annotated value may be reduced already. Reducing its summands later would repeat the all-reduce.
  if (const Shards* known = FindPartial(full))
    return known->tiling == partial_tiling && !already_reduced_.contains(full);
  if (depth > kMaxDepth || context_.IsManual(full) || !full->shape().IsArray()) return false;
  if (full->Is(Opcode::kCustomCall)) {
    return IsShardingAnnotation(full) && FindShards(full) == nullptr &&
           SearchPartial(full->operand(0), partial_tiling, depth + 1, answers);
  }
  if (const LinearOperation* op = FindLinearOperation(full->opcode())) {
    auto is_partial = [&](int64_t k) {
      const std::optional<Tiling> tiling = FindOperandTiling(*op, *full, k, partial_tiling);
      return tiling && SearchPartial(full->operand(k), *tiling, depth + 1, answers);
    };
    if (op->is_product) {
      if (!IsFloat(full->shape().element_type()) || is_partial(0) == is_partial(1)) return false;
      // An annotation asks for the product itself (depth 0) to be partial, whatever its factor is.
      return depth == 0 || IsFinite(full->operand(is_partial(0) ? 1 : 0));
    }
    if (op->sums == 1) return is_partial(0);
    // Each partition may use zero as its summand.
    bool all_zero = true;
    for (int64_t k = 0; k < op->sums; ++k) {
      const bool is_zero = IsZero(full->operand(k));
      if (!is_zero && !is_partial(k)) return false;
      all_zero = all_zero && is_zero;
    }
    return !all_zero;
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
  if (full->Is(Opcode::kCustomCall)) {
    if (!IsShardingAnnotation(full) || FindShards(full) != nullptr) return std::nullopt;
    return FindPartialSummand(full->operand(0), seen);
  }
  const LinearOperation* op = FindLinearOperation(full->opcode());
  if (op == nullptr || op->is_product) return std::nullopt;
  // The last one first: that is what an iteration adds to a sum, or writes into an array.
  for (int64_t k = op->sums; k-- > 0;) {
    const std::optional<Tiling> tiling = FindPartialSummand(full->operand(k), seen);
    if (tiling) return FindResultTiling(*op, *full, *tiling);
  }
  return std::nullopt;
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
  if (known == nullptr && IsPartial(full, partial_tiling)) {
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

// Computes an operation on the partial sums of its operands. Returns null for an operation that is not linear.
absl::StatusOr<Instruction*> Partitioner::ComputeOnPartials(Instruction* full, const Tiling& partial_tiling) {
  Instruction* none = nullptr;
  const LinearOperation* op = FindLinearOperation(full->opcode());
  if (op == nullptr) return none;
  std::vector<Instruction*> operands;
  for (int64_t k = 0; k < full->operand_count(); ++k) {
    Instruction* o = full->operand(k);
    const std::optional<Tiling> tiling = FindOperandTiling(*op, *full, k, partial_tiling);
    if (!tiling) return none;
    // Of a product's factors the one that the search has found.
    const bool is_sum = k < op->sums && (!op->is_product || IsImplicitlyPartial(o, *tiling));
    ASSIGN_OR_RETURN(Instruction * x, is_sum ? ReshardToPartial(o, *tiling) : ReshardTo(o, DropPartialDim(*tiling)));
    operands.push_back(x);
  }
  return c_->AddClone(full, DropPartialDim(partial_tiling).ShardShape(full->shape()), operands);
}

}  // namespace backplane
