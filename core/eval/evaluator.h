// Runs a module by the definitions in core/ops: the executable specification.
//
// Thread-safety: one Evaluator may run from many threads at once. Errors carry the instruction's name. A while loop has
// no limit of turns but checks `cancelled` each turn.
#ifndef BACKPLANE_CORE_EVAL_EVALUATOR_H_
#define BACKPLANE_CORE_EVAL_EVALUATOR_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/ir/module.h"

namespace backplane {

// What only a running program knows; every member may be left empty: an operation that needs it then fails, naming it.
struct EvaluatorHooks {
  int64_t replica_id = 0, partition_id = 0;
  // Custom calls (FFI and others): operands in, results out.
  std::function<absl::StatusOr<Literal>(const Instruction& call, absl::Span<const Literal* const> operands)>
      custom_call;
  // All collectives, send/recv across devices. For a start (all-reduce-start, ...) the result of the whole operation;
  // for recv-done the data.
  std::function<absl::StatusOr<Literal>(const Instruction& op, absl::Span<const Literal* const> operands)> collective;
  // Infeed, outfeed, host send/recv. Returns the data that came in (infeed, recv), anything valid for outfeed and send.
  std::function<absl::StatusOr<Literal>(const Instruction& op, absl::Span<const Literal* const> operands)> transfer;
  std::function<bool()> cancelled;
};

// Evaluates the entry computation. Argument shapes must equal the parameters' (layouts ignored).
absl::StatusOr<Literal> Evaluate(const Module& module, absl::Span<const Literal> arguments,
                                 const EvaluatorHooks& hooks = {});
absl::StatusOr<Literal> EvaluateComputation(const Computation& computation, absl::Span<const Literal* const> arguments,
                                            const EvaluatorHooks& hooks = {});
// One instruction whose operands' values are known; for constant folding and for a plugin's fallback.
absl::StatusOr<Literal> EvaluateInstruction(const Instruction& instruction, absl::Span<const Literal* const> operands,
                                            const EvaluatorHooks& hooks = {});

// The same for a module that runs often: what is worked out about the program is kept. The module must outlive it and
// not change. Thread-safe.
class PlanCache;
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
