#include <algorithm>
#include <limits>
#include <optional>

#include "absl/algorithm/container.h"
#include "core/passes/algebra/rules.h"
#include "core/passes/match.h"

namespace backplane::algebra {
namespace {

using namespace match;

// Returns the binary operation of a single-operand reduction, or nullopt if the reducer is anything else.
std::optional<Opcode> ReducerOf(const Instruction* i) {
  if (i->operand_count() != 2 || i->operand(0)->shape().element_type() != i->shape().element_type())
    return std::nullopt;
  const Computation* body = i->called(0);
  const Instruction* root = body->root();
  if (root->operand_count() != 2 || !root->info().Has(kCommutative)) return std::nullopt;
  const Instruction *a = body->parameter(0), *b = body->parameter(1);
  const bool plain =
      (root->operand(0) == a && root->operand(1) == b) || (root->operand(0) == b && root->operand(1) == a);
  return plain ? std::optional<Opcode>(root->opcode()) : std::nullopt;
}

// Whether the operation is idempotent: op(x, x) = x.
bool IsIdempotent(Opcode reducer) {
  return reducer == Opcode::kMaximum || reducer == Opcode::kMinimum || reducer == Opcode::kAnd ||
         reducer == Opcode::kOr;
}

// Whether the operation may be reassociated and commuted. Sums and products of floats may not.
bool MayReassociate(Opcode reducer, PrimitiveType t) {
  if (IsIntegral(t) || t == PrimitiveType::kPred) return true;
  return IsFloat(t) && (reducer == Opcode::kMaximum || reducer == Opcode::kMinimum);
}

// Whether the initial value is neutral for the operation.
bool IsNeutral(Opcode reducer, const Instruction* initial) {
  const PrimitiveType t = initial->shape().element_type();
  const Literal* l = FindUniformConstant(initial);
  if (l == nullptr || IsComplex(t)) return false;
  if (IsFloat(t)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double v = l->GetAsDouble(0);
    return (reducer == Opcode::kMaximum && v == -kInfinity) || (reducer == Opcode::kMinimum && v == kInfinity);
  }
  if (t != PrimitiveType::kPred && BitWidth(t) < 8) return false;
  const int64_t v = l->GetAsInt(0);
  switch (reducer) {
    case Opcode::kAdd:
    case Opcode::kOr:
    case Opcode::kXor:
      return v == 0;
    case Opcode::kMultiply:
      return v == 1;
    case Opcode::kAnd:
      return v == (IsSigned(t) ? -1 : GetLargest(t));
    case Opcode::kMaximum:
      return v == GetSmallest(t);
    case Opcode::kMinimum:
      return v == GetLargest(t);
    default:
      return false;
  }
}

Instruction* ReduceAlong(const Instruction* i, Instruction* x, Instruction* initial, Ints dimensions, Rewriter& to) {
  std::sort(dimensions.begin(), dimensions.end());
  Attributes attrs = i->attrs();
  const Shape shape = RemoveDimensions(x->shape(), dimensions);
  attrs.Set(AttrId::kDimensions, std::move(dimensions));
  return to.Make(Opcode::kReduce, shape, {x, initial}, std::move(attrs), {i->called(0)});
}

Ints Sorted(Ints list) {
  std::sort(list.begin(), list.end());
  return list;
}

// A reduction over no elements returns the initial value.
Instruction* ReduceNothing(Instruction* i, Rewriter& to) {
  if (i->operand_count() != 2 || i->operand(0)->shape().num_elements() != 0 || i->shape().num_elements() == 0)
    return nullptr;
  return to.Fill(i->operand(1), i->shape());
}

// A reduction over dimensions of size 1 combines each element with the initial value once.
Instruction* ReduceOfSizeOne(Instruction* i, Rewriter& to) {
  const std::optional<Opcode> reducer = ReducerOf(i);
  if (!reducer || i->shape().num_elements() == 0) return nullptr;
  Instruction* x = i->operand(0);
  if (x->shape().num_elements() != i->shape().num_elements()) return nullptr;
  return to.Make(*reducer, i->shape(), {to.Fill(i->operand(1), i->shape()), to.Reshape(x, i->shape())});
}

// Reducing along a broadcast dimension combines equal values. An idempotent operation leaves the value; a sum of
// integers multiplies it by the size of the dimension.
Instruction* ReduceOfBroadcast(Instruction* i, Rewriter& to) {
  const std::optional<Opcode> reducer = ReducerOf(i);
  Instruction* x = i->operand(0);
  if (!reducer || !x->Is(Opcode::kBroadcast) || x->shape().num_elements() == 0) return nullptr;
  const PrimitiveType type = i->shape().element_type();
  const bool counts = *reducer == Opcode::kAdd && IsIntegral(type) && BitWidth(type) >= 8;
  if (!counts && !(IsIdempotent(*reducer) && MayReassociate(*reducer, type))) return nullptr;
  Ints made, rest, dimensions;
  int64_t times = 1;
  for (int64_t d : Sorted(i->dimensions())) {
    if (absl::c_linear_search(x->dimensions(), d)) continue;
    made.push_back(d);
    times *= x->shape().dimensions(d);
  }
  if (made.empty()) return nullptr;
  auto without_made = [&](int64_t d) { return d - (std::lower_bound(made.begin(), made.end(), d) - made.begin()); };
  for (int64_t d : i->dimensions()) {
    if (!absl::c_linear_search(made, d)) rest.push_back(without_made(d));
  }
  for (int64_t d : x->dimensions()) dimensions.push_back(without_made(d));
  Instruction* smaller = to.Broadcast(x->operand(0), RemoveDimensions(x->shape(), made), std::move(dimensions));
  if (!counts) {
    if (!rest.empty()) return ReduceAlong(i, smaller, i->operand(1), std::move(rest), to);
    return to.Make(*reducer, i->shape(), {to.Fill(i->operand(1), i->shape()), smaller});
  }
  if (!rest.empty()) smaller = ReduceAlong(i, smaller, to.Constant(Literal(Shape::Scalar(type))), std::move(rest), to);
  Instruction* product =
      to.Make(Opcode::kMultiply, i->shape(), {smaller, to.Fill(Literal::ScalarInt(type, times), i->shape())});
  return to.Make(Opcode::kAdd, i->shape(), {to.Fill(i->operand(1), i->shape()), product});
}

// Reduces the operand of a transpose, and transposes the smaller result if needed. A sum of floats must visit its
// elements in the same order.
Instruction* ReduceOfTranspose(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  if (i->operand_count() != 2 || !x->Is(Opcode::kTranspose)) return nullptr;
  const Ints& p = x->dimensions();
  Ints dimensions, kept;
  for (int64_t d : Sorted(i->dimensions())) dimensions.push_back(p[static_cast<size_t>(d)]);
  const std::optional<Opcode> reducer = ReducerOf(i);
  const bool any_order = reducer && MayReassociate(*reducer, i->shape().element_type());
  if (!any_order && !std::is_sorted(dimensions.begin(), dimensions.end())) return nullptr;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    if (!absl::c_linear_search(i->dimensions(), d)) kept.push_back(p[static_cast<size_t>(d)]);
  }
  Instruction* reduced = ReduceAlong(i, x->operand(0), i->operand(1), std::move(dimensions), to);
  const Ints order = Sorted(kept);
  Ints permutation;
  for (int64_t d : kept) permutation.push_back(std::lower_bound(order.begin(), order.end(), d) - order.begin());
  return to.Transpose(reduced, std::move(permutation));
}

// Reduces the operand of a reshape that only adds or removes dimensions of size 1.
Instruction* ReduceOfReshape(Instruction* i, Rewriter& to) {
  Instruction* x = i->operand(0);
  if (i->operand_count() != 2 || !x->Is(Opcode::kReshape) || i->shape().num_elements() == 0) return nullptr;
  Instruction* from = x->operand(0);
  if (from->shape().HasDynamicDimensions()) return nullptr;
  auto large = [](const Shape& s) {
    Ints dims;
    for (int64_t d = 0; d < s.rank(); ++d) {
      if (s.dimensions(d) != 1) dims.push_back(d);
    }
    return dims;
  };
  const Ints before = large(from->shape()), after = large(x->shape());
  if (before.size() != after.size()) return nullptr;
  Ints dimensions;
  for (size_t k = 0; k < before.size(); ++k) {
    if (from->shape().dimensions(before[k]) != x->shape().dimensions(after[k])) return nullptr;
    if (absl::c_linear_search(i->dimensions(), after[k])) dimensions.push_back(before[k]);
  }
  if (dimensions.empty()) return nullptr;
  return to.Reshape(ReduceAlong(i, from, i->operand(1), std::move(dimensions), to), i->shape());
}

// Merges nested reductions if the operation may be reassociated and the inner initial value is neutral.
Instruction* ReduceOfReduce(Instruction* i, Rewriter& to) {
  const std::optional<Opcode> reducer = ReducerOf(i);
  const Instruction* x = i->operand(0);
  if (!reducer || !MayReassociate(*reducer, i->shape().element_type())) return nullptr;
  if (!x->Is(Opcode::kReduce) || ReducerOf(x) != reducer || x->users().size() != 1) return nullptr;
  const bool equal_start = IsIdempotent(*reducer) && x->operand(1) == i->operand(1);
  if (!equal_start && !IsNeutral(*reducer, x->operand(1))) return nullptr;
  if (x->operand(0)->shape().num_elements() == 0) return nullptr;
  Ints both = x->dimensions();
  for (int64_t d = 0, kept = 0; d < x->operand(0)->shape().rank(); ++d) {
    if (absl::c_linear_search(x->dimensions(), d)) continue;
    if (absl::c_linear_search(i->dimensions(), kept++)) both.push_back(d);
  }
  return ReduceAlong(i, x->operand(0), i->operand(1), std::move(both), to);
}

}  // namespace

void AddReductionRules(RuleSet* r) {
  const std::vector<Opcode> reduce = {Opcode::kReduce};
  r->Add({reduce, "reduce-nothing", "over no elements: the initial value", &ReduceNothing});
  r->Add({reduce, "reduce-of-size-one", "over dimensions of size 1: each element with the initial value",
          &ReduceOfSizeOne});
  r->Add({reduce, "reduce-of-broadcast", "of equal values: one of them; a sum of integers is a product",
          &ReduceOfBroadcast});
  r->Add({reduce, "reduce-of-transpose", "the reduction of the operand", &ReduceOfTranspose});
  r->Add({reduce, "reduce-of-reshape", "without dimensions of size 1 that a reshape adds", &ReduceOfReshape});
  r->Add({reduce, "reduce-of-reduce", "both in one, if the operation may be reassociated", &ReduceOfReduce});
}

}  // namespace backplane::algebra
