#include "sdk/backend/collectives/random_sharded_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/ir/builder.h"

namespace backplane {
namespace {

constexpr PrimitiveType kType = PrimitiveType::kS32;

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  std::unique_ptr<Module> Make() {
    auto module = std::make_unique<Module>("random");
    module->config().num_partitions = kRandomProgramPartitions;
    Builder b(module.get(), "main");
    b_ = &b;
    const int64_t parameters = 1 + Pick(3);
    for (int64_t i = 0; i < parameters; ++i) {
      Value p = Check(b.Parameter(i, Shape(kType, MakeDims())));
      if (Pick(4) != 0) p->set_sharding(std::make_shared<const Sharding>(MakeSharding(p->shape())));
      values_.push_back(p);
    }
    for (int i = 0; i < 12; ++i) AddRandomOp();
    std::vector<Value> results = {values_.back()};
    for (int i = 0; i < 2; ++i) results.push_back(PickValue());
    Value root = Check(b.Tuple(results));
    if (Pick(2) == 0) {  // the program states its result shardings
      Sharding tuple;
      tuple.type = Sharding::Type::kTuple;
      for (Value v : results) tuple.tuple.push_back(MakeSharding(v->shape()));
      root->set_sharding(std::make_shared<const Sharding>(tuple));
    }
    EXPECT_TRUE(b.Build(root).ok());
    module->set_entry(b.computation());
    return module;
  }

 private:
  int64_t Pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  Value PickValue() { return values_[static_cast<size_t>(Pick(static_cast<int64_t>(values_.size())))]; }
  Value Check(absl::StatusOr<Value> v) {
    EXPECT_TRUE(v.ok()) << v.status();
    return v.ok() ? *v : nullptr;
  }
  DimVector MakeDims() {
    DimVector dims;
    for (int64_t d = Pick(3) + 1; d > 0; --d) dims.push_back(Pick(4) == 0 ? 3 : 4 << Pick(2));
    return dims;
  }

  // Returns a random tiling. Some dimensions do not divide, and some shards hold padding only. The device order is
  // random.
  Sharding MakeSharding(const Shape& shape) {
    Sharding s;
    int64_t remaining = kRandomProgramPartitions;
    bool any_split = false;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      const int64_t tiles = std::min<int64_t>(remaining, int64_t{1} << Pick(3));
      const bool fits = tiles > 1 && (shape.dimensions(d) % tiles == 0 || Pick(3) == 0);
      s.tile_dims.push_back(fits ? tiles : 1);
      if (fits) remaining /= tiles;
      any_split |= fits;
    }
    if (!any_split) return Sharding();
    s.type = Sharding::Type::kOther;
    if (remaining > 1) {
      s.tile_dims.push_back(remaining);
      s.replicate_on_last_tile_dim = true;
    }
    for (int64_t p = 0; p < kRandomProgramPartitions; ++p) s.devices.push_back(p);
    if (Pick(2) == 0) std::shuffle(s.devices.begin(), s.devices.end(), random_);
    return s;
  }

  void Add(absl::StatusOr<Value> v) {
    if (Value value = Check(std::move(v));
        value != nullptr && value->shape().num_elements() > 0 && value->shape().num_elements() <= 4096)
      values_.push_back(value);
  }

  // Returns a value of the same shape, or `x` itself.
  Value PickValueLike(Value x) {
    for (int i = 0; i < 4; ++i) {
      if (Value y = PickValue(); y->shape() == x->shape()) return y;
    }
    return x;
  }

  // Adds one random operation.
  void AddRandomOp() {
    Value x = PickValue();
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Attributes attrs;
    switch (Pick(22)) {
      case 0:
        return Add(b_->Binary(Opcode::kAdd, x, PickValueLike(x)));
      case 1:
        return Add(b_->Binary(Opcode::kSubtract, Check(b_->Unary(Opcode::kNegate, x)), PickValueLike(x)));
      case 2:
        return AddAnnotation(x);
      case 3:
        return AddTranspose(x);
      case 4:
        return AddReshape(x);
      case 5:
        return AddBroadcast(x);
      case 6:
        return AddReduce(x);
      case 7:
        return AddDot(x);
      case 8:
        return AddSlice(x);
      case 9:
        return AddPad(x);
      case 10:
        if (rank == 0) return;
        return Add(b_->Concatenate({x, PickValueLike(x)}, Pick(rank)));
      case 11:
        if (rank == 0) return;
        attrs.Set(AttrId::kDimensions, Ints{Pick(rank)});
        return Add(b_->Op(Opcode::kReverse, {x}, std::move(attrs)));
      case 12:
        return AddDynamicSliceOrUpdate(x);
      case 13: {
        Value y = PickValueLike(x);
        return Add(
            b_->Select(Check(b_->Compare(x, y, ComparisonDirection::kLt)), y, Check(b_->Unary(Opcode::kAbs, x))));
      }
      case 14:
        return AddGather(x);
      case 16:
        return AddScatter(x);
      case 15:
        return AddLoop(x);
      case 17:
        return AddShardingGroup(x);
      case 18:
        return AddManualRegion(x);
      case 19:
        return AddLoopOverPartialSums(x);
      case 20:
        return AddOpWithScalars(x);
      default:
        return Add(rank == 0 ? b_->Unary(Opcode::kNegate, x)
                             : b_->Binary(Opcode::kMultiply, x, Check(b_->Iota(shape, Pick(rank)))));
    }
  }

