// Where whole values and what a partition holds meet by the program's own word.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"
#include "core/passes/order_effects.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::Status Named(const Instruction* i, const absl::Status& s) {
  return absl::Status(s.code(), absl::StrCat(i->name(), ": ", s.message()));
}

absl::Status UnevenSums(const Instruction* i) {
  return absl::UnimplementedError(
      absl::StrCat(i->name(), ": partial sums of shards that do not divide ", i->shape().ToString()));
}

// A value for each leaf, put together to the shape.
Instruction* Rebuild(Computation* c, const Instruction* like, const Shape& shape,
                     const std::vector<Instruction*>& leaves, size_t& next) {
  if (!shape.IsTuple()) return leaves[next++];
  std::vector<Instruction*> elements;
  for (const Shape& s : shape.tuple_shapes()) elements.push_back(Rebuild(c, like, s, leaves, next));
  return Make(c, like, Opcode::kTuple, shape, std::move(elements));
}

void Leaves(Computation* c, Instruction* x, std::vector<Instruction*>& out) {
  if (!x->shape().IsTuple()) return out.push_back(x);
  for (int64_t i = 0; i < x->shape().tuple_size(); ++i) Leaves(c, MakeElement(c, x, i), out);
}

}  // namespace

absl::StatusOr<bool> Partitioner::ShardParameter(Instruction* parameter, const Sharding& sharding) {
  const Shape shape = parameter->shape();
  const bool sums = Tiling::HasParts(sharding);
  absl::StatusOr<Tiling> of =
      sums ? Tiling::PartsOf(sharding, shape, partitions_) : Tiling::Of(sharding, shape, partitions_);
  if (!of.ok()) return Named(parameter, of.status());
  if (of->IsWhole()) return false;
  const Tiling tiles = sums ? TilesOfParts(*of) : *of;
  const std::vector<Instruction*> users(parameter->users().begin(), parameter->users().end());
  Shape shard = tiles.ShardOf(shape);
  if (shape.has_layout()) shard.set_layout(shape.layout());
  parameter->mutable_shape() = std::move(shard);
  if (sums && tiles.Divides(shape)) {
    ASSIGN_OR_RETURN(Instruction * whole, SumParts({parameter, *of}, parameter));
    Redirect(parameter, whole, users);
    partial_[whole] = {parameter, *std::move(of)};
    return true;
  }
  Shards shards{parameter, tiles};
  if (sums) {
    ASSIGN_OR_RETURN(Computation * sum, ScalarBinaryComputation(context_.module, Opcode::kAdd, shape.element_type()));
    shards.value = AllReduce(parameter, parameter, sum, of->GroupsAlong({of->rank() - 1}));
  }
  shards = WithoutFilling(std::move(shards), shape, parameter);
  Instruction* whole = Gather(shards, parameter);
  Redirect(parameter, whole, users);
  if (whole != shards.value) shards_[whole] = std::move(shards);
  return true;
}

absl::Status Partitioner::Annotation(Instruction* i) {
  Instruction* x = i->operand(0);
  if (!x->shape().IsArray() || i->sharding() == nullptr) {
    i->ReplaceAllUsesWith(x);
    return absl::OkStatus();
  }
  // Stays in the program, as the whole value, until all is done: a value annotated anew may lie otherwise than before.
  if (Tiling::HasParts(*i->sharding())) {
    absl::StatusOr<Tiling> parts = Tiling::PartsOf(*i->sharding(), x->shape(), partitions_);
    if (!parts.ok()) return Named(i, parts.status());
    if (!TilesOfParts(*parts).Divides(x->shape())) return absl::OkStatus();
    if (!IsInParts(x, *parts, 0)) summed_.insert(i);
    ASSIGN_OR_RETURN(Instruction * partial, PartialTo(x, *parts));
    partial_[i] = {partial, *std::move(parts)};
    return absl::OkStatus();
  }
  absl::StatusOr<Tiling> tiling = Tiling::Of(*i->sharding(), x->shape(), partitions_);
  if (!tiling.ok()) return Named(i, tiling.status());
  *tiling = tiling->EvenPart(x->shape());
  // Open dimensions stay as they lie, as far as that goes with the others.
  if (const Shards* known = FindShards(x)) {
    for (int64_t d : OpenDimensions(i)) tiling->SplitLike(d, known->tiling, d);
  }
  const Tiling* proposed = depth_ == 0 ? context_.Proposed(i) : nullptr;
  if (proposed != nullptr && proposed->Extends(*tiling)) *tiling = *proposed;
  if (tiling->IsWhole() || !tiling->Divides(x->shape())) return absl::OkStatus();
  ASSIGN_OR_RETURN(Instruction * shards, SliceTo(x, *tiling));
  shards_[i] = {shards, *std::move(tiling)};
  return absl::OkStatus();
}

