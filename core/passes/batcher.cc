// Operations that know batches: each instruction once for all calls.
#include "core/passes/batcher.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/batch_body.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

Ints Shifted(const Ints& dims) {
  Ints r = dims;
  for (int64_t& d : r) ++d;
  return r;
}

Ints WithFirst(int64_t first, const Ints& rest) {
  Ints r = {first};
  r.insert(r.end(), rest.begin(), rest.end());
  return r;
}

Ints Counting(int64_t first, int64_t count) {
  Ints r(static_cast<size_t>(count));
  std::iota(r.begin(), r.end(), first);
  return r;
}

}  // namespace

absl::StatusOr<Lanes> Batcher::Run(const Computation& c, const std::vector<Lanes>& arguments) {
  absl::flat_hash_map<const Instruction*, Lanes> values;
  for (const auto& owned : c.instructions()) {
    const Instruction* i = owned.get();
    if (i->Is(Opcode::kParameter)) {
      values[i] = arguments[static_cast<size_t>(i->parameter_number())];
      continue;
    }
    std::vector<Lanes> x;
    for (const Instruction* o : i->operands()) x.push_back(values.at(o));
    ASSIGN_OR_RETURN(values[i], Lift(*i, x));
  }
  return values.at(c.root());
}

absl::StatusOr<Value> Batcher::Spread(const Lanes& x) {
  if (x.each) return x.value;
  const Shape& s = x.value->shape();
  return b_.BroadcastInDim(x.value, WithN(s.dimensions()), Counting(1, s.rank()));
}

absl::Status Batcher::SpreadLeaves(const Lanes& x, std::vector<Value>& leaves) {
  if (!x.tuple) {
    ASSIGN_OR_RETURN(Value v, Spread(x));
    leaves.push_back(v);
    return absl::OkStatus();
  }
  for (const Lanes& p : x.parts) RETURN_IF_ERROR(SpreadLeaves(p, leaves));
  return absl::OkStatus();
}

Ints Batcher::WithN(const DimVector& dims) const {
  Ints r = {n_};
  r.insert(r.end(), dims.begin(), dims.end());
  return r;
}

Lanes Batcher::Each(Value v) {
  Lanes r;
  r.value = v;
  r.each = true;
  return r;
}

absl::StatusOr<Lanes> Batcher::Taken(Builder& b, Value v, bool each) {
  Lanes r;
  r.each = each;
  if (!v->shape().IsTuple()) {
    r.value = v;
    return r;
  }
  r.each = false;
  r.tuple = true;
  for (int64_t k = 0; k < v->shape().tuple_size(); ++k) {
    ASSIGN_OR_RETURN(Value e, b.GetTupleElement(v, k));
    ASSIGN_OR_RETURN(Lanes part, Taken(b, e, each));
    r.parts.push_back(std::move(part));
  }
  return r;
}

absl::StatusOr<Value> Batcher::Whole(Builder& b, const Lanes& x) {
  if (!x.tuple) return x.value;
  std::vector<Value> elements;
  for (const Lanes& p : x.parts) {
    ASSIGN_OR_RETURN(Value e, Whole(b, p));
    elements.push_back(e);
  }
  return b.Tuple(std::move(elements));
}

absl::StatusOr<Value> Batcher::Again(Builder& b, const Instruction& i, const std::vector<Lanes>& x) {
  if (i.Is(Opcode::kConstant)) return b.Constant(i.literal());
  std::vector<Value> operands;
  for (const Lanes& o : x) {
    ASSIGN_OR_RETURN(Value v, Whole(b, o));
    operands.push_back(v);
  }
  ASSIGN_OR_RETURN(Value made, b.Op(i.opcode(), std::move(operands), i.attrs(), CalledBy(i), Declared(i, i.shape())));
  made->set_result_accuracy(i.result_accuracy());
  return made;
}

