#include "sdk/backend/mixed/interpreter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::mixed {
namespace {

absl::Status Named(const absl::Status& status, absl::string_view name) {
  if (status.ok() || absl::StartsWith(status.message(), absl::StrCat(name, ":"))) return status;
  return absl::Status(status.code(), absl::StrCat(name, ": ", status.message()));
}

class Interpreter {
 public:
  Interpreter(const Program& program, const Destinations& destinations, const EvaluatorHooks& hooks,
              Placement& placement)
      : program_(program), destinations_(destinations), hooks_(hooks), placement_(placement) {}

  absl::StatusOr<Value> Run(const Computation& computation, std::vector<Value> arguments);

 private:
  // The values of one computation that is being run, and the current step.
  struct Frame {
    std::vector<Value> values;
    const PlanStep* step = nullptr;
    Value& operand(size_t k) { return values[static_cast<size_t>(step->operands[k])]; }
    // Moves the operand out if this is its last use.
    Value Take(size_t k) { return step->last_use[k] ? std::move(operand(k)) : operand(k); }
  };

  absl::StatusOr<Value> Step(Frame& frame);
  absl::StatusOr<Value> While(Frame& frame);
  absl::StatusOr<Value> Conditional(Frame& frame);
  absl::StatusOr<Value> RunKernel(const Kernel& kernel, Frame& frame);
  absl::StatusOr<Value> Evaluate(const InstructionEvaluator& evaluator, Frame& frame);
  absl::Status AddOperand(Value& value, KernelArrays& arrays);
  absl::StatusOr<Value> MakeResult(const Shape& shape, const Instruction* i, KernelArrays& arrays);
  // Reads a scalar that controls a loop or a branch.
  absl::StatusOr<int64_t> Read(Value& value) {
    ASSIGN_OR_RETURN(Literal scalar, value.OnHost(placement_));
    return scalar.GetAsInt(0);
  }

  const Program& program_;
  const Destinations& destinations_;
  const EvaluatorHooks& hooks_;
  Placement& placement_;
};

absl::StatusOr<Value> Interpreter::Run(const Computation& computation, std::vector<Value> arguments) {
  const Plan& plan = program_.GetPlan(computation);
  Frame frame;
  frame.values.resize(static_cast<size_t>(plan.slots));
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (plan.parameters[i] >= 0) frame.values[static_cast<size_t>(plan.parameters[i])] = std::move(arguments[i]);
  }
  arguments.clear();
  for (const PlanStep& step : plan.steps) {
    frame.step = &step;
    absl::StatusOr<Value> result = Step(frame);
    if (!result.ok()) return Named(result.status(), step.instruction->name());
    frame.values[static_cast<size_t>(step.slot)] = *std::move(result);
    for (int slot : step.dead) frame.values[static_cast<size_t>(slot)] = Value();
  }
  return std::move(frame.values[static_cast<size_t>(plan.root)]);
}

absl::StatusOr<Value> Interpreter::Step(Frame& frame) {
  const Instruction* i = frame.step->instruction;
  if (const Kernel* kernel = program_.FindKernel(i)) return RunKernel(*kernel, frame);
  if (const InstructionEvaluator* evaluator = program_.FindEvaluator(i)) return Evaluate(*evaluator, frame);
  const size_t operands = frame.step->operands.size();
  switch (i->opcode()) {
    case Opcode::kTuple: {
      std::vector<Value> elements;
      for (size_t k = 0; k < operands; ++k) elements.push_back(frame.Take(k));
      return Value::Tuple(std::move(elements));
    }
    case Opcode::kGetTupleElement: {
      Value& element = frame.operand(0).elements()[static_cast<size_t>(i->tuple_index())];
      return frame.step->takes_element ? std::move(element) : element;
    }
    case Opcode::kWhile:
      return While(frame);
    case Opcode::kConditional:
      return Conditional(frame);
    case Opcode::kCall:
    case Opcode::kFusion: {
      std::vector<Value> arguments;
      for (size_t k = 0; k < operands; ++k) arguments.push_back(frame.Take(k));
      return Run(*i->called(0), std::move(arguments));
    }
    default:
      if (i->info().Has(kForwardsOperand)) return frame.Take(0);
      return absl::InternalError("no kernel and no evaluator is assigned to it");
  }
}

absl::StatusOr<Value> Interpreter::While(Frame& frame) {
  const Instruction* loop = frame.step->instruction;
  Value state = frame.Take(0);
  for (;;) {
    if (hooks_.cancelled && hooks_.cancelled()) return absl::CancelledError("the execution was cancelled");
    std::vector<Value> seen;
    seen.push_back(state);
    ASSIGN_OR_RETURN(Value decision, Run(*loop->called(0), std::move(seen)));
    ASSIGN_OR_RETURN(int64_t go_on, Read(decision));
    if (go_on == 0) return state;
    std::vector<Value> arguments;
    arguments.push_back(std::move(state));
    ASSIGN_OR_RETURN(state, Run(*loop->called(1), std::move(arguments)));
  }
}

