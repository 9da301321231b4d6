// Simplifies collectives of groups with one member and ids that are constant, and moves sends before the instructions
// that wait for them.
#include <algorithm>

#include "core/analysis/process_groups.h"
#include "core/analysis/transfer_order.h"
#include "core/passes/passes.h"
#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

Instruction* Zeros(Computation* c, const Instruction* like, const Shape& shape) {
  Instruction* zero = MakeConstant(c, like, Literal(Shape::Scalar(shape.element_type())));
  return shape.IsScalar() ? zero : MakeBroadcast(c, like, zero, shape.WithoutLayout(), {});
}

// Returns the operands as the result: the only one, or a tuple of all.
Instruction* Operands(Computation* c, Instruction* i) {
  if (!i->shape().IsTuple()) return i->operand(0);
  return Make(c, i, Opcode::kTuple, i->shape(), {i->operands().begin(), i->operands().end()});
}

absl::StatusOr<Instruction*> Simplify(Computation* c, Instruction* i, int64_t replicas, int64_t partitions) {
  switch (i->opcode()) {
    case Opcode::kReplicaId:
      return replicas == 1 ? MakeConstant(c, i, Literal::ScalarInt(PrimitiveType::kU32, 0)) : nullptr;
    case Opcode::kPartitionId:
      return partitions == 1 ? MakeConstant(c, i, Literal::ScalarInt(PrimitiveType::kU32, 0)) : nullptr;
    case Opcode::kAllReduce:
    case Opcode::kAllGather:
    case Opcode::kReduceScatter:
    case Opcode::kAllToAll:
    case Opcode::kCollectiveBroadcast: {
      ASSIGN_OR_RETURN(ProcessGroups groups, GetProcessGroups(*i, replicas, partitions));
      const bool alone = std::all_of(groups.begin(), groups.end(), [](const Ints& g) { return g.size() == 1; });
      const bool everybody = static_cast<int64_t>(groups.size()) == replicas * partitions;
      const bool same = i->shape().IsTuple() || i->shape() == i->operand(0)->shape();
      return alone && everybody && same ? Operands(c, i) : nullptr;
    }
    case Opcode::kCollectivePermute: {
      ASSIGN_OR_RETURN(Pairs pairs, GetProcessPairs(*i, replicas, partitions));
      if (pairs.empty()) {
        if (!i->shape().IsTuple()) return Zeros(c, i, i->shape());
        std::vector<Instruction*> zeros;
        for (const Shape& s : i->shape().tuple_shapes()) zeros.push_back(Zeros(c, i, s));
        return Make(c, i, Opcode::kTuple, i->shape(), std::move(zeros));
      }
      const bool alone = std::all_of(pairs.begin(), pairs.end(), [](const auto& p) { return p.first == p.second; });
      return alone && static_cast<int64_t>(pairs.size()) == replicas * partitions ? Operands(c, i) : nullptr;
    }
    default:
      return nullptr;
  }
}

}  // namespace

absl::StatusOr<bool> SimplifyCollectives::Run(Module* module) {
  const int64_t replicas = module->config().num_replicas, partitions = module->config().num_partitions;
  auto rewrite = [&](Computation* c, Instruction* i) -> absl::StatusOr<bool> {
    if (i->users().empty() && i != c->root()) return false;
    ASSIGN_OR_RETURN(Instruction * simple, Simplify(c, i, replicas, partitions));
    if (simple == nullptr) return false;
    Replace(i, simple);
    return true;
  };
  ASSIGN_OR_RETURN(bool changed, RewriteEach(module, rewrite));
  ASSIGN_OR_RETURN(bool ordered, OrderTransfers(module));
  return changed || ordered;
}

}  // namespace backplane
