// Rules that compute operations on shards, one per kind of operation. A rule chooses the tiling of the result from the
// operands with known shards, reshards all operands to match, and adds the operation on shards.
#include <algorithm>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "core/eval/scalar_compiler.h"
#include "core/ir/builder.h"
#include "core/passes/partition/factors.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Whether a reduction may reduce the shards first and then combine their results. Every shard starts from `init`, so
// the operation must accept it repeatedly.
bool CanReducePartially(Opcode op, const Instruction* init) {
  while (IsShardingAnnotation(init)) init = init->operand(0);
  const Literal* value = FindUniformConstant(init);
  switch (op) {
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
      return true;  // idempotent
    case Opcode::kAdd:
    case Opcode::kXor:
      return value != nullptr && value->IsAll(0);
    case Opcode::kMultiply:
      return value != nullptr && value->IsAll(1);
    default:
      return false;
  }
}

}  // namespace

Partitioner::MaybeShards Partitioner::ComputeOnShards(Instruction* i) {
  std::optional<Shards> none;
  const bool known =
      std::any_of(i->operands().begin(), i->operands().end(), [&](const Instruction* o) { return FindShards(o); });
  if (!known || i->HasSideEffect() || !i->control_predecessors().empty() || i->info().Has(kCollective)) return none;
  if (!i->shape().IsArray()) return none;  // see PartitionMultiOutput
  if (HasDynamicArray(i)) return none;
  switch (i->opcode()) {
    case Opcode::kReshape:
      return PartitionReshape(i);
    case Opcode::kReduce:
      return PartitionReduce(i);
    case Opcode::kDot:
      return PartitionDot(i);
    case Opcode::kConvolution:
      return PartitionConvolution(i);
    case Opcode::kGather:
      return PartitionGather(i);
    case Opcode::kScatter:
      return PartitionScatter(i);
    default:
      return PartitionAlongFactors(i);
  }
}

// Splits the dimensions of operand and result into runs of equal products. In each run only the outermost dimension may
// be split, because its tiles are contiguous in the run.
Partitioner::MaybeShards Partitioner::PartitionReshape(Instruction* i) {
  const Shards& s = *FindShards(i->operand(0));
  const Shape &in = i->operand(0)->shape(), &out = i->shape();
  if (in.num_elements() == 0) return std::optional<Shards>();
  Ints from(static_cast<size_t>(out.rank()), -1);
  Ints dropped;
  int64_t a = 0, b = 0;
  while (a < in.rank() || b < out.rank()) {
    const int64_t begin_a = a, begin_b = b;
    int64_t product_a = 1, product_b = 1;
    do {
      if (product_a <= product_b && a < in.rank())
        product_a *= in.dimensions(a++);
      else if (b < out.rank())
        product_b *= out.dimensions(b++);
      else if (a < in.rank())
        product_a *= in.dimensions(a++);
    } while (product_a != product_b);
    // The outermost dimension of the run that has more than one element.
    int64_t outer_a = begin_a, outer_b = begin_b;
    while (outer_a < a && in.dimensions(outer_a) == 1) ++outer_a;
    while (outer_b < b && out.dimensions(outer_b) == 1) ++outer_b;
    for (int64_t d = begin_a; d < a; ++d) {
      if (!s.tiling.IsTiled(d)) continue;
      if (d == outer_a && outer_b < b && out.dimensions(outer_b) % s.tiling.tiles(d) == 0) {
        from[static_cast<size_t>(outer_b)] = d;
      } else {
        dropped.push_back(d);
      }
    }
  }
  Tiling kept_tiling = s.tiling;
  for (int64_t d : dropped) kept_tiling = kept_tiling.ReplicateDim(d);
  if (kept_tiling.IsReplicated()) return std::optional<Shards>();
  Tiling tiling = kept_tiling.SelectDims(from);
  ASSIGN_OR_RETURN(Instruction * operand, ReshardTo(i->operand(0), kept_tiling));
  Instruction* x = c_->AddClone(i, tiling.ShardShape(out), {operand});
  return Shards{x, std::move(tiling)};
}

