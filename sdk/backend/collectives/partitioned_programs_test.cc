// Compares random programs with the same programs partitioned by PartitionModule: the results must be equal.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "core/eval/evaluator.h"
#include "core/ir/builder.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/partition/tiling.h"
#include "sdk/backend/collectives/host_collective.h"

namespace backplane {
namespace {

constexpr int64_t kPartitions = 4;
constexpr PrimitiveType kType = PrimitiveType::kS32;  // exact in any order

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  std::unique_ptr<Module> Make() {
    auto module = std::make_unique<Module>("random");
    module->config().num_partitions = kPartitions;
    Builder b(module.get(), "main");
    b_ = &b;
    const int64_t parameters = 1 + Pick(3);
    for (int64_t i = 0; i < parameters; ++i) {
      Value p = Check(b.Parameter(i, Shape(kType, Dims())));
      if (Pick(4) != 0) p->set_sharding(std::make_shared<const Sharding>(RandomSharding(p->shape())));
      values_.push_back(p);
    }
    for (int i = 0; i < 12; ++i) Step();
    std::vector<Value> results = {values_.back()};
    for (int i = 0; i < 2; ++i) results.push_back(Any());
    Value root = Check(b.Tuple(results));
    if (Pick(2) == 0) {  // states the result shardings
      Sharding tuple;
      tuple.type = Sharding::Type::kTuple;
      for (Value v : results) tuple.tuple.push_back(RandomSharding(v->shape()));
      root->set_sharding(std::make_shared<const Sharding>(tuple));
    }
    EXPECT_TRUE(b.Build(root).ok());
    module->set_entry(b.computation());
    return module;
  }

 private:
  int64_t Pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  Value Any() { return values_[static_cast<size_t>(Pick(static_cast<int64_t>(values_.size())))]; }
  Value Check(absl::StatusOr<Value> v) {
    EXPECT_TRUE(v.ok()) << v.status();
    return v.ok() ? *v : nullptr;
  }
  DimVector Dims() {
    DimVector dims;
    for (int64_t d = Pick(3) + 1; d > 0; --d) dims.push_back(Pick(4) == 0 ? 3 : 4 << Pick(2));
    return dims;
  }

  // Returns a random tiling. Some dimensions do not divide, and some shards hold padding only. The device order is
  // random.
  Sharding RandomSharding(const Shape& shape) {
    Sharding s;
    int64_t left = kPartitions;
    bool any = false;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      const int64_t tiles = std::min<int64_t>(left, int64_t{1} << Pick(3));
      const bool fits = tiles > 1 && (shape.dimensions(d) % tiles == 0 || Pick(3) == 0);
      s.tile_dims.push_back(fits ? tiles : 1);
      if (fits) left /= tiles;
      any |= fits;
    }
    if (!any) return Sharding();
    s.type = Sharding::Type::kOther;
    if (left > 1) {
      s.tile_dims.push_back(left);
      s.replicate_on_last_tile_dim = true;
    }
    for (int64_t p = 0; p < kPartitions; ++p) s.devices.push_back(p);
    if (Pick(2) == 0) std::shuffle(s.devices.begin(), s.devices.end(), random_);
    return s;
  }

  void Add(absl::StatusOr<Value> v) {
    if (Value made = Check(std::move(v));
        made != nullptr && made->shape().num_elements() > 0 && made->shape().num_elements() <= 4096)
      values_.push_back(made);
  }

  Value Like(Value x) {  // of the same shape, or x itself
    for (int i = 0; i < 4; ++i) {
      if (Value y = Any(); y->shape() == x->shape()) return y;
    }
    return x;
  }

