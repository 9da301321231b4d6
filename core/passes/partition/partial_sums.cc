// Values that are still to be added up over some of the partitions ("unreduced"). What is linear in them is worked out
// on the parts, so that the sum is taken where it is needed, which may be behind a loop, and once.
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

constexpr int kMaxDepth = 100;  // operations on parts, one above the other

bool IsZero(const Instruction* x) {
  const Literal* value = UniformConstant(x);
  return value != nullptr && value->num_elements() > 0 && value->IsAll(0);
}

}  // namespace

Tiling TilesOfParts(const Tiling& parts) {
  Ints dims(static_cast<size_t>(parts.rank() - 1));
  std::iota(dims.begin(), dims.end(), 0);
  return parts.Select(dims);
}

const Partitioner::Shards* Partitioner::FindPartial(const Instruction* whole) const {
  auto at = partial_.find(whole);
  return at == partial_.end() ? nullptr : &at->second;
}

// The whole value of partial sums.
absl::StatusOr<Instruction*> Partitioner::SumParts(const Shards& partial, const Instruction* like) {
  const int64_t part = partial.tiling.rank() - 1;
  ASSIGN_OR_RETURN(Computation * sum,
                   ScalarBinaryComputation(context_.module, Opcode::kAdd, partial.value->shape().element_type()));
  Instruction* x = AllReduce(like, partial.value, sum, partial.tiling.GroupsAlong({part}));
  return Gather({x, TilesOfParts(partial.tiling)}, like);
}

// Whether a sum of ours, about to be taken over these parts, makes the value.
Instruction* Partitioner::AddendOf(Instruction* shard, const Tiling& parts) const {
  if (!shard->Is(Opcode::kAllReduce) || shard->operand_count() != 1 || context_.replicas != 1) return nullptr;
  if (AsBinaryOp(*shard->called(0)) != std::optional<Opcode>(Opcode::kAdd)) return nullptr;
  std::vector<Ints> has = shard->attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand();
  std::vector<Ints> wants = parts.GroupsAlong({parts.rank() - 1});
  for (std::vector<Ints>* groups : {&has, &wants}) {
    for (Ints& g : *groups) std::sort(g.begin(), g.end());
    std::sort(groups->begin(), groups->end());
  }
  return has == wants ? shard->operand(0) : nullptr;
}

bool Partitioner::IsInParts(Instruction* whole, const Tiling& parts, int depth) const {
  // To put off a sum that has been taken already would be to take it twice.
  if (const Shards* known = FindPartial(whole)) return known->tiling == parts && !summed_.contains(whole);
  if (depth > kMaxDepth || context_.IsManual(whole) || !whole->shape().IsArray()) return false;
  auto operand = [&](int64_t k) { return IsInParts(whole->operand(k), parts, depth + 1); };
  switch (whole->opcode()) {
    case Opcode::kCustomCall:
      return IsAnnotation(whole) && FindShards(whole) == nullptr && operand(0);
    case Opcode::kAdd:
    case Opcode::kSubtract:
      // Zero is a part of any sum.
      return (operand(0) || IsZero(whole->operand(0))) && (operand(1) || IsZero(whole->operand(1))) &&
             !(IsZero(whole->operand(0)) && IsZero(whole->operand(1)));
    case Opcode::kNegate:
      return operand(0);
    case Opcode::kMultiply:
      return IsFloat(whole->shape().element_type()) && operand(0) != operand(1);
    case Opcode::kTranspose: {
      const Tiling of = TransposedParts(whole, parts);
      return IsInParts(whole->operand(0), of, depth + 1);
    }
    default:
      break;
  }
  const Shards* known = FindShards(whole);
  const Tiling tiles = TilesOfParts(parts);
  if (tiles.IsWhole()) return AddendOf(whole, parts) != nullptr;
  return known != nullptr && known->tiling == tiles && AddendOf(known->value, parts) != nullptr;
}

Tiling Partitioner::TransposedParts(const Instruction* transpose, const Tiling& parts) {
  Ints from(transpose->dimensions().size());
  for (size_t d = 0; d < from.size(); ++d) {
    from[static_cast<size_t>(transpose->dimensions()[d])] = static_cast<int64_t>(d);
  }
  from.push_back(parts.rank() - 1);
  return parts.Select(from);
}

