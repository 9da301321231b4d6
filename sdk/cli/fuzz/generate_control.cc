// Recipes: calls, loops, branches, and operations that only wrap values.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {

using P = PrimitiveType;

Shape GetShape(const BoundedValue& j) { return j.ToLiteral().shape(); }

BoundedValue TupleOf(const std::vector<BoundedValue>& elements) {
  BoundedValue j;
  j.is_tuple = true;
  j.elements = elements;
  return j;
}

}  // namespace

std::vector<Generator::Recipe> Generator::ControlRecipes() {
  return {
      {4, {Opcode::kCall}, &Generator::Call, false, true, true},
      {6, {Opcode::kCall}, &Generator::Quantized},
      {3, {Opcode::kFusion}, &Generator::Fusion, false, false, true},
      {2, {Opcode::kAsyncStart, Opcode::kAsyncUpdate, Opcode::kAsyncDone}, &Generator::Async, false, false, true},
      {1, {Opcode::kCopyStart, Opcode::kCopyDone}, &Generator::CopyAsync, false, false},
      {7, {Opcode::kWhile}, &Generator::While, false, true, true},
      {4, {Opcode::kWhile, Opcode::kDynamicSlice, Opcode::kDynamicUpdateSlice}, &Generator::LoopOverRows},
      {7, {Opcode::kConditional}, &Generator::Conditional, false, true, true},
      {2, {Opcode::kOptimizationBarrier, Opcode::kTuple, Opcode::kGetTupleElement}, &Generator::Barrier},
      {1, {Opcode::kAfterAll, Opcode::kAddDependency}, &Generator::Dependency, false, false},
      {1, {Opcode::kDomain}, &Generator::Domain, false, false},
      {1, {Opcode::kPartitionId, Opcode::kReplicaId}, &Generator::DeviceId},
  };
}

std::unique_ptr<Scope> Generator::MakeNestedScope(Scope& s, const std::string& name,
                                                  const std::vector<BoundedValue>& parameters, int steps, bool plain,
                                                  bool tuple) {
  auto inner = std::make_unique<Scope>(s.b.module(), name, s.depth + 1);
  inner->plain = plain;
  if (tuple) {
    const BoundedValue all = TupleOf(parameters);
    hlo::Result p = inner->b.Parameter(0, GetShape(all));
    if (!p.ok()) return nullptr;
    inner->bounded[*p] = all;
    for (size_t k = 0; k < parameters.size(); ++k) {
      const Value v = Add(*inner, inner->b.GetTupleElement(*p, static_cast<int64_t>(k)));
      if (v == nullptr) return nullptr;
      inner->values.push_back(v);
    }
  } else {
    for (size_t k = 0; k < parameters.size(); ++k) {
      hlo::Result p = inner->b.Parameter(static_cast<int64_t>(k), GetShape(parameters[k]));
      if (!p.ok()) return nullptr;
      inner->bounded[*p] = parameters[k];
      inner->values.push_back(*p);
    }
  }
  for (int k = 0; k < steps; ++k) Step(*inner);
  return inner;
}

Value Generator::FindOrMake(Scope& s, const Shape& shape) {
  for (size_t k = s.values.size(); k > 0; --k) {
    if (s.values[k - 1]->shape() == shape && !random_.Chance(20)) return s.values[k - 1];
  }
  return Like(s, shape.element_type(), shape.dimensions());
}

std::vector<Value> Generator::ChooseValues(Scope& s, int most) {
  std::vector<Value> chosen;
  const int64_t count = random_.Between(1, most);
  for (int64_t k = 0; k < count; ++k) {
    if (const Value v = Any(s, Kind::kAny); v != nullptr) chosen.push_back(v);
  }
  return chosen;
}

Value Generator::Call(Scope& s) {
  const std::vector<Value> operands = ChooseValues(s, 3);
  std::vector<BoundedValue> bounded;
  for (const Value v : operands) bounded.push_back(GetBoundedValue(s, v));
  if (operands.empty()) return nullptr;
  std::unique_ptr<Scope> inner =
      MakeNestedScope(s, "callee", bounded, static_cast<int>(random_.Between(2, 6)), false, false);
  if (inner == nullptr) return nullptr;
  Value root = inner->values.back();
  if (random_.Chance(30)) {
    root = Add(*inner, inner->b.Tuple({root, random_.Pick(inner->values)}));
    if (root == nullptr) return nullptr;
  }
  absl::StatusOr<Computation*> callee = inner->b.Build(root);
  if (!callee.ok()) return nullptr;
  (*callee)->RemoveDead();
  if (random_.Chance(25)) return Add(s, hlo::CompositeCall(s.b, *callee, operands, "fuzz.callee"));
  return Add(s, s.b.Call(*callee, operands));
}

