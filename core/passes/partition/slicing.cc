#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/passes/partition/factors.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int kMaxSlicing = 200;  // operations worked out anew, one above the other

}  // namespace

absl::StatusOr<Instruction*> Partitioner::SliceTo(Instruction* whole, const Tiling& tiling) {
  if (tiling.IsWhole()) return whole;
  const Shards* known = FindShards(whole);
  if (known != nullptr && known->tiling == tiling) return known->value;
  if (known == nullptr && IsAnnotation(whole)) return SliceTo(whole->operand(0), tiling);
  for (const Shards& s : slices_[whole]) {
    if (s.tiling == tiling) return s.value;
  }
  if (!tiling.Divides(whole->shape())) {
    return absl::UnimplementedError(
        absl::StrCat(whole->name(), ": ", whole->shape().ToString(), " does not split evenly by ", tiling.ToString()));
  }
  Instruction* out = nullptr;
  if (known == nullptr && slicing_ < kMaxSlicing) {
    ++slicing_;
    absl::StatusOr<Instruction*> made = ComputeSlice(whole, tiling);
    --slicing_;
    ASSIGN_OR_RETURN(out, std::move(made));
  }
  if (out == nullptr) {
    ASSIGN_OR_RETURN(out, Cut(whole, tiling));
  }
  slices_[whole].push_back({out, tiling});
  return out;
}

// Dimensions that lie as they should stay, others are gathered, and what is whole is cut.
absl::StatusOr<Instruction*> Partitioner::Cut(Instruction* whole, const Tiling& tiling) {
  const Shape shard = tiling.ShardOf(whole->shape());
  Tiling left = Tiling::Whole(tiling.rank(), partitions_);
  Instruction* from = whole;
  if (const Shards* known = FindShards(whole)) {
    Ints keep;
    bool any = false;
    for (int64_t d = 0; d < tiling.rank(); ++d) {
      const bool equal = known->tiling.IsTiled(d) && known->tiling.Select({d}) == tiling.Select({d});
      keep.push_back(equal ? d : -1);
      any |= equal;
    }
    if (any) {
      Tiling has = known->tiling;
      from = known->value;
      left = has.Select(keep);
      for (int64_t d = has.rank(); d-- > 0;) {
        if (!has.IsTiled(d) || keep[static_cast<size_t>(d)] >= 0) continue;
        from = GatherAlong(from, has, d, whole);
        has = has.Without(d);
      }
    }
  }
  if (auto result = loop_results_.find(whole); result != loop_results_.end() && context_.learning) {
    context_.wanted.emplace(result->second, tiling);
  }
  std::vector<Instruction*> operands = {from};
  Ints sizes;
  const Tiling nothing = Tiling::Whole(1, partitions_);
  const PrimitiveType index = OffsetType(whole->shape());
  bool cut = false;
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    const bool here = tiling.IsTiled(d) && !left.IsTiled(d);
    operands.push_back(here ? Offset(tiling, d, shard.dimensions(d), index) : Offset(nothing, 0, 0, index));
    sizes.push_back(shard.dimensions(d));
    cut |= here;
  }
  if (!cut) return from;
  Attributes attrs;
  attrs.Set(AttrId::kDynamicSliceSizes, std::move(sizes));
  return Op(whole, Opcode::kDynamicSlice, shard, std::move(operands), std::move(attrs));
}

absl::StatusOr<Instruction*> Partitioner::SliceIota(Instruction* iota, const Tiling& tiling) {
  const Shape shard = tiling.ShardOf(iota->shape());
  const PrimitiveType type = shard.element_type();
  const int64_t dim = iota->attrs().GetInt(AttrId::kIotaDimension);
  if (!tiling.IsTiled(dim)) return c_->AddClone(iota, shard, {});
  if ((!IsIntegral(type) && !IsFloat(type)) || iota->shape().dimensions(dim) > INT32_MAX) return nullptr;
  // Counted as integers, so that a narrow type rounds as it does for the whole.
  const Shape counted = shard.WithElementType(PrimitiveType::kS32);
  Instruction* from_zero = c_->AddClone(iota, counted, {});
  Instruction* start = MakeBroadcast(c_, iota, Offset(tiling, dim, shard.dimensions(dim)), counted, {});
  Instruction* number = Op(iota, Opcode::kAdd, counted, {from_zero, start});
  return type == PrimitiveType::kS32 ? number : Op(iota, Opcode::kConvert, shard, {number});
}

