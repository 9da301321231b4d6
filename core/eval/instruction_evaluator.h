// Evaluates one instruction repeatedly, for plugins that execute only some instructions themselves. Caches the
// execution plan of the instruction and of the computations that it calls. The instruction must outlive the evaluator
// and not change. Thread-safe.
#ifndef BACKPLANE_CORE_EVAL_INSTRUCTION_EVALUATOR_H_
#define BACKPLANE_CORE_EVAL_INSTRUCTION_EVALUATOR_H_

#include <memory>
#include <vector>

#include "core/eval/evaluator.h"

namespace backplane {

struct PlanStep;

class InstructionEvaluator {
 public:
  explicit InstructionEvaluator(const Instruction& instruction);
  ~InstructionEvaluator();

  // Takes ownership of the operand values: one whose data is not shared may be updated in place and returned.
  absl::StatusOr<Literal> Run(std::vector<Literal> operands, const EvaluatorHooks& hooks = {}) const;

 private:
  const std::unique_ptr<PlanStep> step_;
  const std::unique_ptr<PlanCache> plans_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_EVAL_INSTRUCTION_EVALUATOR_H_