// A member of a group of values that lie alike: as the one does that is split most.
absl::Status Partitioner::Alike(Instruction* i) {
  Instruction* x = i->operand(0);
  const std::string& group = i->attrs().GetString(AttrId::kOpaque);
  const Shards* known = FindShards(x);
  if (context_.learning) {
    auto at = context_.groups.find(group);
    const bool better =
        known != nullptr && (at == context_.groups.end() || known->tiling.TileCount() > at->second.TileCount());
    if (better) context_.groups.insert_or_assign(group, known->tiling);
  }
  const Tiling* proposed = depth_ == 0 ? context_.Proposed(i) : nullptr;
  if (proposed != nullptr) {
    const Tiling alike = *proposed;
    ASSIGN_OR_RETURN(Instruction * shards, SliceTo(x, alike));
    shards_[i] = {shards, alike};
    return absl::OkStatus();
  }
  auto at = context_.groups.find(group);
  if (at == context_.groups.end() || !x->shape().IsArray() || at->second.rank() != x->shape().rank() ||
      !at->second.Divides(x->shape())) {
    if (known != nullptr) {
      const Shards same = *known;  // a new entry moves those of the map
      shards_[i] = same;
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Instruction * shards, SliceTo(x, at->second));
  shards_[i] = {shards, at->second};
  return absl::OkStatus();
}

// A boundary may leave dimensions alone that the sharding splits over axes which are not manual.
absl::StatusOr<Tiling> Partitioner::BoundaryTiling(const Instruction* i, Tiling tiling, const Shape& whole,
                                                   const Shape& shard) {
  for (int64_t d = 0; d < whole.rank(); ++d) {
    const int64_t large = whole.dimensions(d), small = shard.dimensions(d);
    if (large == small) {
      tiling = tiling.Without(d);
    } else if ((large + tiling.tiles(d) - 1) / tiling.tiles(d) != small) {
      return absl::UnimplementedError(absl::StrCat(i->name(), ": dimension ", d, " of ", whole.ToString(), " is ",
                                                   small, " in the manual region, ", tiling.ToString(),
                                                   " splits it into ", tiling.tiles(d)));
    }
  }
  return tiling;
}

absl::Status Partitioner::EnterManual(Instruction* i) {
  Instruction* x = i->operand(0);
  const Sharding* sharding = x->sharding().get();
  if (sharding == nullptr) sharding = i->sharding().get();
  if (!i->shape().IsArray() || (sharding == nullptr && x->shape() == i->shape())) {
    i->ReplaceAllUsesWith(x);
    return absl::OkStatus();
  }
  if (sharding == nullptr) return absl::InvalidArgumentError(absl::StrCat(i->name(), ": its operand has no sharding"));
  const bool sums = Tiling::HasParts(*sharding);
  absl::StatusOr<Tiling> of =
      sums ? Tiling::PartsOf(*sharding, x->shape(), partitions_) : Tiling::Of(*sharding, x->shape(), partitions_);
  if (!of.ok()) return Named(i, of.status());
  ASSIGN_OR_RETURN(Tiling tiling, BoundaryTiling(i, *std::move(of), x->shape(), i->shape()));
  const bool even = (sums ? TilesOfParts(tiling) : tiling).Divides(x->shape());
  if (sums && !even) return UnevenSums(i);
  ASSIGN_OR_RETURN(Instruction * shard, sums   ? PartialTo(x, tiling)
                                        : even ? SliceTo(x, tiling)
                                               : WithFilling(x, tiling));
  i->ReplaceAllUsesWith(shard);
  return absl::OkStatus();
}

absl::Status Partitioner::LeaveManual(Instruction* i) {
  Instruction* x = i->operand(0);
  if (!i->shape().IsArray() || (i->sharding() == nullptr && x->shape() == i->shape())) {
    i->ReplaceAllUsesWith(x);
    return absl::OkStatus();
  }
  if (i->sharding() == nullptr) return absl::InvalidArgumentError(absl::StrCat(i->name(), ": has no sharding"));
  const bool sums = Tiling::HasParts(*i->sharding());
  absl::StatusOr<Tiling> of = sums ? Tiling::PartsOf(*i->sharding(), i->shape(), partitions_)
                                   : Tiling::Of(*i->sharding(), i->shape(), partitions_);
  if (!of.ok()) return Named(i, of.status());
  ASSIGN_OR_RETURN(Tiling tiling, BoundaryTiling(i, *std::move(of), i->shape(), x->shape()));
  if (!sums) {
    Adopt(i, WithoutFilling({x, std::move(tiling)}, i->shape(), i));
    return absl::OkStatus();
  }
  if (!TilesOfParts(tiling).Divides(i->shape())) return UnevenSums(i);
  ASSIGN_OR_RETURN(Instruction * whole, SumParts({x, tiling}, i));
  i->ReplaceAllUsesWith(whole);
  partial_[whole] = {x, std::move(tiling)};
  return absl::OkStatus();
}

// A call or a transfer that must happen on one device: the others have no part in it and are told its results. Of a
// transfer `i` is the second half; both go.
absl::Status Partitioner::RunOnce(Instruction* i, int64_t device) {
  if (device < 0 || device >= partitions_) {
    return absl::InvalidArgumentError(absl::StrCat(i->name(), ": is to run on device ", device, " of ", partitions_));
  }
  Module* module = context_.module;
  Instruction* const start = i->Is(Opcode::kSendDone) || i->Is(Opcode::kRecvDone) ? i->operand(0) : i;
  if (start != i && start->users().size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(start->name(), ": has more users than ", i->name()));
  }
  std::vector<Instruction*> operands(start->operands().begin(), start->operands().end());
  std::vector<Shape> shapes;
  for (const Instruction* o : operands) shapes.push_back(o->shape().WithoutLayout());
  Instruction* packed = Op(i, Opcode::kTuple, Shape::Tuple(shapes), operands);
  auto branch = [&](absl::string_view name, std::vector<Instruction*>& arguments) {
    Computation* c = module->AddComputation(std::string(name));
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = packed->shape();
    spec.attrs.Set(AttrId::kParameterNumber, int64_t{0});
    Instruction* parameter = c->Add(std::move(spec));
    for (int64_t k = 0; k < packed->shape().tuple_size(); ++k) arguments.push_back(MakeElement(c, parameter, k));
    return c;
  };
  std::vector<Instruction*> here, elsewhere;
  Computation* run = branch("here", here);
  Instruction* call = run->AddClone(start, start->shape(), here);
  call->set_sharding(nullptr);
  if (start != i) call = run->AddClone(i, i->shape(), {call});
  run->set_root(call);
  Computation* skip = branch("elsewhere", elsewhere);
  std::vector<Instruction*> nothing;
  ForEachLeaf(i->shape(), [&](const Shape& s, const std::vector<int64_t>&) {
    if (s.IsArray()) {
      Instruction* zero = MakeConstant(skip, i, Literal(Shape::Scalar(s.element_type())));
      nothing.push_back(s.IsScalar() ? zero : MakeBroadcast(skip, i, zero, s.WithoutLayout(), {}));
    } else {
      nothing.push_back(Make(skip, i, Opcode::kAfterAll, Shape::Token(), {}));
    }
  });
  size_t next = 0;
  skip->set_root(Rebuild(skip, i, i->shape().WithoutLayout(), nothing, next));

  Attributes equal;
  equal.SetEnum(AttrId::kDirection, ComparisonDirection::kEq);
  Instruction* number = MakeConstant(c_, i, Literal::ScalarInt(PrimitiveType::kU32, device));
  Instruction* is_here = Op(i, Opcode::kCompare, Shape::Scalar(PrimitiveType::kPred),
                            {PartitionNumber(PrimitiveType::kU32), number}, std::move(equal));
  Instruction* either =
      Op(i, Opcode::kConditional, i->shape().WithoutLayout(), {is_here, packed, packed}, {}, {run, skip});
  Ints group = {device};
  for (int64_t p = 0; p < partitions_; ++p) {
    if (p != device) group.push_back(p);
  }
  std::vector<Instruction*> results;
  Leaves(c_, either, results);
  for (Instruction*& r : results) {
    if (r->shape().IsArray()) r = Exchange(i, Opcode::kCollectiveBroadcast, r->shape().WithoutLayout(), {r}, {group});
  }
  next = 0;
  i->ReplaceAllUsesWith(Rebuild(c_, i, i->shape().WithoutLayout(), results, next));
  TakeOrder(start, either);
  if (start != i) TakeOrder(i, either);
  if (c_->root() == i || !i->users().empty()) return absl::InternalError(absl::StrCat(i->name(), ": is still used"));
  RETURN_IF_ERROR(c_->Remove(i));
  return start == i ? absl::OkStatus() : c_->Remove(start);
}

// Random numbers without a key: every partition goes on with those of the first.
absl::Status Partitioner::DrawOnce(Instruction* i) {
  if (!i->shape().IsArray()) return absl::OkStatus();
  const std::vector<Instruction*> users(i->users().begin(), i->users().end());
  Ints group(static_cast<size_t>(partitions_));
  std::iota(group.begin(), group.end(), 0);
  Instruction* drawn = Exchange(i, Opcode::kCollectiveBroadcast, i->shape().WithoutLayout(), {i}, {group});
  Redirect(i, drawn, users);
  return absl::OkStatus();
}

}  // namespace backplane
