// From groups to fusion instructions.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/compiler/fusion/fusion_graph.h"

namespace backplane::compiler {
namespace {

// Equal but for operands and metadata.
bool IsSameOperation(const Instruction& a, const Instruction& b) {
  return a.opcode() == b.opcode() && a.shape() == b.shape() && a.attrs() == b.attrs() && a.called() == b.called() &&
         (!a.Is(Opcode::kConstant) || a.literal() == b.literal());
}

// Copies nodes of a graph into a computation. What they read from outside of it becomes parameters.
class NodeCopier {
 public:
  NodeCopier(Computation* computation, const FusionOptions& options) : computation_(computation), options_(options) {}

  void AddParameter(int node, const Instruction& of) {
    InstructionSpec spec;
    spec.opcode = Opcode::kParameter;
    spec.shape = of.shape();
    spec.attrs.Set(AttrId::kParameterNumber, static_cast<int64_t>(inputs_.size()));
    spec.name = absl::StrCat("param_", inputs_.size());
    copies_[node] = computation_->Add(std::move(spec));
    inputs_.push_back(node);
  }

  void AddCopy(int node, const Instruction& of, std::vector<Instruction*> operands) {
    if (!options_.merge_equal_members) {
      copies_[node] = Copy(of, std::move(operands));
      return;
    }
    uint64_t hash = of.HashWithoutOperands();
    for (const Instruction* o : operands) hash = (hash ^ static_cast<uint64_t>(o->id())) * 0x9e3779b97f4a7c15u;
    std::vector<std::pair<const Instruction*, Instruction*>>& candidates = distinct_[hash];
    for (const auto& [original, copy] : candidates) {
      if (!IsSameOperation(*original, of) || copy->operands() != absl::MakeConstSpan(operands)) continue;
      copies_[node] = copy;
      return;
    }
    copies_[node] = Copy(of, std::move(operands));
    candidates.emplace_back(&of, copies_[node]);
  }

  bool Has(int node) const { return copies_.contains(node); }
  Instruction* Get(int node) const { return copies_.at(node); }
  std::vector<int> TakeInputs() { return std::move(inputs_); }

 private:
  Instruction* Copy(const Instruction& of, std::vector<Instruction*> operands) {
    Instruction* copy;
    if (options_.keep_annotations) {
      copy = computation_->AddClone(&of, of.shape(), operands);
    } else {
      InstructionSpec spec;
      spec.opcode = of.opcode();
      spec.shape = of.shape();
      spec.operands = std::move(operands);
      spec.attrs = of.attrs();
      spec.called.assign(of.called().begin(), of.called().end());
      spec.metadata = of.metadata();
      if (of.Is(Opcode::kConstant)) spec.literal = std::make_shared<const Literal>(of.literal());
      copy = computation_->Add(std::move(spec));
    }
    if (computation_->parent() == of.parent()->parent()) return copy;
    for (size_t k = 0; k < of.called().size(); ++k) {
      const int64_t number = static_cast<int64_t>(k);
      copy->set_called(number, computation_->parent()->CloneComputation(of.called(number)));
    }
    return copy;
  }

  Computation* const computation_;
  const FusionOptions& options_;
  absl::flat_hash_map<int, Instruction*> copies_;  // of nodes
  std::vector<int> inputs_;
  // Instructions that have a copy of their own, by a hash of what they compute.
  absl::flat_hash_map<uint64_t, std::vector<std::pair<const Instruction*, Instruction*>>> distinct_;
};

}  // namespace

std::vector<int> FusionGraph::ListWithCopies(const std::vector<int>& members) const {
  if (!has_copies_) return members;
  std::vector<int> list;
  absl::flat_hash_set<int> seen;
  std::vector<std::pair<int, size_t>> stack;  // a node, and which operand comes next; chains of copies may be long
  for (int m : members) {
    stack.emplace_back(m, 0);
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      if (next < node(at).operands.size()) {
        const int p = node(at).operands[next++];
        if (node(p).is_copied && !seen.contains(p)) stack.emplace_back(p, 0);
        continue;
      }
      if (seen.insert(at).second) list.push_back(at);
      stack.pop_back();
    }
  }
  return list;
}

std::vector<int> FusionGraph::FindResults(const std::vector<int>& members) const {
  const absl::flat_hash_set<int> inside(members.begin(), members.end());
  std::vector<int> results;
  for (int m : members) {
    const Node& member = node(m);
    if (member.escapes || std::any_of(member.uses.begin(), member.uses.end(),
                                      [&](const Use& use) { return !inside.contains(use.node); })) {
      results.push_back(m);
    }
  }
  // Dead code still needs a result. Other passes remove it.
  if (results.empty()) results.push_back(members.back());
  return results;
}

