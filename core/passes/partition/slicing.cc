// Resharding by slicing, and recomputation of operations on slices of their operands.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/passes/partition/factors.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int kMaxRecomputeDepth = 200;  // bounds the recursion over chains of operations

}  // namespace

absl::StatusOr<Instruction*> Partitioner::ReshardTo(Instruction* full, const Tiling& tiling) {
  if (tiling.IsReplicated()) return full;
  if (full->shape().HasDynamicDimensions())
    return absl::UnimplementedError(absl::StrCat(full->name(), ": shards of ", full->shape().ToString()));
  const Shards* known = FindShards(full);
  if (known != nullptr && known->tiling == tiling) return known->value;
  if (known == nullptr && IsShardingAnnotation(full)) return ReshardTo(full->operand(0), tiling);
  for (const Shards& s : slices_[full]) {
    if (s.tiling == tiling) return s.value;
  }
  if (!tiling.Divides(full->shape())) {
    return absl::UnimplementedError(
        absl::StrCat(full->name(), ": ", full->shape().ToString(), " does not split evenly by ", tiling.ToString()));
  }
  Instruction* out = nullptr;
  if (known == nullptr && recompute_depth_ < kMaxRecomputeDepth) {
    ++recompute_depth_;
    absl::StatusOr<Instruction*> recomputed = RecomputeSlice(full, tiling);
    --recompute_depth_;
    ASSIGN_OR_RETURN(out, std::move(recomputed));
  }
  if (out == nullptr) {
    ASSIGN_OR_RETURN(out, GatherAndSlice(full, tiling));
  }
  slices_[full].push_back({out, tiling});
  return out;
}

// Keeps the dimensions that have the requested tiling already, all-gathers the other split dimensions, and slices.
absl::StatusOr<Instruction*> Partitioner::GatherAndSlice(Instruction* full, const Tiling& tiling) {
  const Shape shard = tiling.ShardShape(full->shape());
  Tiling remaining = Tiling::Replicated(tiling.rank(), partitions_);
  Instruction* source = full;
  if (const Shards* known = FindShards(full)) {
    Ints keep;
    bool any_equal = false;
    for (int64_t d = 0; d < tiling.rank(); ++d) {
      const bool equal = known->tiling.IsTiled(d) && known->tiling.SelectDims({d}) == tiling.SelectDims({d});
      keep.push_back(equal ? d : -1);
      any_equal |= equal;
    }
    if (any_equal) {
      Tiling has = known->tiling;
      source = known->value;
      remaining = has.SelectDims(keep);
      for (int64_t d = has.rank(); d-- > 0;) {
        if (!has.IsTiled(d) || keep[static_cast<size_t>(d)] >= 0) continue;
        source = AllGatherAlong(source, has, d, full);
        has = has.ReplicateDim(d);
      }
    }
  }
  if (auto result = replicated_loop_results_.find(full);
      result != replicated_loop_results_.end() && context_.is_trial) {
    context_.requested_loop_tilings.emplace(result->second, tiling);
  }
  std::vector<Instruction*> operands = {source};
  Ints sizes;
  const Tiling replicated = Tiling::Replicated(1, partitions_);
  const PrimitiveType index = ChooseOffsetType(full->shape());
  bool needs_slice = false;
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    const bool is_sliced = tiling.IsTiled(d) && !remaining.IsTiled(d);
    operands.push_back(is_sliced ? GetShardOffset(tiling, d, shard.dimensions(d), index)
                                 : GetShardOffset(replicated, 0, 0, index));
    sizes.push_back(shard.dimensions(d));
    needs_slice |= is_sliced;
  }
  if (!needs_slice) return source;
  Attributes attrs;
  attrs.Set(AttrId::kDynamicSliceSizes, std::move(sizes));
  return AddOp(full, Opcode::kDynamicSlice, shard, std::move(operands), std::move(attrs));
}

absl::StatusOr<Instruction*> Partitioner::SliceIota(Instruction* iota, const Tiling& tiling) {
  const Shape shard = tiling.ShardShape(iota->shape());
  const PrimitiveType type = shard.element_type();
  const int64_t dim = iota->attrs().GetInt(AttrId::kIotaDimension);
  if (!tiling.IsTiled(dim)) return c_->AddClone(iota, shard, {});
  if ((!IsIntegral(type) && !IsFloat(type)) || iota->shape().dimensions(dim) > INT32_MAX) return nullptr;
  // Counts in s32 and converts, because counting in a narrow float type would round differently from the full iota.
  const Shape s32_shard = shard.WithElementType(PrimitiveType::kS32);
  Instruction* from_zero = c_->AddClone(iota, s32_shard, {});
  Instruction* start = MakeBroadcast(c_, iota, GetShardOffset(tiling, dim, shard.dimensions(dim)), s32_shard, {});
  Instruction* index = AddOp(iota, Opcode::kAdd, s32_shard, {from_zero, start});
  return type == PrimitiveType::kS32 ? index : AddOp(iota, Opcode::kConvert, shard, {index});
}

absl::StatusOr<Instruction*> Partitioner::RecomputeSlice(Instruction* full, const Tiling& tiling) {
  const Shape shard = tiling.ShardShape(full->shape());
  Instruction* none = nullptr;
  if (context_.IsManual(full) || HasDynamicArray(full)) return none;
  // Does not repeat an operation that costs more than moving its result.
  const bool is_expensive = full->Is(Opcode::kDot) || full->Is(Opcode::kReduce);
  if (is_expensive && (full->users().size() > 1 || (full == c_->root() && !full->users().empty()))) return none;
  switch (full->opcode()) {
    case Opcode::kIota:
      return SliceIota(full, tiling);
    case Opcode::kConstant: {
      if (!full->literal().IsAllEqual()) return none;
      ASSIGN_OR_RETURN(Literal element,
                       Literal::FromBytes(Shape::Scalar(shard.element_type()),
                                          absl::MakeConstSpan(full->literal().bytes(),
                                                              static_cast<size_t>(ByteWidth(shard.element_type())))));
      return MakeBroadcast(c_, full, MakeConstant(c_, full, std::move(element)), shard, {});
    }
    case Opcode::kBroadcast:
    case Opcode::kTranspose:
    case Opcode::kReduce:
    case Opcode::kDot:
      break;
    default:
      if (!full->info().Has(kElementwise)) return none;
  }
  if (!full->control_predecessors().empty()) return none;
  // The operands take the tiling of the result. Dimensions that only operands have, such as contracting ones, are not
  // split.
  const std::optional<Factors> f = GetFactors(*full);
  if (!f) return none;
  std::vector<Instruction*> operands(full->operands().begin(), full->operands().end());
  for (size_t k = 0; k < operands.size(); ++k) {
    ASSIGN_OR_RETURN(operands[k], ReshardTo(operands[k], tiling.SelectDims(MatchDims(f->operands[k], f->result))));
  }
  return c_->AddClone(full, shard, operands);
}

}  // namespace backplane
