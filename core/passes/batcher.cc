// Operations with a batched form: one instruction computes all calls.
#include "core/passes/batcher.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/batch_body.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

Ints ShiftDims(const Ints& dims) {
  Ints r = dims;
  for (int64_t& d : r) ++d;
  return r;
}

Ints Prepend(int64_t first, const Ints& rest) {
  Ints r = {first};
  r.insert(r.end(), rest.begin(), rest.end());
  return r;
}

Ints IotaDims(int64_t first, int64_t count) {
  Ints r(static_cast<size_t>(count));
  std::iota(r.begin(), r.end(), first);
  return r;
}

}  // namespace

absl::StatusOr<BatchedValue> Batcher::Run(const Computation& c, const std::vector<BatchedValue>& arguments) {
  absl::flat_hash_map<const Instruction*, BatchedValue> values;
  for (const auto& owned : c.instructions()) {
    const Instruction* i = owned.get();
    if (i->Is(Opcode::kParameter)) {
      values[i] = arguments[static_cast<size_t>(i->parameter_number())];
      continue;
    }
    std::vector<BatchedValue> x;
    for (const Instruction* o : i->operands()) x.push_back(values.at(o));
    ASSIGN_OR_RETURN(values[i], BatchInstruction(*i, x));
  }
  return values.at(c.root());
}

absl::StatusOr<Value> Batcher::BroadcastOverBatch(const BatchedValue& x) {
  if (x.is_batched) return x.value;
  const Shape& s = x.value->shape();
  return b_.BroadcastInDim(x.value, WithBatchDimension(s.dimensions()), IotaDims(1, s.rank()));
}

absl::Status Batcher::BroadcastLeaves(const BatchedValue& x, std::vector<Value>& leaves) {
  if (!x.is_tuple) {
    ASSIGN_OR_RETURN(Value v, BroadcastOverBatch(x));
    leaves.push_back(v);
    return absl::OkStatus();
  }
  for (const BatchedValue& p : x.elements) RETURN_IF_ERROR(BroadcastLeaves(p, leaves));
  return absl::OkStatus();
}

Ints Batcher::WithBatchDimension(const DimVector& dims) const {
  Ints r = {n_};
  r.insert(r.end(), dims.begin(), dims.end());
  return r;
}

BatchedValue Batcher::MakeBatched(Value v) {
  BatchedValue r;
  r.value = v;
  r.is_batched = true;
  return r;
}

absl::StatusOr<BatchedValue> Batcher::UnpackTuple(Builder& b, Value v, bool is_batched) {
  BatchedValue r;
  r.is_batched = is_batched;
  if (!v->shape().IsTuple()) {
    r.value = v;
    return r;
  }
  r.is_batched = false;
  r.is_tuple = true;
  for (int64_t k = 0; k < v->shape().tuple_size(); ++k) {
    ASSIGN_OR_RETURN(Value e, b.GetTupleElement(v, k));
    ASSIGN_OR_RETURN(BatchedValue part, UnpackTuple(b, e, is_batched));
    r.elements.push_back(std::move(part));
  }
  return r;
}

absl::StatusOr<Value> Batcher::PackTuple(Builder& b, const BatchedValue& x) {
  if (!x.is_tuple) return x.value;
  std::vector<Value> elements;
  for (const BatchedValue& p : x.elements) {
    ASSIGN_OR_RETURN(Value e, PackTuple(b, p));
    elements.push_back(e);
  }
  return b.Tuple(std::move(elements));
}

absl::StatusOr<Value> Batcher::CloneUnbatched(Builder& b, const Instruction& i, const std::vector<BatchedValue>& x) {
  if (i.Is(Opcode::kConstant)) return b.Constant(i.literal());
  std::vector<Value> operands;
  for (const BatchedValue& o : x) {
    ASSIGN_OR_RETURN(Value v, PackTuple(b, o));
    operands.push_back(v);
  }
  ASSIGN_OR_RETURN(Value result,
                   b.Op(i.opcode(), std::move(operands), i.attrs(), CalledBy(i), DeclaredShape(i, i.shape())));
  result->set_result_accuracy(i.result_accuracy());
  return result;
}

