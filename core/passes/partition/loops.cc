// While loops with sharded state.
//
// Any tiling of the state is correct: a body that needs the full value gathers it and slices its result. RewriteLoop
// searches for a good tiling by partitioning copies of the body. Each element of the state starts with the tiling of
// its initial value. If the body gathers an element, the element becomes replicated. If the body yields shards of a
// replicated element, the element takes their tiling. A trial run of the module records which tilings the users
// of the results request (PartitionContext::requested_loop_tilings).
//
// An element stays partial (unreduced) if the body yields partial sums again and does not use the element otherwise. It
// is reduced after the loop. An element that begins as zeros, as the array in which a scan collects gradients, is
// partial if the body adds or writes partial values to it.
#include "core/passes/order_effects.h"
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Limits the attempts in nested loops, where the costs multiply.
int GetMaxAttempts(int depth) { return depth == 0 ? 4 : depth == 1 ? 3 : 1; }

std::vector<Instruction*> CollectElements(Computation* c, Instruction* tuple) {
  if (tuple->Is(Opcode::kTuple)) return {tuple->operands().begin(), tuple->operands().end()};
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < tuple->shape().tuple_size(); ++k) elements.push_back(MakeElement(c, tuple, k));
  return elements;
}

absl::flat_hash_set<const Instruction*> CollectLive(const Computation* c) {
  absl::flat_hash_set<const Instruction*> live;
  std::vector<const Instruction*> worklist;
  for (const auto& i : c->instructions()) {
    if (i.get() == c->root() || i->HasSideEffect()) worklist.push_back(i.get());
  }
  while (!worklist.empty()) {
    const Instruction* i = worklist.back();
    worklist.pop_back();
    if (!live.insert(i).second) continue;
    for (const Instruction* o : i->operands()) worklist.push_back(o);
  }
  return live;
}

}  // namespace

absl::Status Partitioner::RewriteCalledComputations(Instruction* i) {
  for (Computation* called : i->called())
    RETURN_IF_ERROR(Partitioner(called, &context_, depth_ + 1).Rewrite().status());
  return absl::OkStatus();
}