Partitioner::MaybeShards Partitioner::PartitionReduce(Instruction* i) {
  const int64_t inputs = i->operand_count() / 2;
  const Shards* known = FindShards(i->operand(0));
  if (known == nullptr || inputs != 1) return std::optional<Shards>();
  Tiling tiling = known->tiling;
  const std::optional<Opcode> op = AsBinaryOp(*i->called(0));
  const bool reduces_partially = op && CanReducePartially(*op, i->operand(1));
  Ints reduced, kept;
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    if (!absl::c_linear_search(i->dimensions(), d)) {
      kept.push_back(d);
    } else if (tiling.IsTiled(d)) {
      if (reduces_partially)
        reduced.push_back(d);
      else
        tiling = tiling.ReplicateDim(d);
    }
  }
  if (tiling.IsReplicated()) return std::optional<Shards>();
  ASSIGN_OR_RETURN(Instruction * operand, ReshardTo(i->operand(0), tiling));
  Tiling result = tiling.SelectDims(kept);
  Instruction* x = c_->AddClone(i, result.ShardShape(i->shape()), {operand, i->operand(1)});
  if (!reduced.empty()) x = AddAllReduce(i, x, i->called(0), tiling.GroupPartitionsAlong(reduced));
  return Shards{x, std::move(result)};
}

void Partitioner::SplitFactorsLike(const Instruction* x, const Ints& factors, Tiling& tiling) const {
  const Shards* s = FindShards(x);
  for (size_t d = 0; s != nullptr && d < factors.size(); ++d) {
    if (factors[d] >= 0) tiling.SplitLike(factors[d], s->tiling, static_cast<int64_t>(d));
  }
}

Partitioner::MaybeShards Partitioner::PartitionDot(Instruction* i) {
  const Factors f = *GetFactors(*i);
  const Ints &left = f.operands[0], &right = f.operands[1];
  Instruction *lhs = i->operand(0), *rhs = i->operand(1);
  const int64_t contracted = static_cast<int64_t>(i->dot_dims().lhs_contracting.size());
  // Dimensions: those of the result, then the contracting dimensions.
  Tiling product = Tiling::Replicated(static_cast<int64_t>(f.result.size()) + contracted, partitions_);
  // The larger operand takes precedence. Dimensions of the other one that are split differently are gathered.
  const bool left_first = lhs->shape().num_elements() >= rhs->shape().num_elements();
  if (left_first) SplitFactorsLike(lhs, left, product);
  SplitFactorsLike(rhs, right, product);
  if (!left_first) SplitFactorsLike(lhs, left, product);
  if (product.IsReplicated()) return std::optional<Shards>();
  ASSIGN_OR_RETURN(Instruction * a, ReshardTo(lhs, product.SelectDims(left)));
  ASSIGN_OR_RETURN(Instruction * b, ReshardTo(rhs, product.SelectDims(right)));
  Ints contracting;
  for (int64_t k = 0; k < product.rank(); ++k) {
    if (product.IsTiled(k) && !absl::c_linear_search(f.result, k)) contracting.push_back(k);
  }
  Tiling tiling = product.SelectDims(f.result);
  Instruction* x = c_->AddClone(i, tiling.ShardShape(i->shape()), {a, b});
  if (!contracting.empty()) {
    const PrimitiveType type = i->shape().element_type();
    ASSIGN_OR_RETURN(
        Computation * sum,
        MakeScalarBinaryComputation(c_->parent(), type == PrimitiveType::kPred ? Opcode::kOr : Opcode::kAdd, type));
    x = AddAllReduce(i, x, sum, product.GroupPartitionsAlong(contracting));
  }
  return Shards{x, std::move(tiling)};
}

Partitioner::MaybeShards Partitioner::PartitionConvolution(Instruction* i) {
  const ConvolutionDimensions& d = i->conv_dims();
  const Shards* s = FindShards(i->operand(0));
  if (s == nullptr || i->attrs().GetInt(AttrId::kBatchGroupCount, 1) > 1 || !s->tiling.IsTiled(d.input_batch)) {
    return std::optional<Shards>();
  }
  Ints in(static_cast<size_t>(i->operand(0)->shape().rank()), -1), out = in;
  in[static_cast<size_t>(d.input_batch)] = d.input_batch;
  out[static_cast<size_t>(d.output_batch)] = d.input_batch;
  Tiling tiling = s->tiling.SelectDims(out);
  ASSIGN_OR_RETURN(Instruction * operand, ReshardTo(i->operand(0), s->tiling.SelectDims(in)));
  Instruction* x = c_->AddClone(i, tiling.ShardShape(i->shape()), {operand, i->operand(1)});
  return Shards{x, std::move(tiling)};
}