absl::StatusOr<BatchedValue> Batcher::BatchInstruction(const Instruction& i, const std::vector<BatchedValue>& x) {
  switch (i.opcode()) {
    case Opcode::kTuple: {
      BatchedValue r;
      r.is_tuple = true;
      r.elements = x;
      return r;
    }
    case Opcode::kGetTupleElement:
      return x[0].elements[static_cast<size_t>(i.tuple_index())];
    case Opcode::kCall:
      return Run(*i.called(0), x);
    default:
      if (i.info().Has(kForwardsOperand)) return x[0];
      break;
  }
  if (i.HasSideEffect()) return LoopOverBatch(i, x);
  if (std::none_of(x.begin(), x.end(), [](const BatchedValue& o) { return o.AnyBatched(); })) {
    ASSIGN_OR_RETURN(Value same, CloneUnbatched(b_, i, x));
    return UnpackTuple(b_, same, false);
  }
  const bool is_dynamic =
      i.shape().HasDynamicDimensions() || std::any_of(i.operands().begin(), i.operands().end(),
                                                      [](const auto* o) { return o->shape().HasDynamicDimensions(); });
  if (is_dynamic)
    return absl::UnimplementedError(absl::StrCat(i.name(), ": a dynamic size inside a called computation"));
  if (active_ != nullptr && !i.Is(Opcode::kWhile) && !i.Is(Opcode::kConditional) && !i.Is(Opcode::kMap) &&
      std::any_of(i.called().begin(), i.called().end(), [](const Computation* c) { return ContainsLoop(*c); })) {
    return LoopOverBatch(i, x);
  }
  if (i.info().Has(kElementwise)) return Elementwise(i, x);
  switch (i.opcode()) {
    case Opcode::kMap:
      return Map(i, x);
    case Opcode::kWhile:
      return ContainsLoop(*i.called(0)) || ContainsLoop(*i.called(1)) ? LoopOverBatch(i, x) : While(i, x[0]);
    case Opcode::kConditional:
      return Conditional(i, x);
    case Opcode::kBroadcast: {
      Attributes attrs;
      attrs.Set(AttrId::kDimensions, Prepend(0, ShiftDims(i.dimensions())));
      return AddBatched(i, {x[0].value}, std::move(attrs), WithBatchDimension(i.shape()));
    }
    case Opcode::kReshape:
    case Opcode::kBitcastConvert:
      return AddBatched(i, {x[0].value}, i.attrs(), WithBatchDimension(i.shape()));
    case Opcode::kReverse:
    case Opcode::kConcatenate:
    case Opcode::kSort:
      return AddWithDimensions(i, x, ShiftDims(i.dimensions()));
    case Opcode::kTranspose:
      return AddWithDimensions(i, x, Prepend(0, ShiftDims(i.dimensions())));
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
    case Opcode::kFft:
    case Opcode::kTopK:
      return AddWithBatchedOperands(i, x, i.attrs(), Shape());
    case Opcode::kSlice: {
      SliceConfig slices = i.slices();
      slices.insert(slices.begin(), SliceDimension{0, n_, 1});
      Attributes attrs;
      attrs.Set(AttrId::kSlices, std::move(slices));
      return AddBatched(i, {x[0].value}, std::move(attrs), Shape());
    }
    case Opcode::kPad:
      return Pad(i, x);
    case Opcode::kReduce: {
      const size_t half = x.size() / 2;
      if (AnyBatchedFrom(x, half)) return ReduceFromBatchedInit(i, x);
      Attributes attrs;
      attrs.Set(AttrId::kDimensions, ShiftDims(i.dimensions()));
      return AddReduction(i, x, half, std::move(attrs));
    }
    case Opcode::kReduceWindow:
      if (AnyBatchedFrom(x, x.size() / 2)) return LoopOverBatch(i, x);
      return AddReduction(i, x, x.size() / 2, PrependWindowDimension(i));
    case Opcode::kSelectAndScatter:
      if (x[2].is_batched) return LoopOverBatch(i, x);
      return AddReduction(i, x, 2, PrependWindowDimension(i));
    case Opcode::kDot: {
      DotDimensions d = i.dot_dims();
      d = {Prepend(0, ShiftDims(d.lhs_batch)), Prepend(0, ShiftDims(d.rhs_batch)), ShiftDims(d.lhs_contracting),
           ShiftDims(d.rhs_contracting)};
      Attributes attrs = i.attrs();
      attrs.Set(AttrId::kDotDims, std::move(d));
      return AddWithBatchedOperands(i, x, std::move(attrs), WithBatchDimension(i.shape()));
    }
    case Opcode::kDynamicSlice:
      return DynamicSlice(i, x);
    case Opcode::kDynamicUpdateSlice:
      return DynamicUpdateSlice(i, x);
    case Opcode::kGather:
      return Gather(i, x);
    case Opcode::kScatter:
      return Scatter(i, x);
    default:
      return LoopOverBatch(i, x);
  }
}

