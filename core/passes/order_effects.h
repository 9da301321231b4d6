// Control dependencies: the order of execution that a program requests beyond its data dependencies.
//
// Instructions execute in an order that respects operands and control predecessors. Only the order of side effects is
// observable: custom calls with side effects, infeed and outfeed, send and receive. The order of pure operations is
// not, and control predecessors would keep them out of fusions.
#ifndef BACKPLANE_CORE_PASSES_ORDER_EFFECTS_H_
#define BACKPLANE_CORE_PASSES_ORDER_EFFECTS_H_

#include "core/passes/pass.h"

namespace backplane {

// Replaces control dependencies by direct ones between side effects. Each operation with a side effect depends on those
// that had to precede it, even through pure operations. Pure operations keep no control predecessors.
class OrderEffects : public Pass {
 public:
  absl::string_view name() const override { return "order-effects"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

// Transfers the control predecessors and successors of `from` to its replacement `to`. The caller must then remove
// `from`, because RemoveDead() keeps an instruction with control dependencies.
void MoveControlDependencies(const Instruction* from, Instruction* to);

// The same for a replacement that consists of several instructions, those of the computation of `from` from number
// `first` on: the effects among them take over the dependencies. If there are none, the successors of `from` depend on
// its predecessors.
void MoveControlDependenciesToEffects(const Instruction* from, int64_t first);

// Replaces the uses of `i` by the result of `callee`, whose instructions are copied for the operands of `i`, and moves
// its control dependencies to the effects among the copies. The caller must then remove `i` if it has an effect.
void ReplaceByInlined(Instruction* i, const Computation* callee);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_ORDER_EFFECTS_H_
