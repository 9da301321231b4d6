// Writes kernels as IR for every GPU (lowering/gpu_ir.h).
//
// A kernel's parameters are pointers to its arrays in global memory: those of the operands, then those of the results.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_EMITTER_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_EMITTER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "sdk/codegen/element_emitter.h"

namespace backplane::hip {

// Adds the kernel `name` for `instruction`, a fusion or a contraction, to the emitter's module. `plan` is of that
// instruction. One emitter serves all kernels of a module, one after another. Errors are in elements.status() too.
absl::Status EmitKernel(codegen::ElementEmitter& elements, const Instruction& instruction, const KernelPlan& plan,
                        absl::string_view name);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_KERNEL_EMITTER_H_
