#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// The tuple whose elements, all of them and in order, these operands are.
Instruction* WholeTuple(const Instruction* tuple) {
  if (tuple->operand_count() == 0) return nullptr;
  Instruction* source = nullptr;
  for (int64_t k = 0; k < tuple->operand_count(); ++k) {
    Instruction* e = tuple->operand(k);
    if (!e->Is(Opcode::kGetTupleElement) || e->tuple_index() != k) return nullptr;
    if (k > 0 && e->operand(0) != source) return nullptr;
    source = e->operand(0);
  }
  return source->shape() == tuple->shape() ? source : nullptr;
}

}  // namespace

absl::StatusOr<bool> SimplifyTuples::Run(Module* module) {
  bool changed = false;
  for (Computation* c : RunningComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (i->Is(Opcode::kGetTupleElement) && i->operand(0)->Is(Opcode::kTuple) &&
          (!i->users().empty() || i == c->root())) {
        Replace(i, i->operand(0)->operand(i->tuple_index()));
        here = true;
      } else if (i->Is(Opcode::kTuple) && (!i->users().empty() || i == c->root())) {
        Instruction* source = WholeTuple(i);
        if (source == nullptr) continue;
        Replace(i, source);
        here = true;
      }
    }
    if (here) c->RemoveDead();
    changed |= here;
  }
  return changed;
}

}  // namespace backplane
