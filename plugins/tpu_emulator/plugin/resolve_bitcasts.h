// Bitcasts that mean bytes in another order than that of rows, by operations on values.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_RESOLVE_BITCASTS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_RESOLVE_BITCASTS_H_

#include "core/passes/pass.h"

namespace backplane::tpu {

// A host's bitcast from or to an array whose own layout orders its dimensions otherwise than by rows becomes a
// transpose, a reshape and a transpose: layouts are the machine's to choose after it. Bitcasts that change the element
// type stay.
class ResolveBitcasts : public Pass {
 public:
  absl::string_view name() const override { return "resolve-bitcasts"; }
  absl::StatusOr<bool> Run(Module* module) override;
};

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PLUGIN_RESOLVE_BITCASTS_H_
