// Runs a module by the definitions in core/ops: the executable specification.
//
// All functions are thread-safe. Error messages contain the name of the instruction. The number of iterations of a loop
// is not limited, but each iteration checks `cancelled`.
#ifndef BACKPLANE_CORE_EVAL_EVALUATOR_H_
#define BACKPLANE_CORE_EVAL_EVALUATOR_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/ir/module.h"

namespace backplane {

// Callbacks and ids that depend on the execution. Each function may be empty; an operation that needs it then fails
// with an error that names the operation. The functions must be thread-safe if several threads use the same hooks.
struct EvaluatorHooks {
  int64_t replica_id = 0, partition_id = 0;
  // Executes a custom call (FFI and others).
  std::function<absl::StatusOr<Literal>(const Instruction& call, absl::Span<const Literal* const> operands)>
      custom_call;
  // Executes collectives, and sends and receives between devices. Returns the result of the whole operation for a start
  // half (all-reduce-start, ...), and the data for recv-done.
  std::function<absl::StatusOr<Literal>(const Instruction& op, absl::Span<const Literal* const> operands)> collective;
  // Executes infeed, outfeed, and sends and receives with the host. Returns the received data (infeed, recv); the
  // result for outfeed and send is ignored.
  std::function<absl::StatusOr<Literal>(const Instruction& op, absl::Span<const Literal* const> operands)> transfer;
  std::function<bool()> cancelled;
};

// Evaluates the entry computation. Argument shapes must equal the parameter shapes; layouts are ignored.
absl::StatusOr<Literal> Evaluate(const Module& module, absl::Span<const Literal> arguments,
                                 const EvaluatorHooks& hooks = {});
absl::StatusOr<Literal> EvaluateComputation(const Computation& computation, absl::Span<const Literal* const> arguments,
                                            const EvaluatorHooks& hooks = {});
// Evaluates one instruction whose operand values are known, for constant folding and for plugins that run some
// instructions themselves.
absl::StatusOr<Literal> EvaluateInstruction(const Instruction& instruction, absl::Span<const Literal* const> operands,
                                            const EvaluatorHooks& hooks = {});

class PlanCache;

// Evaluates a module repeatedly: caches execution plans. The module must outlive the Evaluator and not change.
// Thread-safe.
class Evaluator {
 public:
  explicit Evaluator(const Module& module);
  ~Evaluator();
  absl::StatusOr<Literal> Run(absl::Span<const Literal> arguments, const EvaluatorHooks& hooks = {}) const;

 private:
  const Module& module_;
  std::unique_ptr<PlanCache> plans_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_EVAL_EVALUATOR_H_
