// Replaces start and done by the synchronous operation, at the position of the start. For backends whose devices
// execute synchronously anyway.
#include "core/passes/order_effects.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// Returns the start of a done, or null if anything else uses an intermediate value.
Instruction* FindStart(const Instruction* done) {
  if (done->operand_count() == 0) return nullptr;
  Instruction* x = done->operand(0);
  while (x->Is(Opcode::kAsyncUpdate) && x->users().size() == 1) x = x->operand(0);
  return x->users().size() == 1 ? x : nullptr;
}

Instruction* MakeSynchronous(Computation* c, Instruction* start, Opcode opcode, const Shape& shape) {
  std::vector<Computation*> called(start->called().begin(), start->called().end());
  std::vector<Instruction*> operands(start->operands().begin(), start->operands().end());
  return Make(c, start, opcode, shape, std::move(operands), start->attrs(), std::move(called));
}

Instruction* Expand(Computation* c, Instruction* done) {
  Instruction* start = FindStart(done);
  if (start == nullptr) return nullptr;
  switch (done->opcode()) {
    case Opcode::kAllReduceDone:
      return start->Is(Opcode::kAllReduceStart) ? MakeSynchronous(c, start, Opcode::kAllReduce, done->shape())
                                                : nullptr;
    case Opcode::kAllGatherDone:
      return start->Is(Opcode::kAllGatherStart) ? MakeSynchronous(c, start, Opcode::kAllGather, done->shape())
                                                : nullptr;
    case Opcode::kCollectivePermuteDone:
      return start->Is(Opcode::kCollectivePermuteStart)
                 ? MakeSynchronous(c, start, Opcode::kCollectivePermute, done->shape())
                 : nullptr;
    case Opcode::kCopyDone:
      return start->Is(Opcode::kCopyStart) ? Make(c, start, Opcode::kCopy, done->shape(), {start->operand(0)})
                                           : nullptr;
    case Opcode::kAsyncDone: {
      if (!start->Is(Opcode::kAsyncStart)) return nullptr;
      const int64_t had = c->instruction_count();
      Instruction* synchronous = Inline(c, start->called(0), start->operands());
      // The copies inherit the order of effects of both halves.
      MoveControlDependenciesToEffects(start, had);
      MoveControlDependenciesToEffects(done, had);
      return synchronous;
    }
    default:
      return nullptr;
  }
}

}  // namespace

absl::StatusOr<bool> ExpandAsync::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    // The computation of an async-start may contain further pairs.
    for (bool again = true; again; here |= again) {
      again = false;
      for (Instruction* i : c->Snapshot()) {
        if (i->users().empty() && i != c->root()) continue;
        Instruction* synchronous = Expand(c, i);
        if (synchronous == nullptr) continue;
        Replace(i, synchronous);
        again = true;
      }
      if (!again) break;
      // Removes the halves although they may have side effects: the new instruction performs them.
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
