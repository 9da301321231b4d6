#include "core/passes/rewriter.h"

#include <algorithm>

#include "core/types/integer_division.h"

namespace backplane {
namespace {

bool IsFullSlice(const Shape& shape, const SliceConfig& slices) {
  for (size_t d = 0; d < slices.size(); ++d) {
    const SliceDimension& s = slices[d];
    const int64_t size = shape.dimensions(static_cast<int64_t>(d));
    if (s.start != 0 || s.limit != size || (s.stride != 1 && size > 1)) return false;
  }
  return true;
}

}  // namespace

void RuleSet::Add(RewriteRule rule) {
  for (Opcode o : rule.opcodes) by_opcode_[static_cast<size_t>(o)].push_back(rules_.size());
  rules_.push_back(std::move(rule));
}

bool Rewriter::Run() {
  if (applied_ != nullptr) applied_->resize(rules_.rules().size());
  rewrites_left_ = kRewritesPerInstruction * (c_->instruction_count() + 1);
  bool changed = false;
  for (int round = 0; round < kMaxRounds && RunRound(); ++round) changed = true;
  return changed;
}

// Most instructions are visited once and stay unchanged: only those that are queued again are tracked.
bool Rewriter::RunRound() {
  std::vector<std::pair<Instruction*, int64_t>> all;  // with their ids, to detect removed instructions
  for (const auto& i : c_->instructions()) {
    if (!rules_.For(i->opcode()).empty()) all.emplace_back(i.get(), i->id());
    if (i->control_predecessors().empty()) continue;
    ordered_.insert(i.get());
    for (const Instruction* p : i->control_predecessors()) ordered_.insert(p);
  }
  removed_.clear();
  bool changed = false;
  for (const auto& [i, id] : all) {
    if (removed_.empty() || !removed_.contains(id)) changed |= Visit(i);
  }
  while (!queue_.empty()) {
    Instruction* i = queue_.front();
    queue_.pop_front();
    ++first_;
    if (i == nullptr) continue;
    queued_.erase(i);
    changed |= Visit(i);
  }
  return changed;
}

// Whether a rule replaced the instruction.
bool Rewriter::Visit(Instruction* i) {
  if (i->users().empty() && !i->IsRoot()) return false;  // dead before, or kept for its side effect
  at_ = i;
  for (size_t rule : rules_.For(i->opcode())) {
    if (rewrites_left_ == 0) return false;
    Instruction* with = rules_.rules()[rule].apply(i, *this);
    if (with != nullptr && with != i) {
      if (applied_ != nullptr) ++(*applied_)[rule];
      --rewrites_left_;
      ReplaceBy(i, with);
      return true;
    }
    while (!made_.empty()) {  // a rule that fails late leaves instructions behind
      Instruction* unused = made_.back();
      made_.pop_back();
      if (unused->users().empty()) (void)c_->Remove(unused);
    }
  }
  return false;
}

void Rewriter::Enqueue(Instruction* i) {
  if (rules_.For(i->opcode()).empty()) return;
  if (queued_.try_emplace(i, first_ + queue_.size()).second) queue_.push_back(i);
}

void Rewriter::EnqueueUsers(Instruction* i) {
  for (Instruction* u : i->users()) {
    Enqueue(u);
    if (u->operand_count() != 1) continue;
    for (Instruction* v : u->users()) Enqueue(v);
  }
}

void Rewriter::ReplaceBy(Instruction* i, Instruction* with) {
  EnqueueUsers(i);
  i->ReplaceAllUsesWith(with);
  for (Instruction* m : made_) Enqueue(m);
  made_.clear();
  Enqueue(with);
  RemoveIfDead(i);
}

void Rewriter::RemoveIfDead(Instruction* i) {
  std::vector<Instruction*> candidates = {i};
  while (!candidates.empty()) {
    Instruction* dead = candidates.back();
    candidates.pop_back();
    if (!dead->users().empty() || dead->IsRoot() || dead->Is(Opcode::kParameter) || ordered_.contains(dead) ||
        dead->HasSideEffect())
      continue;
    // Visits each operand once, because a removed instruction must not be accessed.
    std::vector<Instruction*> operands(dead->operands().begin(), dead->operands().end());
    std::sort(operands.begin(), operands.end(),
              [](const Instruction* a, const Instruction* b) { return a->id() > b->id(); });
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    removed_.insert(dead->id());
    if (auto at = queued_.find(dead); at != queued_.end()) {
      queue_[at->second - first_] = nullptr;
      queued_.erase(at);
    }
    if (!c_->Remove(dead).ok()) continue;
    for (Instruction* o : operands) {
      if (o->users().empty()) candidates.push_back(o);          // happens once per operand
      if (o->users().size() == 1) Enqueue(o->users().front());  // rules may require a single user
    }
  }
}

Instruction* Rewriter::Insert(InstructionSpec spec) {
  if (spec.metadata.empty()) spec.metadata = at_->metadata();
  Instruction* made = c_->AddBefore(at_, std::move(spec));
  made_.push_back(made);
  return made;
}

Instruction* Rewriter::Make(Opcode opcode, const Shape& shape, std::vector<Instruction*> operands, Attributes attrs,
                            std::vector<Computation*> called) {
  InstructionSpec spec;
  spec.opcode = opcode;
  spec.shape = shape.WithoutLayout();
  spec.operands = std::move(operands);
  spec.attrs = std::move(attrs);
  spec.called = std::move(called);
  return Insert(std::move(spec));
}

Instruction* Rewriter::Clone(const Instruction* of, const Shape& shape, std::vector<Instruction*> operands) {
  InstructionSpec spec;
  spec.opcode = of->opcode();
  spec.shape = shape.WithoutLayout();
  spec.operands = std::move(operands);
  spec.attrs = of->attrs();
  spec.called.assign(of->called().begin(), of->called().end());
  spec.name = of->name();
  spec.metadata = of->metadata();
  Instruction* clone = Insert(std::move(spec));
  clone->mutable_frontend_attributes() = of->frontend_attributes();
  clone->set_result_accuracy(of->result_accuracy());
  clone->set_backend_config(of->backend_config());
  return clone;
}

Instruction* Rewriter::Constant(Literal value) {
  InstructionSpec spec;
  spec.opcode = Opcode::kConstant;
  spec.shape = value.shape();
  spec.literal = std::make_shared<const Literal>(std::move(value));
  return Insert(std::move(spec));
}

Instruction* Rewriter::Broadcast(Instruction* x, const Shape& shape, Ints dimensions) {
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, std::move(dimensions));
  return Make(Opcode::kBroadcast, shape, {x}, std::move(attrs));
}

Instruction* Rewriter::Reshape(Instruction* x, const Shape& shape) {
  return x->shape() == shape ? x : Make(Opcode::kReshape, shape, {x});
}

Instruction* Rewriter::Transpose(Instruction* x, Ints permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  Shape shape = x->shape();
  for (size_t d = 0; d < permutation.size(); ++d) {
    shape.set_dimension(static_cast<int64_t>(d), x->shape().dimensions(permutation[d]));
  }
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, std::move(permutation));
  return Make(Opcode::kTranspose, shape, {x}, std::move(attrs));
}

Instruction* Rewriter::Slice(Instruction* x, SliceConfig slices) {
  if (IsFullSlice(x->shape(), slices)) return x;
  Shape shape = x->shape();
  for (size_t d = 0; d < slices.size(); ++d) {
    const SliceDimension& s = slices[d];
    shape.set_dimension(static_cast<int64_t>(d), CeilDiv(s.limit - s.start, s.stride));
  }
  Attributes attrs;
  attrs.Set(AttrId::kSlices, std::move(slices));
  return Make(Opcode::kSlice, shape, {x}, std::move(attrs));
}

Instruction* Rewriter::Fill(Instruction* scalar, const Shape& shape) {
  return shape.IsScalar() ? scalar : Broadcast(scalar, shape, {});
}

}  // namespace backplane
