#include "core/passes/random_array_program.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ir/builder.h"

namespace backplane {
namespace {

using P = PrimitiveType;

class ArrayPrograms {
 public:
  ArrayPrograms(Module* module, uint32_t seed) : module_(module), random_(seed) {}

  void Make() {
    Builder b(module_, "main");
    std::vector<Value> pool;
    const std::vector<Shape> parameters = {Shape(P::kS32, {4, 3}),    Shape(P::kF32, {4, 3}),   Shape(P::kU8, {6}),
                                           Shape(P::kPred, {4, 3}),   Shape(P::kBF16, {5}),     Shape(P::kS32, {}),
                                           Shape(P::kF32, {2, 3, 2}), Shape(P::kS32, {2, 1, 3})};
    for (size_t k = 0; k < parameters.size(); ++k) pool.push_back(*b.Parameter(static_cast<int64_t>(k), parameters[k]));
    Steps(b, pool, 30, 2);
    std::vector<Value> results;
    for (size_t k = parameters.size(); k < pool.size(); ++k) {
      if (pool[k]->users().empty()) results.push_back(pool[k]);
    }
    if (results.empty()) results.push_back(pool[0]);
    module_->set_entry(*b.Build(*b.Tuple(results)));
    module_->RemoveUnreachableComputations();
  }

 private:
  static constexpr int64_t kMaxElements = 100;

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  // Prefers recent values, so that chains grow long.
  Value Pick(const std::vector<Value>& pool) {
    return OneIn(3) ? pool[static_cast<size_t>(Below(static_cast<int64_t>(pool.size())))]
                    : pool[pool.size() - 1 - static_cast<size_t>(Below(std::min<int64_t>(3, std::ssize(pool))))];
  }

  void Steps(Builder& b, std::vector<Value>& pool, int count, int depth) {
    for (int k = 0; k < count; ++k) {
      absl::StatusOr<Value> v =
          Step(b, pool, depth);  // an error means that the attributes do not fit; nothing was added
      if (v.ok() && (*v)->shape().IsArray() && (*v)->shape().num_elements() <= kMaxElements) pool.push_back(*v);
    }
  }

  absl::StatusOr<Value> Step(Builder& b, const std::vector<Value>& pool, int depth) {
    const Value x = Pick(pool);
    switch (Below(24)) {
      case 0:
      case 1:
      case 2:
        return Slice(b, x);
      case 3:
        return Concatenate(b, x, pool);
      case 4:
        return Pad(b, x);
      case 5:
        return Reverse(b, x);
      case 6:
        return Transpose(b, x);
      case 7:
        return Reshape(b, x);
      case 8:
        return Broadcast(b, x);
      case 9:
        return b.Iota(Shape(OneIn(2) ? P::kS32 : P::kU8, {1 + Below(6), 1 + Below(3)}), Below(2));
      case 10:
      case 11:
      case 12:
        return Reduce(b, x);
      case 13:
        return Select(b, x, pool);
      case 14:
        return Compare(b, x);
      case 15:
        return Convert(b, x);
      case 16:
      case 17:
        return Arithmetic(b, x, pool);
      case 18:
        return DynamicSlice(b, x, pool);
      case 19:
        return Gather(b, x);
      case 20:
        return Scatter(b, x);
      case 21:
        return OneProduct(b, x);
      default:
        return depth > 0 && OneIn(2) ? Loop(b, x, Pick(pool), depth) : Unary(b, x);
    }
  }

  Value Scalar(Builder& b, PrimitiveType t, double value) { return *b.Constant(Literal::Scalar(t, value)); }
  Value BroadcastConstant(Builder& b, const Shape& shape, double value) {
    return *b.BroadcastInDim(Scalar(b, shape.element_type(), value), shape.dimensions(), {});
  }

  absl::StatusOr<Value> Slice(Builder& b, Value x) {
    SliceConfig slices;
    for (int64_t size : x->shape().dimensions()) {
      if (size == 0) return absl::InvalidArgumentError("empty");
      const int64_t start = OneIn(2) ? 0 : Below(size);
      slices.push_back({start, OneIn(2) ? size : start + 1 + Below(size - start), 1 + (OneIn(3) ? Below(2) : 0)});
    }
    return b.Slice(x, std::move(slices));
  }

