// Recipes: computations of reductions and sorts with several operations: arrays, loops and branches, and keys that are
// computed from the elements.
//
// The result of a reduction must not depend on the order of its steps. Each computation here is an associative and
// commutative operation, written in a complicated way, on integers or booleans, or a maximum or minimum of any type.
#include <algorithm>

#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

using P = PrimitiveType;
using hlo::Result;

// Puts a and b side by side as [2,n] and reduces them to one row with another reduction; returns its first element.
Result ByRows(Builder& b, Value x, Value y, Opcode op, const Literal& neutral, int64_t n) {
  const P type = x->shape().element_type();
  ASSIGN_OR_RETURN(const Value wide_x, b.BroadcastInDim(x, {1, n}, {}));
  ASSIGN_OR_RETURN(const Value wide_y, b.BroadcastInDim(y, {1, n}, {}));
  ASSIGN_OR_RETURN(const Value both, b.Concatenate({wide_x, wide_y}, 0));
  ASSIGN_OR_RETURN(const Value init, b.Constant(neutral));
  ASSIGN_OR_RETURN(Computation * inner, MakeScalarBinaryComputation(b.module(), op, type));
  ASSIGN_OR_RETURN(const Value row, b.Reduce({both}, {init}, inner, {0}));
  ASSIGN_OR_RETURN(const Value one, b.Slice(row, {{n - 1, n, 1}}));
  return b.Reshape(one, {});
}

// Makes an array of both, sorts or reverses it, and takes the two out again.
Result ByPositions(Builder& b, Value x, Value y, Opcode op) {
  ASSIGN_OR_RETURN(const Value row_x, b.Reshape(x, {1}));
  ASSIGN_OR_RETURN(const Value row_y, b.Reshape(y, {1}));
  ASSIGN_OR_RETURN(const Value both, b.Concatenate({row_x, row_y}, 0));
  ASSIGN_OR_RETURN(const Value turned, hlo::Rev(b, both, {0}));
  ASSIGN_OR_RETURN(const Value combined, b.Binary(op, both, turned));
  ASSIGN_OR_RETURN(const Value at, b.Constant(Literal::ScalarInt(P::kS32, 1)));
  ASSIGN_OR_RETURN(const Value one, hlo::DynamicSlice(b, combined, {at}, {1}));
  return b.Reshape(one, {});
}

// A loop with one iteration.
Result ByLoop(Builder& b, Value x, Value y, Opcode op) {
  const P type = x->shape().element_type();
  const Shape scalar(type, {}), count(P::kS32, {}), state = Shape::Tuple({count, scalar, scalar});
  Builder c(b.module(), "once_more"), t(b.module(), "iteration");
  ASSIGN_OR_RETURN(const Value before, c.Parameter(0, state));
  ASSIGN_OR_RETURN(const Value iterations, c.GetTupleElement(before, 0));
  ASSIGN_OR_RETURN(const Value one, c.Constant(Literal::ScalarInt(P::kS32, 1)));
  ASSIGN_OR_RETURN(const Value go, c.Compare(iterations, one, ComparisonDirection::kLt));
  ASSIGN_OR_RETURN(Computation * condition, c.Build(go));
  ASSIGN_OR_RETURN(const Value s, t.Parameter(0, state));
  ASSIGN_OR_RETURN(const Value n, t.GetTupleElement(s, 0));
  ASSIGN_OR_RETURN(const Value p, t.GetTupleElement(s, 1));
  ASSIGN_OR_RETURN(const Value q, t.GetTupleElement(s, 2));
  ASSIGN_OR_RETURN(const Value step, t.Constant(Literal::ScalarInt(P::kS32, 1)));
  ASSIGN_OR_RETURN(const Value next, t.Binary(Opcode::kAdd, n, step));
  ASSIGN_OR_RETURN(const Value r, t.Binary(op, p, q));
  ASSIGN_OR_RETURN(const Value after, t.Tuple({next, r, q}));
  ASSIGN_OR_RETURN(Computation * body, t.Build(after));
  ASSIGN_OR_RETURN(const Value zero, b.Constant(Literal::ScalarInt(P::kS32, 0)));
  ASSIGN_OR_RETURN(const Value init, b.Tuple({zero, x, y}));
  ASSIGN_OR_RETURN(const Value end, b.While(condition, body, init));
  return b.GetTupleElement(end, 1);
}

