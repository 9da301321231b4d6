// The passes that make an imported module one that GpuProgram::Build (program.h) accepts.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_PIPELINE_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_PIPELINE_H_

#include <string>
#include <vector>

#include "core/import/compile_options.h"
#include "plugins/hip/lowering/lowering.h"
#include "sdk/backend/backend.h"

namespace backplane::hip {

// Runs all passes: partitioning, simplification, legalization, fusion. Sets *cost to the cost after simplification, and
// appends lines for the compile log to *log. `gpu` serves decisions on speed alone: the result runs on any target.
absl::Status RunGpuPipeline(Module* module, const CompileOptions& options, NamedValues* cost,
                            std::vector<std::string>* log, const GpuTarget& gpu = {});

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_PIPELINE_H_
