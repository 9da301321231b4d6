#include "sdk/codegen/body/loop_scopes.h"

#include <algorithm>
#include <limits>
#include <set>

namespace backplane::codegen {

using llvm::Value;

namespace {

constexpr int64_t kMaxUnrolledIterations = 9;  // of one loop

}  // namespace

bool LoopScopes::Binding::MovesTogether(const Affine& e, int64_t* coefficient) const {
  *coefficient = e.GetCoef(vars.back());
  for (size_t i = 0; i < vars.size(); ++i) {
    if (e.GetCoef(vars[i]) != *coefficient * strides[i]) return false;
  }
  return true;
}

LoopScopes::LoopScopes(llvm::IRBuilder<>& builder, VarTable& vars) : b_(builder), vars_(vars) {
  scopes_.push_back({nullptr, numbers_++});
}

// ---- What is bound at which level ---------------------------------------------------------------------------------

void LoopScopes::Bind(absl::Span<const VarId> vars, Value* value, int lanes) {
  Binding binding;
  binding.vars.assign(vars.begin(), vars.end());
  binding.strides.resize(vars.size());
  for (size_t i = vars.size(); i-- > 0;) {
    binding.strides[i] = binding.extent;
    binding.extent *= vars_.extent(vars[i]);
  }
  binding.value = value;
  binding.lanes = lanes;
  binding.level = level();
  if (lanes > 0) lanes_ = lanes;
  bindings_.push_back(std::move(binding));
  for (VarId v : vars) binding_of_[v] = &bindings_.back();
}

const LoopScopes::Binding* LoopScopes::FindBinding(VarId v) const {
  auto it = binding_of_.find(v);
  return it == binding_of_.end() ? nullptr : it->second;
}

int LoopScopes::GetLevel(VarId v) const {
  const VarDef& d = vars_.def(v);
  if (d.kind == VarKind::kLoop) {
    const Binding* binding = FindBinding(v);
    return binding == nullptr ? 0 : binding->level;
  }
  if (d.kind == VarKind::kRuntime) return GetLevel(d.source_index);
  return GetLevel(d.expr);
}

int LoopScopes::GetLevel(const Affine& e) const {
  int l = 0;
  for (const Term& t : e.terms) l = std::max(l, GetLevel(t.var));
  return l;
}

int LoopScopes::GetLevel(const Index& index) const {
  int l = 0;
  for (const Affine& e : index) l = std::max(l, GetLevel(e));
  return l;
}

int LoopScopes::GetLevel(const Guards& guards) const {
  int l = 0;
  for (const Guard& g : guards) l = std::max(l, GetLevel(g.e));
  return l;
}

bool LoopScopes::HasLanes(VarId v) const {
  const VarDef& d = vars_.def(v);
  if (d.kind == VarKind::kLoop) {
    const Binding* binding = FindBinding(v);
    return binding != nullptr && binding->lanes > 0;
  }
  if (d.kind == VarKind::kRuntime) return HasLanes(d.source_index);
  return HasLanes(d.expr);
}

bool LoopScopes::HasLanes(const Affine& e) const {
  return std::any_of(e.terms.begin(), e.terms.end(), [&](const Term& t) { return HasLanes(t.var); });
}

bool LoopScopes::HasLanes(const Index& index) const {
  return std::any_of(index.begin(), index.end(), [&](const Affine& e) { return HasLanes(e); });
}

Guard LoopScopes::TailGuard(absl::Span<const VarId> vars) const {
  Guard g;
  int64_t stride = 1;
  for (size_t i = vars.size(); i-- > 0;) {
    g.e.Add(Affine::Var(vars[i]), stride);
    stride *= vars_.extent(vars[i]);
  }
  g.lo = std::numeric_limits<int64_t>::min();
  g.hi = stride;
  return g;
}

Guards LoopScopes::GetTailGuards(const Index& index) const {
  std::set<VarId> used;
  for (const Affine& e : index) vars_.ForEachLoopVar(e, [&](VarId v) { used.insert(v); });
  Guards guards;
  for (const Binding& binding : bindings_) {
    if (binding.lanes == 0 || binding.extent % binding.lanes == 0) continue;
    if (std::none_of(binding.vars.begin(), binding.vars.end(), [&](VarId v) { return used.contains(v); })) continue;
    Guard g = TailGuard(binding.vars);
    guards.insert(std::lower_bound(guards.begin(), guards.end(), g), g);
  }
  return guards;
}

// ---- Nesting ------------------------------------------------------------------------------------------------------

void LoopScopes::AtLevel(int target, const std::function<void()>& fn) {
  if (target >= level()) return fn();
  const std::vector<Scope> suspended(scopes_.begin() + target + 1, scopes_.end());
  scopes_.resize(static_cast<size_t>(target) + 1);
  const int lanes = lanes_;
  lanes_ = 0;
  for (const Binding& binding : bindings_) {
    if (binding.level <= target && binding.lanes > 0) lanes_ = binding.lanes;
  }
  {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(scopes_.back().hoist);
    fn();
  }
  lanes_ = lanes;
  scopes_.insert(scopes_.end(), suspended.begin(), suspended.end());
}

LoopScopes::BlockSplit LoopScopes::SplitBlock() {
  BlockSplit cut;
  cut.before = b_.GetInsertBlock();
  if (b_.GetInsertPoint() == cut.before->end()) {
    cut.after = llvm::BasicBlock::Create(b_.getContext(), "", cut.before->getParent());
  } else {
    cut.resume = &*b_.GetInsertPoint();
    cut.after = cut.before->splitBasicBlock(cut.resume);
    cut.before->getTerminator()->eraseFromParent();
  }
  return cut;
}

void LoopScopes::Resume(const BlockSplit& cut) {
  if (cut.resume != nullptr) {
    b_.SetInsertPoint(cut.resume);
  } else {
    b_.SetInsertPoint(cut.after);
  }
}

void LoopScopes::InScope(llvm::Instruction* enter, const std::function<void()>& fn) {
  llvm::Instruction* outer_hoist = scopes_.back().hoist;
  scopes_.back().hoist = enter;
  Scope scope;
  if (free_numbers_.empty()) {
    scope.number = numbers_++;
  } else {
    scope.number = free_numbers_.back();
    free_numbers_.pop_back();
  }
  scopes_.push_back(scope);
  const int lanes = lanes_;
  const size_t bindings = bindings_.size();
  fn();
  for (; bindings_.size() > bindings; bindings_.pop_back()) {
    for (VarId v : bindings_.back().vars) binding_of_.erase(v);
  }
  lanes_ = lanes;
  scopes_.pop_back();
  scopes_.back().hoist = outer_hoist;
  for (Listener* listener : listeners_) listener->ScopeEnds(scope.number);
  free_numbers_.push_back(scope.number);
}

void LoopScopes::Repeat(Values& carried, const std::function<Value*(Values&)>& before,
                        const std::function<Value*(Values&)>& iteration) {
  const BlockSplit cut = SplitBlock();
  llvm::Function* function = cut.before->getParent();
  llvm::BasicBlock* block = llvm::BasicBlock::Create(b_.getContext(), "", function, cut.after);
  b_.SetInsertPoint(cut.before);
  llvm::Instruction* enter = b_.CreateBr(block);
  InScope(enter, [&] {
    b_.SetInsertPoint(block);
    std::vector<llvm::PHINode*> phis;
    Values inside;
    for (Value* v : carried) {
      phis.push_back(b_.CreatePHI(v->getType(), 2));
      inside.push_back(phis.back());
    }
    Values result = inside;
    if (before) {
      Value* more = before(inside);
      llvm::BasicBlock* rest = llvm::BasicBlock::Create(b_.getContext(), "", function, cut.after);
      b_.CreateCondBr(more, rest, cut.after);
      b_.SetInsertPoint(rest);
    }
    Value* again = iteration(inside);
    llvm::BasicBlock* latch = b_.GetInsertBlock();
    if (again != nullptr) {
      b_.CreateCondBr(again, block, cut.after);
      result = inside;
    } else {
      b_.CreateBr(block);
    }
    // Code was hoisted in front of `enter` meanwhile; the block that ends with it is the one that enters the loop.
    for (size_t i = 0; i < phis.size(); ++i) {
      phis[i]->addIncoming(carried[i], enter->getParent());
      phis[i]->addIncoming(inside[i], latch);
    }
    carried = std::move(result);
  });
  Resume(cut);
}

void LoopScopes::Loop(Value* begin, Value* end, int64_t step, Values& carried,
                      const std::function<void(Value* iv, Values& carried)>& body) {
  // A loop would hide that its indices are constants.
  const auto* first = llvm::dyn_cast<llvm::ConstantInt>(begin);
  const auto* limit = llvm::dyn_cast<llvm::ConstantInt>(end);
  if (max_copies_ > 1 && first != nullptr && limit != nullptr) {
    const int64_t low = first->getSExtValue(), distance = limit->getSExtValue() - low;
    const int64_t iterations = distance <= step ? 1 : step == 1 ? distance : kMaxUnrolledIterations + 1;
    if (iterations == 1 || (iterations <= kMaxUnrolledIterations && iterations * copies_ <= max_copies_)) {
      copies_ *= iterations;
      for (int64_t k = 0; k < iterations; ++k) {
        Block([&] { body(llvm::ConstantInt::get(begin->getType(), static_cast<uint64_t>(low + k)), carried); });
      }
      copies_ /= iterations;
      return;
    }
  }
  Values all = {begin};
  all.insert(all.end(), carried.begin(), carried.end());
  Repeat(all, nullptr, [&](Values& inside) -> Value* {
    Value* iv = inside[0];
    Values values(inside.begin() + 1, inside.end());
    body(iv, values);
    Value* next = b_.CreateAdd(iv, llvm::ConstantInt::get(iv->getType(), static_cast<uint64_t>(step)), "", true, true);
    inside = {next};
    inside.insert(inside.end(), values.begin(), values.end());
    return b_.CreateICmpSLT(next, end);
  });
  carried.assign(all.begin() + 1, all.end());
}

void LoopScopes::Loop(Value* begin, Value* end, int64_t step, const std::function<void(Value* iv)>& body) {
  Values none;
  Loop(begin, end, step, none, [&](Value* iv, Values&) { body(iv); });
}

void LoopScopes::If(Value* condition, const std::function<void()>& body) {
  const BlockSplit cut = SplitBlock();
  llvm::BasicBlock* block = llvm::BasicBlock::Create(b_.getContext(), "", cut.before->getParent(), cut.after);
  b_.SetInsertPoint(cut.before);
  llvm::Instruction* enter = condition == nullptr
                                 ? static_cast<llvm::Instruction*>(b_.CreateBr(block))
                                 : static_cast<llvm::Instruction*>(b_.CreateCondBr(condition, block, cut.after));
  InScope(enter, [&] {
    b_.SetInsertPoint(block);
    body();
    b_.CreateBr(cut.after);
  });
  Resume(cut);
}

}  // namespace backplane::codegen