absl::StatusOr<Instruction*> Partitioner::ComputeSlice(Instruction* whole, const Tiling& tiling) {
  const Shape shard = tiling.ShardOf(whole->shape());
  Instruction* none = nullptr;
  if (context_.IsManual(whole)) return none;
  // What costs more than moving its result is not done twice.
  const bool heavy = whole->Is(Opcode::kDot) || whole->Is(Opcode::kReduce);
  if (heavy && (whole->users().size() > 1 || (whole == c_->root() && !whole->users().empty()))) return none;
  switch (whole->opcode()) {
    case Opcode::kIota:
      return SliceIota(whole, tiling);
    case Opcode::kConstant: {
      if (!whole->literal().IsAllEqual()) return none;
      ASSIGN_OR_RETURN(Literal element,
                       Literal::FromBytes(Shape::Scalar(shard.element_type()),
                                          absl::MakeConstSpan(whole->literal().bytes(),
                                                              static_cast<size_t>(ByteWidth(shard.element_type())))));
      return MakeBroadcast(c_, whole, MakeConstant(c_, whole, std::move(element)), shard, {});
    }
    case Opcode::kBroadcast: {
      ASSIGN_OR_RETURN(Instruction * x, SliceTo(whole->operand(0), tiling.Select(whole->dimensions())));
      return MakeBroadcast(c_, whole, x, shard, whole->dimensions());
    }
    case Opcode::kTranspose: {
      Ints inverse(whole->dimensions().size());
      for (size_t d = 0; d < inverse.size(); ++d) {
        inverse[static_cast<size_t>(whole->dimensions()[d])] = static_cast<int64_t>(d);
      }
      ASSIGN_OR_RETURN(Instruction * x, SliceTo(whole->operand(0), tiling.Select(inverse)));
      return c_->AddClone(whole, shard, {x});
    }
    case Opcode::kReduce: {
      Ints from;
      int64_t next = 0;
      for (int64_t d = 0; d < whole->operand(0)->shape().rank(); ++d) {
        const Ints& reduced = whole->dimensions();
        from.push_back(std::find(reduced.begin(), reduced.end(), d) == reduced.end() ? next++ : -1);
      }
      std::vector<Instruction*> operands(whole->operands().begin(), whole->operands().end());
      for (size_t k = 0; k < operands.size() / 2; ++k) {
        ASSIGN_OR_RETURN(operands[k], SliceTo(operands[k], tiling.Select(from)));
      }
      return c_->AddClone(whole, shard, operands);
    }
    case Opcode::kDot: {
      // An operand's dimensions that the result has, as they are there; those that are added up stay.
      const Factors f = *FactorsOf(*whole);
      auto of_operand = [&](int64_t k) {
        Ints from;
        for (int64_t factor : f.operands[static_cast<size_t>(k)]) {
          const auto at = std::find(f.result.begin(), f.result.end(), factor);
          from.push_back(at == f.result.end() ? -1 : at - f.result.begin());
        }
        return tiling.Select(from);
      };
      ASSIGN_OR_RETURN(Instruction * a, SliceTo(whole->operand(0), of_operand(0)));
      ASSIGN_OR_RETURN(Instruction * b, SliceTo(whole->operand(1), of_operand(1)));
      return c_->AddClone(whole, shard, {a, b});
    }
    default:
      break;
  }
  if (!whole->info().Has(kElementwise) || !whole->control_predecessors().empty()) return none;
  std::vector<Instruction*> operands;
  for (Instruction* o : whole->operands()) {
    const bool full = o->shape().dimensions() == whole->shape().dimensions();
    if (!full && !o->shape().IsScalar()) return none;
    ASSIGN_OR_RETURN(Instruction * x, SliceTo(o, full ? tiling : Tiling::Whole(0, partitions_)));
    operands.push_back(x);
  }
  return c_->AddClone(whole, shard, operands);
}

}  // namespace backplane
