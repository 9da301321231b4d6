// Replaces fusions by their contents.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_INLINE_FUSIONS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_INLINE_FUSIONS_H_

#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane::tpu {

// Inlines every fusion of the module into the computation that holds it. A get-tuple-element of a fusion becomes the
// value itself. Returns whether the module changed.
absl::StatusOr<bool> InlineFusions(Module* module);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_INLINE_FUSIONS_H_