absl::StatusOr<Value> Interpreter::Conditional(Frame& frame) {
  const Instruction* i = frame.step->instruction;
  const int64_t branches = static_cast<int64_t>(i->called().size());
  ASSIGN_OR_RETURN(int64_t branch, Read(frame.operand(0)));
  if (i->operand(0)->shape().element_type() == PrimitiveType::kPred) branch = branch != 0 ? 0 : 1;
  if (branch < 0 || branch >= branches) branch = branches - 1;
  std::vector<Value> arguments;
  arguments.push_back(frame.Take(static_cast<size_t>(branch) + 1));
  return Run(*i->called(branch), std::move(arguments));
}

absl::Status Interpreter::AddOperand(Value& value, KernelArrays& arrays) {
  if (value.is_tuple()) {
    for (Value& element : value.elements()) RETURN_IF_ERROR(AddOperand(element, arrays));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const void* address, value.OnDevice(placement_));
  arrays.operands.push_back(address);
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::MakeResult(const Shape& shape, const Instruction* i, KernelArrays& arrays) {
  if (shape.IsTuple()) {
    std::vector<Value> elements;
    for (const Shape& element : shape.tuple_shapes()) {
      ASSIGN_OR_RETURN(Value made, MakeResult(element, nullptr, arrays));
      elements.push_back(std::move(made));
    }
    return Value::Tuple(std::move(elements));
  }
  std::shared_ptr<Storage> storage;
  if (auto at = destinations_.find(i); i != nullptr && at != destinations_.end()) storage = at->second;
  if (storage == nullptr && placement_.on_host()) {
    Literal literal(shape);
    arrays.results.push_back(literal.mutable_bytes());
    return Value::OfLiteral(std::move(literal));
  }
  if (storage == nullptr) {
    ASSIGN_OR_RETURN(storage, placement_.Allocate(static_cast<size_t>(shape.byte_size())));
  }
  arrays.results.push_back(storage->data());
  return Value::OfStorage(shape, std::move(storage));
}

absl::StatusOr<Value> Interpreter::RunKernel(const Kernel& kernel, Frame& frame) {
  const Instruction* i = frame.step->instruction;
  KernelArrays arrays;
  arrays.device = placement_.device();
  for (size_t k = 0; k < frame.step->operands.size(); ++k) RETURN_IF_ERROR(AddOperand(frame.operand(k), arrays));
  ASSIGN_OR_RETURN(Value result, MakeResult(i->shape(), i, arrays));
  RETURN_IF_ERROR(kernel(arrays));
  return result;
}

absl::StatusOr<Value> Interpreter::Evaluate(const InstructionEvaluator& evaluator, Frame& frame) {
  std::vector<Literal> operands;
  for (size_t k = 0; k < frame.step->operands.size(); ++k) {
    if (frame.step->last_use[k]) {
      ASSIGN_OR_RETURN(Literal operand, std::move(frame.operand(k)).MoveToHost(placement_));
      operands.push_back(std::move(operand));
    } else {
      ASSIGN_OR_RETURN(Literal operand, frame.operand(k).OnHost(placement_));
      operands.push_back(std::move(operand));
    }
  }
  ASSIGN_OR_RETURN(Literal result, evaluator.Run(std::move(operands), hooks_));
  return Value::OfLiteral(std::move(result));
}

}  // namespace

Program::Program(const Module& module, Assignment assignment)
    : module_(module), kernels_(std::move(assignment.kernels)) {
  for (const Instruction* i : assignment.evaluated) {
    std::unique_ptr<InstructionEvaluator>& evaluator = evaluators_[i];
    if (evaluator == nullptr) evaluator = std::make_unique<InstructionEvaluator>(*i);
  }
}

const Kernel* Program::FindKernel(const Instruction* i) const {
  auto at = kernels_.find(i);
  return at == kernels_.end() ? nullptr : &at->second;
}

const InstructionEvaluator* Program::FindEvaluator(const Instruction* i) const {
  auto at = evaluators_.find(i);
  return at == evaluators_.end() ? nullptr : at->second.get();
}

absl::StatusOr<Value> RunProgram(const Program& program, std::vector<Value> arguments, const Destinations& destinations,
                                 const EvaluatorHooks& hooks, Placement& placement) {
  return Interpreter(program, destinations, hooks, placement).Run(*program.module().entry(), std::move(arguments));
}

}  // namespace backplane::mixed