Value Generator::Quantized(Scope& s) {
  if (!options_.quantized) return nullptr;
  const QuantizedFunction function = DrawQuantizedFunction(random_);
  const std::vector<int64_t> dims = AnyDims(0, 3);
  std::vector<Value> arguments;
  for (size_t k = 0; k < function.arguments.size(); ++k) {
    arguments.push_back(Like(s, P::kF32, dims));
    if (arguments.back() == nullptr || HasNan(s, arguments.back())) return nullptr;
  }
  const std::string name = absl::StrCat("quantized_", program_.quantized.size());
  absl::StatusOr<Computation*> body = WriteFormulas(s.b.module(), name, function, dims);
  if (!body.ok() || (*body)->name() != name) return nullptr;
  program_.quantized[name] = function;
  return Add(s, s.b.Call(*body, arguments));
}

Value Generator::Fusion(Scope& s) {
  const std::vector<Value> operands = ChooseValues(s, 3);
  std::vector<BoundedValue> bounded;
  for (const Value v : operands) bounded.push_back(GetBoundedValue(s, v));
  if (operands.empty()) return nullptr;
  std::unique_ptr<Scope> inner =
      MakeNestedScope(s, "fused", bounded, static_cast<int>(random_.Between(2, 6)), true, false);
  if (inner == nullptr || inner->values.back()->Is(Opcode::kParameter)) return nullptr;
  absl::StatusOr<Computation*> fused = inner->b.Build(inner->values.back());
  if (!fused.ok()) return nullptr;
  (*fused)->RemoveDead();
  return Add(s, hlo::CreateFusion(s.b, FusionKind::kLoop, *fused, operands));
}

Value Generator::Async(Scope& s) {
  const std::vector<Value> operands = ChooseValues(s, 2);
  std::vector<BoundedValue> bounded;
  std::vector<Shape> shapes;
  for (const Value v : operands) {
    bounded.push_back(GetBoundedValue(s, v));
    shapes.push_back(v->shape().WithoutLayout());
  }
  if (operands.empty()) return nullptr;
  std::unique_ptr<Scope> inner =
      MakeNestedScope(s, "async", bounded, static_cast<int>(random_.Between(1, 3)), true, false);
  if (inner == nullptr || inner->values.back()->Is(Opcode::kParameter)) return nullptr;
  const Shape result = inner->values.back()->shape().WithoutLayout();
  absl::StatusOr<Computation*> body = inner->b.Build(inner->values.back());
  if (!body.ok()) return nullptr;
  (*body)->RemoveDead();
  const Shape state = Shape::Tuple({Shape::Tuple(shapes), result, Shape(P::kU32, {})});
  Value v = Add(s, s.b.Op(Opcode::kAsyncStart, operands, {}, {*body}, state));
  if (v != nullptr && random_.Chance(70)) v = Add(s, s.b.Op(Opcode::kAsyncUpdate, {v}, {}, {}, state));
  return v == nullptr ? nullptr : Add(s, s.b.Op(Opcode::kAsyncDone, {v}, {}, {}, result));
}

Value Generator::CopyAsync(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  const Shape shape = x->shape().WithoutLayout();
  const Value start = Add(s, s.b.Op(Opcode::kCopyStart, {x}, {}, {}, Shape::Tuple({shape, shape, Shape(P::kU32, {})})));
  return start == nullptr ? nullptr : Add(s, s.b.Op(Opcode::kCopyDone, {start}, {}, {}, shape));
}

