// The execution plan of a computation: the slots of the operands of each step, the values that are no longer needed
// after it, and the plans of the computations that it calls. Internal to core/eval and to interpreters that run steps
// themselves.
#ifndef BACKPLANE_CORE_EVAL_PLAN_H_
#define BACKPLANE_CORE_EVAL_PLAN_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "core/eval/scalar_compiler.h"
#include "core/ir/module.h"

namespace backplane {

struct CalledPlan {
  const Computation* computation = nullptr;
  std::optional<Opcode> binary;
  std::unique_ptr<ScalarProgram> program;
};

struct PlanStep {
  const Instruction* instruction = nullptr;
  Instruction::ContextStorage storage;
  OpContext context;
  int slot = 0;
  std::vector<int> operands;   // slots
  std::vector<bool> last_use;  // for each operand: whether its value may be moved from
  std::vector<int> dead;       // slots to free after the step
  bool takes_element = false;  // get-tuple-element whose element has no other use
  std::vector<CalledPlan> called;
};

struct Plan {
  std::vector<PlanStep> steps;  // none for parameters
  std::vector<int> parameters;  // slots; -1: unused
  int root = 0;
  int slots = 0;
};

std::unique_ptr<Plan> MakePlan(const Computation& computation);
CalledPlan MakeCalledPlan(const Computation& computation);
std::vector<CalledPlan> MakeCalledPlans(const Instruction& instruction);  // one per called computation

// Caches the plans of computations. Thread-safe.
class PlanCache {
 public:
  const Plan& Get(const Computation& computation);

 private:
  Mutex mutex_;
  absl::flat_hash_map<const Computation*, std::unique_ptr<Plan>> plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_EVAL_PLAN_H_