// Both branches do the same, with the two operands exchanged.
Result ByBranch(Builder& b, Value x, Value y, Opcode op) {
  const Shape scalar(x->shape().element_type(), {}), pair = Shape::Tuple({scalar, scalar});
  std::vector<Computation*> branches;
  for (const bool swapped : {false, true}) {
    Builder branch(b.module(), swapped ? "second_first" : "first_second");
    ASSIGN_OR_RETURN(const Value both, branch.Parameter(0, pair));
    ASSIGN_OR_RETURN(const Value p, branch.GetTupleElement(both, 0));
    ASSIGN_OR_RETURN(const Value q, branch.GetTupleElement(both, 1));
    ASSIGN_OR_RETURN(const Value r, swapped ? branch.Binary(op, q, p) : branch.Binary(op, p, q));
    ASSIGN_OR_RETURN(Computation * c, branch.Build(r));
    branches.push_back(c);
  }
  ASSIGN_OR_RETURN(const Value less, b.Compare(x, y, ComparisonDirection::kLt));
  ASSIGN_OR_RETURN(const Value both, b.Tuple({x, y}));
  return b.Conditional(less, branches, {both, both});
}

}  // namespace

std::vector<Generator::Recipe> Generator::BodyRecipes() {
  return {
      {4, {Opcode::kReduce}, &Generator::ReduceByArrays},
      {3, {Opcode::kReduce}, &Generator::ReduceByControl},
      {5, {Opcode::kSort}, &Generator::SortOddly},
  };
}

Value Generator::ReduceByArrays(Scope& s) {
  const Value x = Any(s, random_.Chance(80) ? Kind::kBits : Kind::kReal, 1, 3);
  if (x == nullptr || x->shape().num_elements() > 600 || HasNan(s, x)) return nullptr;
  const P type = x->shape().element_type();
  const std::optional<Opcode> op = IsFloat(type) ? PickOne({Opcode::kMaximum, Opcode::kMinimum}) : AnyCombiner(type);
  const Value init = op.has_value() ? Identity(s, *op, type) : nullptr;
  if (init == nullptr) return nullptr;
  Builder b(s.b.module(), "by_arrays");
  Result p = b.Parameter(0, Shape(type, {})), q = b.Parameter(1, Shape(type, {}));
  if (!p.ok() || !q.ok()) return nullptr;
  Result root =
      random_.Chance(50) ? ByRows(b, *p, *q, *op, init->literal(), random_.Between(1, 5)) : ByPositions(b, *p, *q, *op);
  absl::StatusOr<Computation*> body = root.ok() ? b.Build(*root) : root.status();
  if (!body.ok()) return nullptr;
  return Add(s, s.b.Reduce({x}, {init}, *body, ChooseSubset(x->shape().rank(), 55)));
}

Value Generator::ReduceByControl(Scope& s) {
  const Value x = Any(s, random_.Chance(80) ? Kind::kInteger : Kind::kReal, 1, 3);
  if (x == nullptr || x->shape().num_elements() > 600 || HasNan(s, x)) return nullptr;
  const P type = x->shape().element_type();
  const std::optional<Opcode> op = IsFloat(type) ? PickOne({Opcode::kMaximum, Opcode::kMinimum}) : AnyCombiner(type);
  const Value init = op.has_value() ? Identity(s, *op, type) : nullptr;
  if (init == nullptr) return nullptr;
  Builder b(s.b.module(), "by_control");
  Result p = b.Parameter(0, Shape(type, {})), q = b.Parameter(1, Shape(type, {}));
  if (!p.ok() || !q.ok()) return nullptr;
  Result root = random_.Chance(50) ? ByLoop(b, *p, *q, *op) : ByBranch(b, *p, *q, *op);
  absl::StatusOr<Computation*> body = root.ok() ? b.Build(*root) : root.status();
  if (!body.ok()) return nullptr;
  return Add(s, s.b.Reduce({x}, {init}, *body, ChooseSubset(x->shape().rank(), 55)));
}

