#include "core/ir/instruction.h"

#include <algorithm>

#include "core/ir/computation.h"

namespace backplane {

bool Instruction::IsRoot() const { return parent_ != nullptr && parent_->root() == this; }

bool Instruction::HasSideEffect() const {
  if (info().Has(kSideEffect)) return true;
  if (Is(Opcode::kCustomCall) && attrs_.GetBool(AttrId::kHasSideEffect)) return true;
  for (const Computation* c : called_) {
    for (const auto& i : c->instructions()) {
      if (i->HasSideEffect()) return true;
    }
  }
  return false;
}

void Instruction::ReplaceOperand(int64_t i, Instruction* with) {
  Instruction* old = operands_[i];
  if (old == with) return;
  operands_[i] = with;
  if (std::find(operands_.begin(), operands_.end(), old) == operands_.end()) {
    old->users_.erase(std::remove(old->users_.begin(), old->users_.end(), this), old->users_.end());
  }
  if (std::find(with->users_.begin(), with->users_.end(), this) == with->users_.end()) with->users_.push_back(this);
}

void Instruction::ReplaceAllUsesWith(Instruction* with) {
  if (with == this) return;
  const std::vector<Instruction*> users = users_;
  for (Instruction* user : users) {
    for (int64_t i = 0; i < user->operand_count(); ++i) {
      if (user->operands_[i] == this) user->ReplaceOperand(i, with);
    }
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
