#include "core/eval/evaluator.h"

#include <atomic>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/eval/instruction_evaluator.h"
#include "core/eval/plan.h"
#include "core/ops/families/checks.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

// The state of the stateful generators (rng, rng-get-and-update-state), one per process.
Literal DrawRandomState(int64_t delta) {
  static const uint64_t seed = [] {
    std::random_device device;
    return static_cast<uint64_t>(device()) << 32 | device();
  }();
  static std::atomic<uint64_t> counter{0};
  const uint64_t at = counter.fetch_add(static_cast<uint64_t>(delta), std::memory_order_relaxed);
  const uint64_t words[2] = {seed, at};
  const int64_t dims[1] = {2};
  return Literal::FromValues<uint64_t>(dims, words);
}

absl::Status Named(const absl::Status& status, absl::string_view name) {
  if (status.ok() || name.empty() || absl::StartsWith(status.message(), absl::StrCat(name, ":"))) return status;
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

class Machine {
 public:
  Machine(PlanCache& plans, const EvaluatorHooks& hooks) : plans_(plans), hooks_(hooks) {}
  const EvaluatorHooks& hooks() const { return hooks_; }
  absl::StatusOr<Literal> Run(const Computation& computation, std::vector<Literal> arguments);

 private:
  PlanCache& plans_;
  const EvaluatorHooks& hooks_;
};

// The context of one step: the values of the computation being evaluated.
class StepEnv : public EvalEnv {
 public:
  StepEnv(Machine& machine, const PlanStep& step, std::vector<Literal>* values)
      : machine_(machine), step_(step), values_(values) {}

  absl::StatusOr<Literal> Call(int i, absl::Span<const Literal* const> args) override {
    std::vector<Literal> copies;
    copies.reserve(args.size());
    for (const Literal* a : args) copies.push_back(*a);
    return CallWithOwnedArguments(i, std::move(copies));
  }
  absl::StatusOr<Literal> CallWithOwnedArguments(int i, std::vector<Literal> args) override {
    return machine_.Run(*step_.called[static_cast<size_t>(i)].computation, std::move(args));
  }
  std::optional<Opcode> CalledBinaryOp(int i) override { return step_.called[static_cast<size_t>(i)].binary; }
  const ScalarProgram* CalledScalarProgram(int i) override {
    return step_.called[static_cast<size_t>(i)].program.get();
  }
  Literal TakeOperand(int i, const Literal& operand) override {
    const size_t k = static_cast<size_t>(i);
    if (values_ == nullptr || !step_.last_use[k]) return operand;
    return std::move((*values_)[static_cast<size_t>(step_.operands[k])]);
  }
  absl::Status CheckCancelled() override {
    const auto& cancelled = machine_.hooks().cancelled;
    return cancelled && cancelled() ? absl::CancelledError("the evaluation was cancelled") : absl::OkStatus();
  }
  absl::StatusOr<Literal> RunExternal(const OpContext& op, absl::Span<const Literal* const> operands) override;

 private:
  Machine& machine_;
  const PlanStep& step_;
  std::vector<Literal>* values_;
};

absl::StatusOr<Literal> StepEnv::RunExternal(const OpContext& op, absl::Span<const Literal* const> operands) {
  const Instruction& i = *step_.instruction;
  const EvaluatorHooks& hooks = machine_.hooks();
  const Shape* want = &i.shape();
  const std::function<absl::StatusOr<Literal>(const Instruction&, absl::Span<const Literal* const>)>* hook =
      &hooks.collective;
  absl::string_view kind = "collectives";
  switch (op.opcode) {
    case Opcode::kReplicaId:
      return Literal::ScalarInt(PrimitiveType::kU32, hooks.replica_id);
    case Opcode::kPartitionId:
      return Literal::ScalarInt(PrimitiveType::kU32, hooks.partition_id);
    case Opcode::kRng:
      return DrawRandomState(int64_t{1} << 40);  // far more than one operation consumes
    case Opcode::kRngGetAndUpdateState:
      return DrawRandomState(std::max<int64_t>(i.attrs().GetInt(AttrId::kDelta, 1), 1));
    case Opcode::kCustomCall:
      if (!hooks.custom_call) {
        return absl::UnimplementedError(
            absl::StrCat("custom call target ", i.custom_call_target(), " is not registered"));
      }
      hook = &hooks.custom_call;
      break;
    case Opcode::kInfeed:
      hook = &hooks.transfer;
      kind = "transfers";
      want = &i.shape().tuple_shapes(0);
      break;
    case Opcode::kRecv:
    case Opcode::kSend:
      if (i.attrs().GetBool(AttrId::kIsHostTransfer)) {
        hook = &hooks.transfer;
        kind = "transfers";
      }
      want = op.opcode == Opcode::kRecv ? &i.shape().tuple_shapes(0) : nullptr;
      break;
    case Opcode::kRecvDone:
      want = &i.shape().tuple_shapes(0);
      break;
    case Opcode::kOutfeed:
      hook = &hooks.transfer;
      kind = "transfers";
      want = nullptr;
      break;
    case Opcode::kAllGatherStart:
    case Opcode::kCollectivePermuteStart:
      want = &i.shape().tuple_shapes(1);
      break;
    default:
      break;
  }
  if (!*hook) return absl::UnimplementedError(absl::StrCat(OpName(op.opcode), " needs a runtime with ", kind));
  ASSIGN_OR_RETURN(Literal result, (*hook)(i, operands));
  if (want != nullptr && !SameTypeAndDims(result.shape(), *want)) {
    return absl::InternalError(
        absl::StrCat("the runtime returned ", result.shape().ToString(), ", expected ", want->ToString()));
  }
  return result;
}

absl::StatusOr<Literal> Machine::Run(const Computation& computation, std::vector<Literal> arguments) {
  const Plan& plan = plans_.Get(computation);
  std::vector<Literal> values(static_cast<size_t>(plan.slots));
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (plan.parameters[i] >= 0) values[static_cast<size_t>(plan.parameters[i])] = std::move(arguments[i]);
  }
  arguments.clear();
  absl::InlinedVector<const Literal*, 8> operands;
  for (const PlanStep& step : plan.steps) {
    Literal& value = values[static_cast<size_t>(step.slot)];
    if (step.takes_element) {
      Literal& tuple = values[static_cast<size_t>(step.operands[0])];
      value = std::move(tuple.mutable_elements()[static_cast<size_t>(step.instruction->tuple_index())]);
    } else {
      operands.clear();
      for (int slot : step.operands) operands.push_back(&values[static_cast<size_t>(slot)]);
      StepEnv env(*this, step, &values);
      absl::StatusOr<Literal> result = EvaluateOp(step.context, operands, env);
      if (!result.ok()) return Named(result.status(), step.instruction->name());
      value = *std::move(result);
    }
    for (int slot : step.dead) values[static_cast<size_t>(slot)] = Literal();
  }
  return std::move(values[static_cast<size_t>(plan.root)]);
}

