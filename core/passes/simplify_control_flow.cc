#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

// Whether element k of the loop state is invariant: the body returns its parameter's element k.
bool IsInvariant(const Computation* body, int64_t k) {
  const Instruction* root = body->root();
  if (!root->Is(Opcode::kTuple) || k >= root->operand_count()) return false;
  const Instruction* e = root->operand(k);
  return e->Is(Opcode::kGetTupleElement) && e->operand(0) == body->parameter(0) && e->tuple_index() == k;
}

// Whether element k of the loop state is used only to carry it to the next iteration.
bool IsOnlyCarried(const Instruction* loop, int64_t k) {
  for (const Instruction* u : loop->users()) {
    if (!u->Is(Opcode::kGetTupleElement)) return false;
    if (u->tuple_index() == k && (!u->users().empty() || u->IsRoot())) return false;
  }
  for (const Instruction* u : loop->called(0)->parameter(0)->users()) {
    if (!u->Is(Opcode::kGetTupleElement) || u->tuple_index() == k) return false;
  }
  for (const Instruction* u : loop->called(1)->parameter(0)->users()) {
    if (!u->Is(Opcode::kGetTupleElement)) return false;
    if (u->tuple_index() != k) continue;
    for (const Instruction* v : u->users()) {
      if (v != loop->called(1)->root()) return false;
    }
    for (int64_t e = 0; e < loop->called(1)->root()->operand_count(); ++e) {
      if (loop->called(1)->root()->operand(e) == u && e != k) return false;
    }
  }
  return !loop->IsRoot();
}

// Returns the users of state element k in `c`, apart from those that only carry it on.
std::vector<Instruction*> CollectUsers(const Computation* c, int64_t k) {
  std::vector<Instruction*> readers;
  for (Instruction* u : c->parameter(0)->users()) {
    if (!u->Is(Opcode::kGetTupleElement) || u->tuple_index() != k) continue;
    for (Instruction* v : u->users()) {
      if (v != c->root() || !v->Is(Opcode::kTuple)) {
        readers.push_back(u);
        break;
      }
    }
  }
  return readers;
}

// Copies a constant scalar of the loop state into the body and the condition if it is loop-invariant.
bool SinkConstants(Instruction* loop, CalledComputations& called) {
  Instruction* init = loop->operand(0);
  if (!init->Is(Opcode::kTuple)) return false;
  bool changed = false;
  for (int64_t k = 0; k < init->operand_count(); ++k) {
    Instruction* value = init->operand(k);
    if (!value->Is(Opcode::kConstant) || !value->shape().IsScalar() || !IsInvariant(loop->called(1), k)) continue;
    for (int64_t which : {0, 1}) {
      if (CollectUsers(loop->called(which), k).empty()) continue;
      Computation* c = called.CloneIfShared(loop, which);  // another loop may start with another value
      for (Instruction* u : CollectUsers(c, k)) {
        Instruction* constant = MakeConstant(c, u, value->literal());
        const std::vector<Instruction*> users(u->users().begin(), u->users().end());
        for (Instruction* v : users) {
          if (v == c->root() && v->Is(Opcode::kTuple)) continue;
          for (int64_t o = 0; o < v->operand_count(); ++o) {
            if (v->operand(o) == u) v->ReplaceOperand(o, constant);
          }
        }
      }
      c->SortTopologically();
      changed = true;
    }
  }
  return changed;
}

// Makes users of a loop-invariant element use the initial value.
bool ForwardInvariants(Instruction* loop) {
  Instruction* init = loop->operand(0);
  if (!init->Is(Opcode::kTuple)) return false;
  bool changed = false;
  std::vector<Instruction*> users(loop->users().begin(), loop->users().end());
  for (Instruction* u : users) {
    if (!u->Is(Opcode::kGetTupleElement) || !IsInvariant(loop->called(1), u->tuple_index())) continue;
    if (u->users().empty() && !u->IsRoot()) continue;
    Replace(u, init->operand(u->tuple_index()));
    changed = true;
  }
  return changed;
}

