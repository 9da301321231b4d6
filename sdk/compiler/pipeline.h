// The first stages of a target's pipeline, up to the point where targets differ.
//
// A target calls PartitionForDevices and SimplifyForTarget, counts costs, legalizes (legalize.h) and fuses.
#ifndef BACKPLANE_SDK_COMPILER_PIPELINE_H_
#define BACKPLANE_SDK_COMPILER_PIPELINE_H_

#include <functional>
#include <string>
#include <vector>

#include "core/import/compile_options.h"
#include "core/ir/module.h"
#include "core/passes/passes.h"
#include "sdk/backend/backend.h"

namespace backplane::compiler {

// What a target's generated code can do.
struct TargetFacts {
  // Whether generated code can call the computation: a reducer, the body of a map. What it cannot call is expanded.
  std::function<bool(const Computation&)> can_call;
  // Whether one kernel can compute a fusion that the host's program brings along. Others are inlined.
  std::function<bool(const Computation&)> has_kernel_for;
};

// In all functions `log`, which may be null, receives lines for the compile log.

// Makes the one program that each device runs.
absl::Status PartitionForDevices(Module* module, const CompileOptions& options, std::vector<std::string>* log);

// Simplifies by the definitions of the operations alone, and resolves dynamic sizes. Costs are counted and layouts
// chosen afterwards.
absl::Status SimplifyForTarget(Module* module, const TargetFacts& target, std::vector<std::string>* log);

// Whether the evaluator runs the whole program: SimplifyForTarget has left one call of it in the entry, because no pass
// could resolve its dynamic sizes.
bool IsFullyInterpreted(const Module& module);

// Counts the work of one run by the definitions of core/ops: "flops", "transcendentals", "bytes accessed". Loop bodies
// count once.
NamedValues ComputeCostAnalysis(const Module& module);

// Adds the time of the pipeline, and of each pass that took at least a millisecond.
void LogPasses(const PassPipeline& pipeline, std::vector<std::string>* log);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_PIPELINE_H_
