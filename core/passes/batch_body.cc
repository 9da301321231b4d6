#include "core/passes/batch_body.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/passes/loop_builder.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 24;  // of one array that only batching makes so large
constexpr int64_t kManyElements = int64_t{1} << 50;

// A value of the body: the same for all calls, or with the calls as its first dimension. Tuples by their elements.
struct Lanes {
  Value value = nullptr;
  bool each = false;
  bool tuple = false;
  std::vector<Lanes> parts;

  bool AnyEach() const {
    return each || std::any_of(parts.begin(), parts.end(), [](const Lanes& p) { return p.AnyEach(); });
  }
};

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

bool HoldsLoop(const Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
    return i->Is(Opcode::kWhile) || std::any_of(i->called().begin(), i->called().end(),
                                                [](const Computation* called) { return HoldsLoop(*called); });
  });
}

bool HoldsSideEffect(const Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(),
                     [](const auto& i) { return i->HasSideEffect(); });
}

// Elements of the largest value that one call makes.
int64_t WidthOf(const Computation& c) {
  int64_t width = 1;
  for (const auto& i : c.instructions()) {
    int64_t n = 0;
    ForEachLeaf(i->shape(), [&](const Shape& s, const std::vector<int64_t>&) {
      if (s.IsArray()) n += std::min(s.num_elements(), kManyElements);
    });
    for (const Computation* called : i->called()) {
      // A map calls its body for each element.
      const int64_t inner = WidthOf(*called), times = i->Is(Opcode::kMap) ? std::max<int64_t>(n, 1) : 1;
      n = std::max(n, inner > kManyElements / times ? kManyElements : inner * times);
    }
    width = std::max(width, n);
  }
  return width;
}

class Batcher {
 public:
  Batcher(Builder& b, int64_t n) : b_(b), n_(n) {}

