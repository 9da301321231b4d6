// Control flow in batches, and the loop over the batch for operations without a batched form.
#include "core/passes/batcher.h"

#include "absl/strings/str_cat.h"
#include "core/passes/loop_builder.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

absl::StatusOr<Value> MakeZeros(Builder& b, const Shape& shape) {
  if (!shape.IsTuple()) return Fill(b, shape.element_type(), 0, shape.dimensions());
  std::vector<Value> elements;
  for (const Shape& s : shape.tuple_shapes()) {
    ASSIGN_OR_RETURN(Value e, MakeZeros(b, s));
    elements.push_back(e);
  }
  return b.Tuple(std::move(elements));
}

}  // namespace

bool ContainsLoop(const Computation& c) {
  return std::any_of(c.instructions().begin(), c.instructions().end(), [](const auto& i) {
    return i->Is(Opcode::kWhile) || std::any_of(i->called().begin(), i->called().end(),
                                                [](const Computation* called) { return ContainsLoop(*called); });
  });
}

absl::StatusOr<Value> CallIf(Builder& b, Value active, Computation* c, std::vector<Value> arguments) {
  ASSIGN_OR_RETURN(Value all, b.Tuple(arguments));
  Builder active_branch(b.module(), "active");
  ASSIGN_OR_RETURN(Value p, active_branch.Parameter(0, all->shape()));
  std::vector<Value> parts;
  for (size_t k = 0; k < arguments.size(); ++k) {
    ASSIGN_OR_RETURN(Value e, active_branch.GetTupleElement(p, static_cast<int64_t>(k)));
    parts.push_back(e);
  }
  ASSIGN_OR_RETURN(Value result, active_branch.Call(c, std::move(parts)));
  ASSIGN_OR_RETURN(Computation * yes, active_branch.Build(result));
  Builder skipped(b.module(), "inactive");
  RETURN_IF_ERROR(skipped.Parameter(0, all->shape()).status());
  ASSIGN_OR_RETURN(Value zeros, MakeZeros(skipped, c->root()->shape()));
  ASSIGN_OR_RETURN(Computation * no, skipped.Build(zeros));
  return b.Conditional(active, {yes, no}, {all, all});
}

absl::StatusOr<Value> Batcher::SelectByCall(Value mask, Value yes, Value no) {
  ASSIGN_OR_RETURN(mask, b_.BroadcastInDim(mask, yes->shape().dimensions(), {0}));
  return b_.Select(mask, yes, no);
}

absl::StatusOr<BatchedValue> Batcher::SelectTree(Value mask, const BatchedValue& yes, const BatchedValue& no) {
  BatchedValue r;
  if (!yes.is_tuple) {
    ASSIGN_OR_RETURN(Value a, BroadcastOverBatch(yes));
    ASSIGN_OR_RETURN(Value c, BroadcastOverBatch(no));
    ASSIGN_OR_RETURN(r.value, SelectByCall(mask, a, c));
    r.is_batched = true;
    return r;
  }
  r.is_tuple = true;
  for (size_t k = 0; k < yes.elements.size(); ++k) {
    ASSIGN_OR_RETURN(BatchedValue part, SelectTree(mask, yes.elements[k], no.elements[k]));
    r.elements.push_back(std::move(part));
  }
  return r;
}

absl::StatusOr<BatchedValue> Batcher::Conditional(const Instruction& i, const std::vector<BatchedValue>& x) {
  // A loop in a branch that is not selected may not terminate.
  for (const Computation* c : i.called()) {
    if (ContainsLoop(*c)) return LoopOverBatch(i, x);
  }
  ASSIGN_OR_RETURN(Value selector, BroadcastOverBatch(x[0]));
  const bool pred = selector->shape().element_type() == PrimitiveType::kPred;
  const size_t n = i.called().size();
  ASSIGN_OR_RETURN(BatchedValue result, Run(*i.called(static_cast<int64_t>(n) - 1), {x[n]}));
  for (size_t k = n - 1; k-- > 0;) {
    ASSIGN_OR_RETURN(BatchedValue taken, Run(*i.called(static_cast<int64_t>(k)), {x[k + 1]}));
    Value mine = selector;
    if (!pred) {
      ASSIGN_OR_RETURN(Value number,
                       b_.Constant(Literal::ScalarInt(selector->shape().element_type(), static_cast<int64_t>(k))));
      ASSIGN_OR_RETURN(number, b_.BroadcastInDim(number, {n_}, {}));
      ASSIGN_OR_RETURN(mine, b_.Compare(selector, number, ComparisonDirection::kEq));
    }
    ASSIGN_OR_RETURN(result, SelectTree(mine, taken, result));
  }
  return result;
}

