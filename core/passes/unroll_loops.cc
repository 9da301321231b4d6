// Short loops over elementwise arithmetic as that many copies of their body: what one turn leaves for the next then
// stays in registers, and what depends on the counter is known.
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

constexpr int64_t kMaxTurns = 8;
constexpr int64_t kMaxInstructions = 1000;  // of all copies
constexpr int64_t kFewElements = 64;        // an array that may also be sliced and moved

bool MayBeCopied(const Instruction* i) {
  switch (i->opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kBitcastConvert:
      return true;
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
    case Opcode::kTranspose:
      for (const Instruction* o : i->operands()) {
        if (o->shape().num_elements() > kFewElements) return false;
      }
      return true;
    default:
      return i->info().Has(kElementwise) && !i->HasSideEffect();
  }
}

// The element of the loop's state that i is, or -1.
int64_t StateElement(const Instruction* i, const Computation* c) {
  return i->Is(Opcode::kGetTupleElement) && i->operand(0) == c->parameter(0) ? i->tuple_index() : -1;
}

std::optional<int64_t> KnownInteger(const Instruction* i) {
  if (!i->Is(Opcode::kConstant) || !i->shape().IsScalar() || !IsIntegral(i->shape().element_type()))
    return std::nullopt;
  return i->literal().GetAsInt(0);
}

// How often the body runs: a counter from a known start, by a known step, up to a known limit. -1: not known, or more
// often than anybody wants to copy it.
int64_t TurnsOf(const Instruction* loop) {
  const Computation *condition = loop->called(0), *body = loop->called(1);
  const Instruction *init = loop->operand(0), *root = condition->root(), *next = body->root();
  if (!init->Is(Opcode::kTuple) || !next->Is(Opcode::kTuple) || !root->Is(Opcode::kCompare) ||
      root->direction() != ComparisonDirection::kLt)
    return -1;
  const int64_t k = StateElement(root->operand(0), condition);
  const std::optional<int64_t> limit = KnownInteger(root->operand(1));
  if (k < 0 || !limit) return -1;
  const std::optional<int64_t> start = KnownInteger(init->operand(k));
  const Instruction* add = next->operand(k);
  if (!start || !add->Is(Opcode::kAdd)) return -1;
  for (int side = 0; side < 2; ++side) {
    const std::optional<int64_t> step = KnownInteger(add->operand(1 - side));
    if (StateElement(add->operand(side), body) != k || !step || *step <= 0) continue;
    int64_t turns = 0;
    for (int64_t at = *start; at < *limit; at += *step) {
      if (++turns > kMaxTurns) return -1;
    }
    return turns;
  }
  return -1;
}

bool Unroll(Instruction* loop) {
  const Computation* body = loop->called(1);
  const int64_t turns = TurnsOf(loop);
  if (turns < 0 || turns * body->instruction_count() > kMaxInstructions) return false;
  for (const auto& i : body->instructions()) {
    if (!MayBeCopied(i.get())) return false;
  }
  Instruction* state = loop->operand(0);
  for (int64_t t = 0; t < turns; ++t) state = Inline(loop->parent(), body, {state});
  Replace(loop, state);
  return true;
}

}  // namespace

absl::StatusOr<bool> UnrollLoops::Run(Module* module) {
  bool changed = false;
  for (Computation* c : RunningComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (i->Is(Opcode::kWhile) && Unroll(i)) here = true;
    }
    if (!here) continue;
    c->RemoveDead();
    c->SortTopologically();
    changed = true;
  }
  if (changed) module->RemoveUnreachableComputations();
  return changed;
}

}  // namespace backplane