  absl::StatusOr<Lanes> Run(const Computation& c, const std::vector<Lanes>& arguments) {
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

  absl::StatusOr<Value> Spread(const Lanes& x) {
    if (x.each) return x.value;
    const Shape& s = x.value->shape();
    return b_.BroadcastInDim(x.value, WithN(s.dimensions()), Counting(1, s.rank()));
  }

  // All leaves, in order, with the calls as first dimension.
  absl::Status SpreadLeaves(const Lanes& x, std::vector<Value>& leaves) {
    if (!x.tuple) {
      ASSIGN_OR_RETURN(Value v, Spread(x));
      leaves.push_back(v);
      return absl::OkStatus();
    }
    for (const Lanes& p : x.parts) RETURN_IF_ERROR(SpreadLeaves(p, leaves));
    return absl::OkStatus();
  }

 private:
  Ints WithN(const DimVector& dims) const {
    Ints r = {n_};
    r.insert(r.end(), dims.begin(), dims.end());
    return r;
  }
  Shape WithN(const Shape& s) const { return Shape(s.element_type(), WithN(s.dimensions())); }

  static std::vector<Computation*> CalledBy(const Instruction& i) { return {i.called().begin(), i.called().end()}; }

  static Lanes Each(Value v) {
    Lanes r;
    r.value = v;
    r.each = true;
    return r;
  }

  // The value's elements where it is a tuple.
  static absl::StatusOr<Lanes> Taken(Builder& b, Value v, bool each) {
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

  static absl::StatusOr<Value> Whole(Builder& b, const Lanes& x) {
    if (!x.tuple) return x.value;
    std::vector<Value> elements;
    for (const Lanes& p : x.parts) {
      ASSIGN_OR_RETURN(Value e, Whole(b, p));
      elements.push_back(e);
    }
    return b.Tuple(std::move(elements));
  }

  // The instruction as it stands, in another computation.
  static absl::StatusOr<Value> Again(Builder& b, const Instruction& i, const std::vector<Lanes>& x) {
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

  static Shape Declared(const Instruction& i, const Shape& s) {
    return i.info().Has(kDeclared) ? s.WithoutLayout() : Shape();
  }

  absl::StatusOr<Lanes> Lift(const Instruction& i, const std::vector<Lanes>& x) {
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

  absl::StatusOr<Lanes> Made(const Instruction& i, std::vector<Value> operands, Attributes attrs, Shape declared) {
    ASSIGN_OR_RETURN(Value v,
                     b_.Op(i.opcode(), std::move(operands), std::move(attrs), CalledBy(i), std::move(declared)));
    v->set_result_accuracy(i.result_accuracy());
    return Taken(b_, v, true);
  }

  absl::StatusOr<Lanes> Spreading(const Instruction& i, const std::vector<Lanes>& x, Attributes attrs, Shape declared) {
    std::vector<Value> operands;
    for (const Lanes& o : x) {
      ASSIGN_OR_RETURN(Value v, Spread(o));
      operands.push_back(v);
    }
    return Made(i, std::move(operands), std::move(attrs), std::move(declared));
  }

  absl::StatusOr<Lanes> Moved(const Instruction& i, const std::vector<Lanes>& x, Ints dims) {
    Attributes attrs = i.attrs();
    attrs.Set(AttrId::kDimensions, std::move(dims));
    return Spreading(i, x, std::move(attrs), Shape());
  }

  absl::StatusOr<Lanes> Elementwise(const Instruction& i, const std::vector<Lanes>& x) {
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

  absl::StatusOr<Lanes> Map(const Instruction& i, const std::vector<Lanes>& x) {
    const int64_t count = n_ * x[0].value->shape().num_elements() / (x[0].each ? std::max<int64_t>(n_, 1) : 1);
    std::vector<Value> flat;
    for (const Lanes& o : x) {
      ASSIGN_OR_RETURN(Value v, Spread(o));
      ASSIGN_OR_RETURN(v, b_.Reshape(v, {count}));
      flat.push_back(v);
    }
    ASSIGN_OR_RETURN(std::vector<Value> r, CallForEach(b_, i.called(0), std::move(flat), count));
    ASSIGN_OR_RETURN(Value v, b_.Reshape(r[0], WithN(i.shape().dimensions())));
    return Each(v);
  }

  absl::StatusOr<Lanes> Pad(const Instruction& i, const std::vector<Lanes>& x) {
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

  // The first `count` operands per call, the others the same for all.
  absl::StatusOr<Lanes> Folded(const Instruction& i, const std::vector<Lanes>& x, size_t count, Attributes attrs) {
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

  // Each call begins with a value of its own, which no reduce can.
  absl::StatusOr<Lanes> ReduceFromEach(const Instruction& i, const std::vector<Lanes>& x) {
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

  static Attributes Windowed(const Instruction& i) {
    Window w = i.window();
    w.dimensions.insert(w.dimensions.begin(), WindowDimension());
    Attributes attrs;
    attrs.Set(AttrId::kWindow, std::move(w));
    return attrs;
  }

  // Start indices as rows of an array [n, rank], as s64.
  absl::StatusOr<Value> StartRows(const std::vector<Lanes>& x, size_t first) {
    std::vector<Value> columns;
    for (size_t k = first; k < x.size(); ++k) {
      ASSIGN_OR_RETURN(Value v, Spread(x[k]));
      ASSIGN_OR_RETURN(v, b_.Convert(v, PrimitiveType::kS64));
      ASSIGN_OR_RETURN(v, b_.Reshape(v, {n_, 1}));
      columns.push_back(v);
    }
    return b_.Concatenate(std::move(columns), 1);
  }

  static bool AnyEachFrom(const std::vector<Lanes>& x, size_t first) {
    return std::any_of(x.begin() + static_cast<int64_t>(first), x.end(), [](const Lanes& o) { return o.each; });
  }

  absl::StatusOr<Value> ZeroLike(Value start) { return Fill(b_, start->shape().element_type(), 0, {}); }

  absl::StatusOr<Lanes> DynamicSlice(const Instruction& i, const std::vector<Lanes>& x) {
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

  absl::StatusOr<Lanes> TakenBy(Value x, Value rows, GatherDimensions g, Ints sizes) {
    Attributes attrs;
    attrs.Set(AttrId::kGatherDims, std::move(g));
    attrs.Set(AttrId::kSliceSizes, std::move(sizes));
    ASSIGN_OR_RETURN(Value v, b_.Op(Opcode::kGather, {x, rows}, std::move(attrs)));
    return Each(v);
  }

  absl::StatusOr<Lanes> DynamicUpdateSlice(const Instruction& i, const std::vector<Lanes>& x) {
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

  absl::StatusOr<Lanes> Gather(const Instruction& i, const std::vector<Lanes>& x) {
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

  absl::StatusOr<Lanes> Scatter(const Instruction& i, const std::vector<Lanes>& x) {
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

  absl::StatusOr<Value> SelectEach(Value mask, Value yes, Value no) {
    ASSIGN_OR_RETURN(mask, b_.BroadcastInDim(mask, yes->shape().dimensions(), {0}));
    return b_.Select(mask, yes, no);
  }

  absl::StatusOr<Lanes> Choose(Value mask, const Lanes& yes, const Lanes& no) {
    Lanes r;
    if (!yes.tuple) {
      ASSIGN_OR_RETURN(Value a, Spread(yes));
      ASSIGN_OR_RETURN(Value c, Spread(no));
      ASSIGN_OR_RETURN(r.value, SelectEach(mask, a, c));
      r.each = true;
      return r;
    }
    r.tuple = true;
    for (size_t k = 0; k < yes.parts.size(); ++k) {
      ASSIGN_OR_RETURN(Lanes part, Choose(mask, yes.parts[k], no.parts[k]));
      r.parts.push_back(std::move(part));
    }
    return r;
  }

  absl::StatusOr<Lanes> Conditional(const Instruction& i, const std::vector<Lanes>& x) {
    // A loop of a side that is not taken may have no end.
    for (const Computation* c : i.called()) {
      if (HoldsLoop(*c)) return OneByOne(i, x);
    }
    ASSIGN_OR_RETURN(Value selector, Spread(x[0]));
    const bool pred = selector->shape().element_type() == PrimitiveType::kPred;
    const size_t n = i.called().size();
    ASSIGN_OR_RETURN(Lanes result, Run(*i.called(static_cast<int64_t>(n) - 1), {x[n]}));
    for (size_t k = n - 1; k-- > 0;) {
      ASSIGN_OR_RETURN(Lanes taken, Run(*i.called(static_cast<int64_t>(k)), {x[k + 1]}));
      Value mine = selector;
      if (!pred) {
        ASSIGN_OR_RETURN(Value number,
                         b_.Constant(Literal::ScalarInt(selector->shape().element_type(), static_cast<int64_t>(k))));
        ASSIGN_OR_RETURN(number, b_.BroadcastInDim(number, {n_}, {}));
        ASSIGN_OR_RETURN(mine, b_.Compare(selector, number, ComparisonDirection::kEq));
      }
      ASSIGN_OR_RETURN(result, Choose(mine, taken, result));
    }
    return result;
  }

  // The value's tree with other leaves.
  static Lanes Rebuilt(const Lanes& like, const std::vector<Value>& leaves, size_t& next, bool each) {
    Lanes r;
    r.tuple = like.tuple;
    if (!like.tuple) {
      r.value = leaves[next++];
      r.each = each;
    }
    for (const Lanes& p : like.parts) r.parts.push_back(Rebuilt(p, leaves, next, each));
    return r;
  }

  // Runs until no call wants another turn; a call that has finished keeps its values.
  absl::StatusOr<Lanes> While(const Instruction& i, const Lanes& initial) {
    std::vector<Value> leaves;
    RETURN_IF_ERROR(SpreadLeaves(initial, leaves));
    auto wanted = [&](Builder& b, const std::vector<Value>& state) -> absl::StatusOr<Value> {
      Batcher inside(b, n_);
      size_t next = 0;
      ASSIGN_OR_RETURN(Lanes more, inside.Run(*i.called(0), {Rebuilt(initial, state, next, true)}));
      return inside.Spread(more);
    };
    ASSIGN_OR_RETURN(Value running, wanted(b_, leaves));
    std::vector<Value> all = {running};
    all.insert(all.end(), leaves.begin(), leaves.end());
    ASSIGN_OR_RETURN(Value init, b_.Tuple(all));
    const Shape tuple = init->shape();
    auto parts_of = [&](Builder& b, Value p) -> absl::StatusOr<std::vector<Value>> {
      std::vector<Value> parts;
      for (int64_t k = 0; k < tuple.tuple_size(); ++k) {
        ASSIGN_OR_RETURN(Value e, b.GetTupleElement(p, k));
        parts.push_back(e);
      }
      return parts;
    };

    Builder condition(b_.module(), "some_run");
    ASSIGN_OR_RETURN(Value p, condition.Parameter(0, tuple));
    ASSIGN_OR_RETURN(Value flags, condition.GetTupleElement(p, 0));
    ASSIGN_OR_RETURN(Value none, Fill(condition, PrimitiveType::kPred, 0, {}));
    ASSIGN_OR_RETURN(Computation * either, ScalarBinaryComputation(b_.module(), Opcode::kOr, PrimitiveType::kPred));
    const int64_t first[] = {0};
    ASSIGN_OR_RETURN(Value any, condition.Reduce({flags}, {none}, either, first));
    ASSIGN_OR_RETURN(Computation * condition_done, condition.Build(any));

    Builder turn(b_.module(), "turn");
    ASSIGN_OR_RETURN(p, turn.Parameter(0, tuple));
    ASSIGN_OR_RETURN(std::vector<Value> now, parts_of(turn, p));
    Batcher inside(turn, n_);
    size_t next = 0;
    const std::vector<Value> state(now.begin() + 1, now.end());
    ASSIGN_OR_RETURN(Lanes after, inside.Run(*i.called(1), {Rebuilt(initial, state, next, true)}));
    std::vector<Value> stepped;
    RETURN_IF_ERROR(inside.SpreadLeaves(after, stepped));
    for (size_t k = 0; k < stepped.size(); ++k) {
      ASSIGN_OR_RETURN(stepped[k], inside.SelectEach(now[0], stepped[k], state[k]));
    }
    ASSIGN_OR_RETURN(Value still, wanted(turn, stepped));
    ASSIGN_OR_RETURN(still, turn.Binary(Opcode::kAnd, still, now[0]));
    stepped.insert(stepped.begin(), still);
    ASSIGN_OR_RETURN(Value root, turn.Tuple(stepped));
    ASSIGN_OR_RETURN(Computation * turn_done, turn.Build(root));

    ASSIGN_OR_RETURN(Value loop, b_.While(condition_done, turn_done, init));
    ASSIGN_OR_RETURN(std::vector<Value> results, parts_of(b_, loop));
    results.erase(results.begin());
    next = 0;
    return Rebuilt(initial, results, next, true);
  }

  // A loop over the calls, each with the instruction as it stands.
  absl::StatusOr<Lanes> OneByOne(const Instruction& i, const std::vector<Lanes>& x) {
    std::vector<Value> leaves;
    for (const Lanes& o : x) RETURN_IF_ERROR(SpreadLeaves(o, leaves));
    std::vector<Value> results;
    absl::Status shapes;
    ForEachLeaf(i.shape(), [&](const Shape& s, const std::vector<int64_t>&) {
      if (!s.IsArray()) {
        shapes = absl::UnimplementedError(absl::StrCat(i.name(), ": ", s.ToString(), " inside a called computation"));
        return;
      }
      absl::StatusOr<Value> empty = Fill(b_, s.element_type(), 0, WithN(s.dimensions()));
      if (empty.ok()) results.push_back(*empty);
      if (!empty.ok()) shapes = empty.status();
    });
    RETURN_IF_ERROR(shapes);
    ASSIGN_OR_RETURN(Value limit, b_.Constant(Literal::ScalarInt(PrimitiveType::kS32, n_)));
    auto starts = [](Value v, Value at, Value zero) {
      std::vector<Value> r(static_cast<size_t>(v->shape().rank()), zero);
      r[0] = at;
      return r;
    };
    auto turn = [&](LoopTurn& t) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value zero, t.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, 0)));
      ASSIGN_OR_RETURN(Value one, t.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, 1)));
      std::vector<Value> mine;
      for (Value v : t.constants) {
        DimVector sizes = v->shape().dimensions(), rest(sizes.begin() + 1, sizes.end());
        sizes[0] = 1;
        ASSIGN_OR_RETURN(Value part, SliceAt(t.b, v, starts(v, t.count, zero), sizes));
        ASSIGN_OR_RETURN(part, t.b.Reshape(part, rest));
        mine.push_back(part);
      }
      std::vector<Lanes> operands;
      size_t next = 0;
      for (const Lanes& o : x) operands.push_back(Rebuilt(o, mine, next, false));
      ASSIGN_OR_RETURN(Value made, Again(t.b, i, operands));
      ASSIGN_OR_RETURN(Lanes parts, Taken(t.b, made, false));
      size_t at = 0;
      auto store = [&](auto& self, const Lanes& part) -> absl::Status {
        if (part.tuple) {
          for (const Lanes& p : part.parts) RETURN_IF_ERROR(self(self, p));
          return absl::OkStatus();
        }
        Value& into = t.state[at++];
        DimVector sizes = into->shape().dimensions();
        sizes[0] = 1;
        ASSIGN_OR_RETURN(Value v, t.b.Reshape(part.value, sizes));
        ASSIGN_OR_RETURN(into, UpdateAt(t.b, into, v, starts(into, t.count, zero)));
        return absl::OkStatus();
      };
      RETURN_IF_ERROR(store(store, parts));
      return t.b.Binary(Opcode::kAdd, t.count, one);
    };
    ASSIGN_OR_RETURN(std::vector<Value> after, MakeLoop(b_, "each", limit, leaves, results, turn));
    // The tree of the result from its shape.
    size_t next = 0;
    auto tree = [&](auto& self, const Shape& s) -> Lanes {
      if (!s.IsTuple()) return Each(after[next++]);
      Lanes r;
      r.tuple = true;
      for (const Shape& e : s.tuple_shapes()) r.parts.push_back(self(self, e));
      return r;
    };
    return tree(tree, i.shape());
  }

  Builder& b_;
  int64_t n_;
};

absl::StatusOr<std::vector<Value>> Once(Builder& b, Computation* body, std::vector<Value> arguments) {
  for (Value& v : arguments) {
    ASSIGN_OR_RETURN(v, b.Reshape(v, {}));
  }
  ASSIGN_OR_RETURN(Value made, b.Call(body, arguments));
  std::vector<Value> results = {made};
  if (made->shape().IsTuple()) {
    results.clear();
    for (int64_t k = 0; k < made->shape().tuple_size(); ++k) {
      ASSIGN_OR_RETURN(Value e, b.GetTupleElement(made, k));
      results.push_back(e);
    }
  }
  for (Value& v : results) {
    ASSIGN_OR_RETURN(v, b.Reshape(v, {1}));
  }
  return results;
}

absl::StatusOr<std::vector<Value>> Batched(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n) {
  if (n == 1) return Once(b, body, std::move(arguments));
  std::vector<Lanes> parameters;
  for (Value v : arguments) {
    parameters.emplace_back();
    parameters.back().value = v;
    parameters.back().each = true;
  }
  Batcher batcher(b, n);
  ASSIGN_OR_RETURN(Lanes result, batcher.Run(*body, parameters));
  std::vector<Value> leaves;
  RETURN_IF_ERROR(batcher.SpreadLeaves(result, leaves));
  return leaves;
}

}  // namespace

absl::StatusOr<std::vector<Value>> PlacesOf(Builder& b, Value place, const DimVector& sizes) {
  std::vector<Value> r(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    Value v = place;
    if (stride != 1) {
      ASSIGN_OR_RETURN(Value k, b.Constant(Literal::ScalarInt(PrimitiveType::kS32, stride)));
      ASSIGN_OR_RETURN(v, b.Binary(Opcode::kDivide, v, k));
    }
    stride *= sizes[d];
    if (d > 0) {
      ASSIGN_OR_RETURN(Value k, b.Constant(Literal::ScalarInt(PrimitiveType::kS32, sizes[d])));
      ASSIGN_OR_RETURN(v, b.Binary(Opcode::kRemainder, v, k));
    }
    r[d] = v;
  }
  return r;
}

absl::StatusOr<std::vector<Value>> ReduceInTurns(Builder& b, Computation* body, const std::vector<Value>& inputs,
                                                 const std::vector<Value>& starts, absl::Span<const int64_t> dims) {
  const Shape& shape = inputs[0]->shape();
  DimVector kept, sizes = shape.dimensions(), reduced;
  Ints reduced_dims(dims.begin(), dims.end());
  std::sort(reduced_dims.begin(), reduced_dims.end());
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (!std::binary_search(reduced_dims.begin(), reduced_dims.end(), d)) kept.push_back(shape.dimensions(d));
  }
  for (int64_t d : reduced_dims) {
    reduced.push_back(shape.dimensions(d));
    sizes[d] = 1;
  }
  const int64_t turns = Shape(PrimitiveType::kPred, reduced).num_elements();
  const int64_t count = Shape(PrimitiveType::kPred, kept).num_elements();
  if (turns > std::numeric_limits<int32_t>::max())
    return absl::UnimplementedError(absl::StrCat("a reduction of ", turns, " elements in turns"));
  std::vector<Value> state;
  for (size_t k = 0; k < starts.size(); ++k) {
    ASSIGN_OR_RETURN(Value v, AsType(b, starts[k], body->parameter(static_cast<int64_t>(k))->shape().element_type()));
    ASSIGN_OR_RETURN(v, b.Reshape(v, {count}));
    state.push_back(v);
  }
  if (turns > 0 && count > 0) {
    ASSIGN_OR_RETURN(Value limit, b.Constant(Literal::ScalarInt(PrimitiveType::kS32, turns)));
    auto turn = [&](LoopTurn& t) -> absl::StatusOr<Value> {
      ASSIGN_OR_RETURN(Value zero, t.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, 0)));
      ASSIGN_OR_RETURN(Value one, t.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, 1)));
      ASSIGN_OR_RETURN(std::vector<Value> places, PlacesOf(t.b, t.count, reduced));
      std::vector<Value> at(static_cast<size_t>(shape.rank()), zero), arguments = t.state;
      for (size_t k = 0; k < places.size(); ++k) at[static_cast<size_t>(reduced_dims[k])] = places[k];
      for (size_t k = 0; k < t.constants.size(); ++k) {
        Value v = t.constants[k];
        if (!at.empty()) {
          ASSIGN_OR_RETURN(v, SliceAt(t.b, v, at, sizes));
        }
        ASSIGN_OR_RETURN(v, t.b.Reshape(v, {count}));
        const Instruction* p = body->parameter(static_cast<int64_t>(starts.size() + k));
        ASSIGN_OR_RETURN(v, AsType(t.b, v, p->shape().element_type()));
        arguments.push_back(v);
      }
      ASSIGN_OR_RETURN(t.state, CallForEach(t.b, body, std::move(arguments), count));
      return t.b.Binary(Opcode::kAdd, t.count, one);
    };
    ASSIGN_OR_RETURN(state, MakeLoop(b, "reduction", limit, inputs, state, turn));
  }
  for (size_t k = 0; k < state.size(); ++k) {
    ASSIGN_OR_RETURN(state[k], b.Reshape(state[k], kept));
  }
  return state;
}

