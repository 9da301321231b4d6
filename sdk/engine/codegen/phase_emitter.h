// Emits one phase of a plan as one LLVM function.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_

#include <string>

#include "absl/status/status.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

// Adds a KernelFn with the name `symbol` to the module of `elements`.
absl::Status EmitPhase(backplane::codegen::ElementEmitter& elements, const FusionPlan& plan, const Phase& phase,
                       const jit::HostInfo& host, const std::string& symbol);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_
