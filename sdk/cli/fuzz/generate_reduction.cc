// Recipes: reductions, windows, scans, ordering.
#include <algorithm>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

// (x0, x1) -> x0 < x1, for operand 0 of `count` operands. Total order for floats, because "<" leaves ties.
absl::StatusOr<Computation*> Comparator(Module* module, const std::vector<PrimitiveType>& types, bool descending,
                                        bool total, bool two_keys) {
  Builder b(module, "compare");
  std::vector<Value> p;
  for (size_t k = 0; k < types.size() * 2; ++k) {
    hlo::Result v = b.Parameter(static_cast<int64_t>(k), Shape(types[k / 2], {}));
    if (!v.ok()) return v.status();
    p.push_back(*v);
  }
  std::optional<ComparisonType> how;
  if (total && IsFloat(types[0])) how = ComparisonType::kTotalOrder;
  hlo::Result root = b.Compare(p[0], p[1], descending ? ComparisonDirection::kGt : ComparisonDirection::kLt, how);
  if (!root.ok()) return root.status();
  if (two_keys) {
    hlo::Result same = b.Compare(p[0], p[1], ComparisonDirection::kEq, how);
    hlo::Result second = b.Compare(p[2], p[3], ComparisonDirection::kLt);
    if (!same.ok() || !second.ok()) return absl::InvalidArgumentError("keys that have no order");
    hlo::Result tie = b.Binary(Opcode::kAnd, *same, *second);
    if (!tie.ok()) return tie.status();
    root = b.Binary(Opcode::kOr, *root, *tie);
    if (!root.ok()) return root.status();
  }
  return b.Build(*root);
}

}  // namespace

std::vector<Generator::Recipe> Generator::ReductionRecipes() {
  return {
      {16, {Opcode::kReduce}, &Generator::Reduce},
      {3, {Opcode::kReduce}, &Generator::ReduceSeveral},
      {4, {Opcode::kReduce}, &Generator::ArgMax},
      {8, {Opcode::kReduceWindow}, &Generator::ReduceWindow},
      {3, {Opcode::kReduceWindow}, &Generator::Cumulative},
      {4, {Opcode::kSelectAndScatter}, &Generator::SelectAndScatter},
      {8, {Opcode::kSort}, &Generator::Sort},
      {4, {Opcode::kTopK}, &Generator::TopK},
      {2, {Opcode::kScan}, &Generator::Scan, false, false},
  };
}

Value Generator::Reduce(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const std::optional<Opcode> op = AnyCombiner(type);
  if (!op.has_value()) return nullptr;
  const Value init = Identity(s, *op, type);
  Computation* body = Combiner(s, *op, type);
  if (init == nullptr || body == nullptr) return nullptr;
  return Add(s, s.b.Reduce({x}, {init}, body, ChooseSubset(x->shape().rank(), 55)));
}

// Two sums at once, of two types.
Value Generator::ReduceSeveral(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType a = x->shape().element_type(), c = AnyType(Kind::kReal);
  const Value y = Like(s, c, GetDims(x));
  if (y == nullptr) return nullptr;
  const Opcode first = PickOne({Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum}),
               second = PickOne({Opcode::kAdd, Opcode::kMaximum});
  Builder b(s.b.module(), "two");
  hlo::Result p0 = b.Parameter(0, Shape(a, {})), p1 = b.Parameter(1, Shape(c, {})), p2 = b.Parameter(2, Shape(a, {})),
              p3 = b.Parameter(3, Shape(c, {}));
  if (!p0.ok() || !p1.ok() || !p2.ok() || !p3.ok()) return nullptr;
  hlo::Result r0 = b.Binary(first, *p0, *p2), r1 = b.Binary(second, *p1, *p3);
  if (!r0.ok() || !r1.ok()) return nullptr;
  hlo::Result root = b.Tuple({*r0, *r1});
  if (!root.ok()) return nullptr;
  absl::StatusOr<Computation*> body = b.Build(*root);
  const Value i0 = Identity(s, first, a), i1 = Identity(s, second, c);
  if (!body.ok() || i0 == nullptr || i1 == nullptr) return nullptr;
  return Add(s, s.b.Reduce({x, y}, {i0, i1}, *body, ChooseSubset(x->shape().rank(), 55)));
}

