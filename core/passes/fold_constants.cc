#include "absl/algorithm/container.h"
#include "core/eval/evaluator.h"
#include "core/passes/batcher.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace backplane {
namespace {

constexpr int64_t kMaxWindowElements = 1 << 22;  // in all windows together

bool HasManyWindowElements(const Instruction& i) {
  if (!i.info().Has(kReducesWindows)) return false;
  const Shape& windows = i.Is(Opcode::kSelectAndScatter) ? i.operand(1)->shape() : i.shape();
  const int64_t count = windows.num_elements();
  return count > 0 && i.window().CountElements() > kMaxWindowElements / count;
}

// Whether a reducer or comparator contains a loop, whose trip count is unknown here.
bool CallsLoop(const Instruction& i) {
  return absl::c_any_of(i.called(), [](const Computation* called) { return ContainsLoop(*called); });
}

bool CanEvaluateAtCompileTime(const Instruction* i, int64_t max_elements) {
  switch (i->opcode()) {
    case Opcode::kConstant:
    case Opcode::kParameter:
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
    case Opcode::kCustomCall:
    case Opcode::kRng:
    case Opcode::kAfterAll:
    case Opcode::kOptimizationBarrier:
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
    case Opcode::kFusion:
    case Opcode::kConvolution:
    case Opcode::kDot:
      return false;
    default:
      break;
  }
  if (i->HasSideEffect() || i->info().Has(kCollective) || !i->shape().IsArray() || i->operand_count() == 0)
    return false;
  if (HasManyWindowElements(*i) || CallsLoop(*i)) return false;
  if (i->shape().num_elements() > max_elements || i->shape().HasDynamicDimensions()) return false;
  for (const Instruction* o : i->operands()) {
    if (!o->Is(Opcode::kConstant) || !o->shape().IsArray() || o->shape().num_elements() > max_elements) return false;
  }
  return true;
}

// An array without elements is constant however it is computed. This removes more than arithmetic: factorization
// libraries of the host refuse matrices of size zero, and programs use only the empty parts of their results.
bool IsEmpty(const Instruction* i) {
  if (!i->shape().IsArray() || i->shape().HasDynamicDimensions() || i->shape().num_elements() != 0) return false;
  if (i->Is(Opcode::kConstant) || i->Is(Opcode::kParameter)) return false;
  return !i->HasSideEffect() && !i->info().Has(kCollective);
}

}  // namespace

absl::StatusOr<bool> FoldConstants::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (IsEmpty(i)) {
        Replace(i, MakeConstant(c, i, Literal(i->shape())));
        here = true;
        continue;
      }
      if (!CanEvaluateAtCompileTime(i, max_elements_)) continue;
      std::vector<const Literal*> operands;
      for (const Instruction* o : i->operands()) operands.push_back(&o->literal());
      absl::StatusOr<Literal> value = EvaluateInstruction(*i, operands);
      if (!value.ok()) continue;  // the error surfaces when the program runs
      Replace(i, MakeConstant(c, i, *std::move(value)));
      here = true;
    }
    if (here) {
      c->RemoveDead();
      c->SortTopologically();
    }
    changed |= here;
  }
  return changed;
}

}  // namespace backplane
