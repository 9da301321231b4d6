// Evaluation of calls, branches, loops, tuples, and of what only a running program can do.
#include "core/ops/families/elements.h"

namespace backplane {
namespace {

absl::StatusOr<Literal> While(const OpContext& op, Args args, EvalEnv& env) {
  Literal state = env.TakeOperand(0, *args[0]);
  for (;;) {
    RETURN_IF_ERROR(env.CheckCancelled());
    {
      const Literal* view = &state;
      ASSIGN_OR_RETURN(Literal go_on, env.Call(0, absl::MakeSpan(&view, 1)));
      if (go_on.GetAsInt(0) == 0) return state;
    }
    std::vector<Literal> values;
    values.push_back(std::move(state));
    ASSIGN_OR_RETURN(state, env.CallWithOwnedArguments(1, std::move(values)));
  }
}

absl::StatusOr<Literal> Conditional(const OpContext& op, Args args, EvalEnv& env) {
  const int64_t branches = static_cast<int64_t>(op.called.size());
  int64_t i = args[0]->GetAsInt(0);
  if (args[0]->shape().element_type() == PrimitiveType::kPred) i = i != 0 ? 0 : 1;
  if (i < 0 || i >= branches) i = branches - 1;
  const int operand = static_cast<int>(i) + 1;
  std::vector<Literal> values;
  values.push_back(env.TakeOperand(operand, *args[static_cast<size_t>(operand)]));
  return env.CallWithOwnedArguments(static_cast<int>(i), std::move(values));
}

absl::StatusOr<Literal> Map(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  const int64_t n = out.num_elements(), width = ByteWidth(shape.element_type());
  std::byte* to = out.mutable_bytes();
  if (const ScalarProgram* program = env.CalledScalarProgram(0)) {
    ScalarMachine machine(*program, std::min<int64_t>(std::max<int64_t>(n, 1), 1024));
    for (int64_t at = 0; at < n; at += machine.lanes()) {
      const int64_t m = std::min(machine.lanes(), n - at);
      for (size_t i = 0; i < args.size(); ++i) {
        machine.Bind(static_cast<int>(i), args[i]->bytes() + at * ByteWidth(args[i]->shape().element_type()));
      }
      machine.Run(m);
      std::memcpy(to + at * width, machine.result(0), static_cast<size_t>(m * width));
    }
    return out;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::vector<Literal> values;
    for (const Literal* a : args) {
      Literal v(Shape::Scalar(a->shape().element_type()));
      std::memcpy(v.mutable_bytes(), a->bytes() + i * v.byte_size(), static_cast<size_t>(v.byte_size()));
      values.push_back(std::move(v));
    }
    ASSIGN_OR_RETURN(Literal r, env.CallWithOwnedArguments(0, std::move(values)));
    std::memcpy(to + i * width, r.bytes(), static_cast<size_t>(width));
  }
  return out;
}

// A value of the declared start's shape whose leading elements are given and whose contexts are zero.
absl::StatusOr<Literal> StartResult(const OpContext& op, std::vector<Literal> leading) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  for (int64_t i = static_cast<int64_t>(leading.size()); i < shape.tuple_size(); ++i) {
    leading.push_back(shape.tuple_shapes(i).IsToken() ? Literal::Token() : Literal(shape.tuple_shapes(i)));
  }
  return Literal::Tuple(std::move(leading));
}

Literal Together(Args args) {
  if (args.size() == 1) return *args[0];
  std::vector<Literal> all;
  for (const Literal* a : args) all.push_back(*a);
  return Literal::Tuple(std::move(all));
}

std::vector<Literal> List(Literal a, Literal b) {
  std::vector<Literal> v;
  v.push_back(std::move(a));
  v.push_back(std::move(b));
  return v;
}

}  // namespace