// A loop with a counter and some state, with a trip count that is a constant or an argument.
Value Generator::While(Scope& s) {
  std::vector<Value> state = ChooseValues(s, 3);
  const Value zero = Add(s, s.b.Constant(Literal::ScalarInt(P::kS32, 0)));
  if (state.empty() || zero == nullptr) return nullptr;
  state.insert(state.begin(), zero);
  // The limit is a part of the state if it is known at run time only.
  const bool runtime = random_.Chance(40);
  const int64_t iterations = random_.Between(0, 5);
  if (runtime) {
    const Value limit = Index(s, 0, 5);
    if (limit == nullptr) return nullptr;
    state.insert(state.begin() + 1, limit);
  }
  std::vector<BoundedValue> bounded;
  for (const Value v : state) bounded.push_back(GetBoundedValue(s, v));
  std::unique_ptr<Scope> condition = MakeNestedScope(s, "condition", bounded, 0, false, true);
  if (condition == nullptr) return nullptr;
  const Value limit =
      runtime ? condition->values[1] : Add(*condition, condition->b.Constant(Literal::ScalarInt(P::kS32, iterations)));
  const Value go = Add(*condition, condition->b.Compare(condition->values[0], limit, ComparisonDirection::kLt));
  std::unique_ptr<Scope> body = MakeNestedScope(s, "body", bounded, 0, false, true);
  if (go == nullptr || body == nullptr) return nullptr;
  const std::vector<Value> before = body->values;
  const Value one = Add(*body, body->b.Constant(Literal::ScalarInt(P::kS32, 1)));
  const Value next = Add(*body, body->b.Binary(Opcode::kAdd, before[0], one));
  if (next == nullptr) return nullptr;
  const int steps = static_cast<int>(random_.Between(2, 6));
  for (int k = 0; k < steps; ++k) Step(*body);
  std::vector<Value> after = {next};
  if (runtime) after.push_back(before[1]);
  for (size_t k = after.size(); k < before.size(); ++k) {
    const Value v = FindOrMake(*body, before[k]->shape().WithoutLayout());
    if (v == nullptr) return nullptr;
    after.push_back(v);
  }
  const Value root = Add(*body, body->b.Tuple(after));
  if (root == nullptr) return nullptr;
  absl::StatusOr<Computation*> c = condition->b.Build(go), t = body->b.Build(root);
  const Value init = Add(s, s.b.Tuple(state));
  if (!c.ok() || !t.ok() || init == nullptr) return nullptr;
  (*t)->RemoveDead();
  return Add(s, s.b.While(*c, *t, init));
}

// The loop of a JAX scan: each iteration reads one row, adds it to the carry, and writes the carry to a row of the
// result.
Value Generator::LoopOverRows(Scope& s) {
  const Value x = Any(s, Kind::kReal, 1, 4);
  if (x == nullptr || x->shape().num_elements() == 0) return nullptr;
  const P type = x->shape().element_type();
  const int64_t rows = x->shape().dimensions(0);
  if (rows > 40) return nullptr;
  const std::vector<int64_t> dims(x->shape().dimensions().begin(), x->shape().dimensions().end());
  const std::vector<int64_t> rest(dims.begin() + 1, dims.end());
  const Value start = Like(s, type, rest), out = Constant(s, Shape(type, dims));
  const Value zero = Add(s, s.b.Constant(Literal::ScalarInt(P::kS32, 0)));
  if (start == nullptr || out == nullptr || zero == nullptr) return nullptr;
  const std::vector<Value> state = {zero, x, start, out};
  std::vector<BoundedValue> bounded;
  for (const Value v : state) bounded.push_back(GetBoundedValue(s, v));
  const bool backwards = random_.Chance(40);
  std::unique_ptr<Scope> condition = MakeNestedScope(s, "rows_left", bounded, 0, false, true);
  std::unique_ptr<Scope> body = MakeNestedScope(s, "row", bounded, 0, true, true);
  if (condition == nullptr || body == nullptr) return nullptr;
  const Value limit = Add(*condition, condition->b.Constant(Literal::ScalarInt(P::kS32, rows)));
  const Value go = Add(*condition, condition->b.Compare(condition->values[0], limit, ComparisonDirection::kLt));
  const Value i = body->values[0], one = Add(*body, body->b.Constant(Literal::ScalarInt(P::kS32, 1)));
  const Value next = Add(*body, body->b.Binary(Opcode::kAdd, i, one));
  Value at = i;
  if (backwards) {
    const Value last = Add(*body, body->b.Constant(Literal::ScalarInt(P::kS32, rows - 1)));
    at = Add(*body, body->b.Binary(Opcode::kSubtract, last, i));
  }
  if (go == nullptr || next == nullptr || at == nullptr) return nullptr;
  std::vector<Value> starts(dims.size(), Add(*body, body->b.Constant(Literal::ScalarInt(P::kS32, 0))));
  starts[0] = at;
  std::vector<int64_t> sizes = dims;
  sizes[0] = 1;
  const Value slice = Add(*body, hlo::DynamicSlice(body->b, body->values[1], starts, sizes));
  if (slice == nullptr) return nullptr;
  const Value row = Add(*body, body->b.Reshape(slice, rest));
  if (row == nullptr) return nullptr;
  Value carry =
      Add(*body, body->b.Binary(PickOne({Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum, Opcode::kSubtract}),
                                body->values[2], row));
  if (carry != nullptr && random_.Chance(40)) {
    carry = Add(*body, body->b.Unary(PickOne({Opcode::kNegate, Opcode::kAbs, Opcode::kTanh}), carry));
  }
  if (carry == nullptr) return nullptr;
  const Value as_row = Add(*body, body->b.Reshape(carry, sizes));
  if (as_row == nullptr) return nullptr;
  const Value written = Add(*body, hlo::DynamicUpdateSlice(body->b, body->values[3], as_row, starts));
  if (written == nullptr) return nullptr;
  const Value root = Add(*body, body->b.Tuple({next, body->values[1], carry, written})),
              init = Add(s, s.b.Tuple(state));
  if (root == nullptr || init == nullptr) return nullptr;
  absl::StatusOr<Computation*> c = condition->b.Build(go), t = body->b.Build(root);
  return c.ok() && t.ok() ? Add(s, s.b.While(*c, *t, init)) : nullptr;
}