absl::StatusOr<BatchedValue> Batcher::AddBatched(const Instruction& i, std::vector<Value> operands, Attributes attrs,
                                                 Shape declared) {
  ASSIGN_OR_RETURN(Value v, b_.Op(i.opcode(), std::move(operands), std::move(attrs), CalledBy(i), std::move(declared)));
  v->set_result_accuracy(i.result_accuracy());
  return UnpackTuple(b_, v, true);
}

absl::StatusOr<BatchedValue> Batcher::AddWithBatchedOperands(const Instruction& i, const std::vector<BatchedValue>& x,
                                                             Attributes attrs, Shape declared) {
  std::vector<Value> operands;
  for (const BatchedValue& o : x) {
    ASSIGN_OR_RETURN(Value v, BroadcastOverBatch(o));
    operands.push_back(v);
  }
  return AddBatched(i, std::move(operands), std::move(attrs), std::move(declared));
}

absl::StatusOr<BatchedValue> Batcher::AddWithDimensions(const Instruction& i, const std::vector<BatchedValue>& x,
                                                        Ints dims) {
  Attributes attrs = i.attrs();
  attrs.Set(AttrId::kDimensions, std::move(dims));
  return AddWithBatchedOperands(i, x, std::move(attrs), Shape());
}

absl::StatusOr<BatchedValue> Batcher::Elementwise(const Instruction& i, const std::vector<BatchedValue>& x) {
  const Ints dims = WithBatchDimension(i.shape().dimensions());
  std::vector<Value> operands;
  for (const BatchedValue& o : x) {
    // A scalar operand of an operation on arrays (a bound of a clamp, a predicate) is broadcast to the full shape.
    const int64_t rank = o.value->shape().rank() - (o.is_batched ? 1 : 0);
    Ints to = IotaDims(rank == i.shape().rank() ? 1 : 0, rank);
    if (o.is_batched) to = rank == i.shape().rank() ? IotaDims(0, rank + 1) : Ints{0};
    ASSIGN_OR_RETURN(Value v, b_.BroadcastInDim(o.value, dims, to));
    operands.push_back(v);
  }
  return AddBatched(i, std::move(operands), i.attrs(),
                    i.info().Has(kDeclared) ? WithBatchDimension(i.shape()) : Shape());
}

absl::StatusOr<BatchedValue> Batcher::Map(const Instruction& i, const std::vector<BatchedValue>& x) {
  const int64_t count = n_ * x[0].value->shape().num_elements() / (x[0].is_batched ? std::max<int64_t>(n_, 1) : 1);
  std::vector<Value> flat;
  for (const BatchedValue& o : x) {
    ASSIGN_OR_RETURN(Value v, BroadcastOverBatch(o));
    ASSIGN_OR_RETURN(v, b_.Reshape(v, {count}));
    flat.push_back(v);
  }
  Value active = active_;
  if (active != nullptr) {
    ASSIGN_OR_RETURN(active, b_.BroadcastInDim(active, {n_, count / n_}, {0}));
    ASSIGN_OR_RETURN(active, b_.Reshape(active, {count}));
  }
  ASSIGN_OR_RETURN(std::vector<Value> r, CallForEach(b_, i.called(0), std::move(flat), count, active));
  ASSIGN_OR_RETURN(Value v, b_.Reshape(r[0], WithBatchDimension(i.shape().dimensions())));
  return MakeBatched(v);
}

absl::StatusOr<BatchedValue> Batcher::Pad(const Instruction& i, const std::vector<BatchedValue>& x) {
  PaddingConfig config = i.padding();
  config.insert(config.begin(), PaddingDimension{});
  ASSIGN_OR_RETURN(Value v, BroadcastOverBatch(x[0]));
  if (!x[1].is_batched) {
    ASSIGN_OR_RETURN(v, b_.Pad(v, x[1].value, config));
    return MakeBatched(v);
  }
  ASSIGN_OR_RETURN(Value zero, Fill(b_, v->shape().element_type(), 0, {}));
  ASSIGN_OR_RETURN(Value padded, b_.Pad(v, zero, config));
  ASSIGN_OR_RETURN(Value inside, Fill(b_, PrimitiveType::kPred, 1, v->shape().dimensions()));
  ASSIGN_OR_RETURN(Value outside, Fill(b_, PrimitiveType::kPred, 0, {}));
  ASSIGN_OR_RETURN(inside, b_.Pad(inside, outside, config));
  ASSIGN_OR_RETURN(Value around, b_.BroadcastInDim(x[1].value, padded->shape().dimensions(), {0}));
  ASSIGN_OR_RETURN(v, b_.Select(inside, padded, around));
  return MakeBatched(v);
}