absl::StatusOr<Literal> EvaluateControl(const OpContext& op, Args args, EvalEnv& env) {
  switch (op.opcode) {
    case Opcode::kAfterAll:
      return Literal::Token();
    case Opcode::kCall:
    case Opcode::kFusion: {
      std::vector<Literal> values;
      for (size_t i = 0; i < args.size(); ++i) values.push_back(env.TakeOperand(static_cast<int>(i), *args[i]));
      return env.CallWithOwnedArguments(0, std::move(values));
    }
    case Opcode::kConditional:
      return Conditional(op, args, env);
    case Opcode::kMap:
      return Map(op, args, env);
    case Opcode::kWhile:
      return While(op, args, env);
    case Opcode::kTuple: {
      std::vector<Literal> values;
      for (size_t i = 0; i < args.size(); ++i) values.push_back(env.TakeOperand(static_cast<int>(i), *args[i]));
      return Literal::Tuple(std::move(values));
    }
    case Opcode::kGetTupleElement:
      return args[0]->elements()[static_cast<size_t>(op.attrs->GetInt(AttrId::kTupleIndex))];
    default:
      return env.TakeOperand(0, *args[0]);  // add-dependency, domain, opt-barrier
  }
}

absl::StatusOr<Literal> EvaluateCustom(const OpContext& op, Args args, EvalEnv& env) {
  return env.RunExternal(op, args);
}
absl::StatusOr<Literal> EvaluateCollective(const OpContext& op, Args args, EvalEnv& env) {
  return env.RunExternal(op, args);
}

// The start does all the work; the done extracts the result.
absl::StatusOr<Literal> EvaluateAsync(const OpContext& op, Args args, EvalEnv& env) {
  switch (op.opcode) {
    case Opcode::kAllReduceStart:
      return env.RunExternal(op, args);
    case Opcode::kAllGatherStart:
    case Opcode::kCollectivePermuteStart: {
      ASSIGN_OR_RETURN(Literal result, env.RunExternal(op, args));
      return StartResult(op, List(Together(args), std::move(result)));
    }
    case Opcode::kCopyStart:
      return StartResult(op, List(*args[0], *args[0]));
    case Opcode::kAsyncStart: {
      ASSIGN_OR_RETURN(Literal result, env.Call(0, args));
      std::vector<Literal> operands;
      for (const Literal* a : args) operands.push_back(*a);
      return StartResult(op, List(Literal::Tuple(std::move(operands)), std::move(result)));
    }
    case Opcode::kAllReduceDone:
    case Opcode::kAsyncUpdate:
      return *args[0];
    case Opcode::kCopyDone:
      return args[0]->elements()[0];
    default:
      return args[0]->elements()[1];
  }
}

absl::StatusOr<Literal> EvaluateTransfer(const OpContext& op, Args args, EvalEnv& env) {
  switch (op.opcode) {
    case Opcode::kInfeed: {
      ASSIGN_OR_RETURN(Literal data, env.RunExternal(op, args));
      return Literal::Tuple(List(std::move(data), Literal::Token()));
    }
    case Opcode::kOutfeed: {
      ASSIGN_OR_RETURN(Literal ignored, env.RunExternal(op, args));
      return Literal::Token();
    }
    case Opcode::kSend: {
      ASSIGN_OR_RETURN(Literal ignored, env.RunExternal(op, args));
      return StartResult(op, List(*args[0], Literal(Shape::Scalar(PrimitiveType::kU32))));
    }
    case Opcode::kRecv: {
      // Between devices recv-done waits for the data: this device may have to send first.
      Literal data(op.declared->tuple_shapes(0));
      if (op.attrs->GetBool(AttrId::kIsHostTransfer)) {
        ASSIGN_OR_RETURN(data, env.RunExternal(op, args));
      }
      return StartResult(op, List(std::move(data), Literal(Shape::Scalar(PrimitiveType::kU32))));
    }
    case Opcode::kSendDone:
      return Literal::Token();
    default: {  // recv-done
      Literal data = args[0]->elements()[0];
      if (!op.attrs->GetBool(AttrId::kIsHostTransfer)) {
        ASSIGN_OR_RETURN(data, env.RunExternal(op, args));
      }
      return Literal::Tuple(List(std::move(data), Literal::Token()));
    }
  }
}

}  // namespace backplane
