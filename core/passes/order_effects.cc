#include "core/passes/order_effects.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// The nearest effects that precede an instruction by operands, and by a path with a control predecessor, by number.
struct Before {
  std::vector<size_t> by_data, by_order;
  bool wants_data = false, wants_order = false;  // whether a later instruction reads the list
  size_t uses = 0;                               // reads that are still to come

  void Release() {
    by_data = std::vector<size_t>();
    by_order = std::vector<size_t>();
  }
};

// A list without duplicates. One object builds the lists of all instructions, one after the other.
class ListBuilder {
 public:
  explicit ListBuilder(size_t instructions) : added_to_(instructions, 0) {}
  void Start(std::vector<size_t>* list) {
    list_ = list;
    ++number_;
  }
  void Add(size_t i) {
    if (std::exchange(added_to_[i], number_) != number_) list_->push_back(i);
  }
  void Add(const std::vector<size_t>& more) {
    for (size_t i : more) Add(i);
  }

 private:
  std::vector<size_t> added_to_;  // the last list that has the instruction
  std::vector<size_t>* list_ = nullptr;
  size_t number_ = 0;
};

// Returns the effects before each instruction by a path with a control predecessor. The list is empty if no effect
// reads it. `all` is in topological order.
std::vector<Before> FindEffectsBefore(const std::vector<Instruction*>& all, const std::vector<bool>& effect) {
  absl::flat_hash_map<const Instruction*, size_t> number;
  for (size_t k = 0; k < all.size(); ++k) number[all[k]] = k;
  std::vector<Before> before(all.size());
  // Most programs have few control predecessors, and most instructions need no lists.
  for (size_t k = all.size(); k-- > 0;) {
    Before& its = before[k];
    if (effect[k]) its.wants_order = true, its.wants_data = false;
    for (const Instruction* o : all[k]->operands()) {
      Before& from = before[number.at(o)];
      ++from.uses;
      from.wants_data |= its.wants_data;
      from.wants_order |= its.wants_order;
    }
    for (const Instruction* p : all[k]->control_predecessors()) {
      Before& from = before[number.at(p)];
      ++from.uses;
      from.wants_data |= its.wants_order;
      from.wants_order |= its.wants_order;
    }
  }
  ListBuilder data(all.size()), order(all.size());
  for (size_t k = 0; k < all.size(); ++k) {
    Before& its = before[k];
    data.Start(&its.by_data);
    order.Start(&its.by_order);
    auto take = [&](const Instruction* i, bool by_order) {
      const size_t n = number.at(i);
      Before& from = before[n];
      if (effect[n]) {
        if (by_order && its.wants_order) order.Add(n);
        if (!by_order && its.wants_data) data.Add(n);
        return;
      }
      if (by_order && its.wants_order) order.Add(from.by_data);
      if (!by_order && its.wants_data) data.Add(from.by_data);
      if (its.wants_order) order.Add(from.by_order);
      if (--from.uses == 0) from.Release();  // lists can be long
    };
    for (const Instruction* o : all[k]->operands()) take(o, false);
    for (const Instruction* p : all[k]->control_predecessors()) take(p, true);
  }
  return before;
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
  std::vector<bool> effects(all.size());
  for (size_t k = 0; k < all.size(); ++k) effects[k] = all[k]->HasSideEffect();
  const std::vector<Before> before = FindEffectsBefore(all, effects);
  // Control predecessors cannot be removed from an instruction, so an instruction that has some is replaced by a clone.
  std::vector<Instruction*> now = all, removed;
  for (size_t k = 0; k < all.size(); ++k) {
    Instruction* i = all[k];
    const bool effect = effects[k];
    const std::vector<size_t>& waits_for = before[k].by_order;
    if (i->Is(Opcode::kParameter) || (i->control_predecessors().empty() && (!effect || waits_for.empty()))) continue;
    Instruction* made = c->AddClone(i, i->shape(), i->operands());
    Replace(i, made);
    removed.push_back(i);
    if (!effect) continue;
    now[k] = made;
    for (size_t p : waits_for) made->AddControlPredecessor(now[p]);
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
