// Unrolls short loops over elementwise arithmetic: values carried between iterations stay in registers, and expressions
// of the counter become constant.
#include "core/analysis/trip_count.h"
#include "core/passes/passes.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

constexpr int64_t kMaxTrips = 8;
constexpr int64_t kMaxInstructions = 1000;  // over all copies
constexpr int64_t kFewElements = 64;        // small enough to slice and move

bool MayUnroll(const Instruction* i) {
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

bool Unroll(Instruction* loop) {
  const Computation* body = loop->called(1);
  const std::optional<int64_t> trips = ComputeTripCount(*loop);
  if (!trips || *trips > kMaxTrips || *trips * body->instruction_count() > kMaxInstructions) return false;
  for (const auto& i : body->instructions()) {
    if (!MayUnroll(i.get())) return false;
  }
  Instruction* state = loop->operand(0);
  for (int64_t t = 0; t < *trips; ++t) state = Inline(loop->parent(), body, {state});
  Replace(loop, state);
  return true;
}

}  // namespace

absl::StatusOr<bool> UnrollLoops::Run(Module* module) {
  return RewriteEach(module, [](Computation*, Instruction* i) { return i->Is(Opcode::kWhile) && Unroll(i); });
}

}  // namespace backplane