Value Generator::Conditional(Scope& s) {
  const bool by_index = random_.Chance(50);
  const Value selector =
      by_index ? (random_.Chance(60) ? Index(s, -1, 3) : Like(s, P::kS32, {})) : Like(s, P::kPred, {});
  const std::vector<Value> wanted = ChooseValues(s, 2);  // the branches return values of their shapes
  if (selector == nullptr || wanted.empty()) return nullptr;
  const int64_t branches = by_index ? random_.Between(1, 3) : 2;
  std::vector<Computation*> computations;
  std::vector<Value> operands;
  for (int64_t k = 0; k < branches; ++k) {
    const std::vector<Value> given = ChooseValues(s, 3);
    std::vector<BoundedValue> bounded;
    for (const Value v : given) bounded.push_back(GetBoundedValue(s, v));
    if (given.empty()) return nullptr;
    std::unique_ptr<Scope> inner =
        MakeNestedScope(s, absl::StrCat("branch_", k), bounded, static_cast<int>(random_.Between(1, 5)), false, true);
    if (inner == nullptr) return nullptr;
    std::vector<Value> results;
    for (const Value w : wanted) {
      const Value v = FindOrMake(*inner, w->shape().WithoutLayout());
      if (v == nullptr) return nullptr;
      results.push_back(v);
    }
    const Value root = Add(*inner, inner->b.Tuple(results)), operand = Add(s, s.b.Tuple(given));
    if (root == nullptr || operand == nullptr) return nullptr;
    absl::StatusOr<Computation*> c = inner->b.Build(root);
    if (!c.ok()) return nullptr;
    (*c)->RemoveDead();
    computations.push_back(*c);
    operands.push_back(operand);
  }
  return Add(s, s.b.Conditional(selector, computations, operands));
}

Value Generator::Barrier(Scope& s) {
  const std::vector<Value> values = ChooseValues(s, 3);
  if (values.empty()) return nullptr;
  if (values.size() == 1) return Add(s, hlo::OptimizationBarrier(s.b, values[0]));
  const Value tuple = Add(s, s.b.Tuple(values));
  return tuple == nullptr ? nullptr : Add(s, hlo::OptimizationBarrier(s.b, tuple));
}

Value Generator::Dependency(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  const Value token = Add(s, hlo::AfterAll(s.b, {}));
  if (x == nullptr || token == nullptr) return nullptr;
  return Add(s, hlo::AddDependency(s.b, x, token));
}

Value Generator::Domain(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  return x == nullptr ? nullptr : Add(s, hlo::CreateDomain(s.b, x, Sharding{}, Sharding{}));
}

Value Generator::DeviceId(Scope& s) {
  if (several() && s.depth > 0) return nullptr;  // devices.h
  const Opcode op = PickOne({Opcode::kPartitionId, Opcode::kReplicaId});
  return Add(s, s.b.Op(op, {}, {}, {}, Shape(P::kU32, {})));
}

}  // namespace backplane::cli::fuzz
