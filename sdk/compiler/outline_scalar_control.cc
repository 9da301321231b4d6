#include "sdk/compiler/outline_scalar_control.h"

#include "core/passes/calls.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane::compiler {
namespace {

constexpr int64_t kMaxLoopInstructions = 1500;  // of a loop with all that it calls: code grows with it

int64_t SizeOf(const Instruction* i) {
  int64_t n = 1;
  for (const Computation* c : i->called()) {
    for (const auto& inner : c->instructions()) n += SizeOf(inner.get());
  }
  return n;
}

// Returns a fusion that holds the loop or branch; its parameters are the leaves of the operands. Constants move into
// it, so that the number of iterations stays known.
Instruction* MakeFusionOf(Instruction* i) {
  Computation* c = i->parent();
  Computation* body = c->parent()->AddComputation("scalar_control");
  body->set_is_fusion(true);
  std::vector<Instruction*> arguments, operands;
  auto parameter = [&](Instruction* leaf) {
    if (leaf->Is(Opcode::kConstant)) return body->AddClone(leaf, leaf->shape(), {});
    Attributes number;
    number.Set(AttrId::kParameterNumber, static_cast<int64_t>(arguments.size()));
    arguments.push_back(leaf);
    return Make(body, nullptr, Opcode::kParameter, leaf->shape(), {}, std::move(number));
  };
  for (Instruction* x : i->operands()) {
    if (!x->shape().IsTuple()) {
      operands.push_back(parameter(x));
      continue;
    }
    std::vector<Instruction*> leaves;
    for (int64_t k = 0; k < x->shape().tuple_size(); ++k) {
      leaves.push_back(parameter(x->Is(Opcode::kTuple) ? x->operand(k) : MakeElement(c, x, k)));
    }
    operands.push_back(Make(body, nullptr, Opcode::kTuple, x->shape(), std::move(leaves)));
  }
  body->set_root(body->AddClone(i, i->shape(), operands));
  Attributes attrs;
  attrs.SetEnum(AttrId::kFusionKind, FusionKind::kLoop);
  return Make(c, i, Opcode::kFusion, i->shape(), std::move(arguments), std::move(attrs), {body});
}

}  // namespace

absl::StatusOr<bool> OutlineScalarControl::RunOn(Computation* c) {
  bool changed = false;
  for (Instruction* i : c->Snapshot()) {
    if (!i->Is(Opcode::kWhile) && !i->Is(Opcode::kConditional) && !IsMarkedNotInlineable(*i)) continue;
    if (i->shape().IsTuple() && i->shape().tuple_size() == 0) continue;
    if (!i->Is(Opcode::kCall) && can_emit_(*i) && SizeOf(i) <= kMaxLoopInstructions) {
      Replace(i, MakeFusionOf(i));
      changed = true;
      continue;
    }
    for (Computation* called : i->called()) {
      ASSIGN_OR_RETURN(const bool inside, RunOn(called));
      changed |= inside;
    }
  }
  if (changed) {
    c->RemoveDead();
    c->SortTopologically();
  }
  return changed;
}

absl::StatusOr<bool> OutlineScalarControl::Run(Module* module) { return RunOn(module->entry()); }

}  // namespace backplane::compiler