BatchedValue Batcher::RebuildTree(const BatchedValue& like, const std::vector<Value>& leaves, size_t& next,
                                  bool is_batched) {
  BatchedValue r;
  r.is_tuple = like.is_tuple;
  if (!like.is_tuple) {
    r.value = leaves[next++];
    r.is_batched = is_batched;
  }
  for (const BatchedValue& p : like.elements) r.elements.push_back(RebuildTree(p, leaves, next, is_batched));
  return r;
}

absl::StatusOr<BatchedValue> Batcher::While(const Instruction& i, const BatchedValue& initial) {
  std::vector<Value> leaves;
  RETURN_IF_ERROR(BroadcastLeaves(initial, leaves));
  auto continues = [&](Builder& b, const std::vector<Value>& state) -> absl::StatusOr<Value> {
    Batcher batcher(b, n_);
    size_t next = 0;
    ASSIGN_OR_RETURN(BatchedValue more, batcher.Run(*i.called(0), {RebuildTree(initial, state, next, true)}));
    return batcher.BroadcastOverBatch(more);
  };
  ASSIGN_OR_RETURN(Value running, continues(b_, leaves));
  if (active_ != nullptr) {
    ASSIGN_OR_RETURN(running, b_.Binary(Opcode::kAnd, running, active_));
  }
  std::vector<Value> all = {running};
  all.insert(all.end(), leaves.begin(), leaves.end());
  ASSIGN_OR_RETURN(Value init, b_.Tuple(all));
  const Shape tuple = init->shape();
  auto unpack = [&](Builder& b, Value p) -> absl::StatusOr<std::vector<Value>> {
    std::vector<Value> parts;
    for (int64_t k = 0; k < tuple.tuple_size(); ++k) {
      ASSIGN_OR_RETURN(Value e, b.GetTupleElement(p, k));
      parts.push_back(e);
    }
    return parts;
  };

  Builder condition(b_.module(), "any_active");
  ASSIGN_OR_RETURN(Value p, condition.Parameter(0, tuple));
  ASSIGN_OR_RETURN(Value flags, condition.GetTupleElement(p, 0));
  ASSIGN_OR_RETURN(Value none, Fill(condition, PrimitiveType::kPred, 0, {}));
  ASSIGN_OR_RETURN(Computation * either, MakeScalarBinaryComputation(b_.module(), Opcode::kOr, PrimitiveType::kPred));
  const int64_t first[] = {0};
  ASSIGN_OR_RETURN(Value any, condition.Reduce({flags}, {none}, either, first));
  ASSIGN_OR_RETURN(Computation * condition_done, condition.Build(any));

  Builder loop_body(b_.module(), "loop_body");
  ASSIGN_OR_RETURN(p, loop_body.Parameter(0, tuple));
  ASSIGN_OR_RETURN(std::vector<Value> now, unpack(loop_body, p));
  Batcher batcher(loop_body, n_);
  size_t next = 0;
  const std::vector<Value> state(now.begin() + 1, now.end());
  ASSIGN_OR_RETURN(BatchedValue after, batcher.Run(*i.called(1), {RebuildTree(initial, state, next, true)}));
  std::vector<Value> next_state;
  RETURN_IF_ERROR(batcher.BroadcastLeaves(after, next_state));
  for (size_t k = 0; k < next_state.size(); ++k) {
    ASSIGN_OR_RETURN(next_state[k], batcher.SelectByCall(now[0], next_state[k], state[k]));
  }
  ASSIGN_OR_RETURN(Value still, continues(loop_body, next_state));
  ASSIGN_OR_RETURN(still, loop_body.Binary(Opcode::kAnd, still, now[0]));
  next_state.insert(next_state.begin(), still);
  ASSIGN_OR_RETURN(Value root, loop_body.Tuple(next_state));
  ASSIGN_OR_RETURN(Computation * body_done, loop_body.Build(root));

  ASSIGN_OR_RETURN(Value loop, b_.While(condition_done, body_done, init));
  ASSIGN_OR_RETURN(std::vector<Value> results, unpack(b_, loop));
  results.erase(results.begin());
  next = 0;
  return RebuildTree(initial, results, next, true);
}