// The maximum and its index, the first one of equal elements, like jnp.argmax.
Value Generator::ArgMax(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1);
  if (x == nullptr || HasNan(s, x)) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const int64_t d = random_.Below(x->shape().rank());
  const Value places = Add(s, hlo::Iota(s.b, Shape(PrimitiveType::kS32, GetDims(x)), d));
  const bool least = random_.Chance(40);
  Builder b(s.b.module(), "arg");
  const Shape value(type, {}), place(PrimitiveType::kS32, {});
  hlo::Result v0 = b.Parameter(0, value), i0 = b.Parameter(1, place), v1 = b.Parameter(2, value),
              i1 = b.Parameter(3, place);
  if (!v0.ok() || !i0.ok() || !v1.ok() || !i1.ok()) return nullptr;
  hlo::Result beats = b.Compare(*v0, *v1, least ? ComparisonDirection::kLt : ComparisonDirection::kGt);
  hlo::Result same = b.Compare(*v0, *v1, ComparisonDirection::kEq);
  hlo::Result before = b.Compare(*i0, *i1, ComparisonDirection::kLt);
  if (!beats.ok() || !same.ok() || !before.ok()) return nullptr;
  hlo::Result tie = b.Binary(Opcode::kAnd, *same, *before);
  if (!tie.ok()) return nullptr;
  hlo::Result first = b.Binary(Opcode::kOr, *beats, *tie);
  if (!first.ok()) return nullptr;
  hlo::Result v = b.Select(*first, *v0, *v1), i = b.Select(*first, *i0, *i1);
  if (!v.ok() || !i.ok()) return nullptr;
  hlo::Result root = b.Tuple({*v, *i});
  if (!root.ok()) return nullptr;
  absl::StatusOr<Computation*> body = b.Build(*root);
  const Value init = Identity(s, least ? Opcode::kMinimum : Opcode::kMaximum, type);
  // Larger than every index, so that an element that equals the init value comes first.
  const Value last = Add(s, s.b.Constant(Literal::ScalarInt(PrimitiveType::kS32, INT32_MAX)));
  if (!body.ok() || places == nullptr || init == nullptr || last == nullptr) return nullptr;
  return Add(s, s.b.Reduce({x, places}, {init, last}, *body, {d}));
}

Value Generator::ReduceWindow(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  std::optional<Opcode> op = AnyCombiner(type);
  if (!op.has_value()) return nullptr;
  const Value init = Identity(s, *op, type);
  Computation* body = Combiner(s, *op, type);
  if (init == nullptr || body == nullptr) return nullptr;
  std::vector<int64_t> sizes, strides, base, window;
  hlo::PaddingPairs padding;
  for (const int64_t size : x->shape().dimensions()) {
    const bool moves = random_.Chance(60);
    sizes.push_back(moves ? random_.Between(1, std::clamp<int64_t>(size, 1, 4)) : 1);
    strides.push_back(moves ? random_.Between(1, 3) : 1);
    base.push_back(random_.Chance(15) ? 2 : 1);
    window.push_back(random_.Chance(15) ? 2 : 1);
    const int64_t high = moves ? random_.Between(0, 2) : 0;
    padding.emplace_back(moves ? random_.Between(0, 2) : 0, high);
  }
  return Add(s, hlo::ReduceWindow(s.b, {x}, {init}, body, sizes, strides, base, window, padding));
}

// Cumulative sums as JAX writes them: a window of the array's length, padded at the front.
Value Generator::Cumulative(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1, 3);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const int64_t d = random_.Below(x->shape().rank()), n = x->shape().dimensions(d);
  if (n == 0 || n > 200) return nullptr;
  const Opcode op = PickOne({Opcode::kAdd, Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum});
  const Value init = Identity(s, op, type);
  Computation* body = Combiner(s, op, type);
  if (init == nullptr || body == nullptr) return nullptr;
  std::vector<int64_t> sizes(static_cast<size_t>(x->shape().rank()), 1), ones = sizes;
  hlo::PaddingPairs padding(sizes.size(), {0, 0});
  sizes[static_cast<size_t>(d)] = n;
  padding[static_cast<size_t>(d)] =
      random_.Chance(70) ? std::pair<int64_t, int64_t>(n - 1, 0) : std::pair<int64_t, int64_t>(0, n - 1);
  return Add(s, hlo::ReduceWindow(s.b, {x}, {init}, body, sizes, ones, ones, ones, padding));
}

