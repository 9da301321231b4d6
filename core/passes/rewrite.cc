#include "core/passes/rewrite.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace backplane {
namespace {

void Collect(Computation* c, absl::flat_hash_set<Computation*>& seen, std::vector<Computation*>& order) {
  if (!seen.insert(c).second) return;
  for (const auto& i : c->instructions()) {
    if (!i->info().Has(kControlFlow)) continue;
    for (Computation* called : i->called()) Collect(called, seen, order);
  }
  order.push_back(c);
}

}  // namespace

Instruction* Inline(Computation* into, const Computation* callee, absl::Span<Instruction* const> arguments) {
  absl::flat_hash_map<const Instruction*, Instruction*> copy;
  for (const auto& owned : callee->instructions()) {
    const Instruction* i = owned.get();
    if (i->Is(Opcode::kParameter)) {
      copy[i] = arguments[static_cast<size_t>(i->parameter_number())];
      continue;
    }
    std::vector<Instruction*> operands;
    for (const Instruction* o : i->operands()) operands.push_back(copy.at(o));
    copy[i] = into->AddClone(i, i->shape(), operands);
  }
  for (const auto& i : callee->instructions()) {  // control predecessors may follow their successors in the list
    if (i->Is(Opcode::kParameter)) continue;
    for (const Instruction* p : i->control_predecessors()) {
      if (auto at = copy.find(p); at != copy.end()) copy.at(i.get())->AddControlPredecessor(at->second);
    }
  }
  return copy.at(callee->root());
}

std::vector<Computation*> CollectControlFlowComputations(const Module* module) {
  absl::flat_hash_set<Computation*> seen;
  std::vector<Computation*> order;
  if (module->entry() != nullptr) Collect(module->entry(), seen, order);
  return order;
}

CalledComputations::CalledComputations(const Module& module) {
  for (const auto& c : module.computations()) CountCalls(c.get());
}

void CalledComputations::CountCalls(const Computation* c) {
  for (const auto& i : c->instructions()) {
    for (const Computation* called : i->called()) ++callers_[called];
  }
}

Computation* CalledComputations::CloneIfShared(Instruction* caller, int64_t k) {
  Computation* called = caller->called(k);
  if (callers_[called] <= 1) return called;
  Module* module = caller->parent()->parent();
  const size_t before = module->computations().size();
  Computation* copy = module->CloneComputation(called);
  for (size_t n = before; n < module->computations().size(); ++n) CountCalls(module->computations()[n].get());
  --callers_[called];
  ++callers_[copy];
  caller->set_called(k, copy);
  return copy;
}

const Literal* FindUniformConstant(const Instruction* i) {
  if (i->Is(Opcode::kBroadcast)) i = i->operand(0);
  if (!i->Is(Opcode::kConstant) || !i->shape().IsArray() || i->literal().num_elements() < 1) return nullptr;
  return i->shape().IsScalar() || i->literal().IsAllEqual() ? &i->literal() : nullptr;
}

}  // namespace backplane
