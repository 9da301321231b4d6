// Shrinking steps for programs that consist of computations: loop state, trip counts, callers.
#include <algorithm>
#include <functional>
#include <set>

#include "core/passes/rewrite.h"
#include "sdk/cli/fuzz/shrink.h"

namespace backplane::cli::fuzz {
namespace {

// The position of an instruction, valid in copies as well, because Clone keeps the order.
struct Position {
  size_t computation, instruction;
};

Instruction* At(const FuzzProgram& p, const Position& position) {
  return p.module->PostOrder()[position.computation]->Snapshot()[position.instruction];
}

void ForEachInstruction(const FuzzProgram& p, const std::function<void(const Position&, const Instruction&)>& visit) {
  const std::vector<Computation*> order = p.module->PostOrder();
  for (size_t c = order.size(); c > 0; --c) {
    const std::vector<Instruction*> steps = order[c - 1]->Snapshot();
    for (size_t n = 0; n < steps.size(); ++n) visit({c - 1, n}, *steps[n]);
  }
}

Instruction* ZerosOf(Computation* c, const Shape& shape) {
  Instruction* zero = MakeConstant(c, nullptr, Literal(Shape(shape.element_type(), {})));
  return shape.rank() == 0 ? zero : MakeBroadcast(c, nullptr, zero, shape.WithoutLayout(), {});
}

// Replaces elements of tuples that are built in the same computation.
void ForwardTupleElements(Computation* c) {
  for (Instruction* e : c->Snapshot()) {
    if (!e->Is(Opcode::kGetTupleElement) || !e->operand(0)->Is(Opcode::kTuple)) continue;
    e->ReplaceAllUsesWith(e->operand(0)->operand(e->tuple_index()));
  }
  c->RemoveDead();
}

// Removes element k from the state in the parameter of a loop's computation, and from the root if that is the state.
bool DropFromComputation(Computation* c, int64_t k, const Shape& state, bool body) {
  Instruction* parameter = c->parameter(0);
  std::vector<Instruction*> users(parameter->users().begin(), parameter->users().end());
  for (const Instruction* u : users) {
    if (!u->Is(Opcode::kGetTupleElement)) return false;
  }
  if (body && (!c->root()->Is(Opcode::kTuple) || c->root() == parameter)) return false;
  for (Instruction* u : users) {
    const int64_t at = u->tuple_index();
    if (at == k) u->ReplaceAllUsesWith(ZerosOf(c, u->shape()));
    u->mutable_attrs().Set(AttrId::kTupleIndex, at > k ? at - 1 : at == k ? 0 : at);
    if (at == k) u->mutable_shape() = state.tuple_shapes(0);  // it has no users any more
  }
  parameter->mutable_shape() = state;
  if (body) {
    std::vector<Instruction*> rest;
    for (int64_t e = 0; e < c->root()->operand_count(); ++e) {
      if (e != k) rest.push_back(c->root()->operand(e));
    }
    c->set_root(Make(c, nullptr, Opcode::kTuple, state, rest));
  }
  c->SortTopologically();
  c->RemoveDead();
  return true;
}

}  // namespace

std::set<const Computation*> CombiningComputations(const FuzzProgram& p) {
  std::set<const Computation*> combining;
  for (const Computation* c : p.module->PostOrder()) {
    if (p.quantized.count(std::string(c->name())) > 0) combining.insert(c);
    for (const auto& i : c->instructions()) {
      if (i->info().ReducesLocally() || i->Is(Opcode::kSort) || i->Is(Opcode::kScan)) {
        combining.insert(i->called().begin(), i->called().end());
      }
    }
  }
  // Also the computations that they call; callers come last.
  const std::vector<Computation*> order = p.module->PostOrder();
  for (auto c = order.rbegin(); c != order.rend(); ++c) {
    if (combining.count(*c) == 0) continue;
    for (const auto& i : (*c)->instructions()) combining.insert(i->called().begin(), i->called().end());
  }
  return combining;
}

Candidates WithoutStateElement(const FuzzProgram& p) {
  Candidates all;
  std::set<std::pair<const Computation*, int64_t>> tried;
  ForEachInstruction(p, [&](const Position& position, const Instruction& loop) {
    if (!loop.Is(Opcode::kWhile) || !loop.shape().IsTuple() || loop.shape().tuple_size() < 2) return;
    for (int64_t k = 0; k < loop.shape().tuple_size(); ++k) {
      if (!loop.shape().tuple_shapes(k).IsArray() || !tried.insert({loop.called(1), k}).second) continue;
      FuzzProgram c = Copy(p);
      const Computation *condition = At(c, position)->called(0), *body = At(c, position)->called(1);
      std::vector<Shape> rest;
      for (int64_t e = 0; e < loop.shape().tuple_size(); ++e) {
        if (e != k) rest.push_back(loop.shape().tuple_shapes(e).WithoutLayout());
      }
      const Shape state = Shape::Tuple(rest);
      // All loops with these computations lose the element; nothing else may call them.
      bool possible = condition != body;
      std::vector<Instruction*> loops;
      for (Computation* computation : c.module->PostOrder()) {
        for (Instruction* i : computation->Snapshot()) {
          const bool ours = i->Is(Opcode::kWhile) && i->called(0) == condition && i->called(1) == body;
          if (ours) {
            loops.push_back(i);
            continue;
          }
          for (const Computation* called : i->called()) possible = possible && called != condition && called != body;
        }
      }
      if (!possible) continue;
      if (!DropFromComputation(const_cast<Computation*>(condition), k, state, false)) continue;
      if (!DropFromComputation(const_cast<Computation*>(body), k, state, true)) continue;
      for (Instruction* old : loops) {
        Computation* in = old->parent();
        std::vector<Instruction*> start, whole;
        for (int64_t e = 0; e < old->shape().tuple_size(); ++e) {
          if (e != k) start.push_back(MakeElement(in, old->operand(0), e));
        }
        Instruction* init = Make(in, nullptr, Opcode::kTuple, state, start);
        Instruction* smaller = Make(in, nullptr, Opcode::kWhile, state, {init}, old->attrs(),
                                    std::vector<Computation*>(old->called().begin(), old->called().end()));
        for (int64_t e = 0; e < old->shape().tuple_size(); ++e) {
          whole.push_back(e == k ? MakeElement(in, old->operand(0), k) : MakeElement(in, smaller, e > k ? e - 1 : e));
        }
        old->ReplaceAllUsesWith(Make(in, nullptr, Opcode::kTuple, old->shape(), whole));
        in->SortTopologically();
        ForwardTupleElements(in);
      }
      all.push_back(std::move(c));
    }
  });
  return all;
}

Candidates UnshareComputations(const FuzzProgram& p) {
  Candidates all;
  std::set<const Computation*> called;
  ForEachInstruction(p, [&](const Position& position, const Instruction& i) {
    if (!i.info().Has(kControlFlow)) return;
    for (size_t k = 0; k < i.called().size(); ++k) {
      if (called.insert(i.called(static_cast<int64_t>(k))).second) continue;
      FuzzProgram c = Copy(p);
      Instruction* caller = At(c, position);
      const int64_t which = static_cast<int64_t>(k);
      caller->set_called(which, c.module->CloneComputation(caller->called(which)));
      all.push_back(std::move(c));
    }
  });
  return all;
}

Candidates InPlaceAnywhere(const FuzzProgram& p) {
  Candidates all;
  ForEachInstruction(p, [&](const Position& position, const Instruction& i) {
    const Opcode op = i.opcode();
    if (op == Opcode::kGetTupleElement && i.operand(0)->Is(Opcode::kTuple)) {
      if (i.users().empty() && !i.IsRoot()) return;
      FuzzProgram c = Copy(p);
      ForwardTupleElements(At(c, position)->parent());  // the whole computation at once
      all.push_back(std::move(c));
      return;
    }
    if (op == Opcode::kWhile) {  // none of its iterations
      FuzzProgram c = Copy(p);
      Instruction* loop = At(c, position);
      loop->ReplaceAllUsesWith(loop->operand(0));
      all.push_back(std::move(c));
    }
    const bool call = op == Opcode::kCall || op == Opcode::kFusion;
    if (!call && op != Opcode::kWhile && op != Opcode::kConditional) return;
    const size_t ways = op == Opcode::kConditional ? i.called().size() : 1;
    for (size_t way = 0; way < ways; ++way) {
      FuzzProgram c = Copy(p);
      Instruction* at = At(c, position);
      std::vector<Instruction*> arguments(at->operands().begin(), at->operands().end());
      const Computation* callee = at->called(op == Opcode::kWhile ? 1 : static_cast<int64_t>(way));
      if (op == Opcode::kConditional) arguments = {at->operand(static_cast<int64_t>(way) + 1)};
      Computation* in = at->parent();
      at->ReplaceAllUsesWith(Inline(in, callee, arguments));
      in->SortTopologically();
      ForwardTupleElements(in);
      all.push_back(std::move(c));
    }
  });
  return all;
}

Candidates ZerosForOperation(const FuzzProgram& p) {
  Candidates all;
  const std::set<const Computation*> combining = CombiningComputations(p);
  ForEachInstruction(p, [&](const Position& position, const Instruction& i) {
    if (i.parent() == p.module->entry() || combining.count(i.parent()) > 0) return;
    if (i.Is(Opcode::kParameter) || i.Is(Opcode::kConstant) || !i.shape().IsArray() || i.shape().HasDynamicDimensions())
      return;
    if (i.Is(Opcode::kBroadcast) && i.operand(0)->Is(Opcode::kConstant)) return;
    if (i.users().empty() && !i.IsRoot()) return;
    if (i.IsRoot() && i.shape().element_type() == PrimitiveType::kPred) return;  // a condition
    FuzzProgram c = Copy(p);
    Instruction* at = At(c, position);
    at->ReplaceAllUsesWith(ZerosOf(at->parent(), at->shape()));
    at->parent()->SortTopologically();
    all.push_back(std::move(c));
  });
  return all;
}

Candidates SmallerNumbers(const FuzzProgram& p) {
  Candidates all;
  // Arguments first, because they may be limits of loops.
  for (size_t k = 0; k < p.arguments.size(); ++k) {
    const Literal& a = p.arguments[k];
    if (a.shape().rank() > 0 || !IsIntegral(a.shape().element_type())) continue;
    const int64_t v = a.GetAsInt(0);
    for (const int64_t to : {int64_t{0}, int64_t{1}, v / 2, v - 1}) {
      if (to < 0 || to >= v) continue;
      FuzzProgram c = Copy(p);
      c.arguments[k] = Literal::ScalarInt(a.shape().element_type(), to);
      all.push_back(std::move(c));
    }
  }
  ForEachInstruction(p, [&](const Position& position, const Instruction& i) {
    if (!i.Is(Opcode::kConstant) || !i.shape().IsArray() || i.shape().rank() > 0) return;
    if (!IsIntegral(i.shape().element_type())) return;
    const int64_t v = i.literal().GetAsInt(0);
    for (const int64_t to : {int64_t{1}, v / 2, v - 1}) {
      if (to < 1 || to >= v) continue;
      FuzzProgram c = Copy(p);
      Instruction* at = At(c, position);
      Instruction* less = MakeConstant(at->parent(), nullptr, Literal::ScalarInt(i.shape().element_type(), to));
      at->ReplaceAllUsesWith(less);
      at->parent()->SortTopologically();
      all.push_back(std::move(c));
    }
  });
  return all;
}

}  // namespace backplane::cli::fuzz