std::optional<Tiling> Partitioner::ChooseOperandTiling(const Instruction& i, const Factors& factors) const {
  auto is_local = [&](int64_t factor) {
    return absl::c_linear_search(factors.result, factor) && !absl::c_linear_search(factors.permuted, factor) &&
           absl::c_all_of(factors.operands,
                          [&](const Ints& list) { return list.empty() || absl::c_linear_search(list, factor); });
  };
  std::optional<Tiling> best;
  for (size_t k = 0; k < factors.operands.size(); ++k) {
    const Ints& of_operand = factors.operands[k];
    const Shards* known = FindShards(i.operand(static_cast<int64_t>(k)));
    if (known == nullptr || of_operand.empty()) continue;
    Tiling tiling = known->tiling;
    for (size_t d = 0; d < of_operand.size(); ++d) {
      const int64_t dim = static_cast<int64_t>(d);
      if (tiling.IsTiled(dim) && (of_operand[d] < 0 || !is_local(of_operand[d]))) tiling = tiling.ReplicateDim(dim);
    }
    if (!tiling.IsReplicated() && (!best || tiling.CountTiles() > best->CountTiles())) best = std::move(tiling);
  }
  return best;
}

Partitioner::MaybeShards Partitioner::PartitionAlongFactors(Instruction* i) {
  const std::optional<Factors> f = GetFactors(*i);
  if (!f) return std::optional<Shards>();
  const std::optional<Tiling> tiling = ChooseOperandTiling(*i, *f);
  if (!tiling) return std::optional<Shards>();
  // The tiling is that of every operand with factors; a scalar (a predicate, a bound) has none.
  const Ints& tiled = *absl::c_find_if(f->operands, [](const Ints& list) { return !list.empty(); });
  Tiling result = tiling->SelectDims(MatchDims(f->result, tiled));
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  for (size_t k = 0; k < operands.size(); ++k) {
    if (f->operands[k].empty()) continue;
    ASSIGN_OR_RETURN(operands[k], ReshardTo(operands[k], *tiling));
  }
  std::vector<Shape> shapes;
  for (const Shape& full : i->shape().IsTuple() ? i->shape().tuple_shapes() : std::vector<Shape>{i->shape()})
    shapes.push_back(result.ShardShape(full));
  Instruction* x = c_->AddClone(i, i->shape().IsTuple() ? Shape::Tuple(shapes) : shapes[0], operands);
  if (i->Is(Opcode::kSlice)) {
    SliceConfig slices = i->slices();
    for (int64_t d = 0; d < result.rank(); ++d) {
      if (result.IsTiled(d)) slices[static_cast<size_t>(d)].limit = shapes[0].dimensions(d);
    }
    x->mutable_attrs().Set(AttrId::kSlices, std::move(slices));
  } else if (i->Is(Opcode::kDynamicSlice)) {
    x->mutable_attrs().Set(AttrId::kDynamicSliceSizes,
                           Ints(shapes[0].dimensions().begin(), shapes[0].dimensions().end()));
  }
  return Shards{x, std::move(result)};
}

// Splits a gather along the batch dimensions of the indices, and along the operand dimensions that it copies in full or
// that are batching dimensions.
Partitioner::MaybeShards Partitioner::PartitionGather(Instruction* i) {
  const Factors f = *GetFactors(*i);
  const Ints &of_operand = f.operands[0], &of_indices = f.operands[1];
  Instruction *operand = i->operand(0), *indices = i->operand(1);
  Tiling tiling = Tiling::Replicated(i->shape().rank(), partitions_);
  SplitFactorsLike(indices, of_indices, tiling);
  SplitFactorsLike(operand, of_operand, tiling);
  if (tiling.IsReplicated()) return std::optional<Shards>();
  const Tiling operand_tiling = tiling.SelectDims(of_operand);
  ASSIGN_OR_RETURN(Instruction * x, ReshardTo(operand, operand_tiling));
  ASSIGN_OR_RETURN(Instruction * at, ReshardTo(indices, tiling.SelectDims(of_indices)));
  Ints sizes = i->attrs().GetInts(AttrId::kSliceSizes);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t dim = static_cast<int64_t>(d);
    if (operand_tiling.IsTiled(dim) && !absl::c_linear_search(i->gather_dims().operand_batching_dims, dim))
      sizes[d] = x->shape().dimensions(dim);
  }
  Instruction* gather = c_->AddClone(i, tiling.ShardShape(i->shape()), {x, at});
  gather->mutable_attrs().Set(AttrId::kSliceSizes, std::move(sizes));
  return Shards{gather, std::move(tiling)};
}

