// Rewrites bitcasts between layouts as transposes and reshapes.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_RESOLVE_BITCASTS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_RESOLVE_BITCASTS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// Rewrites a bitcast whose operand or result is not row-major as a transpose, a reshape and a transpose. After this
// pass the layouts of values can be chosen freely. Bitcasts that change the element type stay.
class ResolveBitcasts : public Pass {
 public:
  absl::string_view name() const override { return "resolve-bitcasts"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_RESOLVE_BITCASTS_H_
