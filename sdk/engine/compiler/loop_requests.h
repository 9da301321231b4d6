// Chooses loops that are compiled as a whole, and describes them to the code generator.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_LOOP_REQUESTS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_LOOP_REQUESTS_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "sdk/compiler/schedule.h"
#include "sdk/engine/codegen/loop_kernel.h"

namespace backplane::engine {

struct PlannedKernel {
  const codegen::KernelPlan* plan = nullptr;
  std::shared_ptr<const codegen::FusionPlan> fusion;
};
// Returns the kernel of an instruction, or nullopt if it has none.
using KernelFinder = absl::FunctionRef<std::optional<PlannedKernel>(const Instruction&)>;

struct PlannedLoop {
  codegen::LoopRequest request;         // without its symbol
  std::vector<compiler::SlotId> slots;  // of the arrays that have memory, in order
  int kernels = 0, locals = 0;          // for the compile log
  double estimated_us = 0;              // of one execution on one thread
};

// Plans the function of a loop (a step of kind kWhile). Returns nullopt if a step of it is no kernel, copy, loop or
// branch, if a kernel would run on several threads, or if the kernels run for so long that the time between them does
// not matter.
std::optional<PlannedLoop> PlanLoop(const compiler::ScheduledStep& loop, const compiler::BufferAssignment& assignment,
                                    KernelFinder find);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LOOP_REQUESTS_H_