// Where the partitions of each group hold the pieces of the value between them, each puts its own among zeros, and
// nothing is sent. Null where they do not.
absl::StatusOr<Instruction*> Partitioner::AmongZeros(Instruction* whole, const Tiling& parts) {
  Instruction* none = nullptr;
  const Shards* known = FindShards(whole);
  const Tiling tiles = TilesOfParts(parts);
  if (known == nullptr || known->tiling.families() != tiles.families()) return none;
  if (!known->tiling.Divides(whole->shape()) || !tiles.Divides(whole->shape())) return none;
  const Tiling pieces = known->tiling;
  const Shape tile = tiles.ShardOf(whole->shape()).WithoutLayout(), piece = pieces.ShardOf(whole->shape());
  const int64_t part = parts.rank() - 1;
  if (piece.num_elements() == 0 || tile.num_elements() != piece.num_elements() * parts.tiles(part)) return none;
  for (const Ints& group : parts.GroupsAlong({part})) {
    std::set<Ints> places;
    for (int64_t p : group) {
      Ints place;
      for (int64_t d = 0; d < pieces.rank(); ++d) {
        place.push_back(pieces.at(p, d) * piece.dimensions(d) - tiles.at(p, d) * tile.dimensions(d));
        if (place.back() < 0 || place.back() + piece.dimensions(d) > tile.dimensions(d)) return none;
      }
      if (!places.insert(std::move(place)).second) return none;
    }
  }
  Instruction* zero = MakeConstant(c_, whole, Literal(Shape::Scalar(tile.element_type())));
  std::vector<Instruction*> operands = {MakeBroadcast(c_, whole, zero, tile, {}), known->value};
  const PrimitiveType index = OffsetType(whole->shape());
  for (int64_t d = 0; d < pieces.rank(); ++d) {
    Instruction* at = Offset(pieces, d, piece.dimensions(d), index);
    if (tiles.IsTiled(d)) {
      at = Op(whole, Opcode::kSubtract, Shape::Scalar(index), {at, Offset(tiles, d, tile.dimensions(d), index)});
    }
    operands.push_back(at);
  }
  return Op(whole, Opcode::kDynamicUpdateSlice, tile, std::move(operands));
}

// Partial sums: those that are known, those that an all-reduce of ours is about to add up, those of what is linear in
// such, pieces of the value among zeros, or the value on the first of each group and zeros on the others.
absl::StatusOr<Instruction*> Partitioner::PartialTo(Instruction* whole, const Tiling& parts) {
  const Shards* known = FindPartial(whole);
  if (known != nullptr && known->tiling == parts) return known->value;
  if (known == nullptr) {
    ASSIGN_OR_RETURN(Instruction * placed, AmongZeros(whole, parts));
    if (placed != nullptr) return placed;
  }
  if (known == nullptr && IsAnnotation(whole)) return PartialTo(whole->operand(0), parts);
  if (known == nullptr && IsInParts(whole, parts, 0)) {
    ASSIGN_OR_RETURN(Instruction * made, OnParts(whole, parts));
    if (made != nullptr) {
      partial_[whole] = {made, parts};
      return made;
    }
  }
  const int64_t part = parts.rank() - 1;
  ASSIGN_OR_RETURN(Instruction * shard, SliceTo(whole, TilesOfParts(parts)));
  if (Instruction* addend = AddendOf(shard, parts)) return addend;
  if (IsZero(whole)) return shard;
  const Shape shape = shard->shape().WithoutLayout();
  const Shape bits = shape.WithElementType(PrimitiveType::kPred);
  Attributes equal;
  equal.SetEnum(AttrId::kDirection, ComparisonDirection::kEq);
  Instruction* zero = MakeConstant(c_, whole, Literal::ScalarInt(PrimitiveType::kS32, 0));
  Instruction* first = Op(whole, Opcode::kCompare, Shape::Scalar(PrimitiveType::kPred), {Offset(parts, part, 1), zero},
                          std::move(equal));
  Instruction* none = MakeConstant(c_, whole, Literal(Shape::Scalar(shape.element_type())));
  if (!shape.IsScalar()) {
    first = MakeBroadcast(c_, whole, first, bits, {});
    none = MakeBroadcast(c_, whole, none, shape, {});
  }
  return Op(whole, Opcode::kSelect, shape, {first, shard, none});
}

// The operation itself on the parts of its operands; null for one that is none of those that IsInParts knows.
absl::StatusOr<Instruction*> Partitioner::OnParts(Instruction* whole, const Tiling& parts) {
  Instruction* none = nullptr;
  const Tiling tiles = TilesOfParts(parts);
  const Shape shard = tiles.ShardOf(whole->shape());
  std::vector<Instruction*> operands;
  switch (whole->opcode()) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kNegate:
      for (Instruction* o : whole->operands()) {
        ASSIGN_OR_RETURN(Instruction * x, PartialTo(o, parts));
        operands.push_back(x);
      }
      break;
    case Opcode::kMultiply:
      for (Instruction* o : whole->operands()) {
        ASSIGN_OR_RETURN(Instruction * x, IsInParts(o, parts, 0) ? PartialTo(o, parts) : SliceTo(o, tiles));
        operands.push_back(x);
      }
      break;
    case Opcode::kTranspose: {
      ASSIGN_OR_RETURN(Instruction * x, PartialTo(whole->operand(0), TransposedParts(whole, parts)));
      operands.push_back(x);
      break;
    }
    default:
      return none;
  }
  return c_->AddClone(whole, shard, operands);
}

}  // namespace backplane