absl::StatusOr<BatchedValue> Batcher::AddReduction(const Instruction& i, const std::vector<BatchedValue>& x,
                                                   size_t count, Attributes attrs) {
  std::vector<Value> operands;
  for (size_t k = 0; k < x.size(); ++k) {
    Value v = x[k].value;
    if (k < count) {
      ASSIGN_OR_RETURN(v, BroadcastOverBatch(x[k]));
    }
    operands.push_back(v);
  }
  return AddBatched(i, std::move(operands), std::move(attrs), Shape());
}

absl::StatusOr<BatchedValue> Batcher::ReduceFromBatchedInit(const Instruction& i, const std::vector<BatchedValue>& x) {
  const size_t half = x.size() / 2;
  std::vector<Value> inputs, starts;
  for (size_t k = 0; k < x.size(); ++k) {
    ASSIGN_OR_RETURN(Value v, BroadcastOverBatch(x[k]));
    (k < half ? inputs : starts).push_back(v);
  }
  const Ints dims = ShiftDims(i.dimensions());
  const Shape& first = i.shape().IsTuple() ? i.shape().tuple_shapes(0) : i.shape();
  for (Value& v : starts) {
    ASSIGN_OR_RETURN(v, b_.BroadcastInDim(v, WithBatchDimension(first.dimensions()), {0}));
  }
  ASSIGN_OR_RETURN(std::vector<Value> r, ReduceSequentially(b_, i.called(0), inputs, starts, dims));
  if (!i.shape().IsTuple()) return MakeBatched(r[0]);
  BatchedValue all;
  all.is_tuple = true;
  for (Value v : r) all.elements.push_back(MakeBatched(v));
  return all;
}

Attributes Batcher::PrependWindowDimension(const Instruction& i) {
  Window w = i.window();
  w.dimensions.insert(w.dimensions.begin(), WindowDimension());
  Attributes attrs;
  attrs.Set(AttrId::kWindow, std::move(w));
  return attrs;
}

absl::StatusOr<Value> Batcher::StackStartIndices(const std::vector<BatchedValue>& x, size_t first) {
  std::vector<Value> columns;
  for (size_t k = first; k < x.size(); ++k) {
    ASSIGN_OR_RETURN(Value v, BroadcastOverBatch(x[k]));
    if (v->shape().element_type() == PrimitiveType::kU64) {  // beyond any array, not negative
      ASSIGN_OR_RETURN(Value most,
                       b_.Constant(Literal::ScalarInt(PrimitiveType::kU64, std::numeric_limits<int64_t>::max())));
      ASSIGN_OR_RETURN(most, b_.BroadcastInDim(most, v->shape().dimensions(), {}));
      ASSIGN_OR_RETURN(v, b_.Binary(Opcode::kMinimum, v, most));
    }
    ASSIGN_OR_RETURN(v, b_.Convert(v, PrimitiveType::kS64));
    ASSIGN_OR_RETURN(v, b_.Reshape(v, {n_, 1}));
    columns.push_back(v);
  }
  return b_.Concatenate(std::move(columns), 1);
}

absl::StatusOr<BatchedValue> Batcher::DynamicSlice(const Instruction& i, const std::vector<BatchedValue>& x) {
  if (i.shape().rank() == 0) return x[0];
  const Ints& sizes = i.attrs().GetInts(AttrId::kDynamicSliceSizes);
  const int64_t rank = i.shape().rank();
  if (!AnyBatchedFrom(x, 1)) {
    ASSIGN_OR_RETURN(Value first, ZeroLike(x[1].value));
    std::vector<Value> operands = {x[0].value, first};
    for (size_t k = 1; k < x.size(); ++k) operands.push_back(x[k].value);
    Attributes attrs;
    attrs.Set(AttrId::kDynamicSliceSizes, Prepend(n_, sizes));
    return AddBatched(i, std::move(operands), std::move(attrs), Shape());
  }
  ASSIGN_OR_RETURN(Value rows, StackStartIndices(x, 1));
  GatherDimensions g;
  g.offset_dims = IotaDims(1, rank);
  g.start_index_map = IotaDims(x[0].is_batched ? 1 : 0, rank);
  g.index_vector_dim = 1;
  if (x[0].is_batched) g.operand_batching_dims = g.start_indices_batching_dims = {0};
  return AddGather(x[0].value, rows, std::move(g), x[0].is_batched ? Prepend(1, sizes) : sizes);
}

absl::StatusOr<BatchedValue> Batcher::AddGather(Value x, Value rows, GatherDimensions g, Ints sizes) {
  Attributes attrs;
  attrs.Set(AttrId::kGatherDims, std::move(g));
  attrs.Set(AttrId::kSliceSizes, std::move(sizes));
  ASSIGN_OR_RETURN(Value v, b_.Op(Opcode::kGather, {x, rows}, std::move(attrs)));
  return MakeBatched(v);
}