  void Step() {
    Value x = Any();
    const Shape shape = x->shape();
    const int64_t rank = shape.rank();
    Attributes attrs;
    switch (Pick(21)) {
      case 0:
        return Add(b_->Binary(Opcode::kAdd, x, Like(x)));
      case 1:
        return Add(b_->Binary(Opcode::kSubtract, Check(b_->Unary(Opcode::kNegate, x)), Like(x)));
      case 2: {  // annotated with another sharding
        attrs.Set(AttrId::kCustomCallTarget, std::string("Sharding"));
        Value y = Check(b_->Op(Opcode::kCustomCall, {x}, std::move(attrs), {}, shape));
        y->set_sharding(std::make_shared<const Sharding>(RandomSharding(shape)));
        values_.push_back(y);
        return;
      }
      case 3: {
        Ints order(static_cast<size_t>(rank));
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
        std::shuffle(order.begin(), order.end(), random_);
        return Add(b_->Transpose(x, order));
      }
      case 4: {  // merges two dimensions or splits one
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
      case 5: {
        if (rank > 3) return;
        DimVector dims = shape.dimensions();
        const int64_t at = Pick(rank + 1);
        dims.insert(dims.begin() + at, 4);
        Ints from;
        for (int64_t d = 0; d < rank; ++d) from.push_back(d < at ? d : d + 1);
        return Add(b_->BroadcastInDim(x, dims, from));
      }
      case 6: {
        Ints dims;
        for (int64_t d = 0; d < rank; ++d) {
          if (Pick(2) == 0) dims.push_back(d);
        }
        const bool sum = Pick(2) == 0;
        auto body = ScalarBinaryComputation(b_->module(), sum ? Opcode::kAdd : Opcode::kMaximum, kType);
        EXPECT_TRUE(body.ok());
        Value init = Check(b_->Constant(Literal::ScalarInt(kType, sum ? (Pick(3) == 0 ? 5 : 0) : 3)));
        return Add(b_->Reduce({x}, {init}, *body, dims));
      }
      case 7: {  // contracts a pair of equal dimensions; a second pair may be a batch dimension
        Value y = Any();
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
      case 8: {
        SliceConfig slices;
        for (int64_t n : shape.dimensions()) {
          const int64_t start = Pick(2) == 0 ? 0 : Pick(n);
          slices.push_back({start, Pick(2) == 0 ? n : start + 1 + Pick(n - start), 1 + Pick(2)});
        }
        return Add(b_->Slice(x, slices));
      }
      case 9: {
        PaddingConfig pads;
        for (int64_t d = 0; d < rank; ++d)
          pads.push_back(Pick(2) == 0 ? PaddingDimension{} : PaddingDimension{Pick(3), Pick(3) - 1, Pick(2)});
        return Add(b_->Pad(x, Check(b_->Constant(Literal::ScalarInt(kType, 7))), pads));
      }
      case 10:
        if (rank == 0) return;
        return Add(b_->Concatenate({x, Like(x)}, Pick(rank)));
      case 11:
        if (rank == 0) return;
        attrs.Set(AttrId::kDimensions, Ints{Pick(rank)});
        return Add(b_->Op(Opcode::kReverse, {x}, std::move(attrs)));
      case 12: {
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
      case 13: {
        Value y = Like(x);
        return Add(
            b_->Select(Check(b_->Compare(x, y, ComparisonDirection::kLt)), y, Check(b_->Unary(Opcode::kAbs, x))));
      }
      case 14: {  // gathers rows of the first dimension, or one
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
          return Add(b_->Op(Opcode::kGather, {x, Check(b_->Iota(Shape(kType, {shape.dimensions(0), 1}), 0))},
                            std::move(attrs)));
        }
        g.collapsed_slice_dims = g.start_index_map = {0};
        Ints sizes(shape.dimensions().begin(), shape.dimensions().end());
        sizes[0] = 1;
        const bool several = Pick(2) == 0;
        g.index_vector_dim = several ? 1 : 0;
        for (int64_t d = 1; d < rank; ++d) g.offset_dims.push_back(several ? d : d - 1);
        attrs.Set(AttrId::kGatherDims, g);
        attrs.Set(AttrId::kSliceSizes, sizes);
        const Shape requested_loop_tilings(kType, several ? DimVector{4} : DimVector{1});
        Value at = Check(b_->Iota(requested_loop_tilings, 0));
        if (several) {
          attrs = {};
          attrs.Set(AttrId::kCustomCallTarget, std::string("Sharding"));
          at = Check(b_->Op(Opcode::kCustomCall, {at}, std::move(attrs), {}, requested_loop_tilings));
          at->set_sharding(std::make_shared<const Sharding>(RandomSharding(requested_loop_tilings)));
          attrs = {};
          attrs.Set(AttrId::kGatherDims, g);
          attrs.Set(AttrId::kSliceSizes, sizes);
        }
        return Add(b_->Op(Opcode::kGather, {x, at}, std::move(attrs)));
      }
      case 16: {  // one index into the last dimension, perhaps out of bounds
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
          Value update = Check(b_->Reshape(Check(b_->Slice(Like(x), first)), taken));
          Value at = Check(b_->Iota(Shape(kType, {shape.dimensions(0), 1}), 0));
          attrs.Set(AttrId::kScatterDims, g);
          auto sum = ScalarBinaryComputation(b_->module(), Opcode::kAdd, kType);
          return Add(b_->Op(Opcode::kScatter, {x, at, update}, std::move(attrs), {*sum}));
        }
        g.inserted_window_dims = g.scatter_dims_to_operand_dims = {rank - 1};
        DimVector dims = shape.dimensions();
        dims.pop_back();
        for (int64_t d = 0; d + 1 < rank; ++d) g.update_window_dims.push_back(d);
        const Ints from(g.update_window_dims);
        attrs.Set(AttrId::kScatterDims, g);
        auto sum = ScalarBinaryComputation(b_->module(), Opcode::kAdd, kType);
        Value at = Check(b_->BroadcastInDim(Check(b_->Constant(Literal::ScalarInt(kType, Pick(5)))), DimVector{1}, {}));
        DimVector wide = dims;
        wide.push_back(1);
        SliceConfig first;
        for (int64_t n : dims) first.push_back({0, n, 1});
        first.push_back({0, 1, 1});
        Value update = Check(b_->Reshape(Check(b_->Slice(Like(x), first)), dims));
        return Add(b_->Op(Opcode::kScatter, {x, at, update}, std::move(attrs), {*sum}));
      }
      case 15: {  // three iterations of v = -v + x, or of v = reverse(v) + x
        const Shape state = Shape::Tuple({Shape::Scalar(kType), shape, shape});
        auto part = [&](Builder& b, int64_t k) { return Check(b.GetTupleElement(b.computation()->parameter(0), k)); };
        Builder condition(b_->module(), "condition"), body(b_->module(), "body");
        Check(condition.Parameter(0, state));
        Value three = Check(condition.Constant(Literal::ScalarInt(kType, 3)));
        auto c = condition.Build(Check(condition.Compare(part(condition, 0), three, ComparisonDirection::kLt)));
        Check(body.Parameter(0, state));
        Value one = Check(body.Constant(Literal::ScalarInt(kType, 1)));
        Value v = part(body, 1);
        attrs.Set(AttrId::kDimensions, Ints{0});
        v = rank > 0 && Pick(2) == 0 ? Check(body.Op(Opcode::kReverse, {v}, std::move(attrs)))
                                     : Check(body.Unary(Opcode::kNegate, v));
        v = Check(body.Binary(Opcode::kAdd, v, part(body, 2)));
        auto f =
            body.Build(Check(body.Tuple({Check(body.Binary(Opcode::kAdd, part(body, 0), one)), v, part(body, 2)})));
        Value zero = Check(b_->Constant(Literal::ScalarInt(kType, 0)));
        Value loop = Check(b_->While(*c, *f, Check(b_->Tuple({zero, x, Like(x)}))));
        return Add(b_->GetTupleElement(loop, 1));
      }
      case 17: {  // a sharding group of two values
        const std::string group = std::to_string(values_.size());
        for (Value v : {x, Like(x)}) {
          attrs = {};
          attrs.Set(AttrId::kCustomCallTarget, std::string("ShardingGroup"));
          attrs.Set(AttrId::kOpaque, group);
          values_.push_back(Check(b_->Op(Opcode::kCustomCall, {v}, std::move(attrs), {}, shape)));
        }
        return;
      }
      case 18: {  // a region that is manual along one axis of a 2x2 mesh
        std::string open = "unspecified_dims=[";
        for (int64_t d = 0; d < rank; ++d) open += (d > 0 ? "," : "") + std::to_string(d);
        open += "]";
        Sharding part;
        part.type = Sharding::Type::kOther;
        part.tile_dims.assign(static_cast<size_t>(rank), 1);
        part.tile_dims.insert(part.tile_dims.end(), {2, 2});
        part.devices = Pick(2) == 0 ? Ints{0, 1, 2, 3} : Ints{0, 2, 1, 3};
        part.last_tile_dims = {Sharding::Type::kManual, Sharding::Type::kReplicated};
        auto call = [&](const char* target, Value v, const Sharding& sharding, bool is_open) {
          Attributes a;
          a.Set(AttrId::kCustomCallTarget, std::string(target));
          if (is_open) a.Set(AttrId::kOpaque, open);
          Value y = Check(b_->Op(Opcode::kCustomCall, {v}, std::move(a), {}, shape));
          y->set_sharding(std::make_shared<const Sharding>(sharding));
          return y;
        };
        Value in = call("SPMDFullToShardShape", call("Sharding", x, Sharding(), true), part, false);
        in = Check(b_->Unary(Opcode::kNegate, in));
        if (Pick(2) == 0) in = call("Sharding", in, RandomSharding(shape), false);
        values_.push_back(call("SPMDShardToFullShape", in, Sharding(), true));
        return;
      }
      case 19: {  // three iterations of v = v + x - y on partial sums
        const Shape state = Shape::Tuple({Shape::Scalar(kType), shape, shape, shape});
        Sharding partial;
        partial.type = Sharding::Type::kOther;
        partial.tile_dims.assign(static_cast<size_t>(rank), 1);
        const bool splits_rows = rank > 0 && shape.dimensions(0) % 2 == 0 && Pick(2) == 0;
        if (splits_rows) partial.tile_dims[0] = 2;
        partial.tile_dims.push_back(kPartitions / (splits_rows ? 2 : 1));
        partial.devices = Pick(2) == 0 ? Ints{0, 1, 2, 3} : Ints{3, 1, 2, 0};
        partial.last_tile_dims = {Sharding::Type::kUnreduced};
        auto make_partial = [&](Builder& b, Value v) {
          Attributes a;
          a.Set(AttrId::kCustomCallTarget, std::string("Sharding"));
          Value y = Check(b.Op(Opcode::kCustomCall, {v}, std::move(a), {}, shape));
          y->set_sharding(std::make_shared<const Sharding>(partial));
          return y;
        };
        auto part = [&](Builder& b, int64_t k) { return Check(b.GetTupleElement(b.computation()->parameter(0), k)); };
        Builder condition(b_->module(), "condition"), body(b_->module(), "body");
        Check(condition.Parameter(0, state));
        Value three = Check(condition.Constant(Literal::ScalarInt(kType, 3)));
        auto c = condition.Build(Check(condition.Compare(part(condition, 0), three, ComparisonDirection::kLt)));
        Check(body.Parameter(0, state));
        Value one = Check(body.Constant(Literal::ScalarInt(kType, 1)));
        Value v = make_partial(body, Check(body.Binary(Opcode::kAdd, part(body, 1), part(body, 2))));
        v = Check(body.Binary(Opcode::kSubtract, v, part(body, 3)));
        if (Pick(2) == 0) v = make_partial(body, v);
        auto f = body.Build(
            Check(body.Tuple({Check(body.Binary(Opcode::kAdd, part(body, 0), one)), v, part(body, 2), part(body, 3)})));
        Value zero = Check(b_->Constant(Literal::ScalarInt(kType, 0)));
        Value y = Like(x);
        if (Pick(3) != 0) y = make_partial(*b_, y);
        Value loop =
            Check(b_->While(*c, *f, Check(b_->Tuple({zero, make_partial(*b_, x), make_partial(*b_, Like(x)), y}))));
        return Add(b_->GetTupleElement(loop, 1));
      }
      default:
        return Add(rank == 0 ? b_->Unary(Opcode::kNegate, x)
                             : b_->Binary(Opcode::kMultiply, x, Check(b_->Iota(shape, Pick(rank)))));
    }
  }

  std::mt19937 random_;
  Builder* b_ = nullptr;
  std::vector<Value> values_;
};

Literal Argument(const Shape& shape, int64_t number) {
  Literal l(shape);
  for (int64_t i = 0; i < l.num_elements(); ++i) l.SetFromInt(i, (i * 37 + number * 11) % 19 - 9);
  return l;
}

// Returns the shard of a partition, padded with `padding_value`.
Literal MakeShard(const Literal& full, const Tiling& tiling, int64_t partition, int64_t padding_value) {
  const Shape shard = tiling.ShardShape(full.shape());
  Literal out(shard);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t rest = i, from = 0, stride = 1;
    bool is_padding = false;
    for (int64_t d = shard.rank(); d-- > 0;) {
      const int64_t at = rest % shard.dimensions(d) + tiling.tile_index(partition, d) * shard.dimensions(d);
      is_padding |= at >= full.shape().dimensions(d);
      from += at * stride;
      rest /= shard.dimensions(d);
      stride *= full.shape().dimensions(d);
    }
    out.SetFromInt(i, is_padding ? padding_value : full.GetAsInt(from));
  }
  return out;
}