Value Generator::SelectAndScatter(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1, 4);
  if (x == nullptr || HasNan(s, x)) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  std::vector<int64_t> sizes, strides, source;
  hlo::PaddingPairs padding;
  for (const int64_t size : x->shape().dimensions()) {
    if (size == 0) return nullptr;
    const bool moves = random_.Chance(60);
    const int64_t window = moves ? random_.Between(1, std::min<int64_t>(size, 3)) : 1;
    const int64_t stride = moves ? random_.Between(1, 3) : 1, low = window > 1 ? random_.Below(2) : 0;
    sizes.push_back(window);
    strides.push_back(stride);
    padding.emplace_back(low, 0);
    source.push_back((size + low - window) / stride + 1);
  }
  const Value from = Like(s, type, source), init = Identity(s, Opcode::kAdd, type);
  Builder b(s.b.module(), "keep");
  hlo::Result l = b.Parameter(0, Shape(type, {})), r = b.Parameter(1, Shape(type, {}));
  if (!l.ok() || !r.ok()) return nullptr;
  hlo::Result ge = b.Compare(*l, *r, random_.Chance(70) ? ComparisonDirection::kGe : ComparisonDirection::kLe);
  if (!ge.ok()) return nullptr;
  absl::StatusOr<Computation*> select = b.Build(*ge);
  Computation* add = Combiner(s, Opcode::kAdd, type);
  if (from == nullptr || init == nullptr || !select.ok() || add == nullptr) return nullptr;
  return Add(s, hlo::SelectAndScatter(s.b, x, *select, sizes, strides, padding, from, init, add));
}

Value Generator::Sort(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1);
  if (x == nullptr || HasNan(s, x)) return nullptr;
  std::vector<Value> operands = {x};
  std::vector<PrimitiveType> types = {x->shape().element_type()};
  const int64_t more = random_.Chance(50) ? 0 : random_.Between(1, 2);
  for (int64_t k = 0; k < more; ++k) {
    const PrimitiveType type = random_.Chance(60) ? PrimitiveType::kS32 : AnyType(Kind::kAny);
    operands.push_back(Like(s, type, GetDims(x)));
    if (operands.back() == nullptr) return nullptr;
    types.push_back(type);
  }
  // Stable if equal keys could be distinguished.
  const bool total = IsFloat(types[0]) && random_.Chance(50);
  const bool stable = more > 0 || (IsFloat(types[0]) && !total) || random_.Chance(50);
  const bool second_key = more > 0 && IsIntegral(types[1]) && random_.Chance(30);
  const bool descending = random_.Chance(40);
  absl::StatusOr<Computation*> comparator = Comparator(s.b.module(), types, descending, total, second_key);
  if (!comparator.ok()) return nullptr;
  return Add(s, hlo::Sort(s.b, operands, *comparator, random_.Below(x->shape().rank()), stable));
}

Value Generator::TopK(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1, 3);
  if (x == nullptr || HasNan(s, x)) return nullptr;
  const int64_t n = x->shape().dimensions(x->shape().rank() - 1);
  if (n == 0) return nullptr;
  const bool largest = random_.Chance(80);
  return Add(s, hlo::TopK(s.b, x, random_.Between(1, n), largest));
}

Value Generator::Scan(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1, 3);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const int64_t d = random_.Below(x->shape().rank());
  std::vector<int64_t> rest = GetDims(x);
  if (rest[static_cast<size_t>(d)] == 0) return nullptr;
  rest.erase(rest.begin() + d);
  const Opcode op = PickOne({Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum});
  Builder b(s.b.module(), "step");
  hlo::Result in = b.Parameter(0, Shape(type, rest)), carry = b.Parameter(1, Shape(type, rest));
  if (!in.ok() || !carry.ok()) return nullptr;
  hlo::Result sum = b.Binary(op, *carry, *in);
  if (!sum.ok()) return nullptr;
  hlo::Result root = b.Tuple({*sum, *sum});
  if (!root.ok()) return nullptr;
  absl::StatusOr<Computation*> body = b.Build(*root);
  const Value init = MakeFreshValue(s, Shape(type, rest), Fill::kWhole);
  if (!body.ok() || init == nullptr) return nullptr;
  const std::optional<bool> associative = random_.Chance(50) ? std::optional<bool>(true) : std::nullopt;
  return Add(s, hlo::Scan(s.b, {x}, {init}, *body, d, random_.Chance(40), associative));
}

}  // namespace backplane::cli::fuzz