  // An operation on whole arrays and scalars, which have no dimension to split.
  void AddOpWithScalars(Value x) {
    auto scalar = [&](int64_t v) { return Check(b_->Constant(Literal::ScalarInt(kType, v))); };
    if (Pick(2) == 0) return Add(b_->Op(Opcode::kClamp, {scalar(-5), x, scalar(7)}));
    Value chosen = Check(b_->Compare(scalar(Pick(2)), scalar(1), ComparisonDirection::kLt));
    return Add(b_->Select(chosen, x, PickValueLike(x)));
  }

  // Annotates `x` with another sharding.
  void AddAnnotation(Value x) {
    const Shape shape = x->shape();
    Attributes attrs;
    attrs.Set(AttrId::kCustomCallTarget, std::string("Sharding"));
    Value y = Check(b_->Op(Opcode::kCustomCall, {x}, std::move(attrs), {}, shape));
    y->set_sharding(std::make_shared<const Sharding>(MakeSharding(shape)));
    values_.push_back(y);
  }

  void AddTranspose(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Ints order(static_cast<size_t>(rank));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::shuffle(order.begin(), order.end(), random_);
    return Add(b_->Transpose(x, order));
  }

  // Merges two dimensions or splits one.
  void AddReshape(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    DimVector dims = shape.dimensions();
    if (rank > 1 && Pick(2) == 0) {
      const size_t d = static_cast<size_t>(Pick(rank - 1));
      dims[d] *= dims[d + 1];
      dims.erase(dims.begin() + static_cast<int64_t>(d) + 1);
    } else if (rank > 0 && rank < 4) {
      const size_t d = static_cast<size_t>(Pick(rank));
      if (dims[d] % 2 != 0) return;
      const int64_t outer = Pick(2) == 0 ? 2 : dims[d] / 2;
      const int64_t inner = dims[d] / outer;
      dims[d] = outer;
      dims.insert(dims.begin() + static_cast<int64_t>(d) + 1, inner);
      if (Pick(2) == 0) dims.insert(dims.begin(), 1);
    }
    return Add(b_->Reshape(x, dims));
  }

  void AddBroadcast(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    if (rank > 3) return;
    DimVector dims = shape.dimensions();
    const int64_t at = Pick(rank + 1);
    dims.insert(dims.begin() + at, 4);
    Ints from;
    for (int64_t d = 0; d < rank; ++d) from.push_back(d < at ? d : d + 1);
    return Add(b_->BroadcastInDim(x, dims, from));
  }

  void AddReduce(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Ints dims;
    for (int64_t d = 0; d < rank; ++d) {
      if (Pick(2) == 0) dims.push_back(d);
    }
    const bool sum = Pick(2) == 0;
    auto body = MakeScalarBinaryComputation(b_->module(), sum ? Opcode::kAdd : Opcode::kMaximum, kType);
    EXPECT_TRUE(body.ok());
    Value init = Check(b_->Constant(Literal::ScalarInt(kType, sum ? (Pick(3) == 0 ? 5 : 0) : 3)));
    return Add(b_->Reduce({x}, {init}, *body, dims));
  }