  // Concatenates the value with itself, with adjacent slices of it, or with an empty one.
  absl::StatusOr<Value> Concatenate(Builder& b, Value x, const std::vector<Value>& pool) {
    if (x->shape().rank() == 0) return Broadcast(b, x);
    const int64_t d = Below(x->shape().rank()), size = x->shape().dimensions(d);
    auto part = [&](int64_t from, int64_t to) {
      SliceConfig slices;
      for (int64_t n : x->shape().dimensions()) slices.push_back({0, n, 1});
      slices[static_cast<size_t>(d)] = {from, to, 1};
      return b.Slice(x, std::move(slices));
    };
    const int64_t middle = Below(size + 1), again = OneIn(3) ? Below(size + 1) : middle;
    switch (Below(4)) {
      case 0:
        return b.Concatenate(OneIn(2) ? std::vector<Value>{x} : std::vector<Value>{x, x}, d);
      case 1: {
        const Value other = Pick(pool);
        return b.Concatenate({x, other, x}, d);
      }
      case 2:
        return b.Concatenate({BroadcastConstant(b, x->shape(), 1), x}, d);
      default: {
        auto left = part(0, middle), right = part(again, size);
        if (!left.ok() || !right.ok()) return left.status();
        return b.Concatenate({*left, *right}, d);
      }
    }
  }

  absl::StatusOr<Value> Pad(Builder& b, Value x) {
    PaddingConfig padding;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      PaddingDimension p;
      if (OneIn(2)) p = {Below(4) - 1, Below(4) - 1, OneIn(4) ? 1 : 0};
      padding.push_back(p);
    }
    if (x->Is(Opcode::kPad) && OneIn(2)) return b.Pad(x, x->operand(1), std::move(padding));
    return b.Pad(x, Scalar(b, x->shape().element_type(), static_cast<double>(Below(2))), std::move(padding));
  }

  Ints SomeDimensions(Value x) {
    Ints dims;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      if (OneIn(2)) dims.push_back(d);
    }
    return dims;
  }

  absl::StatusOr<Value> Reverse(Builder& b, Value x) {
    Attributes attrs;
    attrs.Set(AttrId::kDimensions, SomeDimensions(x));
    return b.Op(Opcode::kReverse, {x}, std::move(attrs));
  }

  absl::StatusOr<Value> Transpose(Builder& b, Value x) {
    Ints p(static_cast<size_t>(x->shape().rank()));
    std::iota(p.begin(), p.end(), 0);
    for (size_t k = p.size(); k > 1; --k) std::swap(p[k - 1], p[static_cast<size_t>(Below(static_cast<int64_t>(k)))]);
    return b.Transpose(x, p);
  }

  // Reshapes to one dimension, or adds or removes dimensions of size 1.
  absl::StatusOr<Value> Reshape(Builder& b, Value x) {
    const DimVector& dims = x->shape().dimensions();
    if (OneIn(3)) return b.Reshape(x, {x->shape().num_elements()});
    Ints to;
    for (int64_t n : dims) {
      if (OneIn(3)) to.push_back(1);
      if (n != 1 || OneIn(2)) to.push_back(n);
    }
    return b.Reshape(x, to);
  }

