#include "core/ir/instruction.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "core/ir/computation.h"

namespace backplane {

std::string CutMetadataText(absl::string_view text) {
  size_t size = std::min(text.size(), kMaxMetadataText);
  while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return std::string(text.substr(0, size));
}

bool Instruction::IsRoot() const { return parent_ != nullptr && parent_->root() == this; }

bool Instruction::HasSideEffect() const {
  auto own = [](const Instruction& i) {
    return i.info().Has(kSideEffect) || (i.Is(Opcode::kCustomCall) && i.attrs_.GetBool(AttrId::kHasSideEffect));
  };
  if (own(*this)) return true;
  if (called_.empty()) return false;
  // Visits each computation once, however many calls lead to it.
  absl::flat_hash_set<const Computation*> seen;
  std::vector<const Computation*> work;
  auto visit = [&](const Instruction& i) {
    for (const Computation* c : i.called_) {
      if (seen.insert(c).second) work.push_back(c);
    }
  };
  visit(*this);
  while (!work.empty()) {
    const Computation* c = work.back();
    work.pop_back();
    for (const auto& i : c->instructions()) {
      if (own(*i)) return true;
      visit(*i);
    }
  }
  return false;
}

void Instruction::SetOperands(absl::Span<Instruction* const> operands) {
  operands_.assign(operands.begin(), operands.end());
  uses_.resize(operands.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    uses_[k].user = this;
    AddUse(static_cast<int64_t>(k));
  }
}

void Instruction::AddUse(int64_t i) {
  Instruction* value = operands_[i];
  Use& use = uses_[i];
  // Finds another operand of this instruction that uses the value: the value's last use, or a search of the shorter of
  // two lists.
  const Use* twin = nullptr;
  if (value->last_use_ != nullptr && value->last_use_->user == this) {
    twin = value->last_use_;
  } else if (operands_.size() <= value->user_count_) {
    for (size_t k = 0; k < operands_.size() && twin == nullptr; ++k) {
      if (operands_[k] == value && uses_[k].listed) twin = &uses_[k];
    }
  } else {
    for (const Use* u = value->first_use_; u != nullptr && twin == nullptr; u = u->next) {
      if (u->user == this) twin = u;
    }
  }
  if (twin != nullptr) {
    const int32_t before = static_cast<int32_t>(twin - uses_.data()), after = uses_[before].ring_next;
    use.ring_previous = before;
    use.ring_next = after;
    uses_[before].ring_next = uses_[after].ring_previous = static_cast<int32_t>(i);
    return;
  }
  use.ring_previous = use.ring_next = static_cast<int32_t>(i);
  use.listed = true;
  use.previous = value->last_use_;
  use.next = nullptr;
  (value->last_use_ != nullptr ? value->last_use_->next : value->first_use_) = &use;
  value->last_use_ = &use;
  ++value->user_count_;
}

void Instruction::RemoveUse(int64_t i) {
  Instruction* value = operands_[i];
  Use& use = uses_[i];
  const bool alone = use.ring_next == static_cast<int32_t>(i);
  if (!alone) {
    uses_[use.ring_previous].ring_next = use.ring_next;
    uses_[use.ring_next].ring_previous = use.ring_previous;
  }
  if (!use.listed) return;
  use.listed = false;
  Use *before = use.previous, *after = use.next;
  if (!alone) {  // the next one of the ring replaces it in the list
    Use* heir = &uses_[use.ring_next];
    heir->listed = true;
    heir->previous = before;
    heir->next = after;
    before = after = heir;
  } else {
    --value->user_count_;
  }
  Use*& forward = use.previous != nullptr ? use.previous->next : value->first_use_;
  Use*& backward = use.next != nullptr ? use.next->previous : value->last_use_;
  forward = after;
  backward = before;
}

void Instruction::DropAllReferences() {
  for (int64_t k = 0; k < operand_count(); ++k) RemoveUse(k);
  DropControlDependencies();
}

void Instruction::DropControlDependencies() {
  auto forget = [this](std::vector<Instruction*>& list) {
    list.erase(std::remove(list.begin(), list.end(), this), list.end());
  };
  for (Instruction* p : control_predecessors_) forget(p->control_successors_);
  for (Instruction* s : control_successors_) forget(s->control_predecessors_);
  control_predecessors_.clear();
  control_successors_.clear();
}

void Instruction::ReplaceOperand(int64_t i, Instruction* with) {
  if (operands_[i] == with) return;
  RemoveUse(i);
  operands_[i] = with;
  AddUse(i);
}

void Instruction::ReplaceAllUsesWith(Instruction* with) {
  if (with == this) return;
  while (first_use_ != nullptr) {
    Instruction* user = first_use_->user;
    user->ReplaceOperand(first_use_ - user->uses_.data(), with);
  }
  if (IsRoot()) parent_->set_root(with);
}

OpContext Instruction::Context(ContextStorage& storage) const {
  storage.operands.clear();
  storage.called.clear();
  for (const Instruction* o : operands_) storage.operands.push_back(&o->shape());
  for (const Computation* c : called_) storage.called.push_back(c->program_shape());
  OpContext context;
  context.opcode = opcode_;
  context.name = name_;
  context.operands = storage.operands;
  context.attrs = &attrs_;
  context.called = storage.called;
  context.declared = &shape_;
  context.literal = literal_.get();
  return context;
}

}  // namespace backplane