  // Contracts a pair of equal dimensions; a second pair may be a batch dimension.
  void AddDot(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Value y = PickValue();
    DotDimensions d;
    for (int64_t i = 0; i < rank; ++i) {
      for (int64_t k = 0; k < y->shape().rank(); ++k) {
        const bool taken = std::count(d.lhs_contracting.begin(), d.lhs_contracting.end(), i) +
                               std::count(d.lhs_batch.begin(), d.lhs_batch.end(), i) +
                               std::count(d.rhs_contracting.begin(), d.rhs_contracting.end(), k) +
                               std::count(d.rhs_batch.begin(), d.rhs_batch.end(), k) >
                           0;
        if (taken || shape.dimensions(i) != y->shape().dimensions(k)) continue;
        if (d.lhs_contracting.empty()) {
          d.lhs_contracting = {i};
          d.rhs_contracting = {k};
        } else if (d.lhs_batch.empty() && Pick(2) == 0) {
          d.lhs_batch = {i};
          d.rhs_batch = {k};
        }
      }
    }
    if (d.lhs_contracting.empty()) return;
    return Add(b_->Dot(x, y, d, kType));
  }

  void AddSlice(Value x) {
    const Shape shape = x->shape();
    SliceConfig slices;
    for (int64_t n : shape.dimensions()) {
      const int64_t start = Pick(2) == 0 ? 0 : Pick(n);
      slices.push_back({start, Pick(2) == 0 ? n : start + 1 + Pick(n - start), 1 + Pick(2)});
    }
    return Add(b_->Slice(x, slices));
  }

  void AddPad(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    PaddingConfig pads;
    for (int64_t d = 0; d < rank; ++d)
      pads.push_back(Pick(2) == 0 ? PaddingDimension{} : PaddingDimension{Pick(3), Pick(3) - 1, Pick(2)});
    return Add(b_->Pad(x, Check(b_->Constant(Literal::ScalarInt(kType, 7))), pads));
  }

  void AddDynamicSliceOrUpdate(Value x) {
    const Shape shape = x->shape();
    Attributes attrs;
    std::vector<Value> operands = {x};
    Ints sizes;
    for (int64_t n : shape.dimensions()) {
      operands.push_back(Check(b_->Constant(Literal::ScalarInt(kType, Pick(n + 2) - 1))));
      sizes.push_back(Pick(2) == 0 ? n : 1 + Pick(n));
    }
    if (Pick(2) == 0) {
      attrs.Set(AttrId::kDynamicSliceSizes, sizes);
      return Add(b_->Op(Opcode::kDynamicSlice, operands, std::move(attrs)));
    }
    Value update = Check(b_->Constant(Literal::ScalarInt(kType, 9)));
    operands.insert(operands.begin() + 1, Check(b_->BroadcastInDim(update, sizes, {})));
    return Add(b_->Op(Opcode::kDynamicUpdateSlice, operands));
  }

  // Gathers rows of the first dimension, or one row.
  void AddGather(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Attributes attrs;
    if (rank == 0) return;
    GatherDimensions g;
    if (rank > 1 && Pick(3) == 0) {  // one row of the second dimension per row of the first
      g.operand_batching_dims = g.start_indices_batching_dims = {0};
      g.collapsed_slice_dims = g.start_index_map = {1};
      g.index_vector_dim = 1;
      Ints one(shape.dimensions().begin(), shape.dimensions().end());
      one[0] = one[1] = 1;
      for (int64_t d = 2; d < rank; ++d) g.offset_dims.push_back(d - 1);
      attrs.Set(AttrId::kGatherDims, g);
      attrs.Set(AttrId::kSliceSizes, one);
      return Add(
          b_->Op(Opcode::kGather, {x, Check(b_->Iota(Shape(kType, {shape.dimensions(0), 1}), 0))}, std::move(attrs)));
    }
    g.collapsed_slice_dims = g.start_index_map = {0};
    Ints sizes(shape.dimensions().begin(), shape.dimensions().end());
    sizes[0] = 1;
    const bool has_many_indices = Pick(2) == 0;
    g.index_vector_dim = has_many_indices ? 1 : 0;
    for (int64_t d = 1; d < rank; ++d) g.offset_dims.push_back(has_many_indices ? d : d - 1);
    attrs.Set(AttrId::kGatherDims, g);
    attrs.Set(AttrId::kSliceSizes, sizes);
    const Shape indices_shape(kType, has_many_indices ? DimVector{4} : DimVector{1});
    Value at = Check(b_->Iota(indices_shape, 0));
    if (has_many_indices) {
      attrs = {};
      attrs.Set(AttrId::kCustomCallTarget, std::string("Sharding"));
      at = Check(b_->Op(Opcode::kCustomCall, {at}, std::move(attrs), {}, indices_shape));
      at->set_sharding(std::make_shared<const Sharding>(MakeSharding(indices_shape)));
      attrs = {};
      attrs.Set(AttrId::kGatherDims, g);
      attrs.Set(AttrId::kSliceSizes, sizes);
    }
    return Add(b_->Op(Opcode::kGather, {x, at}, std::move(attrs)));
  }

