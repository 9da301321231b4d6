// One instruction of a program that runs often, for plugins that run a part of a program's instructions themselves:
// what is worked out about it and its computations is kept. The instruction must outlive it and not change.
// Thread-safe.
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

  // The operands' values are given away: one whose data nobody shares may become the result, changed in place.
  absl::StatusOr<Literal> Run(std::vector<Literal> operands, const EvaluatorHooks& hooks = {}) const;

 private:
  const std::unique_ptr<PlanStep> step_;
  const std::unique_ptr<PlanCache> plans_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_EVAL_INSTRUCTION_EVALUATOR_H_