// Drops state elements that are only carried, rebuilding the loop once.
bool DropDeadState(Instruction* loop, CalledComputations& called) {
  Instruction* init = loop->operand(0);
  if (!init->Is(Opcode::kTuple) || !loop->called(1)->root()->Is(Opcode::kTuple) || loop->IsRoot()) return false;
  for (Computation* c : loop->called()) c->RemoveDead();  // dead users would keep an element alive
  std::vector<int64_t> keep, position(static_cast<size_t>(init->operand_count()), -1);
  for (int64_t k = 0; k < init->operand_count(); ++k) {
    if (IsOnlyCarried(loop, k)) continue;
    position[static_cast<size_t>(k)] = static_cast<int64_t>(keep.size());
    keep.push_back(k);
  }
  if (static_cast<int64_t>(keep.size()) == init->operand_count() || keep.empty()) return false;
  Computation *condition = called.CloneIfShared(loop, 0), *body = called.CloneIfShared(loop, 1);
  std::vector<Shape> shapes;
  std::vector<Instruction*> values, results;
  for (int64_t k : keep) {
    shapes.push_back(init->operand(k)->shape());
    values.push_back(init->operand(k));
    results.push_back(body->root()->operand(k));
  }
  const Shape state = Shape::Tuple(shapes);
  body->set_root(Make(body, body->root(), Opcode::kTuple, state, results));
  for (Computation* c : {condition, body}) {
    Instruction* p = c->parameter(0);
    p->mutable_shape() = state;
    std::vector<Instruction*> users(p->users().begin(), p->users().end());
    for (Instruction* u : users) {
      const int64_t at = position[static_cast<size_t>(u->tuple_index())];
      if (at >= 0) u->mutable_attrs().Set(AttrId::kTupleIndex, at);
    }
    c->RemoveDead();
    // The users of a dropped element are dead now, except for operands of the old root, which was removed with them.
  }
  Computation* c = loop->parent();
  Instruction* now =
      Make(c, loop, Opcode::kWhile, state, {Make(c, init, Opcode::kTuple, state, values)}, {}, {condition, body});
  std::vector<Instruction*> users(loop->users().begin(), loop->users().end());
  for (Instruction* u : users) {
    if (u->users().empty() && !u->IsRoot()) continue;
    Replace(u, MakeElement(c, now, position[static_cast<size_t>(u->tuple_index())]));
  }
  return true;
}

Instruction* FindSelectedBranch(Instruction* i) {
  const Instruction* selector = i->operand(0);
  if (!selector->Is(Opcode::kConstant)) return nullptr;
  size_t branch;
  if (selector->shape().element_type() == PrimitiveType::kPred) {
    branch = selector->literal().GetAsInt(0) != 0 ? 0 : 1;
  } else {
    const int64_t n = selector->literal().GetAsInt(0), count = static_cast<int64_t>(i->called().size());
    branch = static_cast<size_t>(n < 0 || n >= count ? count - 1 : n);
  }
  Instruction* argument = i->operand(static_cast<int64_t>(branch) + 1);
  return Inline(i->parent(), i->called(static_cast<int64_t>(branch)), {argument});
}

}  // namespace

absl::StatusOr<bool> SimplifyControlFlow::Run(Module* module) {
  bool changed = false;
  CalledComputations called(*module);
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (i->users().empty() && i != c->root()) continue;
      if (i->Is(Opcode::kConditional) && !i->HasSideEffect()) {
        if (Instruction* r = FindSelectedBranch(i); r != nullptr) {
          Replace(i, r);
          here = true;
        }
      } else if (i->Is(Opcode::kWhile) && i->shape().IsTuple()) {
        here |= SinkConstants(i, called);
        here |= ForwardInvariants(i);
        if (!i->HasSideEffect()) here |= DropDeadState(i, called);
      }
    }
    if (here) {
      c->RemoveDead();
      c->SortTopologically();
      changed = true;
    }
  }
  return changed;
}

}  // namespace backplane
