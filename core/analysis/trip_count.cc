#include "core/analysis/trip_count.h"

#include <limits>

namespace backplane {
namespace {

constexpr int kMaxSteps = 32;  // into and out of fusions, for one value

// An instruction, and the fusion that it is inside of, or null.
struct Place {
  const Instruction* i = nullptr;
  const Instruction* fusion = nullptr;
};

// What makes the value at `p`: through fusions' roots and parameters, tuples and copies.
Place Maker(Place p) {
  for (int step = 0; step < kMaxSteps; ++step) {
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

Place Operand(const Place& p, int64_t k) { return Maker({p.i->operand(k), p.fusion}); }

// The element of the loop's state that the place is, or -1.
int64_t StateElement(const Place& p, const Computation* c) {
  const bool element = p.fusion == nullptr && p.i->Is(Opcode::kGetTupleElement) && p.i->operand(0) == c->parameter(0);
  return element ? p.i->tuple_index() : -1;
}

// The value of a constant integer; nothing for one that an int64_t cannot hold.
std::optional<int64_t> Known(const Place& p) {
  const PrimitiveType type = p.i->shape().element_type();
  if (!p.i->Is(Opcode::kConstant) || !IsIntegral(type) || p.i->shape().num_elements() != 1) return std::nullopt;
  const int64_t value = p.i->literal().GetAsInt(0);
  if (IsUnsigned(type) && value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> KnownTripCount(const Instruction& loop) {
  const Computation *condition = loop.called(0), *body = loop.called(1);
  const Instruction *init = loop.operand(0), *next = body->root();
  if (!init->Is(Opcode::kTuple) || !next->Is(Opcode::kTuple)) return std::nullopt;
  for (const auto& i : condition->instructions()) {
    if (i->HasSideEffect()) return std::nullopt;
  }
  const Place compare = Maker({condition->root(), nullptr});
  if (!compare.i->Is(Opcode::kCompare) || compare.i->direction() != ComparisonDirection::kLt) return std::nullopt;
  const int64_t k = StateElement(Operand(compare, 0), condition);
  const std::optional<int64_t> limit = Known(Operand(compare, 1));
  if (k < 0 || !limit) return std::nullopt;
  const std::optional<int64_t> start = Known(Maker({init->operand(k), nullptr}));
  const Place add = Maker({next->operand(k), nullptr});
  if (!start || !add.i->Is(Opcode::kAdd)) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    const std::optional<int64_t> step = Known(Operand(add, 1 - side));
    if (StateElement(Operand(add, side), body) != k || !step || *step <= 0) continue;
    if (*start >= *limit) return 0;
    // The counter must reach the limit without wrapping around.
    const PrimitiveType type = add.i->shape().element_type();
    const int value_bits = BitWidth(type) - (IsSigned(type) ? 1 : 0);
    const __int128 count = (static_cast<__int128>(*limit) - *start + *step - 1) / *step;
    const __int128 last = *start + count * *step, highest = (static_cast<__int128>(1) << value_bits) - 1;
    if (last > highest || count > std::numeric_limits<int64_t>::max()) return std::nullopt;
    return static_cast<int64_t>(count);
  }
  return std::nullopt;
}

}  // namespace backplane
