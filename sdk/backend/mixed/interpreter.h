// Runs a program: kernels run some instructions, the evaluator runs the others.
//
// An array is copied between device and host memory only when it is read on the other side, and at most once. The
// interpreter runs the computations of loops, branches, calls and fusions that contain kernels step by step. It passes
// every other instruction without a kernel to the evaluator (core/eval), which works in place if the operand is not
// needed afterwards. Thread-safe: several devices may run one Program at the same time.
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

// A module prepared for execution. The module must outlive it and must not change. Thread-safe.
class Program {
 public:
  Program(const Module& module, Assignment assignment);

  const Module& module() const { return module_; }
  const Kernel* FindKernel(const Instruction* i) const;
  const InstructionEvaluator* FindEvaluator(const Instruction* i) const;
  const Plan& GetPlan(const Computation& c) const { return plans_.Get(c); }

 private:
  const Module& module_;
  absl::flat_hash_map<const Instruction*, Kernel> kernels_;
  absl::flat_hash_map<const Instruction*, std::unique_ptr<InstructionEvaluator>> evaluators_;
  mutable PlanCache plans_;
};

// The storages to which kernels of entry instructions write their results. Null storage: allocate it.
using Destinations = absl::flat_hash_map<const Instruction*, std::shared_ptr<Storage>>;

// Runs the entry computation. Error messages name the instruction.
absl::StatusOr<Value> RunProgram(const Program& program, std::vector<Value> arguments, const Destinations& destinations,
                                 const EvaluatorHooks& hooks, Placement& placement);

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_INTERPRETER_H_
