// The order that a program asks for beside its data: control predecessors.
//
// Who runs a program does so in the order of its instructions, which goes by operands and control predecessors. What
// may be seen of an order is that of effects: custom calls with side effects, infeed and outfeed, send and receive. Of
// pure operations nobody sees when they are computed, and held to an order they could not become part of a kernel.
#ifndef BACKPLANE_CORE_PASSES_ORDER_EFFECTS_H_
#define BACKPLANE_CORE_PASSES_ORDER_EFFECTS_H_

#include "core/passes/pass.h"

namespace backplane {

// Each operation with an effect waits for those before it directly, however many pure operations the order was said
// by; pure operations wait for nothing but their operands.
class OrderEffects : public Pass {
 public:
  absl::string_view name() const override { return "order-effects"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

// `to`, which stands for `from` from here on, waits for what that waited for, and others wait for it. `from` has then
// to be removed: what waits for an instruction keeps it.
void TakeOrder(const Instruction* from, Instruction* to);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_ORDER_EFFECTS_H_
