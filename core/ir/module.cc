#include "core/ir/module.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace backplane {
namespace {

// Computations and instructions have separate namespaces. One map holds both; this prefix marks computations.
constexpr char kComputationPrefix = '\1';

// "add.12" -> "add"
absl::string_view WithoutSuffix(absl::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos || dot + 1 == name.size() || dot == 0) return name;
  for (char c : name.substr(dot + 1)) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return name;
  }
  return name.substr(0, dot);
}

void Visit(Computation* c, absl::flat_hash_set<const Computation*>& seen, std::vector<Computation*>& order) {
  // Iterative, because the depth of calls comes from input.
  struct Frame {
    Computation* computation;
    std::vector<Computation*> callees;
    size_t next = 0;
  };
  auto frame = [](Computation* x) {
    Frame f{x, {}};
    for (const auto& i : x->instructions()) f.callees.insert(f.callees.end(), i->called().begin(), i->called().end());
    return f;
  };
  if (!seen.insert(c).second) return;
  std::vector<Frame> stack;
  stack.push_back(frame(c));
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next == top.callees.size()) {
      order.push_back(top.computation);
      stack.pop_back();
      continue;
    }
    Computation* callee = top.callees[top.next++];
    if (seen.insert(callee).second) stack.push_back(frame(callee));
  }
}

}  // namespace

std::string Module::UniqueName(absl::string_view wished) {
  std::string name(wished);
  if (names_.try_emplace(name, 1).second) return name;
  const std::string base(WithoutSuffix(wished));
  int64_t& next = names_.try_emplace(base, 1).first->second;
  int64_t n = next;
  for (;; ++n) {
    name = absl::StrCat(base, ".", n);
    if (!names_.contains(name)) break;
  }
  next = n + 1;
  names_.emplace(name, 1);
  return name;
}

Computation* Module::AddComputation(std::string wished_name) {
  std::unique_ptr<Computation> c(new Computation());
  c->module_ = this;
  c->name_ = UniqueName(absl::StrCat(std::string(1, kComputationPrefix), wished_name)).substr(1);
  computations_.push_back(std::move(c));
  return computations_.back().get();
}

void Module::RemoveComputation(Computation* computation) {
  if (entry_ == computation) entry_ = nullptr;
  computations_.erase(
      std::remove_if(computations_.begin(), computations_.end(), [&](const auto& c) { return c.get() == computation; }),
      computations_.end());
}

int64_t Module::RemoveUnreachableComputations() {
  const std::vector<Computation*> order = PostOrder();
  const absl::flat_hash_set<const Computation*> reachable(order.begin(), order.end());
  const size_t before = computations_.size();
  computations_.erase(std::remove_if(computations_.begin(), computations_.end(),
                                     [&](const auto& c) { return !reachable.contains(c.get()); }),
                      computations_.end());
  return static_cast<int64_t>(before - computations_.size());
}

std::vector<Computation*> Module::PostOrder() const {
  return entry_ != nullptr ? PostOrder(entry_) : std::vector<Computation*>();
}

std::vector<Computation*> Module::PostOrder(const Computation* from) {
  std::vector<Computation*> order;
  absl::flat_hash_set<const Computation*> seen;
  Visit(const_cast<Computation*>(from), seen, order);
  return order;
}

Computation* Module::CloneComputation(const Computation* of) {
  const std::vector<Computation*> order = PostOrder(of);
  absl::flat_hash_map<const Computation*, Computation*> computations;
  absl::flat_hash_map<const Instruction*, Instruction*> instructions;
  for (const Computation* from : order) {
    Computation* to = AddComputation(from->name());
    to->is_fusion_ = from->is_fusion_;
    to->execution_thread_ = from->execution_thread_;
    for (const auto& i : from->instructions()) {
      std::vector<Instruction*> operands;
      for (const Instruction* o : i->operands()) operands.push_back(instructions.at(o));
      Instruction* copy = to->AddClone(i.get(), i->shape(), operands);
      for (size_t k = 0; k < i->called().size(); ++k) {
        copy->set_called(static_cast<int64_t>(k), computations.at(i->called(static_cast<int64_t>(k))));
      }
      instructions[i.get()] = copy;
    }
    for (const auto& i : from->instructions()) {  // control predecessors may follow their successors in the list
      for (const Instruction* p : i->control_predecessors()) {
        auto it = instructions.find(p);
        if (it != instructions.end()) instructions.at(i.get())->AddControlPredecessor(it->second);
      }
    }
    if (from->root() != nullptr) to->set_root(instructions.at(from->root()));
    computations[from] = to;
  }
  return computations.at(of);
}

std::unique_ptr<Module> Module::Clone() const {
  auto clone = std::make_unique<Module>(name_);
  clone->config_ = config_;
  if (entry_ != nullptr) clone->entry_ = clone->CloneComputation(entry_);
  return clone;
}

}  // namespace backplane
