// A computation made ready to run: what each step reads, what dies after it, what its called computations are.
#ifndef BACKPLANE_CORE_EVAL_PLAN_H_
#define BACKPLANE_CORE_EVAL_PLAN_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  std::vector<bool> last_use;  // of each operand: its value may be taken
  std::vector<int> dead;       // slots to free after the step
  bool takes_element = false;  // get-tuple-element: nobody else needs that element
  std::vector<CalledPlan> called;
};

struct Plan {
  std::vector<PlanStep> steps;  // parameters have none
  std::vector<int> parameters;  // slots; -1: unused
  int root = 0;
  int slots = 0;
};

std::unique_ptr<Plan> MakePlan(const Computation& computation);
CalledPlan MakeCalledPlan(const Computation& computation);
std::vector<CalledPlan> MakeCalledPlans(const Instruction& instruction);  // one for each it calls

// Plans by computation, made when first needed. Thread-safe.
class PlanCache {
 public:
  const Plan& Get(const Computation& computation);

 private:
  std::mutex mutex_;
  absl::flat_hash_map<const Computation*, std::unique_ptr<Plan>> plans_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_EVAL_PLAN_H_
