// Loops and branches of many calls at once, and what has no other way than call by call.
#include "core/passes/batcher.h"

#include "absl/strings/str_cat.h"
#include "core/passes/loop_builder.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::StatusOr<Value> ZerosOf(Builder& b, const Shape& shape) {
  if (!shape.IsTuple()) return Fill(b, shape.element_type(), 0, shape.dimensions());
  std::vector<Value> elements;
  for (const Shape& s : shape.tuple_shapes()) {
    ASSIGN_OR_RETURN(Value e, ZerosOf(b, s));
    elements.push_back(e);
  }
  return b.Tuple(std::move(elements));
}

}  // namespace

bool HoldsLoop(const Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
    return i->Is(Opcode::kWhile) || std::any_of(i->called().begin(), i->called().end(),
                                                [](const Computation* called) { return HoldsLoop(*called); });
  });
}

absl::StatusOr<Value> CallWhere(Builder& b, Value active, Computation* c, std::vector<Value> arguments) {
  ASSIGN_OR_RETURN(Value all, b.Tuple(arguments));
  Builder taken(b.module(), "active");
  ASSIGN_OR_RETURN(Value p, taken.Parameter(0, all->shape()));
  std::vector<Value> parts;
  for (size_t k = 0; k < arguments.size(); ++k) {
    ASSIGN_OR_RETURN(Value e, taken.GetTupleElement(p, static_cast<int64_t>(k)));
    parts.push_back(e);
  }
  ASSIGN_OR_RETURN(Value result, taken.Call(c, std::move(parts)));
  ASSIGN_OR_RETURN(Computation * yes, taken.Build(result));
  Builder skipped(b.module(), "inactive");
  RETURN_IF_ERROR(skipped.Parameter(0, all->shape()).status());
  ASSIGN_OR_RETURN(Value zeros, ZerosOf(skipped, c->root()->shape()));
  ASSIGN_OR_RETURN(Computation * no, skipped.Build(zeros));
  return b.Conditional(active, {yes, no}, {all, all});
}

absl::StatusOr<Value> Batcher::SelectEach(Value mask, Value yes, Value no) {
  ASSIGN_OR_RETURN(mask, b_.BroadcastInDim(mask, yes->shape().dimensions(), {0}));
  return b_.Select(mask, yes, no);
}

absl::StatusOr<Lanes> Batcher::Choose(Value mask, const Lanes& yes, const Lanes& no) {
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

absl::StatusOr<Lanes> Batcher::Conditional(const Instruction& i, const std::vector<Lanes>& x) {
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

Lanes Batcher::Rebuilt(const Lanes& like, const std::vector<Value>& leaves, size_t& next, bool each) {
  Lanes r;
  r.tuple = like.tuple;
  if (!like.tuple) {
    r.value = leaves[next++];
    r.each = each;
  }
  for (const Lanes& p : like.parts) r.parts.push_back(Rebuilt(p, leaves, next, each));
  return r;
}

absl::StatusOr<Lanes> Batcher::While(const Instruction& i, const Lanes& initial) {
  std::vector<Value> leaves;
  RETURN_IF_ERROR(SpreadLeaves(initial, leaves));
  auto wanted = [&](Builder& b, const std::vector<Value>& state) -> absl::StatusOr<Value> {
    Batcher inside(b, n_);
    size_t next = 0;
    ASSIGN_OR_RETURN(Lanes more, inside.Run(*i.called(0), {Rebuilt(initial, state, next, true)}));
    return inside.Spread(more);
  };
  ASSIGN_OR_RETURN(Value running, wanted(b_, leaves));
  if (active_ != nullptr) {
    ASSIGN_OR_RETURN(running, b_.Binary(Opcode::kAnd, running, active_));
  }
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

absl::StatusOr<Lanes> Batcher::OneByOne(const Instruction& i, const std::vector<Lanes>& x) {
  std::vector<Value> leaves;
  for (const Lanes& o : x) RETURN_IF_ERROR(SpreadLeaves(o, leaves));
  if (active_ != nullptr) leaves.push_back(active_);
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
  ASSIGN_OR_RETURN(Value limit, IndexConstant(b_, n_));
  auto starts = [](Value v, Value at, Value zero) {
    std::vector<Value> r(static_cast<size_t>(v->shape().rank()), zero);
    r[0] = at;
    return r;
  };
  auto turn = [&](LoopTurn& t) -> absl::StatusOr<Value> {
    ASSIGN_OR_RETURN(Value zero, IndexConstant(t.b, 0));
    ASSIGN_OR_RETURN(Value one, IndexConstant(t.b, 1));
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
    Value made = nullptr;
    if (active_ == nullptr) {
      ASSIGN_OR_RETURN(made, Again(t.b, i, operands));
    } else {
      // The instruction as a computation of its leaves.
      Builder alone(t.b.module(), "alone");
      std::vector<Value> inner;
      for (size_t k = 0; k + 1 < mine.size(); ++k) {
        ASSIGN_OR_RETURN(Value p, alone.Parameter(static_cast<int64_t>(k), mine[k]->shape()));
        inner.push_back(p);
      }
      std::vector<Lanes> own;
      size_t first = 0;
      for (const Lanes& o : x) own.push_back(Rebuilt(o, inner, first, false));
      ASSIGN_OR_RETURN(Value root, Again(alone, i, own));
      ASSIGN_OR_RETURN(Computation * c, alone.Build(root));
      ASSIGN_OR_RETURN(made, CallWhere(t.b, mine.back(), c, {mine.begin(), mine.end() - 1}));
    }
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

}  // namespace backplane