absl::Status CheckArguments(const Computation& computation, absl::Span<const Literal* const> arguments) {
  if (computation.root() == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(computation.name(), ": has no root"));
  const auto& parameters = computation.parameters();
  if (arguments.size() != parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat(computation.name(), ": called with ", arguments.size(),
                                                   " arguments, expected ", parameters.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!SameTypeAndDims(arguments[i]->shape(), parameters[i]->shape())) {
      return absl::InvalidArgumentError(absl::StrCat(computation.name(), ": argument ", i, " is ",
                                                     arguments[i]->shape().ToString(), ", expected ",
                                                     parameters[i]->shape().ToString()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Literal> RunChecked(PlanCache& plans, const Computation& computation,
                                   absl::Span<const Literal* const> arguments, const EvaluatorHooks& hooks) {
  RETURN_IF_ERROR(CheckArguments(computation, arguments));
  std::vector<Literal> copies;
  for (const Literal* a : arguments) copies.push_back(*a);
  Machine machine(plans, hooks);
  return machine.Run(computation, std::move(copies));
}

std::vector<const Literal*> Pointers(absl::Span<const Literal> literals) {
  std::vector<const Literal*> pointers;
  for (const Literal& l : literals) pointers.push_back(&l);
  return pointers;
}

}  // namespace

absl::StatusOr<Literal> EvaluateComputation(const Computation& computation, absl::Span<const Literal* const> arguments,
                                            const EvaluatorHooks& hooks) {
  PlanCache plans;
  return RunChecked(plans, computation, arguments, hooks);
}

absl::StatusOr<Literal> Evaluate(const Module& module, absl::Span<const Literal> arguments,
                                 const EvaluatorHooks& hooks) {
  if (module.entry() == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(module.name(), ": has no entry computation"));
  return EvaluateComputation(*module.entry(), Pointers(arguments), hooks);
}

absl::StatusOr<Literal> EvaluateInstruction(const Instruction& instruction, absl::Span<const Literal* const> operands,
                                            const EvaluatorHooks& hooks) {
  if (static_cast<int64_t>(operands.size()) != instruction.operand_count()) {
    return absl::InvalidArgumentError(absl::StrCat(instruction.name(), ": has ", operands.size(),
                                                   " operand values, expected ", instruction.operand_count()));
  }
  PlanStep step;
  step.instruction = &instruction;
  step.context = instruction.Context(step.storage);
  for (const Computation* c : instruction.called()) step.called.push_back(MakeCalledPlan(*c));
  PlanCache plans;
  Machine machine(plans, hooks);
  StepEnv env(machine, step, nullptr);
  absl::StatusOr<Literal> result = EvaluateOp(step.context, operands, env);
  if (!result.ok()) return Named(result.status(), instruction.name());
  return result;
}

Evaluator::Evaluator(const Module& module) : module_(module), plans_(std::make_unique<PlanCache>()) {}
Evaluator::~Evaluator() = default;

absl::StatusOr<Literal> Evaluator::Run(absl::Span<const Literal> arguments, const EvaluatorHooks& hooks) const {
  if (module_.entry() == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(module_.name(), ": has no entry computation"));
  return RunChecked(*plans_, *module_.entry(), Pointers(arguments), hooks);
}

InstructionEvaluator::InstructionEvaluator(const Instruction& instruction)
    : step_(std::make_unique<PlanStep>()), plans_(std::make_unique<PlanCache>()) {
  step_->instruction = &instruction;
  step_->context = instruction.Context(step_->storage);
  step_->called = MakeCalledPlans(instruction);
  for (int k = 0; k < static_cast<int>(instruction.operand_count()); ++k) step_->operands.push_back(k);
  step_->last_use.assign(step_->operands.size(), true);
}

InstructionEvaluator::~InstructionEvaluator() = default;

absl::StatusOr<Literal> InstructionEvaluator::Run(std::vector<Literal> operands, const EvaluatorHooks& hooks) const {
  const Instruction& instruction = *step_->instruction;
  if (operands.size() != step_->operands.size()) {
    return absl::InvalidArgumentError(absl::StrCat(instruction.name(), ": has ", operands.size(),
                                                   " operand values, expected ", step_->operands.size()));
  }
  std::vector<const Literal*> pointers;
  for (const Literal& operand : operands) pointers.push_back(&operand);
  Machine machine(*plans_, hooks);
  StepEnv env(machine, *step_, &operands);
  absl::StatusOr<Literal> result = EvaluateOp(step_->context, pointers, env);
  if (!result.ok()) return Named(result.status(), instruction.name());
  return result;
}

}  // namespace backplane