absl::Status Partitioner::RewriteLoop(Instruction* loop) {
  if (!loop->shape().IsTuple()) return RewriteCalledComputations(loop);
  const size_t n = static_cast<size_t>(loop->shape().tuple_size());
  std::vector<Instruction*> initial = CollectElements(c_, loop->operand(0));
  std::vector<Tiling> tilings;
  std::vector<std::optional<Tiling>> partial_tilings(n);  // of partial elements; overrides `tilings`
  std::vector<bool> is_final(n, false), may_become_partial(n, false);
  for (size_t k = 0; k < n; ++k) {
    const Shape& shape = loop->shape().tuple_shapes(static_cast<int64_t>(k));
    const Shards* known = shape.IsArray() ? FindShards(initial[k]) : nullptr;
    auto requested = context_.requested_loop_tilings.find({loop->name(), static_cast<int64_t>(k)});
    const Tiling* propagated = depth_ == 0 ? context_.FindPropagated(loop, static_cast<int64_t>(k)) : nullptr;
    if (known == nullptr && shape.IsArray() && propagated != nullptr) {
      tilings.push_back(*propagated);
    } else if (known == nullptr && shape.IsArray() && depth_ == 0 &&
               requested != context_.requested_loop_tilings.end()) {
      tilings.push_back(requested->second);
    } else {
      tilings.push_back(known != nullptr ? known->tiling
                                         : Tiling::Replicated(shape.IsArray() ? shape.rank() : 0, partitions_));
    }
    is_final[k] = !shape.IsArray();
    if (const Shards* partial = shape.IsArray() ? FindPartial(initial[k]) : nullptr)
      partial_tilings[k] = partial->tiling;
    may_become_partial[k] = shape.IsArray() && !partial_tilings[k] && IsZero(initial[k]);
  }
  const int attempts = GetMaxAttempts(depth_);
  if (attempts == 1) return RewriteCalledComputations(loop);

  Shape state;
  Computation* condition = nullptr;
  Computation* body = nullptr;
  for (int attempt = 1; attempt <= attempts; ++attempt) {
    std::vector<Shape> shapes;
    for (size_t k = 0; k < n; ++k) {
      const Shape& full = loop->shape().tuple_shapes(static_cast<int64_t>(k));
      const Tiling tiling = partial_tilings[k] ? DropPartialDim(*partial_tilings[k]) : tilings[k];
      shapes.push_back(tiling.IsReplicated() ? full.WithoutLayout() : tiling.ShardShape(full));
    }
    state = Shape::Tuple(shapes);
    condition = context_.module->CloneComputation(loop->called(0));
    body = context_.module->CloneComputation(loop->called(1));
    std::vector<bool> needs_full(n, false), yields_partial(n, false);
    std::vector<std::optional<Tiling>> yields_tiling(n), adds_partial(n);
    for (Computation* c : {condition, body}) {
      context_.MarkManual(c, false);
      Partitioner inner(c, &context_, depth_ + 1);
      Instruction* parameter = c->parameter(0);
      const std::vector<Instruction*> users(parameter->users().begin(), parameter->users().end());
      parameter->mutable_shape() = state;
      std::vector<Instruction*> element(n, nullptr), full(n, nullptr);
      for (size_t k = 0; k < n; ++k) {
        element[k] = MakeElement(c, parameter, static_cast<int64_t>(k));
        if (partial_tilings[k]) {
          ASSIGN_OR_RETURN(full[k], inner.ReducePartial({element[k], *partial_tilings[k]}, nullptr));
          inner.partial_[full[k]] = {element[k], *partial_tilings[k]};
          continue;
        }
        full[k] = tilings[k].IsReplicated() ? element[k] : inner.AllGather({element[k], tilings[k]}, nullptr);
        if (full[k] != element[k]) inner.shards_[full[k]] = {element[k], tilings[k]};
      }
      Instruction* tuple = nullptr;
      for (Instruction* u : users) {
        if (u->Is(Opcode::kGetTupleElement)) {
          u->ReplaceAllUsesWith(full[static_cast<size_t>(u->tuple_index())]);
          continue;
        }
        if (tuple == nullptr) tuple = Make(c, parameter, Opcode::kTuple, loop->shape().WithoutLayout(), full);
        inner.ReplaceUses(parameter, tuple, {u});
      }
      if (c->root() == parameter) c->set_root(Make(c, parameter, Opcode::kTuple, loop->shape().WithoutLayout(), full));
      c->SortTopologically();
      RETURN_IF_ERROR(inner.Rewrite().status());
      if (c == body) {
        std::vector<Instruction*> results = CollectElements(c, c->root());
        for (size_t k = 0; k < n; ++k) {
          if (partial_tilings[k]) {
            yields_partial[k] = inner.IsImplicitlyPartial(results[k], *partial_tilings[k]);
            ASSIGN_OR_RETURN(results[k], inner.ReshardToPartial(results[k], *partial_tilings[k]));
            continue;
          }
          if (may_become_partial[k]) {
            absl::flat_hash_set<const Instruction*> seen;
            adds_partial[k] = inner.FindPartialSummand(results[k], seen);
          }
          if (const Shards* s = inner.FindShards(results[k])) yields_tiling[k] = s->tiling;
          ASSIGN_OR_RETURN(results[k], inner.ReshardTo(results[k], tilings[k]));
        }
        c->set_root(Make(c, nullptr, Opcode::kTuple, state, results));
      }
      c->RemoveDead();
      RETURN_IF_ERROR(inner.RemoveReplaced());
      const absl::flat_hash_set<const Instruction*> live = CollectLive(c);
      for (size_t k = 0; k < n; ++k) {
        if (full[k] != element[k] && live.contains(full[k])) needs_full[k] = true;
      }
      c->SortTopologically();
    }
    bool retry = false;
    for (size_t k = 0; k < n && attempt < attempts; ++k) {
      const Shape& shape = loop->shape().tuple_shapes(static_cast<int64_t>(k));
      if (is_final[k]) continue;
      if (partial_tilings[k]) {
        if (yields_partial[k] && !needs_full[k]) continue;
        partial_tilings[k].reset();
        retry = true;
      } else if (adds_partial[k] && adds_partial[k]->rank() == shape.rank() + 1 &&
                 DropPartialDim(*adds_partial[k]).Divides(shape) &&
                 attempt + 1 < attempts) {  // the next attempt tells whether the body yields it
        partial_tilings[k] = adds_partial[k];
        may_become_partial[k] = false;
        retry = true;
      } else if (!tilings[k].IsReplicated() && needs_full[k]) {
        tilings[k] = Tiling::Replicated(shape.rank(), partitions_);
        is_final[k] = retry = true;
      } else if (tilings[k].IsReplicated() && yields_tiling[k] && yields_tiling[k]->Divides(shape)) {
        tilings[k] = *yields_tiling[k];
        retry = true;
      }
    }
    if (!retry) break;
  }

  for (size_t k = 0; k < n; ++k) {
    if (partial_tilings[k]) {
      ASSIGN_OR_RETURN(initial[k], ReshardToPartial(initial[k], *partial_tilings[k]));
    } else if (initial[k]->shape().IsArray()) {
      ASSIGN_OR_RETURN(initial[k], ReshardTo(initial[k], tilings[k]));
    }
  }
  const std::vector<Instruction*> users(loop->users().begin(), loop->users().end());
  Instruction* initial_tuple = AddOp(loop, Opcode::kTuple, state, initial);
  Instruction* new_loop = c_->AddClone(loop, state, {initial_tuple});
  MoveControlDependencies(loop, new_loop);
  new_loop->set_called(0, condition);
  new_loop->set_called(1, body);
  std::vector<Instruction*> results;
  for (size_t k = 0; k < n; ++k) {
    Instruction* element = MakeElement(c_, new_loop, static_cast<int64_t>(k));
    if (partial_tilings[k]) {
      ASSIGN_OR_RETURN(Instruction * sum, ReducePartial({element, *partial_tilings[k]}, loop));
      partial_[sum] = {element, *partial_tilings[k]};
      results.push_back(sum);
      continue;
    }
    results.push_back(tilings[k].IsReplicated() ? element : AllGather({element, tilings[k]}, loop));
    if (results[k] != element) {
      shards_[results[k]] = {element, tilings[k]};
    } else {
      replicated_loop_results_[element] = {loop->name(), static_cast<int64_t>(k)};
    }
  }
  Instruction* tuple = nullptr;
  for (Instruction* u : users) {
    if (u->Is(Opcode::kGetTupleElement)) {
      u->ReplaceAllUsesWith(results[static_cast<size_t>(u->tuple_index())]);
      continue;
    }
    if (tuple == nullptr) tuple = AddOp(loop, Opcode::kTuple, loop->shape().WithoutLayout(), results);
    ReplaceUses(loop, tuple, {u});
  }
  if (c_->root() == loop) c_->set_root(AddOp(loop, Opcode::kTuple, loop->shape().WithoutLayout(), results));
  if (loop->HasSideEffect()) replaced_.push_back(loop);  // the new loop has the side effects now
  return absl::OkStatus();
}

}  // namespace backplane