// Orders that no processor has: by magnitude, by remainder, by bits, by several keys starting with the last one, or
// none at all. Equal keys keep their order.
Value Generator::SortOddly(Scope& s) {
  const Value x = Any(s, random_.Chance(70) ? Kind::kInteger : Kind::kReal, 1);
  if (x == nullptr || HasNan(s, x)) return nullptr;
  const P type = x->shape().element_type();
  std::vector<Value> operands = {x};
  const int64_t more = random_.Between(0, 2);
  for (int64_t k = 0; k < more; ++k) {
    operands.push_back(Like(s, AnyType(random_.Chance(60) ? Kind::kInteger : Kind::kAny), GetDims(x)));
    if (operands.back() == nullptr) return nullptr;
  }
  const bool descending = random_.Chance(40);
  const int64_t way = random_.Below(6);
  Builder b(s.b.module(), "odd_order");
  std::vector<Value> left, right;
  for (size_t k = 0; k < operands.size(); ++k) {
    for (std::vector<Value>* side : {&left, &right}) {
      Result p =
          b.Parameter(static_cast<int64_t>(2 * k + (side == &right)), Shape(operands[k]->shape().element_type(), {}));
      if (!p.ok()) return nullptr;
      side->push_back(*p);
    }
  }
  auto key = [&](Value v) -> Result {
    switch (way) {
      case 0:
        return b.Unary(Opcode::kAbs, v);
      case 1: {
        if (!IsIntegral(type)) return b.Unary(Opcode::kNegate, v);
        ASSIGN_OR_RETURN(const Value three, b.Constant(Literal::ScalarInt(type, BitWidth(type) > 2 ? 3 : 1)));
        return b.Binary(Opcode::kRemainder, v, three);
      }
      case 2:
        if (type == P::kF8E8M0FNU) return v;  // the type has no zero: the floor of a fraction is NaN
        if (!IsIntegral(type)) return b.Unary(Opcode::kFloor, v);
        return b.Unary(random_.Chance(50) ? Opcode::kPopcnt : Opcode::kClz, v);
      default:
        return v;
    }
  };
  // The choice is drawn once for both sides.
  const Random before = random_;
  Result l = key(left[0]);
  random_ = before;
  Result r = key(right[0]);
  if (!l.ok() || !r.ok()) return nullptr;
  Result root = absl::InternalError("");
  if (way == 4) {
    root = b.Constant(Literal::ScalarInt(P::kPred, 0));
  } else if (way == 5) {
    // Reversed, by "not greater or equal".
    Result not_before = b.Compare(*l, *r, descending ? ComparisonDirection::kLe : ComparisonDirection::kGe);
    if (not_before.ok()) root = b.Unary(Opcode::kNot, *not_before);
  } else {
    root = descending ? b.Compare(*r, *l, ComparisonDirection::kLt) : b.Compare(*r, *l, ComparisonDirection::kGt);
    const P second = operands.back()->shape().element_type();
    if (root.ok() && more > 0 && IsIntegral(second) && random_.Chance(50)) {
      Result same = b.Compare(*l, *r, ComparisonDirection::kEq);
      Result behind = b.Compare(left.back(), right.back(), ComparisonDirection::kGt);
      if (!same.ok() || !behind.ok()) return nullptr;
      root = b.Select(*same, *behind, *root);
    }
  }
  absl::StatusOr<Computation*> order = root.ok() ? b.Build(*root) : root.status();
  if (!order.ok()) return nullptr;
  return Add(s, hlo::Sort(s.b, operands, *order, random_.Below(x->shape().rank()), true));
}

}  // namespace backplane::cli::fuzz
