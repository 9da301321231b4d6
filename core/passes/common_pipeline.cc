#include "core/passes/order_effects.h"
#include "core/passes/passes.h"

namespace backplane {

std::unique_ptr<PassPipeline> MakeCommonPipeline() {
  auto p = std::make_unique<PassPipeline>("common");
  p->Add<OrderEffects>();      // keeps control dependencies between effects only
  p->Add<InlineCalls>();       // one computation, apart from loops and branches
  p->Add<ExpandOperations>();  // leaves fewer kinds of operation
  p->Add<SimplifyTuples>();    // bypasses tuples
  p->Add<RemoveDeadCode>();
  p->Add<FoldConstants>();
  p->Add<SimplifyAlgebra>();
  p->Add<SimplifyControlFlow>();  // constants known by now decide branches
  p->Add<SimplifyTuples>();
  p->Add<HoistLoopInvariants>();  // by now it is known which state is loop-invariant
  p->Add<EliminateCommonSubexpressions>();
  p->Add<RemoveDeadCode>();
  p->set_fixed_point(3);
  return p;
}

}  // namespace backplane
