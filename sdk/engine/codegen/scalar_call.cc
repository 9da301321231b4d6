// Computations of scalars inside a kernel: bodies of reductions and scatters, comparators, maps.
//
// The values are those of one element or of a vector of elements. A loop runs until no lane wants another turn, a lane
// that has finished keeping its values; of a branch all sides are computed, and each lane takes its own. Nothing here
// can trap, so what a lane computes in vain does no harm.
#include <algorithm>
#include <map>

#include "sdk/engine/codegen/body_emitter.h"

namespace backplane::engine::codegen {

using llvm::Value;

Value* BodyEmitter::Both(Value* a, Value* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  const int lanes = std::max(ElementEmitter::LanesOf(a), ElementEmitter::LanesOf(b));
  return b_.CreateAnd(e_.Splat(a, lanes), e_.Splat(b, lanes));
}

bool BodyEmitter::HoldsLoop(const Computation& computation) {
  return std::any_of(computation.instructions().begin(), computation.instructions().end(), [](const auto& i) {
    return i->Is(Opcode::kWhile) || std::any_of(i->called().begin(), i->called().end(),
                                                [](const Computation* called) { return HoldsLoop(*called); });
  });
}

Value* BodyEmitter::ActiveIn(const Computation& computation, const Guards& guards) {
  return guards.empty() || !HoldsLoop(computation) ? nullptr : Mask(guards);
}

Vals BodyEmitter::Call(const Computation& computation, absl::Span<const Val> arguments, bool rounded, Value* active) {
  std::vector<Vals> parameters;
  for (const Val& v : arguments) parameters.push_back({v});
  return CallBody(computation, parameters, rounded, active);
}

Vals BodyEmitter::CallBody(const Computation& computation, absl::Span<const Vals> parameters, bool rounded,
                           Value* active) {
  std::map<const Instruction*, Vals> values;
  for (const auto& owned : computation.instructions()) {
    const Instruction* op = owned.get();
    Vals args, r;
    std::vector<Vals> whole;
    for (const Instruction* x : op->operands()) {
      whole.push_back(values[x]);
      args.push_back(whole.back().empty() ? Val{} : whole.back()[0]);
    }
    switch (op->opcode()) {
      case Opcode::kParameter:
        r = parameters[op->parameter_number()];
        break;
      case Opcode::kConstant:
        r.push_back(e_.Constant(op->literal(), 0));
        break;
      case Opcode::kTuple:
        r = args;
        break;
      case Opcode::kGetTupleElement:
        r.push_back(whole[0][op->tuple_index()]);
        break;
      case Opcode::kIota:
        r.push_back(e_.FromInteger(b_.getInt64(0), op->shape().element_type()));
        break;
      case Opcode::kMap:
      case Opcode::kCall:
        r = CallBody(*op->called(0), whole, rounded, active);
        break;
      case Opcode::kWhile:
        r = CallWhile(*op, whole[0], rounded, active);
        break;
      case Opcode::kConditional:
        r = CallBranch(*op, whole, rounded, active);
        break;
      default:
        r.push_back(e_.Emit(*op, args, rounded));
    }
    values[op] = std::move(r);
  }
  return values[computation.root()];
}

Vals BodyEmitter::CallWhile(const Instruction& loop, const Vals& initial, bool rounded, Value* active) {
  int lanes = active ? ElementEmitter::LanesOf(active) : 0;
  for (const Val& v : initial) lanes = std::max(lanes, ElementEmitter::LanesOf(v));
  // With lanes, the first value says which of them are still running.
  const size_t first = lanes > 0 ? 1 : 0;
  std::vector<Value*> carried;
  if (lanes > 0) carried.push_back(e_.Splat(active ? active : b_.getTrue(), lanes));
  for (const Val& v : initial) {
    carried.push_back(e_.Splat(v.v, lanes));
    if (v.im) carried.push_back(e_.Splat(v.im, lanes));
  }
  auto state_of = [&](const std::vector<Value*>& flat) {
    Vals state;
    size_t at = first;
    for (const Val& v : initial) {
      Val now{flat[at++]};
      if (v.im) now.im = flat[at++];
      state.push_back(now);
    }
    return state;
  };
  Value* running = active;  // in the turn that is being emitted
  auto wanted = [&](std::vector<Value*>& flat) {
    Value* more = CallBody(*loop.called(0), {{state_of(flat)}}, rounded, lanes > 0 ? flat[0] : active)[0].v;
    if (lanes == 0) return active ? Both(active, more) : more;
    running = e_.Splat(Both(flat[0], more), lanes);
    return static_cast<Value*>(b_.CreateOrReduce(running));
  };
  auto turn = [&](std::vector<Value*>& flat) -> Value* {
    const Vals state = state_of(flat);
    const Vals next = CallBody(*loop.called(1), {{state}}, rounded, running);
    size_t at = first;
    for (size_t k = 0; k < state.size(); ++k) {
      Val v = next[k];
      v.stored = nullptr;
      if (lanes > 0) v = e_.Select(running, e_.Splat(v, lanes), state[k]);
      flat[at++] = v.v;
      if (v.im) flat[at++] = v.im;
    }
    if (lanes > 0) flat[0] = running;
    return nullptr;
  };
  Repeat(carried, wanted, turn);
  return state_of(carried);
}

Vals BodyEmitter::CallBranch(const Instruction& branch, absl::Span<const Vals> operands, bool rounded, Value* active) {
  Value* selector = operands[0][0].v;
  const bool pred = branch.operand(0)->shape().element_type() == PrimitiveType::kPred;
  const int64_t n = static_cast<int64_t>(branch.called().size());
  // A number out of range takes the last branch.
  Vals result = CallBody(*branch.called(n - 1), {{operands[n]}}, rounded, active);
  for (int64_t k = n - 1; k-- > 0;) {
    Value* mine = pred ? selector : b_.CreateICmpEQ(selector, llvm::ConstantInt::get(selector->getType(), k));
    const Vals taken = CallBody(*branch.called(k), {{operands[k + 1]}}, rounded, Both(active, mine));
    for (size_t i = 0; i < result.size(); ++i) {
      Val a = taken[i], b = result[i];
      a.stored = b.stored = nullptr;
      const int lanes =
          std::max({ElementEmitter::LanesOf(mine), ElementEmitter::LanesOf(a), ElementEmitter::LanesOf(b)});
      result[i] = e_.Select(mine, e_.Splat(a, lanes), e_.Splat(b, lanes));
    }
  }
  return result;
}

// A loop or branch over single elements, as an instruction of the fusion.
Val BodyEmitter::EvalControl(const Instruction* op, const Guards& guards, int element) {
  std::vector<Vals> operands;
  for (const Instruction* x : op->operands()) {
    Vals leaves;
    const int n = x->shape().IsTuple() ? static_cast<int>(x->shape().tuple_size()) : 1;
    for (int k = 0; k < n; ++k) {
      const int64_t rank = (x->shape().IsTuple() ? x->shape().tuple_shapes(k) : x->shape()).rank();
      Val v = Eval(x, Index(static_cast<size_t>(rank), Affine::Const(0)), guards, k);
      v.stored = nullptr;
      leaves.push_back(v);
    }
    operands.push_back(std::move(leaves));
  }
  const Vals results =
      op->Is(Opcode::kWhile) ? CallWhile(*op, operands[0], true, nullptr) : CallBranch(*op, operands, true, nullptr);
  // All results are there at once: the others are not made again.
  for (size_t k = 0; k < results.size(); ++k) values_[{op, static_cast<int>(k)}] = results[k];
  return results[static_cast<size_t>(element)];
}

}  // namespace backplane::engine::codegen
