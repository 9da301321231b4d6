// What can be computed on shards: one rule for each kind of operation. A rule looks for operands whose shards are
// known, decides how the operation is split, and makes the local operation; anything it takes from elsewhere it takes
// by slice.
#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "core/eval/scalar_compiler.h"
#include "core/ir/builder.h"
#include "core/passes/partition/factors.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// `t` with dimension `at` split as dimension `d` of `other`; unchanged when that makes no grid.
bool Split(Tiling& t, int64_t at, const Tiling& other, int64_t d) { return t.SplitLike(at, other, d); }

// Reducing parts first and then the results of the parts gives what reducing all at once gives.
bool MayReduceInParts(Opcode op, const Instruction* init) {
  while (IsAnnotation(init)) init = init->operand(0);
  const Literal* value = UniformConstant(init);
  switch (op) {
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
      return true;  // the initial value may enter any number of times
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

absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::ComputeLocally(Instruction* i) {
  std::optional<Shards> none;
  const bool known =
      std::any_of(i->operands().begin(), i->operands().end(), [&](const Instruction* o) { return FindShards(o); });
  if (!known || i->HasSideEffect() || !i->control_predecessors().empty() || i->info().Has(kCollective)) return none;
  if (!i->shape().IsArray()) return i->Is(Opcode::kReduce) ? Reduce(i) : none;
  switch (i->opcode()) {
    case Opcode::kBroadcast:
      return Broadcast(i);
    case Opcode::kTranspose:
      return Transpose(i);
    case Opcode::kReshape:
      return Reshape(i);
    case Opcode::kReduce:
      return Reduce(i);
    case Opcode::kDot:
      return Dot(i);
    case Opcode::kConvolution:
      return Convolution(i);
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kReverse:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kReduceWindow:
    case Opcode::kSort:
      return AlongOthers(i);
    case Opcode::kGather:
      return Rows(i);
    case Opcode::kScatter:
      return Windows(i);
    default:
      return i->info().Has(kElementwise) ? Elementwise(i) : none;
  }
}

absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::Elementwise(Instruction* i) {
  const Tiling* best = nullptr;
  for (const Instruction* o : i->operands()) {
    if (o->shape().dimensions() != i->shape().dimensions()) {
      if (!o->shape().IsScalar()) return std::optional<Shards>();
      continue;
    }
    const Shards* s = FindShards(o);
    if (s != nullptr && (best == nullptr || s->tiling.TileCount() > best->TileCount())) best = &s->tiling;
  }
  if (best == nullptr) return std::optional<Shards>();
  const Tiling tiling = *best;
  std::vector<Instruction*> operands;
  for (Instruction* o : i->operands()) {
    const bool scalar = o->shape().IsScalar() && !i->shape().IsScalar();
    ASSIGN_OR_RETURN(Instruction * x, SliceTo(o, scalar ? Tiling::Whole(0, partitions_) : tiling));
    operands.push_back(x);
  }
  return Shards{c_->AddClone(i, tiling.ShardOf(i->shape()), operands), tiling};
}

absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::Broadcast(Instruction* i) {
  const Shards& s = *FindShards(i->operand(0));
  Ints from(static_cast<size_t>(i->shape().rank()), -1);
  const Ints& dims = i->dimensions();
  for (size_t d = 0; d < dims.size(); ++d) from[static_cast<size_t>(dims[d])] = static_cast<int64_t>(d);
  Tiling tiling = s.tiling.Select(from);
  Instruction* x = MakeBroadcast(c_, i, s.value, tiling.ShardOf(i->shape()), dims);
  return Shards{x, std::move(tiling)};
}

absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::Transpose(Instruction* i) {
  const Shards& s = *FindShards(i->operand(0));
  Tiling tiling = s.tiling.Select(i->dimensions());
  Instruction* x = c_->AddClone(i, tiling.ShardOf(i->shape()), {s.value});
  return Shards{x, std::move(tiling)};
}

// Dimensions of operand and result fall into runs of equal products. In a run only the outermost dimension may be
// split: its tiles are then contiguous parts of the run.
absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::Reshape(Instruction* i) {
  const Shards& s = *FindShards(i->operand(0));
  const Shape &in = i->operand(0)->shape(), &out = i->shape();
  if (in.num_elements() == 0) return std::optional<Shards>();
  Ints from(static_cast<size_t>(out.rank()), -1);
  Ints lost;
  int64_t a = 0, b = 0;
  while (a < in.rank() || b < out.rank()) {
    const int64_t first_a = a, first_b = b;
    int64_t product_a = 1, product_b = 1;
    do {
      if (product_a <= product_b && a < in.rank())
        product_a *= in.dimensions(a++);
      else if (b < out.rank())
        product_b *= out.dimensions(b++);
      else if (a < in.rank())
        product_a *= in.dimensions(a++);
    } while (product_a != product_b);
    // The outermost of each run that is more than one element long.
    int64_t outer_a = first_a, outer_b = first_b;
    while (outer_a < a && in.dimensions(outer_a) == 1) ++outer_a;
    while (outer_b < b && out.dimensions(outer_b) == 1) ++outer_b;
    for (int64_t d = first_a; d < a; ++d) {
      if (!s.tiling.IsTiled(d)) continue;
      if (d == outer_a && outer_b < b && out.dimensions(outer_b) % s.tiling.tiles(d) == 0) {
        from[static_cast<size_t>(outer_b)] = d;
      } else {
        lost.push_back(d);
      }
    }
  }
  Tiling keep = s.tiling;
  for (int64_t d : lost) keep = keep.Without(d);
  if (keep.IsWhole()) return std::optional<Shards>();
  Tiling tiling = keep.Select(from);
  ASSIGN_OR_RETURN(Instruction * operand, SliceTo(i->operand(0), keep));
  Instruction* x = c_->AddClone(i, tiling.ShardOf(out), {operand});
  return Shards{x, std::move(tiling)};
}

absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::Reduce(Instruction* i) {
  const int64_t inputs = i->operand_count() / 2;
  if (i->shape().IsTuple()) return std::optional<Shards>();  // results of several arrays: whole
  const Shards* known = FindShards(i->operand(0));
  if (known == nullptr || inputs != 1) return std::optional<Shards>();
  Tiling tiling = known->tiling;
  const std::optional<Opcode> op = AsBinaryOp(*i->called(0));
  const bool parts = op && MayReduceInParts(*op, i->operand(1));
  Ints reduced, kept;
  for (int64_t d = 0; d < tiling.rank(); ++d) {
    if (!HasDim(i->dimensions(), d)) {
      kept.push_back(d);
    } else if (tiling.IsTiled(d)) {
      if (parts)
        reduced.push_back(d);
      else
        tiling = tiling.Without(d);
    }
  }
  if (tiling.IsWhole()) return std::optional<Shards>();
  ASSIGN_OR_RETURN(Instruction * operand, SliceTo(i->operand(0), tiling));
  Tiling result = tiling.Select(kept);
  Instruction* x = c_->AddClone(i, result.ShardOf(i->shape()), {operand, i->operand(1)});
  if (!reduced.empty()) x = AllReduce(i, x, i->called(0), tiling.GroupsAlong(reduced));
  return Shards{x, std::move(result)};
}

absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::Dot(Instruction* i) {
  const Factors f = *FactorsOf(*i);
  const Ints &left = f.operands[0], &right = f.operands[1];
  Instruction *lhs = i->operand(0), *rhs = i->operand(1);
  const int64_t contracted = static_cast<int64_t>(i->dot_dims().lhs_contracting.size());
  // Every dimension of the whole product: the result's, and those that are added up.
  Tiling product = Tiling::Whole(static_cast<int64_t>(f.result.size()) + contracted, partitions_);
  // The larger operand is asked first: what does not fit with its split is gathered.
  auto add = [&](const Instruction* x, const Ints& at) {
    const Shards* s = FindShards(x);
    for (size_t k = 0; s != nullptr && k < at.size(); ++k) Split(product, at[k], s->tiling, static_cast<int64_t>(k));
  };
  const bool left_first = lhs->shape().num_elements() >= rhs->shape().num_elements();
  if (left_first) add(lhs, left);
  add(rhs, right);
  if (!left_first) add(lhs, left);
  if (product.IsWhole()) return std::optional<Shards>();
  ASSIGN_OR_RETURN(Instruction * a, SliceTo(lhs, product.Select(left)));
  ASSIGN_OR_RETURN(Instruction * b, SliceTo(rhs, product.Select(right)));
  Ints contracting;
  for (int64_t k = 0; k < product.rank(); ++k) {
    if (product.IsTiled(k) && !HasDim(f.result, k)) contracting.push_back(k);
  }
  Tiling tiling = product.Select(f.result);
  Instruction* x = c_->AddClone(i, tiling.ShardOf(i->shape()), {a, b});
  if (!contracting.empty()) {
    const PrimitiveType type = i->shape().element_type();
    ASSIGN_OR_RETURN(
        Computation * sum,
        ScalarBinaryComputation(c_->parent(), type == PrimitiveType::kPred ? Opcode::kOr : Opcode::kAdd, type));
    x = AllReduce(i, x, sum, product.GroupsAlong(contracting));
  }
  return Shards{x, std::move(tiling)};
}

absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::Convolution(Instruction* i) {
  const ConvolutionDimensions& d = i->conv_dims();
  const Shards* s = FindShards(i->operand(0));
  if (s == nullptr || i->attrs().GetInt(AttrId::kBatchGroupCount, 1) > 1 || !s->tiling.IsTiled(d.input_batch)) {
    return std::optional<Shards>();
  }
  Ints in(static_cast<size_t>(i->operand(0)->shape().rank()), -1), out = in;
  in[static_cast<size_t>(d.input_batch)] = d.input_batch;
  out[static_cast<size_t>(d.output_batch)] = d.input_batch;
  Tiling tiling = s->tiling.Select(out);
  ASSIGN_OR_RETURN(Instruction * operand, SliceTo(i->operand(0), s->tiling.Select(in)));
  Instruction* x = c_->AddClone(i, tiling.ShardOf(i->shape()), {operand, i->operand(1)});
  return Shards{x, std::move(tiling)};
}

// Operations that leave some dimensions of their operand as they are, and may be split along those.
absl::StatusOr<std::optional<Partitioner::Shards>> Partitioner::AlongOthers(Instruction* i) {
  const Shards* known = FindShards(i->operand(0));
  int64_t arrays = 1;  // so many operands from the first on are split; the rest are whole
  if (i->Is(Opcode::kConcatenate)) arrays = i->operand_count();
  if (i->Is(Opcode::kDynamicUpdateSlice)) arrays = 2;
  for (int64_t k = 1; k < arrays && known == nullptr; ++k) known = FindShards(i->operand(k));
  if (known == nullptr || ((i->Is(Opcode::kReduceWindow) || i->Is(Opcode::kSort)) && !i->shape().IsArray())) {
    return std::optional<Shards>();
  }
  const Shape& in = i->operand(0)->shape();
  auto untouched = [&](int64_t d) {
    const size_t k = static_cast<size_t>(d);
    switch (i->opcode()) {
      case Opcode::kSlice:
        return i->slices()[k] == SliceDimension{0, in.dimensions(d), 1};
      case Opcode::kPad:
        return i->padding()[k] == PaddingDimension{};
      case Opcode::kDynamicSlice:
        return i->shape().dimensions(d) == in.dimensions(d);
      case Opcode::kDynamicUpdateSlice:
        return i->operand(1)->shape().dimensions(d) == in.dimensions(d);
      case Opcode::kReduceWindow:
        return i->window().dimensions[k] == WindowDimension{};
      default:  // reverse, concatenate, sort
        return !HasDim(i->dimensions(), d);
    }
  };
  Tiling tiling = known->tiling;
  for (int64_t d = 0; d < in.rank(); ++d) {
    if (tiling.IsTiled(d) && !untouched(d)) tiling = tiling.Without(d);
  }
  if (tiling.IsWhole()) return std::optional<Shards>();
  std::vector<Instruction*> operands(i->operands().begin(), i->operands().end());
  for (int64_t k = 0; k < arrays; ++k) {
    ASSIGN_OR_RETURN(operands[static_cast<size_t>(k)], SliceTo(i->operand(k), tiling));
  }
  const Shape shard = tiling.ShardOf(i->shape());
  Instruction* x = c_->AddClone(i, shard, operands);
  if (i->Is(Opcode::kSlice)) {
    SliceConfig slices = i->slices();
    for (int64_t d = 0; d < in.rank(); ++d) {
      if (tiling.IsTiled(d)) slices[static_cast<size_t>(d)].limit = shard.dimensions(d);
    }
    x->mutable_attrs().Set(AttrId::kSlices, std::move(slices));
  } else if (i->Is(Opcode::kDynamicSlice)) {
    x->mutable_attrs().Set(AttrId::kDynamicSliceSizes, Ints(shard.dimensions().begin(), shard.dimensions().end()));
  }
  return Shards{x, std::move(tiling)};
}

// A gather whose indices are split looks up its own on each partition; dimensions of the operand that it takes whole,
// or one by one beside those of the indices, may be split as well.
Partitioner::MaybeShards Partitioner::Rows(Instruction* i) {
  const Factors f = *FactorsOf(*i);
  const Ints &of_operand = f.operands[0], &of_indices = f.operands[1];
  Instruction *operand = i->operand(0), *indices = i->operand(1);
  Tiling tiling = Tiling::Whole(i->shape().rank(), partitions_);
  auto add = [&](const Instruction* x, const Ints& becomes) {
    const Shards* s = FindShards(x);
    for (size_t d = 0; s != nullptr && d < becomes.size(); ++d) {
      if (becomes[d] >= 0) Split(tiling, becomes[d], s->tiling, static_cast<int64_t>(d));
    }
  };
  add(indices, of_indices);
  add(operand, of_operand);
  if (tiling.IsWhole()) return std::optional<Shards>();
  const Tiling operand_tiling = tiling.Select(of_operand);
  ASSIGN_OR_RETURN(Instruction * x, SliceTo(operand, operand_tiling));
  ASSIGN_OR_RETURN(Instruction * at, SliceTo(indices, tiling.Select(of_indices)));
  Ints sizes = i->attrs().GetInts(AttrId::kSliceSizes);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t dim = static_cast<int64_t>(d);
    if (operand_tiling.IsTiled(dim) && !HasDim(i->gather_dims().operand_batching_dims, dim))
      sizes[d] = x->shape().dimensions(dim);
  }
  Instruction* made = c_->AddClone(i, tiling.ShardOf(i->shape()), {x, at});
  made->mutable_attrs().Set(AttrId::kSliceSizes, std::move(sizes));
  return Shards{made, std::move(tiling)};
}

// A scatter of windows that are whole along some dimensions, or of a batch of them: split along those.
Partitioner::MaybeShards Partitioner::Windows(Instruction* i) {
  const std::optional<Factors> f = FactorsOf(*i);
  if (!f) return std::optional<Shards>();
  Tiling tiling = Tiling::Whole(i->shape().rank(), partitions_);
  for (int64_t k : {2, 1, 0}) {  // as the updates lie: they are what is made last
    const Shards* s = FindShards(i->operand(k));
    const Ints& becomes = f->operands[static_cast<size_t>(k)];
    for (size_t d = 0; s != nullptr && d < becomes.size(); ++d) {
      if (becomes[d] >= 0) Split(tiling, becomes[d], s->tiling, static_cast<int64_t>(d));
    }
  }
  if (tiling.IsWhole()) return UpdatesInParts(i);
  std::vector<Instruction*> operands;
  for (size_t k = 0; k < 3; ++k) {
    ASSIGN_OR_RETURN(Instruction * x, SliceTo(i->operand(static_cast<int64_t>(k)), tiling.Select(f->operands[k])));
    operands.push_back(x);
  }
  return Shards{c_->AddClone(i, tiling.ShardOf(i->shape()), operands), std::move(tiling)};
}

// A scatter that combines, whose updates are split: each partition enters its own, and the results are combined. Where
// the array is much larger than the updates it is cheaper to hand those round.
Partitioner::MaybeShards Partitioner::UpdatesInParts(Instruction* i) {
  Instruction *operand = i->operand(0), *indices = i->operand(1), *updates = i->operand(2);
  const std::optional<Opcode> op = AsBinaryOp(*i->called(0));
  if (!op || operand->shape().num_elements() > 2 * updates->shape().num_elements()) return std::optional<Shards>();
  const bool as_it_is = MayReduceInParts(*op, operand);
  if (!as_it_is && *op != Opcode::kAdd) return std::optional<Shards>();
  // Dimensions of the updates that number them, each beside one of the indices.
  const ScatterDimensions& g = i->scatter_dims();
  Ints of_indices(static_cast<size_t>(indices->shape().rank()), -1);
  Tiling parts = Tiling::Whole(updates->shape().rank(), partitions_);
  const Shards *u = FindShards(updates), *n = FindShards(indices);
  int64_t at = 0;
  for (int64_t d = 0; d < updates->shape().rank(); ++d) {
    if (HasDim(g.update_window_dims, d)) continue;
    if (at == g.index_vector_dim) ++at;
    of_indices[static_cast<size_t>(at)] = d;
    if (u != nullptr) Split(parts, d, u->tiling, d);
    if (n != nullptr) Split(parts, d, n->tiling, at);
    ++at;
  }
  if (parts.IsWhole()) return std::optional<Shards>();
  Instruction* into = operand;
  if (!as_it_is) {
    Instruction* zero = MakeConstant(c_, i, Literal(Shape::Scalar(operand->shape().element_type())));
    into = operand->shape().IsScalar() ? zero : MakeBroadcast(c_, i, zero, operand->shape().WithoutLayout(), {});
  }
  ASSIGN_OR_RETURN(Instruction * index_shard, SliceTo(indices, parts.Select(of_indices)));
  ASSIGN_OR_RETURN(Instruction * update_shard, SliceTo(updates, parts));
  Instruction* x = c_->AddClone(i, i->shape(), {into, index_shard, update_shard});
  Ints numbering;
  for (int64_t d = 0; d < parts.rank(); ++d) {
    if (parts.IsTiled(d)) numbering.push_back(d);
  }
  x = AllReduce(i, x, i->called(0), parts.GroupsAlong(numbering));
  if (!as_it_is) x = Op(i, Opcode::kAdd, i->shape().WithoutLayout(), {operand, x});
  return Shards{x, Tiling::Whole(i->shape().rank(), partitions_)};
}

// A call whose handler works on each matrix of leading batch dimensions by itself (frontend attribute num_batch_dims).
absl::StatusOr<bool> Partitioner::BatchedCall(Instruction* i) {
  auto attribute = i->frontend_attributes().find("num_batch_dims");
  int64_t batch = 0;
  if (attribute == i->frontend_attributes().end() || !absl::SimpleAtoi(attribute->second, &batch) || batch < 1)
    return false;
  bool arrays = true;
  ForEachLeaf(i->shape(),
              [&](const Shape& s, const std::vector<int64_t>& at) { arrays &= s.IsArray() && at.size() < 2; });
  if (!arrays || i->HasSideEffect()) return false;
  std::optional<Tiling> rows;  // of the batch dimensions
  for (const Instruction* o : i->operands()) {
    if (!o->shape().IsArray()) return false;
    const Shards* s = FindShards(o);
    if (s == nullptr || o->shape().rank() < batch || rows) continue;
    Ints leading(static_cast<size_t>(batch));
    std::iota(leading.begin(), leading.end(), 0);
    Tiling t = s->tiling.Select(leading);
    if (!t.IsWhole()) rows = std::move(t);
  }
  if (!rows) return false;
  auto tiling_of = [&](const Shape& shape) {
    Ints from(static_cast<size_t>(shape.rank()), -1);
    if (shape.rank() >= batch) std::iota(from.begin(), from.begin() + batch, 0);
    return rows->Select(from);
  };
  bool even = true;
  auto shard_of = [&](const Shape& whole) {
    const Tiling t = tiling_of(whole);
    even &= t.Divides(whole);
    Shape shard = even ? t.ShardOf(whole) : whole;
    if (whole.has_layout()) shard.set_layout(whole.layout());
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
    ASSIGN_OR_RETURN(Instruction * x, SliceTo(o, tiling_of(o->shape())));
    operands.push_back(x);
  }
  Instruction* call = c_->AddClone(i, tuple ? Shape::Tuple(shapes) : shapes[0], operands);
  if (!layouts.empty()) call->mutable_attrs().Set(AttrId::kOperandLayouts, std::move(layouts));
  if (!tuple) {
    Adopt(i, {call, tiling_of(i->shape())});
    return true;
  }
  std::vector<Instruction*> wholes;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const Shape& whole = i->shape().tuple_shapes(static_cast<int64_t>(k));
    Shards shards{MakeElement(c_, call, static_cast<int64_t>(k)), tiling_of(whole)};
    wholes.push_back(Gather(shards, i));
    if (!shards.tiling.IsWhole()) shards_[wholes.back()] = std::move(shards);
  }
  i->ReplaceAllUsesWith(Op(i, Opcode::kTuple, i->shape().WithoutLayout(), wholes));
  return true;
}

}  // namespace backplane
