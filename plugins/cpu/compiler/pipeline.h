// From an imported module to an executable: the plugin's table of contents.
#ifndef BACKPLANE_PLUGINS_CPU_COMPILER_PIPELINE_H_
#define BACKPLANE_PLUGINS_CPU_COMPILER_PIPELINE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/import/compile_options.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"

namespace backplane::cpu {

// The passes up to and including fusion; afterwards Program::Build accepts the module.
absl::Status RunCpuPipeline(Module* module, std::vector<std::string>* log);

absl::StatusOr<std::shared_ptr<Executable>> CompileForCpu(std::unique_ptr<Module> module, const CompileOptions& options,
                                                          CustomCallRegistry* custom_calls);

}  // namespace backplane::cpu

#endif  // BACKPLANE_PLUGINS_CPU_COMPILER_PIPELINE_H_
