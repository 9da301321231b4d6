#include "core/passes/order_effects.h"
#include "core/passes/passes.h"

namespace backplane {

std::unique_ptr<PassPipeline> CommonPipeline() {
  auto p = std::make_unique<PassPipeline>("common");
  p->Add<OrderEffects>();      // what is left of an order beside the data
  p->Add<InlineCalls>();       // one body for each program, but for loops and branches
  p->Add<ExpandOperations>();  // fewer kinds of operation
  p->Add<SimplifyTuples>();    // values instead of ways through tuples
  p->Add<RemoveDeadCode>();
  p->Add<FoldConstants>();
  p->Add<SimplifyAlgebra>();
  p->Add<SimplifyControlFlow>();  // constants known by now decide branches
  p->Add<SimplifyTuples>();
  p->Add<HoistLoopInvariants>();  // sees by now which state no turn changes
  p->Add<EliminateCommonSubexpressions>();
  p->Add<RemoveDeadCode>();
  p->set_fixed_point(3);
  return p;
}

}  // namespace backplane
