#include "sdk/codegen/body/called_computation.h"

#include <algorithm>
#include <map>
#include <vector>

#include "sdk/codegen/body/carried_values.h"

namespace backplane::codegen {

using llvm::Value;

Value* ComputationCaller::AndMasks(Value* a, Value* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  const int lanes = std::max(ElementEmitter::GetLanes(a), ElementEmitter::GetLanes(b));
  return b_.CreateAnd(e_.Splat(a, lanes), e_.Splat(b, lanes));
}

bool ComputationCaller::ContainsLoop(const Computation& computation) {
  return std::any_of(computation.instructions().begin(), computation.instructions().end(), [](const auto& i) {
    return i->Is(Opcode::kWhile) || std::any_of(i->called().begin(), i->called().end(),
                                                [](const Computation* called) { return ContainsLoop(*called); });
  });
}

Value* ComputationCaller::ComputeActiveMask(const Computation& computation, const Guards& guards) {
  return guards.empty() || !ContainsLoop(computation) ? nullptr : indices_.Mask(guards);
}

Vals ComputationCaller::Call(const Computation& computation, absl::Span<const Val> arguments, bool rounded,
                             Value* active) {
  std::vector<Vals> parameters;
  for (const Val& v : arguments) parameters.push_back({v});
  return CallWithTuples(computation, parameters, rounded, active);
}

Vals ComputationCaller::CallWithTuples(const Computation& computation, absl::Span<const Vals> parameters, bool rounded,
                                       Value* active) {
  std::map<const Instruction*, Vals> values;
  for (const auto& owned : computation.instructions()) {
    const Instruction* op = owned.get();
    Vals first_leaves, r;
    std::vector<Vals> operands;
    for (const Instruction* x : op->operands()) {
      operands.push_back(values[x]);
      first_leaves.push_back(operands.back().empty() ? Val{} : operands.back()[0]);
    }
    switch (op->opcode()) {
      case Opcode::kParameter:
        r = parameters[static_cast<size_t>(op->parameter_number())];
        break;
      case Opcode::kConstant:
        r.push_back(e_.Constant(op->literal(), 0));
        break;
      case Opcode::kTuple:
        r = first_leaves;
        break;
      case Opcode::kGetTupleElement:
        r.push_back(operands[0][static_cast<size_t>(op->tuple_index())]);
        break;
      case Opcode::kIota:
        r.push_back(e_.FromInteger(b_.getInt64(0), op->shape().element_type()));
        break;
      case Opcode::kMap:
      case Opcode::kCall:
        r = CallWithTuples(*op->called(0), operands, rounded, active);
        break;
      case Opcode::kWhile:
        r = While(*op, operands[0], rounded, active);
        break;
      case Opcode::kConditional:
        r = Conditional(*op, operands, rounded, active);
        break;
      default:
        r.push_back(e_.Emit(*op, first_leaves, rounded));
    }
    values[op] = std::move(r);
  }
  return values[computation.root()];
}

Vals ComputationCaller::While(const Instruction& loop, const Vals& initial, bool rounded, Value* active) {
  int lanes = active ? ElementEmitter::GetLanes(active) : 0;
  for (const Val& v : initial) lanes = std::max(lanes, ElementEmitter::GetLanes(v));
  // The state of a loop is computed once, in registers, and each iteration waits for the one before.
  const ElementEmitter::FusedSums fused(e_);
  // With lanes, the first value says which of them are still running.
  const size_t first = lanes > 0 ? 1 : 0;
  std::vector<Value*> carried;
  if (lanes > 0) carried.push_back(e_.Splat(active ? active : b_.getTrue(), lanes));
  for (const Val& v : initial) {
    carried.push_back(e_.Splat(v.v, lanes));
    if (v.im) carried.push_back(e_.Splat(v.im, lanes));
  }
  Value* running = active;  // in the iteration that is being emitted
  auto wants_more = [&](std::vector<Value*>& flat) {
    const Vals state = FromParts(initial, flat, first);
    Value* more = CallWithTuples(*loop.called(0), {{state}}, rounded, lanes > 0 ? flat[0] : active)[0].v;
    if (lanes == 0) return active ? AndMasks(active, more) : more;
    running = e_.Splat(AndMasks(flat[0], more), lanes);
    return static_cast<Value*>(b_.CreateOrReduce(running));
  };
  auto iteration = [&](std::vector<Value*>& flat) -> Value* {
    const Vals state = FromParts(initial, flat, first);
    const Vals next = CallWithTuples(*loop.called(1), {{state}}, rounded, running);
    flat.clear();
    if (lanes > 0) flat.push_back(running);
    for (size_t k = 0; k < state.size(); ++k) {
      Val v = next[k];
      v.stored = nullptr;
      if (lanes > 0) v = e_.Select(running, e_.Splat(v, lanes), state[k]);
      AppendParts({v}, flat);
    }
    return nullptr;
  };
  scopes_.Repeat(carried, wants_more, iteration);
  return FromParts(initial, carried, first);
}

Vals ComputationCaller::Conditional(const Instruction& conditional, absl::Span<const Vals> operands, bool rounded,
                                    Value* active) {
  Value* selector = operands[0][0].v;
  const bool pred = conditional.operand(0)->shape().element_type() == PrimitiveType::kPred;
  const int64_t n = static_cast<int64_t>(conditional.called().size());
  auto branch = [&](int64_t k, Value* lanes) {
    return CallWithTuples(*conditional.called(k), {{operands[static_cast<size_t>(k + 1)]}}, rounded, lanes);
  };
  // A number out of range selects the last branch.
  Vals result = branch(n - 1, active);
  for (int64_t k = n - 1; k-- > 0;) {
    Value* selected =
        pred ? selector
             : b_.CreateICmpEQ(selector, llvm::ConstantInt::get(selector->getType(), static_cast<uint64_t>(k)));
    const Vals values = branch(k, AndMasks(active, selected));
    for (size_t i = 0; i < result.size(); ++i) {
      Val a = values[i], b = result[i];
      a.stored = b.stored = nullptr;
      const int lanes =
          std::max({ElementEmitter::GetLanes(selected), ElementEmitter::GetLanes(a), ElementEmitter::GetLanes(b)});
      result[i] = e_.Select(selected, e_.Splat(a, lanes), e_.Splat(b, lanes));
    }
  }
  return result;
}

}  // namespace backplane::codegen
