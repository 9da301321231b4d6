// Loops whose state lies as shards from turn to turn.
//
// Any way for an element of the state to lie is right: a body that needs the whole gathers it, and slices what it hands
// on. What is good is found by trying, on copies of the body: elements begin as their initial values lie; one that the
// body then gathers is kept whole; one that the body leaves split, though it began whole, is split from the start. How
// what comes after a loop wants its results is known only on a second run (PartitionContext::wanted).
//
// Elements that are still to be added up over some partitions stay so where the body hands on such a sum again and has
// no other use for it; they are added up behind the loop.
#include "core/passes/partition/partitioner.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// A loop in a loop in a loop would be tried many times over.
int Attempts(int depth) { return depth == 0 ? 4 : depth == 1 ? 3 : 1; }

std::vector<Instruction*> Elements(Computation* c, Instruction* tuple) {
  if (tuple->Is(Opcode::kTuple)) return {tuple->operands().begin(), tuple->operands().end()};
  std::vector<Instruction*> elements;
  for (int64_t k = 0; k < tuple->shape().tuple_size(); ++k) elements.push_back(MakeElement(c, tuple, k));
  return elements;
}

absl::flat_hash_set<const Instruction*> Live(const Computation* c) {
  absl::flat_hash_set<const Instruction*> live;
  std::vector<const Instruction*> open;
  for (const auto& i : c->instructions()) {
    if (i.get() == c->root() || i->HasSideEffect()) open.push_back(i.get());
  }
  while (!open.empty()) {
    const Instruction* i = open.back();
    open.pop_back();
    if (!live.insert(i).second) continue;
    for (const Instruction* o : i->operands()) open.push_back(o);
  }
  return live;
}

}  // namespace

absl::Status Partitioner::RewriteCalled(Instruction* i) {
  for (Computation* called : i->called())
    RETURN_IF_ERROR(Partitioner(called, &context_, depth_ + 1).Rewrite().status());
  return absl::OkStatus();
}