  // Scatters to one index of the last dimension, perhaps out of bounds.
  void AddScatter(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Attributes attrs;
    if (rank < 2) return;
    ScatterDimensions g;
    if (rank > 1 && Pick(3) == 0) {  // one index into the second dimension per row of the first
      g.input_batching_dims = g.scatter_indices_batching_dims = {0};
      g.inserted_window_dims = g.scatter_dims_to_operand_dims = {1};
      g.index_vector_dim = 1;
      DimVector taken = shape.dimensions();
      taken.erase(taken.begin() + 1);
      for (int64_t d = 1; d + 1 < rank; ++d) g.update_window_dims.push_back(d);
      SliceConfig first;
      for (int64_t d = 0; d < rank; ++d) first.push_back({0, d == 1 ? 1 : shape.dimensions(d), 1});
      Value update = Check(b_->Reshape(Check(b_->Slice(PickValueLike(x), first)), taken));
      Value at = Check(b_->Iota(Shape(kType, {shape.dimensions(0), 1}), 0));
      attrs.Set(AttrId::kScatterDims, g);
      auto sum = MakeScalarBinaryComputation(b_->module(), Opcode::kAdd, kType);
      return Add(b_->Op(Opcode::kScatter, {x, at, update}, std::move(attrs), {*sum}));
    }
    g.inserted_window_dims = g.scatter_dims_to_operand_dims = {rank - 1};
    DimVector dims = shape.dimensions();
    dims.pop_back();
    for (int64_t d = 0; d + 1 < rank; ++d) g.update_window_dims.push_back(d);
    const Ints from(g.update_window_dims);
    attrs.Set(AttrId::kScatterDims, g);
    auto sum = MakeScalarBinaryComputation(b_->module(), Opcode::kAdd, kType);
    Value at = Check(b_->BroadcastInDim(Check(b_->Constant(Literal::ScalarInt(kType, Pick(5)))), DimVector{1}, {}));
    DimVector wide = dims;
    wide.push_back(1);
    SliceConfig first;
    for (int64_t n : dims) first.push_back({0, n, 1});
    first.push_back({0, 1, 1});
    Value update = Check(b_->Reshape(Check(b_->Slice(PickValueLike(x), first)), dims));
    return Add(b_->Op(Opcode::kScatter, {x, at, update}, std::move(attrs), {*sum}));
  }

  // Adds three iterations of v = -v + x, or of v = reverse(v) + x.
  void AddLoop(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Attributes attrs;
    const Shape state = Shape::Tuple({Shape::Scalar(kType), shape, shape});
    auto get_state = [&](Builder& b, int64_t k) { return Check(b.GetTupleElement(b.computation()->parameter(0), k)); };
    Builder condition(b_->module(), "condition"), body(b_->module(), "body");
    Check(condition.Parameter(0, state));
    Value three = Check(condition.Constant(Literal::ScalarInt(kType, 3)));
    auto c = condition.Build(Check(condition.Compare(get_state(condition, 0), three, ComparisonDirection::kLt)));
    Check(body.Parameter(0, state));
    Value one = Check(body.Constant(Literal::ScalarInt(kType, 1)));
    Value v = get_state(body, 1);
    attrs.Set(AttrId::kDimensions, Ints{0});
    v = rank > 0 && Pick(2) == 0 ? Check(body.Op(Opcode::kReverse, {v}, std::move(attrs)))
                                 : Check(body.Unary(Opcode::kNegate, v));
    v = Check(body.Binary(Opcode::kAdd, v, get_state(body, 2)));
    auto f = body.Build(
        Check(body.Tuple({Check(body.Binary(Opcode::kAdd, get_state(body, 0), one)), v, get_state(body, 2)})));
    Value zero = Check(b_->Constant(Literal::ScalarInt(kType, 0)));
    Value loop = Check(b_->While(*c, *f, Check(b_->Tuple({zero, x, PickValueLike(x)}))));
    return Add(b_->GetTupleElement(loop, 1));
  }

  // Adds a sharding group of two values.
  void AddShardingGroup(Value x) {
    const Shape shape = x->shape();
    Attributes attrs;
    const std::string group = std::to_string(values_.size());
    for (Value v : {x, PickValueLike(x)}) {
      attrs = {};
      attrs.Set(AttrId::kCustomCallTarget, std::string("ShardingGroup"));
      attrs.Set(AttrId::kOpaque, group);
      values_.push_back(Check(b_->Op(Opcode::kCustomCall, {v}, std::move(attrs), {}, shape)));
    }
  }

