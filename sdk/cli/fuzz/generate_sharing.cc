// Recipes for structured programs: computations with several callers (calls, branches, reductions, sorts), and results
// that are arguments or each other.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

using P = PrimitiveType;

constexpr double kMaxCost = 4000;  // the largest number of instructions that one call may execute

Value FirstArray(const std::vector<Value>& values) { return values.empty() ? nullptr : values[0]; }

}  // namespace

std::vector<Generator::Recipe> Generator::SharingRecipes() {
  return {
      {80, {Opcode::kCall}, &Generator::CallShared, false, true, true, false, true},
      {30, {Opcode::kConditional}, &Generator::SharedBranches, false, true, true, false, true},
      {25, {Opcode::kCall, Opcode::kOptimizationBarrier}, &Generator::Recomputed, false, true, true, false, true},
      {20, {Opcode::kReduce}, &Generator::SharedCombiner, false, true, false, false, true},
      {12, {Opcode::kSort}, &Generator::SharedOrder, false, true, false, false, true},
  };
}

// Returns the number of instructions that a run executes, if loops have six iterations.
double Generator::EstimateCost(const Computation* c) {
  const auto known = costs_.find(c);
  if (known != costs_.end()) return known->second;
  double cost = 0;
  for (const auto& i : c->instructions()) {
    double own = 1;
    for (const Computation* callee : i->called()) own += EstimateCost(callee);
    cost += i->Is(Opcode::kWhile) ? 6 * own : own;
  }
  costs_[c] = cost;
  return cost;
}

// A function of several arrays, or of a tuple of them, as a branch has it.
Computation* Generator::MakeFunction(Scope& s, bool tuple) {
  const std::vector<Value> samples = ChooseValues(s, 3);
  std::vector<BoundedValue> bounded;
  for (const Value v : samples) bounded.push_back(GetBoundedValue(s, v));
  if (samples.empty()) return nullptr;
  const bool plain = random_.Chance(15);
  const int steps = static_cast<int>(random_.Between(2, 5));
  std::unique_ptr<Scope> inner =
      MakeNestedScope(s, tuple ? "shared_branch" : "shared_function", bounded, steps, plain, tuple);
  if (inner == nullptr) return nullptr;
  Value root = inner->values.back();
  if (tuple || random_.Chance(50)) {
    std::vector<Value> results = {root};
    const int64_t more = random_.Between(0, 2);  // also returns arguments, and one value twice
    for (int64_t k = 0; k < more; ++k) results.push_back(random_.Pick(inner->values));
    root = Add(*inner, inner->b.Tuple(results));
    if (root == nullptr) return nullptr;
  }
  absl::StatusOr<Computation*> built = inner->b.Build(root);
  if (!built.ok()) return nullptr;
  (*built)->RemoveDead();
  (tuple ? branches_ : functions_).push_back(*built);
  return *built;
}

std::optional<std::vector<Value>> Generator::ArgumentsFor(Scope& s, const std::vector<Shape>& shapes) {
  std::vector<Value> arguments;
  for (const Shape& shape : shapes) {
    // One caller passes a constant, another one does not.
    const Value v =
        random_.Chance(25) ? Constant(s, shape.WithoutLayout()) : Like(s, shape.element_type(), shape.dimensions());
    if (v == nullptr) return std::nullopt;
    arguments.push_back(v);
  }
  return arguments;
}

Value Generator::CallShared(Scope& s) {
  if (s.depth > 0 && random_.Chance(40)) return nullptr;
  Computation* f = nullptr;
  if (!functions_.empty() && (s.depth >= 2 || random_.Chance(60))) {
    f = random_.Pick(functions_);
  } else if (s.depth < 2) {
    f = MakeFunction(s, false);
  }
  if (f == nullptr || EstimateCost(f) > (s.depth == 0 ? kMaxCost : s.depth == 1 ? kMaxCost / 10 : kMaxCost / 60))
    return nullptr;
  std::vector<Shape> shapes;
  for (const Instruction* p : f->parameters()) shapes.push_back(p->shape());
  Value last = nullptr;
  const int64_t calls = random_.Between(1, 3);
  for (int64_t k = 0; k < calls; ++k) {
    const std::optional<std::vector<Value>> arguments = ArgumentsFor(s, shapes);
    if (!arguments.has_value()) return last;
    const Value v = Add(s, s.b.Call(f, *arguments));
    if (v == nullptr || !IsUseful(GetBoundedValue(s, v))) return last;
    if (last != nullptr) Keep(s, last);
    last = v;
  }
  return last;
}

