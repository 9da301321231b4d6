#include "core/analysis/trip_count.h"

#include <limits>

namespace backplane {
namespace {

constexpr int kMaxHops = 32;  // per value; bounds the compile time on long chains of copies and fusions

// An instruction, and the fusion whose computation contains it (null outside of fusions).
struct ValueRef {
  const Instruction* i = nullptr;
  const Instruction* fusion = nullptr;
};

// Returns the instruction that computes the value of `p`. Looks through tuples, copies, reshapes, and the roots and
// parameters of fusions.
ValueRef ResolveDefinition(ValueRef p) {
  for (int hop = 0; hop < kMaxHops; ++hop) {
    const Instruction* i = p.i;
    if (i->Is(Opcode::kGetTupleElement) && i->operand(0)->Is(Opcode::kTuple)) {
      p.i = i->operand(0)->operand(i->tuple_index());
    } else if (i->Is(Opcode::kGetTupleElement) && i->operand(0)->Is(Opcode::kFusion) && p.fusion == nullptr) {
      const Instruction* root = i->operand(0)->called(0)->root();
      if (!root->Is(Opcode::kTuple)) return p;
      p = {root->operand(i->tuple_index()), i->operand(0)};
    } else if (i->Is(Opcode::kFusion) && p.fusion == nullptr && !i->shape().IsTuple()) {
      p = {i->called(0)->root(), i};
    } else if (i->Is(Opcode::kParameter) && p.fusion != nullptr) {
      p = {p.fusion->operand(i->parameter_number()), nullptr};
    } else if (i->Is(Opcode::kCopy) || i->Is(Opcode::kReshape)) {
      p.i = i->operand(0);
    } else {
      return p;
    }
  }
  return p;
}

ValueRef ResolveOperand(const ValueRef& p, int64_t k) { return ResolveDefinition({p.i->operand(k), p.fusion}); }

// Returns which element of the loop state `p` reads, or -1.
int64_t FindStateElement(const ValueRef& p, const Computation* c) {
  const bool element = p.fusion == nullptr && p.i->Is(Opcode::kGetTupleElement) && p.i->operand(0) == c->parameter(0);
  return element ? p.i->tuple_index() : -1;
}

// Returns the value of an integer constant. Returns nullopt for any other instruction and if int64_t cannot hold it.
std::optional<int64_t> GetConstantInt(const ValueRef& p) {
  const PrimitiveType type = p.i->shape().element_type();
  if (!p.i->Is(Opcode::kConstant) || !IsIntegral(type) || p.i->shape().num_elements() != 1) return std::nullopt;
  const int64_t value = p.i->literal().GetAsInt(0);
  if (IsUnsigned(type) && value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> ComputeTripCount(const Instruction& loop) {
  const Computation *condition = loop.called(0), *body = loop.called(1);
  const Instruction *init = loop.operand(0), *next = body->root();
  if (!init->Is(Opcode::kTuple) || !next->Is(Opcode::kTuple)) return std::nullopt;
  for (const auto& i : condition->instructions()) {
    if (i->HasSideEffect()) return std::nullopt;
  }
  const ValueRef compare = ResolveDefinition({condition->root(), nullptr});
  if (!compare.i->Is(Opcode::kCompare) || compare.i->direction() != ComparisonDirection::kLt) return std::nullopt;
  const int64_t k = FindStateElement(ResolveOperand(compare, 0), condition);
  const std::optional<int64_t> limit = GetConstantInt(ResolveOperand(compare, 1));
  if (k < 0 || !limit) return std::nullopt;
  const std::optional<int64_t> start = GetConstantInt(ResolveDefinition({init->operand(k), nullptr}));
  const ValueRef add = ResolveDefinition({next->operand(k), nullptr});
  if (!start || !add.i->Is(Opcode::kAdd)) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    const std::optional<int64_t> step = GetConstantInt(ResolveOperand(add, 1 - side));
    if (FindStateElement(ResolveOperand(add, side), body) != k || !step || *step <= 0) continue;
    if (*start >= *limit) return 0;
    // The counter must reach the limit without wrapping around.
    const PrimitiveType type = add.i->shape().element_type();
    const int value_bits = BitWidth(type) - (IsSigned(type) ? 1 : 0);
    const __int128 count = (static_cast<__int128>(*limit) - *start + *step - 1) / *step;
    const __int128 last = *start + count * *step, max_value = (static_cast<__int128>(1) << value_bits) - 1;
    if (last > max_value || count > std::numeric_limits<int64_t>::max()) return std::nullopt;
    return static_cast<int64_t>(count);
  }
  return std::nullopt;
}

}  // namespace backplane