  // Adds a region that is manual along one axis of a 2x2 mesh.
  void AddManualRegion(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    std::string unspecified = "unspecified_dims=[";
    for (int64_t d = 0; d < rank; ++d) unspecified += (d > 0 ? "," : "") + std::to_string(d);
    unspecified += "]";
    Sharding manual;
    manual.type = Sharding::Type::kOther;
    manual.tile_dims.assign(static_cast<size_t>(rank), 1);
    manual.tile_dims.insert(manual.tile_dims.end(), {2, 2});
    manual.devices = Pick(2) == 0 ? Ints{0, 1, 2, 3} : Ints{0, 2, 1, 3};
    manual.last_tile_dims = {Sharding::Type::kManual, Sharding::Type::kReplicated};
    auto call = [&](const char* target, Value v, const Sharding& sharding, bool leaves_unspecified) {
      Attributes a;
      a.Set(AttrId::kCustomCallTarget, std::string(target));
      if (leaves_unspecified) a.Set(AttrId::kOpaque, unspecified);
      Value y = Check(b_->Op(Opcode::kCustomCall, {v}, std::move(a), {}, shape));
      y->set_sharding(std::make_shared<const Sharding>(sharding));
      return y;
    };
    Value in = call("SPMDFullToShardShape", call("Sharding", x, Sharding(), true), manual, false);
    in = Check(b_->Unary(Opcode::kNegate, in));
    if (Pick(2) == 0) in = call("Sharding", in, MakeSharding(shape), false);
    values_.push_back(call("SPMDShardToFullShape", in, Sharding(), true));
  }

  // Adds three iterations of v = v + x - y on partial sums.
  void AddLoopOverPartialSums(Value x) {
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    const Shape state = Shape::Tuple({Shape::Scalar(kType), shape, shape, shape});
    Sharding partial;
    partial.type = Sharding::Type::kOther;
    partial.tile_dims.assign(static_cast<size_t>(rank), 1);
    const bool splits_rows = rank > 0 && shape.dimensions(0) % 2 == 0 && Pick(2) == 0;
    if (splits_rows) partial.tile_dims[0] = 2;
    partial.tile_dims.push_back(kRandomProgramPartitions / (splits_rows ? 2 : 1));
    partial.devices = Pick(2) == 0 ? Ints{0, 1, 2, 3} : Ints{3, 1, 2, 0};
    partial.last_tile_dims = {Sharding::Type::kUnreduced};
    auto make_partial = [&](Builder& b, Value v) {
      Attributes a;
      a.Set(AttrId::kCustomCallTarget, std::string("Sharding"));
      Value y = Check(b.Op(Opcode::kCustomCall, {v}, std::move(a), {}, shape));
      y->set_sharding(std::make_shared<const Sharding>(partial));
      return y;
    };
    auto get_state = [&](Builder& b, int64_t k) { return Check(b.GetTupleElement(b.computation()->parameter(0), k)); };
    Builder condition(b_->module(), "condition"), body(b_->module(), "body");
    Check(condition.Parameter(0, state));
    Value three = Check(condition.Constant(Literal::ScalarInt(kType, 3)));
    auto c = condition.Build(Check(condition.Compare(get_state(condition, 0), three, ComparisonDirection::kLt)));
    Check(body.Parameter(0, state));
    Value one = Check(body.Constant(Literal::ScalarInt(kType, 1)));
    Value v = make_partial(body, Check(body.Binary(Opcode::kAdd, get_state(body, 1), get_state(body, 2))));
    v = Check(body.Binary(Opcode::kSubtract, v, get_state(body, 3)));
    if (Pick(2) == 0) v = make_partial(body, v);
    auto f = body.Build(Check(body.Tuple(
        {Check(body.Binary(Opcode::kAdd, get_state(body, 0), one)), v, get_state(body, 2), get_state(body, 3)})));
    Value zero = Check(b_->Constant(Literal::ScalarInt(kType, 0)));
    Value y = PickValueLike(x);
    if (Pick(3) != 0) y = make_partial(*b_, y);
    Value loop = Check(
        b_->While(*c, *f, Check(b_->Tuple({zero, make_partial(*b_, x), make_partial(*b_, PickValueLike(x)), y}))));
    return Add(b_->GetTupleElement(loop, 1));
  }

  std::mt19937 random_;
  Builder* b_ = nullptr;
  std::vector<Value> values_;
};

}  // namespace

std::unique_ptr<Module> MakeRandomShardedProgram(uint32_t seed) { return Generator(seed).Make(); }

}  // namespace backplane