// Splits a scatter along the window dimensions that cover the operand and along batching dimensions.
Partitioner::MaybeShards Partitioner::PartitionScatter(Instruction* i) {
  const std::optional<Factors> f = GetFactors(*i);
  if (!f) return std::optional<Shards>();
  Tiling tiling = Tiling::Replicated(i->shape().rank(), partitions_);
  for (int64_t k : {2, 1, 0})  // the updates take precedence: they are computed last
    SplitFactorsLike(i->operand(k), f->operands[static_cast<size_t>(k)], tiling);
  if (tiling.IsReplicated()) return PartitionScatterByUpdates(i);
  std::vector<Instruction*> operands;
  for (size_t k = 0; k < 3; ++k) {
    ASSIGN_OR_RETURN(Instruction * x,
                     ReshardTo(i->operand(static_cast<int64_t>(k)), tiling.SelectDims(f->operands[k])));
    operands.push_back(x);
  }
  return Shards{c_->AddClone(i, tiling.ShardShape(i->shape()), operands), std::move(tiling)};
}

// Splits the updates of a combining scatter: each partition scatters its own updates, and an all-reduce combines the
// results. Not if the operand is much larger than the updates: gathering the updates is cheaper then.
Partitioner::MaybeShards Partitioner::PartitionScatterByUpdates(Instruction* i) {
  Instruction *operand = i->operand(0), *indices = i->operand(1), *updates = i->operand(2);
  const std::optional<Opcode> op = AsBinaryOp(*i->called(0));
  if (!op || operand->shape().num_elements() > 2 * updates->shape().num_elements()) return std::optional<Shards>();
  const bool accepts_repeats = CanReducePartially(*op, operand);
  if (!accepts_repeats && *op != Opcode::kAdd) return std::optional<Shards>();
  // Scatter dimensions of the updates and the matching dimensions of the indices.
  const ScatterDimensions& g = i->scatter_dims();
  Ints of_indices(static_cast<size_t>(indices->shape().rank()), -1);
  Tiling tiling = Tiling::Replicated(updates->shape().rank(), partitions_);
  const Shards *update_shards = FindShards(updates), *index_shards = FindShards(indices);
  int64_t index_dim = 0;
  for (int64_t d = 0; d < updates->shape().rank(); ++d) {
    if (absl::c_linear_search(g.update_window_dims, d)) continue;
    if (index_dim == g.index_vector_dim) ++index_dim;
    of_indices[static_cast<size_t>(index_dim)] = d;
    if (update_shards != nullptr) tiling.SplitLike(d, update_shards->tiling, d);
    if (index_shards != nullptr) tiling.SplitLike(d, index_shards->tiling, index_dim);
    ++index_dim;
  }
  if (tiling.IsReplicated()) return std::optional<Shards>();
  Instruction* initial = operand;
  if (!accepts_repeats) {
    Instruction* zero = MakeConstant(c_, i, Literal(Shape::Scalar(operand->shape().element_type())));
    initial = operand->shape().IsScalar() ? zero : MakeBroadcast(c_, i, zero, operand->shape().WithoutLayout(), {});
  }
  ASSIGN_OR_RETURN(Instruction * index_shard, ReshardTo(indices, tiling.SelectDims(of_indices)));
  ASSIGN_OR_RETURN(Instruction * update_shard, ReshardTo(updates, tiling));
  Instruction* x = c_->AddClone(i, i->shape(), {initial, index_shard, update_shard});
  Ints split_dims;
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    if (tiling.IsTiled(d)) split_dims.push_back(d);
  }
  x = AddAllReduce(i, x, i->called(0), tiling.GroupPartitionsAlong(split_dims));
  if (!accepts_repeats) x = AddOp(i, Opcode::kAdd, i->shape().WithoutLayout(), {operand, x});
  return Shards{x, Tiling::Replicated(i->shape().rank(), partitions_)};
}

