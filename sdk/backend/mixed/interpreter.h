// Runs a program of which some instructions have kernels and the rest is the evaluator's.
//
// Values stay where they were made: an array goes from the device's memory to the host's, or back, when somebody on the
// other side reads it, once. Loops, branches, calls and fusions that have kernels inside are walked through here; every
// other instruction without a kernel is evaluated by its definition (core/eval), in place where its operand is needed
// no more. Thread-safe: one Program runs on many devices at once.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_INTERPRETER_H_
#define BACKPLANE_SDK_BACKEND_MIXED_INTERPRETER_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/eval/instruction_evaluator.h"
#include "core/eval/plan.h"
#include "sdk/backend/mixed/claims.h"
#include "sdk/backend/mixed/value.h"

namespace backplane::mixed {

// A module made ready to run. The module must outlive it and not change.
class Program {
 public:
  Program(const Module& module, Assignment assignment);

  const Module& module() const { return module_; }
  const Kernel* KernelOf(const Instruction* i) const;
  const InstructionEvaluator* EvaluatorOf(const Instruction* i) const;
  const Plan& PlanOf(const Computation& c) const { return plans_.Get(c); }

 private:
  const Module& module_;
  absl::flat_hash_map<const Instruction*, Kernel> kernels_;
  absl::flat_hash_map<const Instruction*, std::unique_ptr<InstructionEvaluator>> evaluators_;
  mutable PlanCache plans_;
};

// Room that results of entry instructions are to be written to by their kernels; null storage: make some.
using Destinations = absl::flat_hash_map<const Instruction*, std::shared_ptr<Storage>>;

// Runs the entry computation. Errors carry the instruction's name.
absl::StatusOr<Value> RunProgram(const Program& program, std::vector<Value> arguments, const Destinations& destinations,
                                 const EvaluatorHooks& hooks, Placement& placement);

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_INTERPRETER_H_