  absl::StatusOr<Value> Broadcast(Builder& b, Value x) {
    if (OneIn(8)) x = *b.Constant(Literal::FromValues<int32_t>({3}, {5, 5, OneIn(2) ? 5 : 6}));
    std::vector<int64_t> dims, places;
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      if (OneIn(3)) dims.push_back(1 + Below(3));
      places.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(x->shape().dimensions(d));
    }
    if (dims.size() < 3 && OneIn(2)) dims.push_back(1 + Below(3));
    return b.BroadcastInDim(x, dims, places);
  }

  absl::StatusOr<Value> Reduce(Builder& b, Value x) {
    const PrimitiveType t = x->shape().element_type();
    static constexpr Opcode kNumbers[] = {Opcode::kAdd, Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum};
    const Opcode op = t == P::kPred ? (OneIn(2) ? Opcode::kAnd : Opcode::kOr) : kNumbers[Below(4)];
    const Ints dims = SomeDimensions(x);
    absl::StatusOr<Computation*> body = MakeScalarBinaryComputation(module_, op, t);
    if (!body.ok()) return body.status();
    const double start = op == Opcode::kAnd || (op != Opcode::kOr && OneIn(4)) ? 1 : 0;
    const Value initial = x->Is(Opcode::kReduce) && OneIn(2) ? x->operand(1) : Scalar(b, t, start);
    if (OneIn(3) && x->shape().rank() > 1) {  // along one dimension, then along another
      absl::StatusOr<Value> once = b.Reduce({x}, {initial}, *body, {0});
      return once.ok() ? b.Reduce({*once}, {initial}, *body, {0}) : once;
    }
    return b.Reduce({x}, {initial}, *body, dims);
  }

  absl::StatusOr<Value> Condition(Builder& b, const Shape& shape, const std::vector<Value>& pool) {
    for (int tries = 0; tries < 4; ++tries) {
      const Value p = Pick(pool);
      if (p->shape().element_type() == P::kPred && p->shape().dimensions() == shape.dimensions()) return p;
    }
    return b.BroadcastInDim(Scalar(b, P::kPred, static_cast<double>(Below(2))), shape.dimensions(), {});
  }

  absl::StatusOr<Value> Select(Builder& b, Value x, const std::vector<Value>& pool) {
    absl::StatusOr<Value> p = Condition(b, x->shape(), pool);
    if (p.ok() && OneIn(3)) p = b.Unary(Opcode::kNot, *p);
    if (!p.ok()) return p.status();
    const Value other = BroadcastConstant(b, x->shape(), static_cast<double>(Below(2)));
    if (OneIn(4) && x->shape().element_type() == P::kPred)
      return b.Select(*p, BroadcastConstant(b, x->shape(), 1), BroadcastConstant(b, x->shape(), 0));
    absl::StatusOr<Value> first = OneIn(2) ? b.Select(*p, x, other) : b.Select(*p, other, x);
    if (!first.ok() || OneIn(2)) return first;
    return OneIn(2) ? b.Select(*p, *first, other) : b.Select(*p, x, *first);
  }

  absl::StatusOr<Value> Compare(Builder& b, Value x) {
    static constexpr ComparisonDirection kAll[] = {ComparisonDirection::kEq, ComparisonDirection::kNe,
                                                   ComparisonDirection::kLt, ComparisonDirection::kGe,
                                                   ComparisonDirection::kGt, ComparisonDirection::kLe};
    const Value other = OneIn(3) ? x : BroadcastConstant(b, x->shape(), static_cast<double>(Below(2)));
    absl::StatusOr<Value> c = b.Compare(x, other, kAll[Below(6)]);
    return c.ok() && OneIn(2) ? b.Unary(Opcode::kNot, *c) : c;
  }

  absl::StatusOr<Value> Convert(Builder& b, Value x) {
    static constexpr P kTypes[] = {P::kS8, P::kU8, P::kS16, P::kS32, P::kS64, P::kBF16, P::kF16, P::kF32, P::kF64};
    absl::StatusOr<Value> once = b.Convert(x, kTypes[Below(9)]);
    if (!once.ok()) return once;
    return b.Convert(*once, OneIn(3) ? x->shape().element_type() : kTypes[Below(9)]);
  }

  absl::StatusOr<Value> Arithmetic(Builder& b, Value x, const std::vector<Value>& pool) {
    static constexpr Opcode kOps[] = {Opcode::kAdd,     Opcode::kSubtract, Opcode::kMultiply, Opcode::kMaximum,
                                      Opcode::kMinimum, Opcode::kXor,      Opcode::kAnd,      Opcode::kOr,
                                      Opcode::kDivide,  Opcode::kPower};
    const Opcode op = kOps[Below(10)];
    if (OneIn(4)) return b.Binary(op, x, x);
    if (OneIn(4)) return b.Binary(op, x, Pick(pool));
    static constexpr double kValues[] = {0, 1, -0.0, 2, 4};
    const Value k = BroadcastConstant(b, x->shape(), kValues[Below(5)]);
    return OneIn(3) ? b.Binary(op, k, x) : b.Binary(op, x, k);
  }

  absl::StatusOr<Value> Unary(Builder& b, Value x) {
    static constexpr Opcode kOps[] = {Opcode::kNegate, Opcode::kNot, Opcode::kAbs, Opcode::kSin, Opcode::kCopy};
    if (x->shape().rank() > 0 && OneIn(8)) {
      Attributes attrs;
      attrs.Set(AttrId::kDimensions, Ints{0});
      return b.Op(Opcode::kGetDimensionSize, {x}, std::move(attrs));
    }
    const Opcode op = kOps[Below(5)];
    absl::StatusOr<Value> once = b.Unary(op, x);
    return once.ok() && OneIn(2) ? b.Unary(op, *once) : once;
  }

  absl::StatusOr<Value> DynamicSlice(Builder& b, Value x, const std::vector<Value>& pool) {
    const bool whole = OneIn(4), update = OneIn(3);
    std::vector<Value> operands = {x};
    Ints sizes;
    std::vector<int64_t> update_dims;
    for (int64_t size : x->shape().dimensions()) {
      sizes.push_back(whole || OneIn(3) ? size : Below(size + 1));
      update_dims.push_back(sizes.back());
    }
    if (update) operands.push_back(BroadcastConstant(b, Shape(x->shape().element_type(), update_dims), 1));
    const bool known = OneIn(2);
    for (int64_t d = 0; d < x->shape().rank(); ++d) {
      operands.push_back(known ? Scalar(b, P::kS32, static_cast<double>(Below(9) - 2)) : pool[5]);
    }
    if (update) return b.Op(Opcode::kDynamicUpdateSlice, std::move(operands));
    Attributes attrs;
    attrs.Set(AttrId::kDynamicSliceSizes, std::move(sizes));
    return b.Op(Opcode::kDynamicSlice, std::move(operands), std::move(attrs));
  }

  // Gathers rows by index, or one window.
  absl::StatusOr<Value> Gather(Builder& b, Value x) {
    if (x->shape().rank() == 0) return Broadcast(b, x);
    const int64_t d = Below(x->shape().rank());
    GatherDimensions g;
    g.start_index_map = {d};
    g.collapsed_slice_dims = {d};
    Ints sizes(x->shape().dimensions().begin(), x->shape().dimensions().end());
    sizes[static_cast<size_t>(d)] = 1;
    Value indices;
    if (OneIn(2)) {
      g.index_vector_dim = 1;
      indices = *b.Iota(Shape(P::kS32, {1 + Below(x->shape().dimensions(d) + 1)}), 0);
      if (OneIn(2)) indices = *b.Reshape(indices, {indices->shape().dimensions(0), 1});
      const int64_t place = Below(x->shape().rank());  // position of the row dimension in the result
      for (int64_t r = 0; r < x->shape().rank(); ++r) {
        if (r != place) g.offset_dims.push_back(r);
      }
    } else {
      indices = *b.Constant(Literal::FromValues<int32_t>({1}, {static_cast<int32_t>(Below(7) - 2)}));
      for (int64_t r = 0; r + 1 < x->shape().rank(); ++r) g.offset_dims.push_back(r);
    }
    Attributes attrs;
    attrs.Set(AttrId::kGatherDims, std::move(g));
    attrs.Set(AttrId::kSliceSizes, std::move(sizes));
    return b.Op(Opcode::kGather, {x, indices}, std::move(attrs));
  }

  absl::StatusOr<Value> Scatter(Builder& b, Value x) {
    if (x->shape().rank() == 0) return Broadcast(b, x);
    const PrimitiveType t = x->shape().element_type();
    ScatterDimensions s;
    s.inserted_window_dims = {0};
    s.scatter_dims_to_operand_dims = {0};
    std::vector<int64_t> row(x->shape().dimensions().begin() + 1, x->shape().dimensions().end());
    Value indices;
    if (OneIn(3)) {
      s.index_vector_dim = 1;
      indices = *b.Constant(Literal(Shape(P::kS32, {0, 1})));
      row.insert(row.begin(), 0);
      for (int64_t r = 1; r < x->shape().rank(); ++r) s.update_window_dims.push_back(r);
    } else {
      indices = *b.Constant(Literal::FromValues<int32_t>({1}, {static_cast<int32_t>(Below(6) - 1)}));
      for (int64_t r = 0; r + 1 < x->shape().rank(); ++r) s.update_window_dims.push_back(r);
    }
    Builder body(module_, "new");
    const Value old = *body.Parameter(0, Shape::Scalar(t)), now = *body.Parameter(1, Shape::Scalar(t));
    Value root = now;
    if (OneIn(3) && t != P::kPred) root = *body.Binary(Opcode::kAdd, old, now);
    Attributes attrs;
    attrs.Set(AttrId::kScatterDims, std::move(s));
    return b.Op(Opcode::kScatter, {x, indices, BroadcastConstant(b, Shape(t, row), 1)}, std::move(attrs),
                {*body.Build(root)});
  }

  absl::StatusOr<Value> OneProduct(Builder& b, Value x) {
    const PrimitiveType t = x->shape().element_type();
    if (x->shape().rank() == 2 && t != P::kPred) {
      absl::StatusOr<Value> moved = Transpose(b, x);
      return moved.ok() ? b.Dot(*moved, x, DotDimensions{{}, {}, {Below(2)}, {Below(2)}}, t) : moved;
    }
    if (x->shape().rank() != 1 || t == P::kPred) return Reshape(b, x);
    const int64_t n = x->shape().dimensions(0);
    absl::StatusOr<Value> column = b.Reshape(x, {n, 1}), row = b.Reshape(x, {1, n});
    if (!column.ok() || !row.ok()) return column.status();
    return OneIn(2) ? b.Dot(*column, *column, DotDimensions{{}, {}, {1}, {1}}, t)
                    : b.Dot(*column, *row, DotDimensions{{}, {}, {1}, {0}}, t);
  }

  // The loop state: a counter, an array that changes, and arrays that are invariant. The body combines both.
  absl::StatusOr<Value> Loop(Builder& b, Value x, Value w, int depth) {
    const Shape counter = Shape::Scalar(P::kS32), state = Shape::Tuple({counter, x->shape(), w->shape()});
    Builder condition(module_, "condition");
    const Value c = *condition.Parameter(0, state);
    const Value more =
        *condition.Compare(*condition.GetTupleElement(c, 0), Scalar(condition, P::kS32, static_cast<double>(Below(5))),
                           ComparisonDirection::kLt);
    Computation* condition_done = *condition.Build(more);

    Builder body(module_, "body");
    const Value p = *body.Parameter(0, state);
    const Value at = *body.GetTupleElement(p, 0), mine = *body.GetTupleElement(p, 1),
                same = *body.GetTupleElement(p, 2);
    std::vector<Value> pool = {mine, same, same, at, same, at, same};
    Steps(body, pool, 6, depth - 1);
    // Values with the shape of the changing element are combined into it.
    Value next = mine;
    for (Value v : pool) {
      if (v == mine || v->shape() == mine->shape()) continue;
      absl::StatusOr<Value> flat = body.Reshape(v, {v->shape().num_elements()});
      if (v->shape().num_elements() == 0 || !flat.ok()) continue;
      absl::StatusOr<Value> first = body.Slice(*flat, {{0, 1, 1}});
      if (first.ok()) first = body.Reshape(*first, {});
      if (first.ok()) first = body.Convert(*first, mine->shape().element_type());
      if (first.ok()) first = body.BroadcastInDim(*first, mine->shape().dimensions(), {});
      if (!first.ok()) continue;
      const Opcode op = mine->shape().element_type() == P::kPred ? Opcode::kXor : Opcode::kMaximum;
      next = *body.Binary(op, next, *first);
    }
    for (Value v : pool) {
      if (v != mine && v->shape() == mine->shape() && OneIn(2))
        next = *body.Select(*body.BroadcastInDim(*body.Compare(at, Scalar(body, P::kS32, 1), ComparisonDirection::kLt),
                                                 mine->shape().dimensions(), {}),
                            v, next);
    }
    const Value step = *body.Binary(Opcode::kAdd, at, Scalar(body, P::kS32, 1));
    Computation* body_done = *body.Build(*body.Tuple({step, next, same}));
    const Value init = *b.Tuple({Scalar(b, P::kS32, 0), x, w});
    return b.GetTupleElement(*b.While(condition_done, body_done, init), 1);
  }

  Module* const module_;
  std::mt19937 random_;
};

}  // namespace

std::unique_ptr<Module> MakeRandomArrayProgram(uint32_t seed) {
  auto module = std::make_unique<Module>(absl::StrCat("random_arrays_", seed));
  ArrayPrograms(module.get(), seed).Make();
  return module;
}

}  // namespace backplane