absl::StatusOr<Lanes> Batcher::Lift(const Instruction& i, const std::vector<Lanes>& x) {
  switch (i.opcode()) {
    case Opcode::kTuple: {
      Lanes r;
      r.tuple = true;
      r.parts = x;
      return r;
    }
    case Opcode::kGetTupleElement:
      return x[0].parts[static_cast<size_t>(i.tuple_index())];
    case Opcode::kOptimizationBarrier:
    case Opcode::kDomain:
    case Opcode::kAddDependency:
      return x[0];
    case Opcode::kCall:
      return Run(*i.called(0), x);
    default:
      break;
  }
  if (i.HasSideEffect()) return OneByOne(i, x);
  if (std::none_of(x.begin(), x.end(), [](const Lanes& o) { return o.AnyEach(); })) {
    ASSIGN_OR_RETURN(Value same, Again(b_, i, x));
    return Taken(b_, same, false);
  }
  if (i.info().Has(kElementwise)) return Elementwise(i, x);
  if (i.shape().HasDynamicDimensions())
    return absl::UnimplementedError(absl::StrCat(i.name(), ": a dynamic size inside a called computation"));
  if (active_ != nullptr && !i.Is(Opcode::kWhile) && !i.Is(Opcode::kConditional) && !i.Is(Opcode::kMap) &&
      std::any_of(i.called().begin(), i.called().end(), [](const Computation* c) { return HoldsLoop(*c); })) {
    return OneByOne(i, x);
  }
  switch (i.opcode()) {
    case Opcode::kMap:
      return Map(i, x);
    case Opcode::kWhile:
      return HoldsLoop(*i.called(0)) || HoldsLoop(*i.called(1)) ? OneByOne(i, x) : While(i, x[0]);
    case Opcode::kConditional:
      return Conditional(i, x);
    case Opcode::kBroadcast: {
      Attributes attrs;
      attrs.Set(AttrId::kDimensions, WithFirst(0, Shifted(i.dimensions())));
      return Made(i, {x[0].value}, std::move(attrs), WithN(i.shape()));
    }
    case Opcode::kReshape:
    case Opcode::kBitcastConvert:
      return Made(i, {x[0].value}, i.attrs(), WithN(i.shape()));
    case Opcode::kReverse:
    case Opcode::kConcatenate:
    case Opcode::kSort:
      return Moved(i, x, Shifted(i.dimensions()));
    case Opcode::kTranspose:
      return Moved(i, x, WithFirst(0, Shifted(i.dimensions())));
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
    case Opcode::kFft:
    case Opcode::kTopK:
      return Spreading(i, x, i.attrs(), Shape());
    case Opcode::kSlice: {
      SliceConfig slices = i.slices();
      slices.insert(slices.begin(), SliceDimension{0, n_, 1});
      Attributes attrs;
      attrs.Set(AttrId::kSlices, std::move(slices));
      return Made(i, {x[0].value}, std::move(attrs), Shape());
    }
    case Opcode::kPad:
      return Pad(i, x);
    case Opcode::kReduce: {
      const size_t half = x.size() / 2;
      if (AnyEachFrom(x, half)) return ReduceFromEach(i, x);
      Attributes attrs;
      attrs.Set(AttrId::kDimensions, Shifted(i.dimensions()));
      return Folded(i, x, half, std::move(attrs));
    }
    case Opcode::kReduceWindow:
      if (AnyEachFrom(x, x.size() / 2)) return OneByOne(i, x);
      return Folded(i, x, x.size() / 2, Windowed(i));
    case Opcode::kSelectAndScatter:
      if (x[2].each) return OneByOne(i, x);
      return Folded(i, x, 2, Windowed(i));
    case Opcode::kDot: {
      DotDimensions d = i.dot_dims();
      d = {WithFirst(0, Shifted(d.lhs_batch)), WithFirst(0, Shifted(d.rhs_batch)), Shifted(d.lhs_contracting),
           Shifted(d.rhs_contracting)};
      Attributes attrs = i.attrs();
      attrs.Set(AttrId::kDotDims, std::move(d));
      return Spreading(i, x, std::move(attrs), WithN(i.shape()));
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
      return OneByOne(i, x);
  }
}

absl::StatusOr<Lanes> Batcher::Made(const Instruction& i, std::vector<Value> operands, Attributes attrs,
                                    Shape declared) {
  ASSIGN_OR_RETURN(Value v, b_.Op(i.opcode(), std::move(operands), std::move(attrs), CalledBy(i), std::move(declared)));
  v->set_result_accuracy(i.result_accuracy());
  return Taken(b_, v, true);
}

absl::StatusOr<Lanes> Batcher::Spreading(const Instruction& i, const std::vector<Lanes>& x, Attributes attrs,
                                         Shape declared) {
  std::vector<Value> operands;
  for (const Lanes& o : x) {
    ASSIGN_OR_RETURN(Value v, Spread(o));
    operands.push_back(v);
  }
  return Made(i, std::move(operands), std::move(attrs), std::move(declared));
}

absl::StatusOr<Lanes> Batcher::Moved(const Instruction& i, const std::vector<Lanes>& x, Ints dims) {
  Attributes attrs = i.attrs();
  attrs.Set(AttrId::kDimensions, std::move(dims));
  return Spreading(i, x, std::move(attrs), Shape());
}

absl::StatusOr<Lanes> Batcher::Elementwise(const Instruction& i, const std::vector<Lanes>& x) {
  const Ints dims = WithN(i.shape().dimensions());
  std::vector<Value> operands;
  for (const Lanes& o : x) {
    // A scalar beside arrays (a bound of clamp, a predicate) is spread over all of them.
    const int64_t rank = o.value->shape().rank() - (o.each ? 1 : 0);
    Ints to = Counting(rank == i.shape().rank() ? 1 : 0, rank);
    if (o.each) to = rank == i.shape().rank() ? Counting(0, rank + 1) : Ints{0};
    ASSIGN_OR_RETURN(Value v, b_.BroadcastInDim(o.value, dims, to));
    operands.push_back(v);
  }
  return Made(i, std::move(operands), i.attrs(), i.info().Has(kDeclared) ? WithN(i.shape()) : Shape());
}

absl::StatusOr<Lanes> Batcher::Map(const Instruction& i, const std::vector<Lanes>& x) {
  const int64_t count = n_ * x[0].value->shape().num_elements() / (x[0].each ? std::max<int64_t>(n_, 1) : 1);
  std::vector<Value> flat;
  for (const Lanes& o : x) {
    ASSIGN_OR_RETURN(Value v, Spread(o));
    ASSIGN_OR_RETURN(v, b_.Reshape(v, {count}));
    flat.push_back(v);
  }
  Value active = active_;
  if (active != nullptr) {
    ASSIGN_OR_RETURN(active, b_.BroadcastInDim(active, {n_, count / n_}, {0}));
    ASSIGN_OR_RETURN(active, b_.Reshape(active, {count}));
  }
  ASSIGN_OR_RETURN(std::vector<Value> r, CallForEach(b_, i.called(0), std::move(flat), count, active));
  ASSIGN_OR_RETURN(Value v, b_.Reshape(r[0], WithN(i.shape().dimensions())));
  return Each(v);
}

absl::StatusOr<Lanes> Batcher::Pad(const Instruction& i, const std::vector<Lanes>& x) {
  PaddingConfig config = i.padding();
  config.insert(config.begin(), PaddingDimension{});
  ASSIGN_OR_RETURN(Value v, Spread(x[0]));
  if (!x[1].each) {
    ASSIGN_OR_RETURN(v, b_.Pad(v, x[1].value, config));
    return Each(v);
  }
  ASSIGN_OR_RETURN(Value zero, Fill(b_, v->shape().element_type(), 0, {}));
  ASSIGN_OR_RETURN(Value padded, b_.Pad(v, zero, config));
  ASSIGN_OR_RETURN(Value inside, Fill(b_, PrimitiveType::kPred, 1, v->shape().dimensions()));
  ASSIGN_OR_RETURN(Value outside, Fill(b_, PrimitiveType::kPred, 0, {}));
  ASSIGN_OR_RETURN(inside, b_.Pad(inside, outside, config));
  ASSIGN_OR_RETURN(Value around, b_.BroadcastInDim(x[1].value, padded->shape().dimensions(), {0}));
  ASSIGN_OR_RETURN(v, b_.Select(inside, padded, around));
  return Each(v);
}

absl::StatusOr<Lanes> Batcher::Folded(const Instruction& i, const std::vector<Lanes>& x, size_t count,
                                      Attributes attrs) {
  std::vector<Value> operands;
  for (size_t k = 0; k < x.size(); ++k) {
    Value v = x[k].value;
    if (k < count) {
      ASSIGN_OR_RETURN(v, Spread(x[k]));
    }
    operands.push_back(v);
  }
  return Made(i, std::move(operands), std::move(attrs), Shape());
}

absl::StatusOr<Lanes> Batcher::ReduceFromEach(const Instruction& i, const std::vector<Lanes>& x) {
  const size_t half = x.size() / 2;
  std::vector<Value> inputs, starts;
  for (size_t k = 0; k < x.size(); ++k) {
    ASSIGN_OR_RETURN(Value v, Spread(x[k]));
    (k < half ? inputs : starts).push_back(v);
  }
  const Ints dims = Shifted(i.dimensions());
  const Shape& first = i.shape().IsTuple() ? i.shape().tuple_shapes(0) : i.shape();
  for (Value& v : starts) {
    ASSIGN_OR_RETURN(v, b_.BroadcastInDim(v, WithN(first.dimensions()), {0}));
  }
  ASSIGN_OR_RETURN(std::vector<Value> r, ReduceInTurns(b_, i.called(0), inputs, starts, dims));
  if (!i.shape().IsTuple()) return Each(r[0]);
  Lanes all;
  all.tuple = true;
  for (Value v : r) all.parts.push_back(Each(v));
  return all;
}

Attributes Batcher::Windowed(const Instruction& i) {
  Window w = i.window();
  w.dimensions.insert(w.dimensions.begin(), WindowDimension());
  Attributes attrs;
  attrs.Set(AttrId::kWindow, std::move(w));
  return attrs;
}

absl::StatusOr<Value> Batcher::StartRows(const std::vector<Lanes>& x, size_t first) {
  std::vector<Value> columns;
  for (size_t k = first; k < x.size(); ++k) {
    ASSIGN_OR_RETURN(Value v, Spread(x[k]));
    ASSIGN_OR_RETURN(v, b_.Convert(v, PrimitiveType::kS64));
    ASSIGN_OR_RETURN(v, b_.Reshape(v, {n_, 1}));
    columns.push_back(v);
  }
  return b_.Concatenate(std::move(columns), 1);
}

absl::StatusOr<Lanes> Batcher::DynamicSlice(const Instruction& i, const std::vector<Lanes>& x) {
  if (i.shape().rank() == 0) return x[0];
  const Ints& sizes = i.attrs().GetInts(AttrId::kDynamicSliceSizes);
  const int64_t rank = i.shape().rank();
  if (!AnyEachFrom(x, 1)) {
    ASSIGN_OR_RETURN(Value first, ZeroLike(x[1].value));
    std::vector<Value> operands = {x[0].value, first};
    for (size_t k = 1; k < x.size(); ++k) operands.push_back(x[k].value);
    Attributes attrs;
    attrs.Set(AttrId::kDynamicSliceSizes, WithFirst(n_, sizes));
    return Made(i, std::move(operands), std::move(attrs), Shape());
  }
  ASSIGN_OR_RETURN(Value rows, StartRows(x, 1));
  GatherDimensions g;
  g.offset_dims = Counting(1, rank);
  g.start_index_map = Counting(x[0].each ? 1 : 0, rank);
  g.index_vector_dim = 1;
  if (x[0].each) g.operand_batching_dims = g.start_indices_batching_dims = {0};
  return TakenBy(x[0].value, rows, std::move(g), x[0].each ? WithFirst(1, sizes) : sizes);
}

absl::StatusOr<Lanes> Batcher::TakenBy(Value x, Value rows, GatherDimensions g, Ints sizes) {
  Attributes attrs;
  attrs.Set(AttrId::kGatherDims, std::move(g));
  attrs.Set(AttrId::kSliceSizes, std::move(sizes));
  ASSIGN_OR_RETURN(Value v, b_.Op(Opcode::kGather, {x, rows}, std::move(attrs)));
  return Each(v);
}

absl::StatusOr<Lanes> Batcher::DynamicUpdateSlice(const Instruction& i, const std::vector<Lanes>& x) {
  if (i.shape().rank() == 0) return x[1];
  ASSIGN_OR_RETURN(Value into, Spread(x[0]));
  ASSIGN_OR_RETURN(Value update, Spread(x[1]));
  if (!AnyEachFrom(x, 2)) {
    ASSIGN_OR_RETURN(Value first, ZeroLike(x[2].value));
    std::vector<Value> operands = {into, update, first};
    for (size_t k = 2; k < x.size(); ++k) operands.push_back(x[k].value);
    return Made(i, std::move(operands), {}, Shape());
  }
  // A start that is too far moves back until the update fits; a scatter would leave it out.
  ASSIGN_OR_RETURN(Value rows, StartRows(x, 2));
  const int64_t rank = i.shape().rank();
  std::vector<int64_t> last;
  for (int64_t d = 0; d < rank; ++d) last.push_back(i.shape().dimensions(d) - i.operand(1)->shape().dimensions(d));
  ASSIGN_OR_RETURN(Value high, b_.Constant(Literal::FromValues<int64_t>({rank}, last)));
  ASSIGN_OR_RETURN(high, b_.BroadcastInDim(high, {n_, rank}, {1}));
  ASSIGN_OR_RETURN(Value low, Fill(b_, PrimitiveType::kS64, 0, {n_, rank}));
  ASSIGN_OR_RETURN(rows, b_.Op(Opcode::kClamp, {low, rows, high}));
  ScatterDimensions s;
  s.update_window_dims = s.scatter_dims_to_operand_dims = Counting(1, rank);
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
  return Each(v);
}

absl::StatusOr<Lanes> Batcher::Gather(const Instruction& i, const std::vector<Lanes>& x) {
  GatherDimensions g = i.gather_dims();
  Ints sizes = i.attrs().GetInts(AttrId::kSliceSizes);
  ASSIGN_OR_RETURN(Value rows, Spread(x[1]));
  g.offset_dims = Shifted(g.offset_dims);
  g.index_vector_dim += 1;
  g.start_indices_batching_dims = Shifted(g.start_indices_batching_dims);
  if (x[0].each) {
    g.collapsed_slice_dims = Shifted(g.collapsed_slice_dims);
    g.start_index_map = Shifted(g.start_index_map);
    g.operand_batching_dims = WithFirst(0, Shifted(g.operand_batching_dims));
    g.start_indices_batching_dims = WithFirst(0, g.start_indices_batching_dims);
    sizes = WithFirst(1, sizes);
  }
  return TakenBy(x[0].value, rows, std::move(g), std::move(sizes));
}

absl::StatusOr<Lanes> Batcher::Scatter(const Instruction& i, const std::vector<Lanes>& x) {
  ScatterDimensions s = i.scatter_dims();
  s.update_window_dims = Shifted(s.update_window_dims);
  s.inserted_window_dims = Shifted(s.inserted_window_dims);
  s.scatter_dims_to_operand_dims = Shifted(s.scatter_dims_to_operand_dims);
  s.input_batching_dims = WithFirst(0, Shifted(s.input_batching_dims));
  s.scatter_indices_batching_dims = WithFirst(0, Shifted(s.scatter_indices_batching_dims));
  s.index_vector_dim += 1;
  Attributes attrs;
  attrs.Set(AttrId::kScatterDims, std::move(s));
  return Spreading(i, x, std::move(attrs), Shape());
}

}  // namespace backplane