Value Generator::SharedBranches(Scope& s) {
  if (s.depth > 0 && random_.Chance(40)) return nullptr;
  Computation* first = nullptr;
  if (!branches_.empty() && (s.depth >= 2 || random_.Chance(50))) {
    first = random_.Pick(branches_);
  } else if (s.depth < 2) {
    first = MakeFunction(s, true);
  }
  if (first == nullptr || EstimateCost(first) > (s.depth == 0 ? kMaxCost : kMaxCost / 10)) return nullptr;
  Computation* second = first;
  for (Computation* other : branches_) {
    if (other->root()->shape().WithoutLayout() == first->root()->shape().WithoutLayout() && random_.Chance(60))
      second = other;
  }
  const Value selector = random_.Chance(50) ? MakeDecision(s) : Like(s, P::kPred, {});
  if (selector == nullptr) return nullptr;
  std::vector<Value> operands;
  for (Computation* c : {first, second}) {
    const Shape& shape = c->parameter(0)->shape();
    const std::optional<std::vector<Value>> arguments =
        ArgumentsFor(s, std::vector<Shape>(shape.tuple_shapes().begin(), shape.tuple_shapes().end()));
    const Value operand = arguments.has_value() ? Add(s, s.b.Tuple(*arguments)) : nullptr;
    if (operand == nullptr) return nullptr;
    operands.push_back(operand);
  }
  return Add(s, s.b.Conditional(selector, {first, second}, operands));
}

// A function as in a checkpoint: it is called, and called again behind a barrier with the same arguments.
Value Generator::Recomputed(Scope& s) {
  if (s.depth > 0 && random_.Chance(50)) return nullptr;
  Computation* f = !functions_.empty() && (s.depth >= 2 || random_.Chance(60)) ? random_.Pick(functions_)
                   : s.depth < 2                                               ? MakeFunction(s, false)
                                                                               : nullptr;
  if (f == nullptr || EstimateCost(f) > (s.depth == 0 ? kMaxCost : kMaxCost / 20)) return nullptr;
  std::vector<Shape> shapes;
  for (const Instruction* p : f->parameters()) shapes.push_back(p->shape());
  const std::optional<std::vector<Value>> arguments = ArgumentsFor(s, shapes);
  if (!arguments.has_value() || arguments->empty()) return nullptr;
  const Value once = Add(s, s.b.Call(f, *arguments));
  if (once == nullptr || !IsUseful(GetBoundedValue(s, once))) return nullptr;
  auto arrays = [&](Value v) {
    std::vector<Value> all;
    if (!v->shape().IsTuple()) return std::vector<Value>{v};
    for (int64_t k = 0; k < v->shape().tuple_size(); ++k) {
      const Value e = Add(s, s.b.GetTupleElement(v, k));
      if (e != nullptr && e->shape().IsArray()) all.push_back(e);
    }
    return all;
  };
  const Value first = FirstArray(arrays(once));
  if (first == nullptr) return nullptr;
  std::vector<Value> held = *arguments;
  if (random_.Chance(70)) held.push_back(first);
  const Value tuple = Add(s, s.b.Tuple(held));
  const Value barrier = tuple == nullptr ? nullptr : Add(s, hlo::OptimizationBarrier(s.b, tuple));
  if (barrier == nullptr) return nullptr;
  std::vector<Value> behind;
  for (size_t k = 0; k < held.size(); ++k) {
    behind.push_back(Add(s, s.b.GetTupleElement(barrier, static_cast<int64_t>(k))));
    if (behind.back() == nullptr) return nullptr;
  }
  const Value earlier = behind.size() > arguments->size() ? behind.back() : first;
  behind.resize(arguments->size());
  const Value again = Add(s, s.b.Call(f, behind));
  if (again == nullptr) return nullptr;
  const Value second = FirstArray(arrays(again));
  if (second == nullptr || first->shape().HasDynamicDimensions()) return nullptr;
  Keep(s, once);
  const P type = first->shape().element_type();
  const Opcode op = type == P::kPred  ? PickOne({Opcode::kAnd, Opcode::kOr})
                    : IsComplex(type) ? PickOne({Opcode::kAdd, Opcode::kMultiply})
                                      : PickOne({Opcode::kAdd, Opcode::kMultiply, Opcode::kMaximum});
  return Add(s, s.b.Binary(op, earlier, second));
}

