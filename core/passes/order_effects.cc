#include "core/passes/order_effects.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// Maps each instruction to the nearest effects that precede it, by operands and control predecessors.
struct Before {
  std::vector<Instruction*> by_data, by_order;
};

void Add(std::vector<Instruction*>* list, const std::vector<Instruction*>& more) {
  for (Instruction* i : more) {
    if (std::find(list->begin(), list->end(), i) == list->end()) list->push_back(i);
  }
}

bool IsAlreadyOrdered(const Computation& c) {
  for (const auto& i : c.instructions()) {
    if (i->control_predecessors().empty() || i->Is(Opcode::kParameter)) continue;
    if (!i->HasSideEffect()) return false;
    for (const Instruction* p : i->control_predecessors()) {
      if (!p->HasSideEffect()) return false;
    }
  }
  return true;
}

absl::Status Order(Computation* c) {
  const std::vector<Instruction*> all = c->Snapshot();  // topological order
  absl::flat_hash_map<const Instruction*, Before> before;
  for (Instruction* i : all) {
    Before b;
    auto take = [&](const Instruction* from, bool order) {
      const Before& its = before.at(from);
      if (from->HasSideEffect()) {
        Add(order ? &b.by_order : &b.by_data, {const_cast<Instruction*>(from)});
        return;
      }
      Add(order ? &b.by_order : &b.by_data, its.by_data);
      Add(&b.by_order, its.by_order);
    };
    for (const Instruction* o : i->operands()) take(o, false);
    for (const Instruction* p : i->control_predecessors()) take(p, true);
    before.emplace(i, std::move(b));
  }
  // Control predecessors cannot be removed from an instruction, so an instruction that has some is replaced by a clone.
  absl::flat_hash_map<const Instruction*, Instruction*> now;
  std::vector<Instruction*> removed;
  for (Instruction* i : all) {
    const bool effect = i->HasSideEffect();
    const std::vector<Instruction*>& waits_for = before.at(i).by_order;
    if (i->Is(Opcode::kParameter) || (i->control_predecessors().empty() && (!effect || waits_for.empty()))) continue;
    Instruction* made = c->AddClone(i, i->shape(), i->operands());
    Replace(i, made);
    removed.push_back(i);
    if (!effect) continue;
    now.emplace(i, made);
    for (Instruction* p : waits_for) {
      const auto at = now.find(p);
      made->AddControlPredecessor(at == now.end() ? p : at->second);
    }
  }
  for (auto i = removed.rbegin(); i != removed.rend(); ++i) {
    if (absl::Status s = c->Remove(*i); !s.ok()) return s;
  }
  c->SortTopologically();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> OrderEffects::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    if (IsAlreadyOrdered(*c)) continue;
    if (absl::Status s = Order(c); !s.ok()) return s;
    changed = true;
  }
  return changed;
}

void ReplaceByInlined(Instruction* i, const Computation* callee) {
  Computation* c = i->parent();
  const int64_t had = c->instruction_count();
  Replace(i, Inline(c, callee, i->operands()));
  MoveControlDependenciesToEffects(i, had);
  i->DropControlDependencies();
}

void MoveControlDependenciesToEffects(const Instruction* from, int64_t first) {
  if (!from->HasControlDependencies()) return;
  const Computation* c = from->parent();
  std::vector<Instruction*> effects, successors;
  int64_t number = 0;
  for (const auto& i : c->instructions()) {
    if (number++ >= first && i->HasSideEffect()) effects.push_back(i.get());
  }
  for (Instruction* effect : effects) MoveControlDependencies(from, effect);
  if (!effects.empty() || from->control_predecessors().empty()) return;
  for (const auto& i : c->instructions()) {
    if (absl::c_linear_search(i->control_predecessors(), from)) successors.push_back(i.get());
  }
  for (Instruction* successor : successors) {
    for (Instruction* p : from->control_predecessors()) successor->AddControlPredecessor(p);
  }
}

void MoveControlDependencies(const Instruction* from, Instruction* to) {
  for (Instruction* p : from->control_predecessors()) to->AddControlPredecessor(p);
  for (const auto& i : to->parent()->instructions()) {
    const std::vector<Instruction*>& before = i->control_predecessors();
    if (i.get() != to && std::find(before.begin(), before.end(), from) != before.end()) i->AddControlPredecessor(to);
  }
}

}  // namespace backplane
