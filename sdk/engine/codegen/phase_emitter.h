// Emits one phase of a plan as one LLVM function.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

// Adds a KernelFn with the name `symbol` to the module of `elements`.
absl::Status EmitPhase(backplane::codegen::ElementEmitter& elements, const FusionPlan& plan, const Phase& phase,
                       const jit::HostInfo& host, const std::string& symbol);

// Emits a phase at the position of the builder, for all of its work items. `buffers` are those of the kernel.
void EmitPhaseInline(backplane::codegen::ElementEmitter& elements, const FusionPlan& plan, const Phase& phase,
                     const jit::HostInfo& host, std::vector<llvm::Value*> buffers, llvm::Value* scratch);

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PHASE_EMITTER_H_