absl::StatusOr<BatchedValue> Batcher::DynamicUpdateSlice(const Instruction& i, const std::vector<BatchedValue>& x) {
  if (i.shape().rank() == 0) return x[1];
  ASSIGN_OR_RETURN(Value into, BroadcastOverBatch(x[0]));
  ASSIGN_OR_RETURN(Value update, BroadcastOverBatch(x[1]));
  if (!AnyBatchedFrom(x, 2)) {
    ASSIGN_OR_RETURN(Value first, ZeroLike(x[2].value));
    std::vector<Value> operands = {into, update, first};
    for (size_t k = 2; k < x.size(); ++k) operands.push_back(x[k].value);
    return AddBatched(i, std::move(operands), {}, Shape());
  }
  // A dynamic-update-slice clamps its start so that the update fits; a scatter would drop the update instead.
  ASSIGN_OR_RETURN(Value rows, StackStartIndices(x, 2));
  const int64_t rank = i.shape().rank();
  std::vector<int64_t> last;
  for (int64_t d = 0; d < rank; ++d) last.push_back(i.shape().dimensions(d) - i.operand(1)->shape().dimensions(d));
  ASSIGN_OR_RETURN(Value high, b_.Constant(Literal::FromValues<int64_t>({rank}, last)));
  ASSIGN_OR_RETURN(high, b_.BroadcastInDim(high, {n_, rank}, {1}));
  ASSIGN_OR_RETURN(Value low, Fill(b_, PrimitiveType::kS64, 0, {n_, rank}));
  ASSIGN_OR_RETURN(rows, b_.Op(Opcode::kClamp, {low, rows, high}));
  ScatterDimensions s;
  s.update_window_dims = s.scatter_dims_to_operand_dims = IotaDims(1, rank);
  s.input_batching_dims = s.scatter_indices_batching_dims = {0};
  s.index_vector_dim = 1;
  Attributes attrs;
  attrs.Set(AttrId::kScatterDims, std::move(s));
  attrs.Set(AttrId::kUniqueIndices, true);
  Builder second(b_.module(), "second");
  const Shape scalar = Shape::Scalar(i.shape().element_type());
  RETURN_IF_ERROR(second.Parameter(0, scalar).status());
  ASSIGN_OR_RETURN(Value chosen, second.Parameter(1, scalar));
  ASSIGN_OR_RETURN(Computation * replace, second.Build(chosen));
  ASSIGN_OR_RETURN(Value v, b_.Op(Opcode::kScatter, {into, rows, update}, std::move(attrs), {replace}));
  return MakeBatched(v);
}

absl::StatusOr<BatchedValue> Batcher::Gather(const Instruction& i, const std::vector<BatchedValue>& x) {
  GatherDimensions g = i.gather_dims();
  Ints sizes = i.attrs().GetInts(AttrId::kSliceSizes);
  ASSIGN_OR_RETURN(Value rows, BroadcastOverBatch(x[1]));
  g.offset_dims = ShiftDims(g.offset_dims);
  g.index_vector_dim += 1;
  g.start_indices_batching_dims = ShiftDims(g.start_indices_batching_dims);
  if (x[0].is_batched) {
    g.collapsed_slice_dims = ShiftDims(g.collapsed_slice_dims);
    g.start_index_map = ShiftDims(g.start_index_map);
    g.operand_batching_dims = Prepend(0, ShiftDims(g.operand_batching_dims));
    g.start_indices_batching_dims = Prepend(0, g.start_indices_batching_dims);
    sizes = Prepend(1, sizes);
  }
  return AddGather(x[0].value, rows, std::move(g), std::move(sizes));
}

absl::StatusOr<BatchedValue> Batcher::Scatter(const Instruction& i, const std::vector<BatchedValue>& x) {
  ScatterDimensions s = i.scatter_dims();
  s.update_window_dims = ShiftDims(s.update_window_dims);
  s.inserted_window_dims = ShiftDims(s.inserted_window_dims);
  s.scatter_dims_to_operand_dims = ShiftDims(s.scatter_dims_to_operand_dims);
  s.input_batching_dims = Prepend(0, ShiftDims(s.input_batching_dims));
  s.scatter_indices_batching_dims = Prepend(0, ShiftDims(s.scatter_indices_batching_dims));
  s.index_vector_dim += 1;
  Attributes attrs;
  attrs.Set(AttrId::kScatterDims, std::move(s));
  return AddWithBatchedOperands(i, x, std::move(attrs), Shape());
}

}  // namespace backplane
