// Start and done become the operation itself, at the place of the start. For backends whose devices wait anyway.
#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// The start that a done belongs to; null where something else looks at what is in between.
Instruction* StartOf(const Instruction* done) {
  if (done->operand_count() == 0) return nullptr;
  Instruction* x = done->operand(0);
  while (x->Is(Opcode::kAsyncUpdate) && x->users().size() == 1) x = x->operand(0);
  return x->users().size() == 1 ? x : nullptr;
}

Instruction* Whole(Computation* c, Instruction* start, Opcode opcode, const Shape& shape) {
  std::vector<Computation*> called(start->called().begin(), start->called().end());
  std::vector<Instruction*> operands(start->operands().begin(), start->operands().end());
  return Make(c, start, opcode, shape, std::move(operands), start->attrs(), std::move(called));
}

Instruction* Expand(Computation* c, Instruction* done) {
  Instruction* start = StartOf(done);
  if (start == nullptr) return nullptr;
  switch (done->opcode()) {
    case Opcode::kAllReduceDone:
      return start->Is(Opcode::kAllReduceStart) ? Whole(c, start, Opcode::kAllReduce, done->shape()) : nullptr;
    case Opcode::kAllGatherDone:
      return start->Is(Opcode::kAllGatherStart) ? Whole(c, start, Opcode::kAllGather, done->shape()) : nullptr;
    case Opcode::kCollectivePermuteDone:
      return start->Is(Opcode::kCollectivePermuteStart) ? Whole(c, start, Opcode::kCollectivePermute, done->shape())
                                                        : nullptr;
    case Opcode::kCopyDone:
      return start->Is(Opcode::kCopyStart) ? Make(c, start, Opcode::kCopy, done->shape(), {start->operand(0)})
                                           : nullptr;
    case Opcode::kAsyncDone: {
      if (!start->Is(Opcode::kAsyncStart)) return nullptr;
      const int64_t had = c->instruction_count();
      Instruction* whole = Inline(c, start->called(0), start->operands());
      // What has an effect comes before and after what the halves did.
      std::vector<Instruction*> effects;
      int64_t number = 0;
      for (const auto& i : c->instructions()) {
        if (number++ >= had && i->HasSideEffect()) effects.push_back(i.get());
      }
      for (Instruction* i : effects) {
        TakeOrder(start, i);
        TakeOrder(done, i);
      }
      return whole;
    }
    default:
      return nullptr;
  }
}

}  // namespace

absl::StatusOr<bool> ExpandAsync::Run(Module* module) {
  bool changed = false;
  for (Computation* c : ControlFlowComputations(module)) {
    bool here = false;
    // What an async-start wraps may hold pairs of its own.
    for (bool again = true; again; here |= again) {
      again = false;
      for (Instruction* i : c->Snapshot()) {
        if (i->users().empty() && i != c->root()) continue;
        Instruction* whole = Expand(c, i);
        if (whole == nullptr) continue;
        Replace(i, whole);
        again = true;
      }
      if (!again) break;
      // The halves go even where they wrap a side effect: it has been taken over.
      std::vector<Instruction*> all = c->Snapshot();
      for (size_t k = all.size(); k-- > 0;) {
        Instruction* i = all[k];
        const bool half = i->Is(Opcode::kAsyncDone) || i->Is(Opcode::kAsyncUpdate) || i->Is(Opcode::kAsyncStart);
        if (!half || !i->users().empty() || i == c->root()) continue;
        if (absl::Status s = c->Remove(i); !s.ok()) return s;
      }
      c->RemoveDead();
      c->SortTopologically();
    }
    changed |= here;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane
