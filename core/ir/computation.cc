#include "core/ir/computation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ir/module.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// Parameter numbers index a vector. Bounds them, so that a number in the input cannot make the vector huge.
constexpr int64_t kMaxParameters = int64_t{1} << 20;
// Of an instruction that calls: of its operands and the signatures of the called computations, which are copied to
// check it.
constexpr int64_t kMaxCheckedLeaves = int64_t{1} << 21;

}  // namespace

bool Computation::IsEntry() const { return module_ != nullptr && module_->entry() == this; }

ProgramShape Computation::program_shape() const {
  ProgramShape p;
  for (const Instruction* i : parameters_) {
    p.parameters.push_back(i != nullptr ? i->shape() : Shape());
    p.parameter_names.push_back(i != nullptr ? i->name() : std::string());
  }
  if (root_ != nullptr) p.result = root_->shape();
  return p;
}

std::vector<Instruction*> Computation::Snapshot() const {
  std::vector<Instruction*> all;
  all.reserve(instructions_.size());
  for (const auto& i : instructions_) all.push_back(i.get());
  return all;
}

Instruction* Computation::Add(InstructionSpec spec) { return AddBefore(nullptr, std::move(spec)); }

Instruction* Computation::AddBefore(Instruction* position, InstructionSpec spec) {
  std::unique_ptr<Instruction> owned(new Instruction());
  Instruction* i = owned.get();
  i->opcode_ = spec.opcode;
  i->id_ = module_->NextId();
  i->name_ = module_->UniqueName(spec.name.empty() ? OpName(spec.opcode) : absl::string_view(spec.name));
  i->shape_ = std::move(spec.shape);
  i->called_ = std::move(spec.called);
  i->attrs_ = std::move(spec.attrs);
  i->literal_ = std::move(spec.literal);
  i->metadata_ = std::move(spec.metadata);
  i->parent_ = this;
  i->SetOperands(spec.operands);
  if (i->Is(Opcode::kParameter)) {
    if (!i->attrs_.Has(AttrId::kParameterNumber)) {
      i->attrs_.Set(AttrId::kParameterNumber, static_cast<int64_t>(parameters_.size()));
    }
    const size_t n = static_cast<size_t>(i->parameter_number());
    if (n >= parameters_.size()) parameters_.resize(n + 1, nullptr);
    parameters_[n] = i;
  }
  i->position_ =
      instructions_.insert(position != nullptr ? position->position_ : instructions_.end(), std::move(owned));
  return i;
}

absl::StatusOr<Instruction*> Computation::AddChecked(InstructionSpec spec) {
  Instruction::ContextStorage storage;
  OpContext context;
  context.opcode = spec.opcode;
  context.name = spec.name;
  context.attrs = &spec.attrs;
  context.literal = spec.literal.get();
  const bool declared = spec.shape.element_type() != PrimitiveType::kInvalid;
  if (declared) context.declared = &spec.shape;
  for (const Instruction* o : spec.operands) {
    if (o == nullptr || o->parent() != this) {
      return context.Error("operand",
                           absl::StrCat("operand ", storage.operands.size(), " is not of computation ", name_));
    }
    storage.operands.push_back(&o->shape());
  }
  int64_t leaves = 0;
  for (size_t k = 0; k < spec.operands.size() && !spec.called.empty(); ++k)
    leaves += CountLeaves(spec.operands[k]->shape());
  for (const Computation* c : spec.called) {
    if (c == nullptr || c->parent() != module_)
      return context.Error("called", "a called computation is not of this module");
    if (c == this) return context.Error("called", "a computation cannot call itself");
    if (c->root() == nullptr)
      return context.Error("called", absl::StrCat("called computation ", c->name(), " has no root"));
    for (const Instruction* p : c->parameters()) leaves += p != nullptr ? CountLeaves(p->shape()) : 0;
    leaves += CountLeaves(c->root()->shape());
    if (leaves > kMaxCheckedLeaves) break;
    storage.called.push_back(c->program_shape());
  }
  if (leaves > kMaxCheckedLeaves) {
    return absl::ResourceExhaustedError(absl::StrCat(OpName(spec.opcode), " ", spec.name,
                                                     ": operands and called computations have more than ",
                                                     kMaxCheckedLeaves, " arrays [tuple_size]"));
  }
  context.operands = storage.operands;
  context.called = storage.called;
  ASSIGN_OR_RETURN(Shape shape, InferShape(context));
  if (spec.opcode == Opcode::kParameter) {
    const int64_t n = spec.attrs.GetInt(AttrId::kParameterNumber);
    if (n >= kMaxParameters)
      return context.Error("parameter_i1", absl::StrCat("parameter number ", n, " is too large"));
    if (n < static_cast<int64_t>(parameters_.size()) && parameters_[n] != nullptr) {
      return context.Error("parameter_i1", absl::StrCat("parameter ", n, " exists already"));
    }
  }
  spec.shape = std::move(shape);
  return Add(std::move(spec));
}

Instruction* Computation::AddClone(const Instruction* of, const Shape& shape, absl::Span<Instruction* const> operands) {
  InstructionSpec spec;
  spec.opcode = of->opcode_;
  spec.shape = shape;
  spec.operands.assign(operands.begin(), operands.end());
  spec.attrs = of->attrs_;
  spec.called = of->called_;
  spec.literal = of->literal_;
  spec.name = of->name_;
  spec.metadata = of->metadata_;
  Instruction* i = Add(std::move(spec));
  i->sharding_ = of->sharding_;
  i->frontend_ = of->frontend_;
  i->accuracy_ = of->accuracy_;
  i->backend_config_ = of->backend_config_;
  i->annotations_ = of->annotations_;
  return i;
}

absl::Status Computation::Remove(Instruction* instruction) {
  if (instruction->user_count_ > 0) {
    return absl::FailedPreconditionError(absl::StrCat(instruction->name(), ": has users and cannot be removed"));
  }
  if (instruction == root_) {
    return absl::FailedPreconditionError(absl::StrCat(instruction->name(), ": is the root and cannot be removed"));
  }
  if (instruction->Is(Opcode::kParameter)) {
    return absl::FailedPreconditionError(absl::StrCat(instruction->name(), ": is a parameter and cannot be removed"));
  }
  if (instruction->parent_ != this) {
    return absl::InvalidArgumentError(absl::StrCat(instruction->name(), ": is not of computation ", name_));
  }
  instruction->DropAllReferences();
  instructions_.erase(instruction->position_);
  return absl::OkStatus();
}

absl::Status Computation::RemoveParameter(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(parameters_.size())) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": has no parameter ", number));
  }
  Instruction* p = parameters_[number];
  if (p->user_count_ > 0 || p == root_) {
    return absl::FailedPreconditionError(absl::StrCat(p->name(), ": has users and cannot be removed"));
  }
  parameters_.erase(parameters_.begin() + number);
  for (size_t i = static_cast<size_t>(number); i < parameters_.size(); ++i) {
    parameters_[i]->attrs_.Set(AttrId::kParameterNumber, static_cast<int64_t>(i));
  }
  p->DropAllReferences();
  instructions_.erase(p->position_);
  return absl::OkStatus();
}

int64_t Computation::RemoveDead() {
  const uint64_t walk = ++traversals_;
  std::vector<Instruction*> work;
  size_t live = 0;
  auto mark = [&](Instruction* i) {
    if (i->last_traversal_ == walk) return;
    i->last_traversal_ = walk;
    ++live;
    work.push_back(i);
  };
  if (root_ != nullptr) mark(root_);
  for (const auto& i : instructions_) {
    if (i->Is(Opcode::kParameter) || i->HasSideEffect()) mark(i.get());
  }
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    for (Instruction* o : i->operands_) mark(o);
    for (Instruction* p : i->control_predecessors_) mark(p);
  }
  const size_t before = instructions_.size();
  if (live == before) return 0;
  for (const auto& i : instructions_) {
    if (i->last_traversal_ != walk) i->DropAllReferences();
  }
  instructions_.remove_if([&](const auto& i) { return i->last_traversal_ != walk; });
  return static_cast<int64_t>(before - live);
}

void Computation::SortTopologically() {
  const uint64_t walk = ++traversals_;
  std::vector<std::pair<Instruction*, size_t>> stack;  // instruction, next input to visit
  auto enter = [&](Instruction* i) {
    if (i->last_traversal_ == walk) return;
    i->last_traversal_ = walk;
    stack.emplace_back(i, 0);
  };
  for (Instruction* start : Snapshot()) {
    enter(start);
    while (!stack.empty()) {
      auto& [i, next] = stack.back();
      const size_t operands = i->operands_.size(), total = operands + i->control_predecessors_.size();
      if (next == total) {
        instructions_.splice(instructions_.end(), instructions_, i->position_);
        stack.pop_back();
        continue;
      }
      Instruction* input = next < operands ? i->operands_[next] : i->control_predecessors_[next - operands];
      ++next;
      enter(input);
    }
  }
}

}  // namespace backplane