absl::StatusOr<FusionGraph::Outlined> FusionGraph::MakeComputation(Module* module, const std::vector<int>& members,
                                                                   absl::string_view name) const {
  Outlined outlined;
  outlined.computation = module->AddComputation(std::string(name));
  outlined.computation->set_is_fusion(true);
  outlined.results = FindResults(members);
  NodeCopier copier(outlined.computation, options_);
  const std::vector<int> list = ListWithCopies(members);
  const absl::flat_hash_set<int> inside(list.begin(), list.end());
  for (int n : list) {
    for (int p : node(n).operands) {
      if (!inside.contains(p) && !copier.Has(p)) copier.AddParameter(p, instruction(p));
    }
    // The node's operands are the instruction's, each at its first occurrence.
    std::vector<Instruction*> operands;
    size_t next = 0;
    for (const Instruction* o : instruction(n).operands()) {
      const std::vector<int>& numbers = node(n).operands;
      size_t k = next;
      if (k < numbers.size() && node(numbers[k]).instruction == o) {
        ++next;
      } else {
        for (k = 0; node(numbers[k]).instruction != o;) ++k;
      }
      operands.push_back(copier.Get(numbers[k]));
    }
    copier.AddCopy(n, instruction(n), std::move(operands));
  }
  outlined.inputs = copier.TakeInputs();
  if (outlined.results.size() == 1) {
    outlined.computation->set_root(copier.Get(outlined.results[0]));
    return outlined;
  }
  InstructionSpec tuple;
  tuple.opcode = Opcode::kTuple;
  std::vector<Shape> shapes;
  for (int n : outlined.results) {
    if (!instruction(n).shape().IsArray()) {
      return absl::InternalError(
          absl::StrCat(instruction(n).name(), ": a tuple cannot be one of several results of a fusion"));
    }
    tuple.operands.push_back(copier.Get(n));
    shapes.push_back(instruction(n).shape());
  }
  tuple.shape = Shape::Tuple(std::move(shapes));
  outlined.computation->set_root(outlined.computation->Add(std::move(tuple)));
  return outlined;
}

absl::Status FusionGraph::OutlineGroup(int g) {
  const std::vector<int>& members = group(g).members;
  const FusionLabel label = policy_->Describe(*this, g, FindResults(members));
  ASSIGN_OR_RETURN(const Outlined outlined, MakeComputation(computation_->parent(), members, label.computation_name));
  Instruction* const position = options_.keep_positions ? node(members.back()).instruction : nullptr;
  auto add = [&](InstructionSpec spec) {
    return position != nullptr ? computation_->AddBefore(position, std::move(spec))
                               : computation_->Add(std::move(spec));
  };
  InstructionSpec spec;
  spec.opcode = Opcode::kFusion;
  spec.shape = outlined.computation->root()->shape();
  for (int i : outlined.inputs) spec.operands.push_back(node(i).instruction);
  spec.called = {outlined.computation};
  spec.attrs.SetEnum(AttrId::kFusionKind, label.kind);
  if (label.metadata != nullptr) spec.metadata = label.metadata->metadata();
  spec.name = label.name;
  Instruction* const fusion = add(std::move(spec));
  for (size_t k = 0; k < outlined.results.size(); ++k) {
    Node& result = nodes_[static_cast<size_t>(outlined.results[k])];
    Instruction* value = fusion;
    if (outlined.results.size() > 1) {
      InstructionSpec element;
      element.opcode = Opcode::kGetTupleElement;
      element.shape = result.instruction->shape();
      element.operands = {fusion};
      element.attrs.Set(AttrId::kTupleIndex, static_cast<int64_t>(k));
      value = add(std::move(element));
    }
    result.instruction->ReplaceAllUsesWith(value);
    result.instruction = value;  // what later groups read
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FusionGraph::Outline() {
  bool changed = false;
  for (int g = 0; g < group_count(); ++g) {
    if (group(g).members.empty() || !policy_->NeedsFusion(*this, g)) continue;
    RETURN_IF_ERROR(OutlineGroup(g));
    changed = true;
  }
  if (!changed) return false;
  computation_->RemoveDead();
  computation_->SortTopologically();
  RETURN_IF_ERROR(CheckOrder());
  return true;
}

absl::Status FusionGraph::CheckOrder() const {
  absl::flat_hash_set<const Instruction*> done;
  for (const auto& i : computation_->instructions()) {
    for (const Instruction* o : i->operands()) {
      if (!done.contains(o)) {
        return absl::InternalError(absl::StrCat(i->name(), ": fused into a cycle through ", o->name()));
      }
    }
    done.insert(i.get());
  }
  return absl::OkStatus();
}

}  // namespace backplane::compiler
