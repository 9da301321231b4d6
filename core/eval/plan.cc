#include "core/eval/plan.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"

namespace backplane {
namespace {

absl::flat_hash_set<const Instruction*> LiveInstructions(const Computation& c) {
  absl::flat_hash_set<const Instruction*> live;
  std::vector<const Instruction*> work;
  auto mark = [&](const Instruction* i) {
    if (live.insert(i).second) work.push_back(i);
  };
  mark(c.root());
  for (const auto& i : c.instructions()) {
    if (i->HasSideEffect()) mark(i.get());
  }
  while (!work.empty()) {
    const Instruction* i = work.back();
    work.pop_back();
    for (const Instruction* o : i->operands()) mark(o);
  }
  return live;
}

}  // namespace

CalledPlan MakeCalledPlan(const Computation& computation) {
  CalledPlan plan;
  plan.computation = &computation;
  plan.binary = AsBinaryOp(computation);
  plan.program = CompileScalarProgram(computation);
  return plan;
}

std::vector<CalledPlan> MakeCalledPlans(const Instruction& instruction) {
  std::vector<CalledPlan> plans;
  for (const Computation* c : instruction.called()) {
    // These operations apply a computation to scalars; the others evaluate their computations as programs.
    if (instruction.info().Has(kCallsPerElement)) {
      plans.push_back(MakeCalledPlan(*c));
    } else {
      plans.emplace_back();
      plans.back().computation = c;
    }
  }
  return plans;
}

std::unique_ptr<Plan> MakePlan(const Computation& computation) {
  auto plan = std::make_unique<Plan>();
  const auto live = LiveInstructions(computation);
  absl::flat_hash_map<const Instruction*, int> slots;
  for (const auto& i : computation.instructions()) {
    if (live.contains(i.get())) slots.emplace(i.get(), plan->slots++);
  }
  for (const Instruction* p : computation.parameters()) {
    auto it = slots.find(p);
    plan->parameters.push_back(it != slots.end() ? it->second : -1);
  }
  plan->root = slots.at(computation.root());
  for (const auto& i : computation.instructions()) {
    if (!live.contains(i.get()) || i->Is(Opcode::kParameter)) continue;
    PlanStep step;
    step.instruction = i.get();
    step.slot = slots.at(i.get());
    for (const Instruction* o : i->operands()) step.operands.push_back(slots.at(o));
    step.last_use.assign(step.operands.size(), false);
    step.called = MakeCalledPlans(*i);
    plan->steps.push_back(std::move(step));
  }
  // The context points into its own step, which must not move any more.
  for (PlanStep& step : plan->steps) step.context = step.instruction->Context(step.storage);

  std::vector<int> last(static_cast<size_t>(plan->slots), -1);
  for (size_t s = 0; s < plan->steps.size(); ++s) {
    for (int slot : plan->steps[s].operands) last[static_cast<size_t>(slot)] = static_cast<int>(s);
  }
  absl::flat_hash_map<std::pair<int, int64_t>, size_t> last_element;  // (tuple, index) -> step
  absl::flat_hash_set<int> shared;                                    // tuples with uses other than get-tuple-element
  for (size_t s = 0; s < plan->steps.size(); ++s) {
    PlanStep& step = plan->steps[s];
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const int slot = step.operands[k];
      if (!step.instruction->Is(Opcode::kGetTupleElement)) shared.insert(slot);
      if (slot == plan->root || last[static_cast<size_t>(slot)] != static_cast<int>(s)) continue;
      const bool once = std::count(step.operands.begin(), step.operands.end(), slot) == 1;
      step.last_use[k] = once;
      if (std::find(step.dead.begin(), step.dead.end(), slot) == step.dead.end()) step.dead.push_back(slot);
    }
    if (step.instruction->Is(Opcode::kGetTupleElement)) {
      last_element[{step.operands[0], step.instruction->tuple_index()}] = s;
    }
    if (last[static_cast<size_t>(step.slot)] < 0 && step.slot != plan->root) step.dead.push_back(step.slot);
  }
  for (const auto& [key, s] : last_element) {
    if (key.first != plan->root && !shared.contains(key.first)) plan->steps[s].takes_element = true;
  }
  return plan;
}

const Plan& PlanCache::Get(const Computation& computation) {
  MutexLock lock(mutex_);
  std::unique_ptr<Plan>& plan = plans_[&computation];
  if (plan == nullptr) plan = MakePlan(computation);
  return *plan;
}

}  // namespace backplane