absl::Status Partitioner::RewriteLoop(Instruction* loop) {
  if (!loop->shape().IsTuple()) return RewriteCalled(loop);
  const size_t n = static_cast<size_t>(loop->shape().tuple_size());
  std::vector<Instruction*> initial = Elements(c_, loop->operand(0));
  std::vector<Tiling> tilings;
  std::vector<std::optional<Tiling>> parts(n);  // in their place
  std::vector<bool> settled(n, false);
  for (size_t k = 0; k < n; ++k) {
    const Shape& shape = loop->shape().tuple_shapes(static_cast<int64_t>(k));
    const Shards* known = shape.IsArray() ? FindShards(initial[k]) : nullptr;
    auto wanted = context_.wanted.find({loop->name(), static_cast<int64_t>(k)});
    const Tiling* proposed = depth_ == 0 ? context_.Proposed(loop, static_cast<int64_t>(k)) : nullptr;
    if (known == nullptr && shape.IsArray() && proposed != nullptr) {
      tilings.push_back(*proposed);
    } else if (known == nullptr && shape.IsArray() && depth_ == 0 && wanted != context_.wanted.end()) {
      tilings.push_back(wanted->second);
    } else {
      tilings.push_back(known != nullptr ? known->tiling
                                         : Tiling::Whole(shape.IsArray() ? shape.rank() : 0, partitions_));
    }
    settled[k] = !shape.IsArray();
    if (const Shards* partial = shape.IsArray() ? FindPartial(initial[k]) : nullptr) parts[k] = partial->tiling;
  }
  const int attempts = Attempts(depth_);
  if (attempts == 1) return RewriteCalled(loop);

  Shape state;
  Computation* condition = nullptr;
  Computation* body = nullptr;
  for (int attempt = 1; attempt <= attempts; ++attempt) {
    std::vector<Shape> shapes;
    for (size_t k = 0; k < n; ++k) {
      const Shape& whole = loop->shape().tuple_shapes(static_cast<int64_t>(k));
      const Tiling tiling = parts[k] ? TilesOfParts(*parts[k]) : tilings[k];
      shapes.push_back(tiling.IsWhole() ? whole.WithoutLayout() : tiling.ShardOf(whole));
    }
    state = Shape::Tuple(shapes);
    condition = context_.module->CloneComputation(loop->called(0));
    body = context_.module->CloneComputation(loop->called(1));
    std::vector<bool> needs_whole(n, false), leaves_sum(n, false);
    std::vector<std::optional<Tiling>> leaves_as(n);
    for (Computation* c : {condition, body}) {
      context_.MarkManual(c, false);
      Partitioner inner(c, &context_, depth_ + 1);
      Instruction* parameter = c->parameter(0);
      const std::vector<Instruction*> users(parameter->users().begin(), parameter->users().end());
      parameter->mutable_shape() = state;
      std::vector<Instruction*> element(n, nullptr), whole(n, nullptr);
      for (size_t k = 0; k < n; ++k) {
        element[k] = MakeElement(c, parameter, static_cast<int64_t>(k));
        if (parts[k]) {
          ASSIGN_OR_RETURN(whole[k], inner.SumParts({element[k], *parts[k]}, nullptr));
          inner.partial_[whole[k]] = {element[k], *parts[k]};
          continue;
        }
        whole[k] = tilings[k].IsWhole() ? element[k] : inner.Gather({element[k], tilings[k]}, nullptr);
        if (whole[k] != element[k]) inner.shards_[whole[k]] = {element[k], tilings[k]};
      }
      Instruction* all = nullptr;
      for (Instruction* u : users) {
        if (u->Is(Opcode::kGetTupleElement)) {
          u->ReplaceAllUsesWith(whole[static_cast<size_t>(u->tuple_index())]);
          continue;
        }
        if (all == nullptr) all = Make(c, parameter, Opcode::kTuple, loop->shape().WithoutLayout(), whole);
        inner.Redirect(parameter, all, {u});
      }
      if (c->root() == parameter) c->set_root(Make(c, parameter, Opcode::kTuple, loop->shape().WithoutLayout(), whole));
      c->SortTopologically();
      RETURN_IF_ERROR(inner.Rewrite().status());
      if (c == body) {
        std::vector<Instruction*> results = Elements(c, c->root());
        for (size_t k = 0; k < n; ++k) {
          if (parts[k]) {
            leaves_sum[k] = inner.IsInParts(results[k], *parts[k], 0);
            ASSIGN_OR_RETURN(results[k], inner.PartialTo(results[k], *parts[k]));
            continue;
          }
          if (const Shards* s = inner.FindShards(results[k])) leaves_as[k] = s->tiling;
          ASSIGN_OR_RETURN(results[k], inner.SliceTo(results[k], tilings[k]));
        }
        c->set_root(Make(c, nullptr, Opcode::kTuple, state, results));
      }
      c->RemoveDead();
      RETURN_IF_ERROR(inner.RemoveReplaced());
      const absl::flat_hash_set<const Instruction*> live = Live(c);
      for (size_t k = 0; k < n; ++k) {
        if (whole[k] != element[k] && live.contains(whole[k])) needs_whole[k] = true;
      }
      c->SortTopologically();
    }
    bool again = false;
    for (size_t k = 0; k < n && attempt < attempts; ++k) {
      const Shape& shape = loop->shape().tuple_shapes(static_cast<int64_t>(k));
      if (settled[k]) continue;
      if (parts[k]) {
        if (leaves_sum[k] && !needs_whole[k]) continue;
        parts[k].reset();
        again = true;
      } else if (!tilings[k].IsWhole() && needs_whole[k]) {
        tilings[k] = Tiling::Whole(shape.rank(), partitions_);
        settled[k] = again = true;
      } else if (tilings[k].IsWhole() && leaves_as[k] && leaves_as[k]->Divides(shape)) {
        tilings[k] = *leaves_as[k];
        again = true;
      }
    }
    if (!again) break;
  }

  for (size_t k = 0; k < n; ++k) {
    if (parts[k]) {
      ASSIGN_OR_RETURN(initial[k], PartialTo(initial[k], *parts[k]));
    } else if (initial[k]->shape().IsArray()) {
      ASSIGN_OR_RETURN(initial[k], SliceTo(initial[k], tilings[k]));
    }
  }
  const std::vector<Instruction*> users(loop->users().begin(), loop->users().end());
  Instruction* packed = Op(loop, Opcode::kTuple, state, initial);
  Instruction* made = c_->AddClone(loop, state, {packed});
  made->set_called(0, condition);
  made->set_called(1, body);
  std::vector<Instruction*> results;
  for (size_t k = 0; k < n; ++k) {
    Instruction* element = MakeElement(c_, made, static_cast<int64_t>(k));
    if (parts[k]) {
      ASSIGN_OR_RETURN(Instruction * sum, SumParts({element, *parts[k]}, loop));
      partial_[sum] = {element, *parts[k]};
      results.push_back(sum);
      continue;
    }
    results.push_back(tilings[k].IsWhole() ? element : Gather({element, tilings[k]}, loop));
    if (results[k] != element) {
      shards_[results[k]] = {element, tilings[k]};
    } else {
      loop_results_[element] = {loop->name(), static_cast<int64_t>(k)};
    }
  }
  Instruction* all = nullptr;
  for (Instruction* u : users) {
    if (u->Is(Opcode::kGetTupleElement)) {
      u->ReplaceAllUsesWith(results[static_cast<size_t>(u->tuple_index())]);
      continue;
    }
    if (all == nullptr) all = Op(loop, Opcode::kTuple, loop->shape().WithoutLayout(), results);
    Redirect(loop, all, {u});
  }
  if (c_->root() == loop) c_->set_root(Op(loop, Opcode::kTuple, loop->shape().WithoutLayout(), results));
  if (loop->HasSideEffect()) replaced_.push_back(loop);  // its effects are the new loop's now
  return absl::OkStatus();
}

}  // namespace backplane
