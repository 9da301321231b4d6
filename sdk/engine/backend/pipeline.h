// From an imported module to an executable: the engine's table of contents.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/import/compile_options.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"

namespace backplane::engine {

// The passes up to and including fusion; afterwards Program::Build accepts the module.
absl::Status RunEnginePipeline(Module* module, std::vector<std::string>* log);

absl::StatusOr<std::shared_ptr<Executable>> CompileOnEngine(std::unique_ptr<Module> module,
                                                            const CompileOptions& options,
                                                            CustomCallRegistry* custom_calls);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_
