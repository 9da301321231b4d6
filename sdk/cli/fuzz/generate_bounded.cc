// Recipes: arrays with a dimension of bounded dynamic size.
#include <algorithm>

#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

std::vector<Generator::Recipe> Generator::BoundedRecipes() {
  return {
      {4, {Opcode::kSetDimensionSize}, &Generator::BoundedChain, false, false},
  };
}

// Moves, concatenates, slices, pads and sorts an array with a bounded dimension, then reduces or contracts along that
// dimension. Integers, because bounds do not depend on dynamic sizes.
Value Generator::BoundedChain(Scope& s) {
  const PrimitiveType type = AnyType(Kind::kInteger);
  const std::vector<int64_t> dims = AnyDims(2, 3);
  int64_t rank = static_cast<int64_t>(dims.size()), d = random_.Below(rank);
  const Value x = MakeFreshValue(s, Shape(type, dims)), n = Index(s, 0, dims[static_cast<size_t>(d)]);
  const Opcode op = PickOne({Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum, Opcode::kXor});
  if (x == nullptr || n == nullptr || x->shape().num_elements() == 0) return nullptr;
  Value bounded = Add(s, hlo::SetDimensionSize(s.b, x, n, d));
  const Value fill = Add(s, s.b.Constant(Literal::ScalarInt(type, 1)));
  if (bounded == nullptr || fill == nullptr) return nullptr;
  const int64_t steps = random_.Between(1, 5);
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t other = random_.Below(rank);
    const int64_t size = bounded->shape().dimensions(other);
    Value next = nullptr;
    int64_t now = d;
    switch (random_.Below(8)) {
      case 0: {
        const std::vector<int64_t> order = random_.Permutation(rank);
        next = Add(s, hlo::Transpose(s.b, bounded, order));
        now = std::find(order.begin(), order.end(), d) - order.begin();
        break;
      }
      case 1:
        if (other != d) next = Add(s, hlo::Rev(s.b, bounded, {other}));
        break;
      case 2:
        if (other != d) next = Add(s, s.b.Concatenate({bounded, bounded}, other));
        break;
      case 3: {
        if (other == d || size < 2) break;
        SliceConfig slices;
        for (int64_t e = 0; e < rank; ++e) slices.push_back({0, bounded->shape().dimensions(e), 1});
        slices[static_cast<size_t>(other)].start = random_.Below(size);
        next = Add(s, s.b.Slice(bounded, slices));
        break;
      }
      case 4: {
        if (other == d) break;
        PaddingConfig padding(static_cast<size_t>(rank));
        padding[static_cast<size_t>(other)] = {random_.Between(0, 2), random_.Between(-1, 2), random_.Between(0, 1)};
        next = Add(s, hlo::Pad(s.b, bounded, fill, padding));
        break;
      }
      case 5: {
        Builder b(s.b.module(), "bounded_order");
        hlo::Result l = b.Parameter(0, Shape(type, {})), r = b.Parameter(1, Shape(type, {}));
        if (!l.ok() || !r.ok()) break;
        hlo::Result less = b.Compare(*l, *r, ComparisonDirection::kLt);
        absl::StatusOr<Computation*> order = less.ok() ? b.Build(*less) : less.status();
        if (order.ok()) next = Add(s, hlo::Sort(s.b, {bounded}, *order, other, true));
        break;
      }
      case 6:
        next = Add(s, s.b.Unary(PickOne({Opcode::kNegate, Opcode::kNot, Opcode::kPopcnt}), bounded));
        break;
      default:
        next = Add(s, s.b.Binary(PickOne({Opcode::kAdd, Opcode::kMultiply, Opcode::kAnd}), bounded, bounded));
        break;
    }
    // An operation may do anything with a bounded dimension; the chain continues while it is known where the dimension
    // is.
    if (next == nullptr || !next->shape().IsArray() || next->shape().num_elements() == 0) continue;
    if (!next->shape().is_dynamic(now)) continue;
    bounded = next;
    d = now;
    rank = bounded->shape().rank();
  }
  if (random_.Chance(15)) return Add(s, hlo::GetDimensionSize(s.b, bounded, d));
  if (random_.Chance(30)) {
    DotDimensions dot;
    dot.lhs_contracting = {d};
    dot.rhs_contracting = {d};
    return Add(s, hlo::DotGeneral(s.b, bounded, bounded, dot, {}, {}));
  }
  const Value zero = Identity(s, op, type);
  Computation* add = Combiner(s, op, type);
  if (zero == nullptr || add == nullptr) return nullptr;
  std::vector<int64_t> reduced = {d};
  for (int64_t k = 0; k < rank; ++k) {
    if (k != d && random_.Chance(30)) reduced.push_back(k);
  }
  std::sort(reduced.begin(), reduced.end());
  return Add(s, s.b.Reduce({bounded}, {zero}, add, reduced));
}

}  // namespace backplane::cli::fuzz