// Splits a custom call along leading batch dimensions. The frontend attribute num_batch_dims states that the call works
// on each batch element independently.
absl::StatusOr<bool> Partitioner::PartitionBatchedCall(Instruction* i) {
  auto attribute = i->frontend_attributes().find("num_batch_dims");
  int64_t batch = 0;
  if (attribute == i->frontend_attributes().end() || !absl::SimpleAtoi(attribute->second, &batch) || batch < 1)
    return false;
  bool arrays = true;
  ForEachLeaf(i->shape(),
              [&](const Shape& s, const std::vector<int64_t>& at) { arrays &= s.IsArray() && at.size() < 2; });
  if (!arrays || i->HasSideEffect()) return false;
  std::optional<Tiling> batch_tiling;  // of the batch dimensions
  for (const Instruction* o : i->operands()) {
    if (!o->shape().IsArray()) return false;
    const Shards* s = FindShards(o);
    if (s == nullptr || o->shape().rank() < batch || batch_tiling) continue;
    Ints leading(static_cast<size_t>(batch));
    std::iota(leading.begin(), leading.end(), 0);
    Tiling t = s->tiling.SelectDims(leading);
    if (!t.IsReplicated()) batch_tiling = std::move(t);
  }
  if (!batch_tiling) return false;
  auto tiling_of = [&](const Shape& shape) {
    Ints from(static_cast<size_t>(shape.rank()), -1);
    if (shape.rank() >= batch) std::iota(from.begin(), from.begin() + batch, 0);
    return batch_tiling->SelectDims(from);
  };
  bool even = true;
  auto shard_of = [&](const Shape& full) {
    const Tiling t = tiling_of(full);
    even &= t.Divides(full);
    Shape shard = even ? t.ShardShape(full) : full;
    if (full.has_layout()) shard.set_layout(full.layout());
    return shard;
  };
  std::vector<Shape> shapes;
  const bool tuple = i->shape().IsTuple();
  for (const Shape& s : tuple ? i->shape().tuple_shapes() : std::vector<Shape>{i->shape()})
    shapes.push_back(shard_of(s));
  std::vector<Shape> layouts = i->attrs().Get<std::vector<Shape>>(AttrId::kOperandLayouts);
  for (Shape& s : layouts) s = shard_of(s);
  if (!even) return false;
  std::vector<Instruction*> operands;
  for (Instruction* o : i->operands()) {
    ASSIGN_OR_RETURN(Instruction * x, ReshardTo(o, tiling_of(o->shape())));
    operands.push_back(x);
  }
  Instruction* call = c_->AddClone(i, tuple ? Shape::Tuple(shapes) : shapes[0], operands);
  if (!layouts.empty()) call->mutable_attrs().Set(AttrId::kOperandLayouts, std::move(layouts));
  if (!tuple) {
    ReplaceWithShards(i, {call, tiling_of(i->shape())});
    return true;
  }
  std::vector<Tiling> tilings;
  for (const Shape& full : i->shape().tuple_shapes()) tilings.push_back(tiling_of(full));
  ReplaceWithShardsOfTuple(i, call, std::move(tilings));
  return true;
}

// Splits an operation with several results along the dimensions in which it works on each element independently: a
// sort of keys and values, a search for the largest elements, a reduction of several arrays such as argmax.
absl::StatusOr<bool> Partitioner::PartitionMultiOutput(Instruction* i) {
  if (!i->control_predecessors().empty()) return false;
  if (HasDynamicArray(i)) return false;
  ASSIGN_OR_RETURN(const std::optional<Shards> shards, PartitionAlongFactors(i));
  if (!shards) return false;
  ReplaceWithShardsOfTuple(i, shards->value, std::vector<Tiling>(i->shape().tuple_shapes().size(), shards->tiling));
  return true;
}

void Partitioner::ReplaceWithShardsOfTuple(Instruction* full, Instruction* on_shards, std::vector<Tiling> tilings) {
  std::vector<Instruction*> results;
  for (size_t k = 0; k < tilings.size(); ++k) {
    Shards shards{MakeElement(c_, on_shards, static_cast<int64_t>(k)), std::move(tilings[k])};
    results.push_back(AllGather(shards, full));
    if (!shards.tiling.IsReplicated()) shards_[results.back()] = std::move(shards);
  }
  full->ReplaceAllUsesWith(AddOp(full, Opcode::kTuple, full->shape().WithoutLayout(), results));
}

}  // namespace backplane