std::vector<Tiling> ParseTilings(const Module& module, const char* name, const std::vector<Shape>& full_shapes) {
  auto tuple = ParseSharding(module.config().frontend_attributes.at(name));
  EXPECT_TRUE(tuple.ok()) << tuple.status();
  std::vector<Tiling> out;
  for (size_t i = 0; i < full_shapes.size(); ++i)
    out.push_back(*Tiling::FromSharding(tuple->tuple.at(i), full_shapes[i], kPartitions));
  return out;
}

TEST(PartitionedPrograms, GiveResultsOfFullProgram) {
  int with_collectives = 0, without_collectives = 0, uneven_in = 0, uneven_out = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    std::unique_ptr<Module> program = Generator(seed).Make();
    SCOPED_TRACE(seed);
    // The reference: one partition, no annotations.
    std::unique_ptr<Module> unpartitioned = program->Clone();
    unpartitioned->config().num_partitions = 1;
    ASSERT_TRUE(PartitionModule().Run(unpartitioned.get()).ok());
    std::vector<Literal> arguments;
    std::vector<Shape> in, out;
    for (const Instruction* p : program->entry()->parameters()) {
      in.push_back(p->shape());
      arguments.push_back(Argument(p->shape(), p->parameter_number()));
    }
    auto want = Evaluate(*unpartitioned, arguments);
    ASSERT_TRUE(want.ok()) << want.status() << unpartitioned->ToString();
    for (const Literal& l : want->elements()) out.push_back(l.shape());

    std::unique_ptr<Module> split = program->Clone();
    PartitionOptions options;
    if (seed % 2 == 0) options.propagate_to_parameters = {true};
    auto changed = PartitionModule(options).Run(split.get());
    ASSERT_TRUE(changed.ok()) << changed.status() << program->ToString();
    ASSERT_TRUE(VerifyModule(*split).ok()) << VerifyModule(*split) << split->ToString();
    const std::vector<Tiling> parameters = ParseTilings(*split, kParameterShardingsAttribute, in);
    const std::vector<Tiling> results = ParseTilings(*split, kResultShardingsAttribute, out);
    for (size_t i = 0; i < in.size(); ++i) uneven_in += !parameters[i].Divides(in[i]);
    for (size_t i = 0; i < out.size(); ++i) uneven_out += !results[i].Divides(out[i]);
    absl::flat_hash_map<const Instruction*, std::unique_ptr<HostCollective>> plans;
    for (const Computation* c : split->PostOrder()) {
      for (const auto& i : c->instructions()) {
        if (!i->info().Has(kCollective)) continue;
        auto plan = HostCollective::Make(*i, 1, kPartitions);
        ASSERT_TRUE(plan.ok()) << plan.status();
        plans[i.get()] = *std::move(plan);
      }
    }
    (plans.empty() ? without_collectives : with_collectives)++;
    LaunchOptions launch_options;
    launch_options.partitions = kPartitions;
    auto launch = std::make_shared<Launch>(launch_options);
    std::vector<absl::StatusOr<Literal>> got(kPartitions, absl::UnknownError("did not run"));
    std::vector<std::thread> threads;
    for (int64_t p = 0; p < kPartitions; ++p) {
      threads.emplace_back([&, p] {
        LaunchMember member(launch, 0, p);
        std::vector<Literal> mine;
        for (size_t i = 0; i < arguments.size(); ++i)
          mine.push_back(MakeShard(arguments[i], parameters[i], p, 1000003));
        EvaluatorHooks hooks;
        hooks.partition_id = p;
        hooks.collective = [&](const Instruction& op,
                               absl::Span<const Literal* const> operands) -> absl::StatusOr<Literal> {
          Literal result(op.shape());
          const void* from[] = {operands[0]->bytes()};
          void* to[] = {result.mutable_bytes()};
          absl::Status s = plans.at(&op)->Run(member, from, to, [](int64_t n, absl::FunctionRef<void(int64_t)> body) {
            for (int64_t i = 0; i < n; ++i) body(i);
          });
          if (!s.ok()) return s;
          return result;
        };
        got[static_cast<size_t>(p)] = Evaluate(*split, mine, hooks);
        member.End(got[static_cast<size_t>(p)].status());
      });
    }
    for (std::thread& t : threads) t.join();
    for (int64_t p = 0; p < kPartitions; ++p) {
      const auto& g = got[static_cast<size_t>(p)];
      ASSERT_TRUE(g.ok()) << g.status() << split->ToString();
      for (size_t r = 0; r < out.size(); ++r) {
        ASSERT_EQ(g->elements()[r], MakeShard(want->elements()[r], results[r], p, 0))
            << "partition " << p << ", result " << r << "\n"
            << program->ToString() << "\n"
            << split->ToString();
      }
    }
  }
  EXPECT_GT(with_collectives, 100);
  EXPECT_GT(without_collectives, 20);
  EXPECT_GT(uneven_in, 50);
  EXPECT_GT(uneven_out, 50);
}

}  // namespace
}  // namespace backplane