absl::StatusOr<BatchedValue> Batcher::LoopOverBatch(const Instruction& i, const std::vector<BatchedValue>& x) {
  std::vector<Value> leaves;
  for (const BatchedValue& o : x) RETURN_IF_ERROR(BroadcastLeaves(o, leaves));
  if (active_ != nullptr) leaves.push_back(active_);
  std::vector<Value> results;
  absl::Status shapes;
  ForEachLeaf(i.shape(), [&](const Shape& s, const std::vector<int64_t>&) {
    if (!s.IsArray()) {
      shapes = absl::UnimplementedError(absl::StrCat(i.name(), ": ", s.ToString(), " inside a called computation"));
      return;
    }
    absl::StatusOr<Value> empty = Fill(b_, s.element_type(), 0, WithBatchDimension(s.dimensions()));
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
  auto iterate = [&](LoopIteration& it) -> absl::StatusOr<Value> {
    ASSIGN_OR_RETURN(Value zero, IndexConstant(it.b, 0));
    ASSIGN_OR_RETURN(Value one, IndexConstant(it.b, 1));
    std::vector<Value> mine;
    for (Value v : it.constants) {
      DimVector sizes = v->shape().dimensions(), rest(sizes.begin() + 1, sizes.end());
      sizes[0] = 1;
      ASSIGN_OR_RETURN(Value part, SliceAt(it.b, v, starts(v, it.count, zero), sizes));
      ASSIGN_OR_RETURN(part, it.b.Reshape(part, rest));
      mine.push_back(part);
    }
    std::vector<BatchedValue> operands;
    size_t next = 0;
    for (const BatchedValue& o : x) operands.push_back(RebuildTree(o, mine, next, false));
    Value result = nullptr;
    if (active_ == nullptr) {
      ASSIGN_OR_RETURN(result, CloneUnbatched(it.b, i, operands));
    } else {
      // Wraps the instruction in a computation whose parameters are the leaves of its operands.
      Builder single_call(it.b.module(), "single_call");
      std::vector<Value> inner;
      for (size_t k = 0; k + 1 < mine.size(); ++k) {
        ASSIGN_OR_RETURN(Value p, single_call.Parameter(static_cast<int64_t>(k), mine[k]->shape()));
        inner.push_back(p);
      }
      std::vector<BatchedValue> own;
      size_t first = 0;
      for (const BatchedValue& o : x) own.push_back(RebuildTree(o, inner, first, false));
      ASSIGN_OR_RETURN(Value root, CloneUnbatched(single_call, i, own));
      ASSIGN_OR_RETURN(Computation * c, single_call.Build(root));
      ASSIGN_OR_RETURN(result, CallIf(it.b, mine.back(), c, {mine.begin(), mine.end() - 1}));
    }
    ASSIGN_OR_RETURN(BatchedValue parts, UnpackTuple(it.b, result, false));
    size_t at = 0;
    auto store = [&](auto& self, const BatchedValue& part) -> absl::Status {
      if (part.is_tuple) {
        for (const BatchedValue& p : part.elements) RETURN_IF_ERROR(self(self, p));
        return absl::OkStatus();
      }
      Value& into = it.state[at++];
      DimVector sizes = into->shape().dimensions();
      sizes[0] = 1;
      ASSIGN_OR_RETURN(Value v, it.b.Reshape(part.value, sizes));
      ASSIGN_OR_RETURN(into, UpdateAt(it.b, into, v, starts(into, it.count, zero)));
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(store(store, parts));
    return it.b.Binary(Opcode::kAdd, it.count, one);
  };
  ASSIGN_OR_RETURN(std::vector<Value> after, MakeLoop(b_, "batch", limit, leaves, results, iterate));
  // Rebuilds the tuple structure of the result.
  size_t next = 0;
  auto tree = [&](auto& self, const Shape& s) -> BatchedValue {
    if (!s.IsTuple()) return MakeBatched(after[next++]);
    BatchedValue r;
    r.is_tuple = true;
    for (const Shape& e : s.tuple_shapes()) r.elements.push_back(self(self, e));
    return r;
  };
  return tree(tree, i.shape());
}

}  // namespace backplane