absl::StatusOr<Value> AsType(Builder& b, Value x, PrimitiveType t) {
  if (x->shape().element_type() == t) return x;
  return b.Convert(x, t);
}

absl::StatusOr<std::vector<Value>> CallForEach(Builder& b, Computation* body, std::vector<Value> arguments, int64_t n) {
  std::vector<Value> results;
  if (n == 0) {
    const Shape& root = body->root()->shape();
    for (const Shape& s : root.IsTuple() ? root.tuple_shapes() : std::vector<Shape>{root}) {
      ASSIGN_OR_RETURN(Value none, Fill(b, s.element_type(), 0, {0}));
      results.push_back(none);
    }
    return results;
  }
  const int64_t width = WidthOf(*body), block = std::max<int64_t>(1, kMaxElements / width);
  // What a block computes for a second time must not be seen.
  if (n <= block || width == 1 || HoldsSideEffect(*body)) return Batched(b, body, std::move(arguments), n);
  const Shape& root = body->root()->shape();
  for (const Shape& s : root.IsTuple() ? root.tuple_shapes() : std::vector<Shape>{root}) {
    ASSIGN_OR_RETURN(Value empty, Fill(b, s.element_type(), 0, {n}));
    results.push_back(empty);
  }
  ASSIGN_OR_RETURN(Value limit, b.Constant(Literal::ScalarInt(PrimitiveType::kS32, n)));
  return MakeLoop(b, "blocks", limit, std::move(arguments), std::move(results),
                  [&](LoopTurn& t) -> absl::StatusOr<Value> {
                    // The last block begins early enough to be whole.
                    ASSIGN_OR_RETURN(Value last, t.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, n - block)));
                    ASSIGN_OR_RETURN(Value step, t.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, block)));
                    ASSIGN_OR_RETURN(Value start, t.b.Binary(Opcode::kMinimum, t.count, last));
                    std::vector<Value> parts;
                    for (Value v : t.constants) {
                      ASSIGN_OR_RETURN(Value part, SliceAt(t.b, v, {start}, {block}));
                      parts.push_back(part);
                    }
                    ASSIGN_OR_RETURN(std::vector<Value> made, Batched(t.b, body, std::move(parts), block));
                    for (size_t k = 0; k < made.size(); ++k) {
                      ASSIGN_OR_RETURN(t.state[k], UpdateAt(t.b, t.state[k], made[k], {start}));
                    }
                    return t.b.Binary(Opcode::kAdd, t.count, step);
                  });
}

}  // namespace backplane
