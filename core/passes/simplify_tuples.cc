#include "core/passes/passes.h"
#include "core/passes/rewriter.h"

namespace backplane {
namespace {

Instruction* ElementOfTuple(Instruction* i, Rewriter&) {
  return i->operand(0)->Is(Opcode::kTuple) ? i->operand(0)->operand(i->tuple_index()) : nullptr;
}

// Returns the tuple whose elements, all and in order, are the operands; else null.
Instruction* TupleOfElements(Instruction* tuple, Rewriter&) {
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
  RuleSet rules;
  rules.Add({{Opcode::kGetTupleElement}, "element-of-tuple", "an element of a tuple is the value", &ElementOfTuple});
  rules.Add(
      {{Opcode::kTuple}, "tuple-of-elements", "a tuple of all elements of a tuple is that tuple", &TupleOfElements});
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    if (!Rewriter(c, rules).Run()) continue;
    c->RemoveDead();
    changed = true;
  }
  return changed;
}

}  // namespace backplane