// A helper that two combiners call, reductions by both, and a call of the helper itself.
Value Generator::SharedCombiner(Scope& s) {
  const Value x = Any(s, random_.Chance(75) ? Kind::kInteger : Kind::kReal, 1, 3);
  if (x == nullptr || x->shape().num_elements() > 600 || x->shape().num_elements() == 0 || HasNan(s, x)) return nullptr;
  const P type = x->shape().element_type();
  const Opcode op = IsFloat(type) ? PickOne({Opcode::kMaximum, Opcode::kMinimum})
                                  : PickOne({Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum, Opcode::kXor});
  const Value init = Identity(s, op, type);
  if (init == nullptr) return nullptr;
  const Shape scalar(type, {});
  Builder helper(s.b.module(), "shared_helper");
  hlo::Result a = helper.Parameter(0, scalar), c = helper.Parameter(1, scalar);
  if (!a.ok() || !c.ok()) return nullptr;
  hlo::Result combined = absl::InternalError("");
  if (op == Opcode::kMaximum || op == Opcode::kMinimum) {
    hlo::Result keep =
        helper.Compare(*a, *c, op == Opcode::kMaximum ? ComparisonDirection::kGe : ComparisonDirection::kLe);
    if (keep.ok()) combined = helper.Select(*keep, *a, *c);
  } else {
    combined = helper.Binary(op, *a, *c);
  }
  absl::StatusOr<Computation*> shared = combined.ok() ? helper.Build(*combined) : combined.status();
  if (!shared.ok()) return nullptr;
  Value last = nullptr;
  for (int64_t k = 0; k < 2; ++k) {
    Builder b(s.b.module(), "shared_combiner");
    hlo::Result p = b.Parameter(0, scalar), q = b.Parameter(1, scalar);
    if (!p.ok() || !q.ok()) return nullptr;
    const bool turned = k == 1 && random_.Chance(50);
    hlo::Result r = b.Call(*shared, turned ? std::vector<Value>{*q, *p} : std::vector<Value>{*p, *q});
    absl::StatusOr<Computation*> body = r.ok() ? b.Build(*r) : r.status();
    if (!body.ok()) return nullptr;
    const Value operand = k == 0 ? x : Like(s, type, x->shape().dimensions());
    if (operand == nullptr || HasNan(s, operand)) return last;
    std::vector<int64_t> dims = ChooseSubset(x->shape().rank(), 55);
    const Value v = Add(s, s.b.Reduce({operand}, {init}, *body, dims));
    if (v == nullptr || !IsUseful(GetBoundedValue(s, v))) return last;
    if (last != nullptr) Keep(s, last);
    last = v;
  }
  const Value one = Like(s, type, {}), two = Like(s, type, {});
  if (one == nullptr || two == nullptr || random_.Chance(40)) return last;
  const Value v = Add(s, s.b.Call(*shared, {one, two}));
  if (v == nullptr || !IsUseful(GetBoundedValue(s, v))) return last;
  Keep(s, last);
  return v;
}

// A comparator that calls a helper for the keys, and two sorts by it.
Value Generator::SharedOrder(Scope& s) {
  const Value x = Any(s, Kind::kInteger, 1, 3);
  if (x == nullptr) return nullptr;
  const P type = x->shape().element_type();
  const Shape scalar(type, {});
  Builder key(s.b.module(), "shared_key");
  hlo::Result p = key.Parameter(0, scalar);
  if (!p.ok()) return nullptr;
  hlo::Result k = random_.Chance(50) ? key.Unary(Opcode::kPopcnt, *p) : key.Unary(Opcode::kNot, *p);
  absl::StatusOr<Computation*> helper = k.ok() ? key.Build(*k) : k.status();
  if (!helper.ok()) return nullptr;
  Builder b(s.b.module(), "shared_order");
  hlo::Result l = b.Parameter(0, scalar), r = b.Parameter(1, scalar);
  if (!l.ok() || !r.ok()) return nullptr;
  hlo::Result left = b.Call(*helper, {*l}), right = b.Call(*helper, {*r});
  if (!left.ok() || !right.ok()) return nullptr;
  hlo::Result less = b.Compare(*left, *right, ComparisonDirection::kLt);
  absl::StatusOr<Computation*> order = less.ok() ? b.Build(*less) : less.status();
  if (!order.ok()) return nullptr;
  const Value first = Add(s, hlo::Sort(s.b, {x}, *order, random_.Below(x->shape().rank()), true));
  if (first == nullptr) return nullptr;
  const Value y = Like(s, type, AnyDims(1, 2));
  const Value second = y == nullptr ? nullptr : Add(s, hlo::Sort(s.b, {y}, *order, y->shape().rank() - 1, true));
  if (second == nullptr) return first;
  Keep(s, first);
  return second;
}

// Results that are arguments, and a value that is several results.
void Generator::AddAliasedResults(Scope& s, std::vector<Value>& results) {
  std::vector<Value> parameters;
  for (const Value v : s.values) {
    if (v->Is(Opcode::kParameter)) parameters.push_back(v);
  }
  if (!parameters.empty() && random_.Chance(30)) results.push_back(random_.Pick(parameters));
  if (!results.empty() && random_.Chance(25)) results.push_back(random_.Pick(results));
  if (parameters.size() > 1 && random_.Chance(10)) results.push_back(random_.Pick(parameters));
}

}  // namespace backplane::cli::fuzz
