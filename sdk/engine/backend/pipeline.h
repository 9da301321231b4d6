// Compiles an imported module to an executable: the passes of the engine in their order.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/import/compile_options.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"
#include "sdk/compiler/pipeline.h"
#include "sdk/engine/compiler/custom_lowering.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {

// The stages after compiler::PartitionForDevices (sdk/compiler/pipeline.h), in the order in which a plugin calls them,
// with passes of its own between them. `log`, which may be null, gets lines for the compile log.

// compiler::SimplifyForTarget with what the engine's kernels can do.
absl::Status SimplifyForEngine(Module* module, std::vector<std::string>* log);
// Makes arrays row-major, converts element types and contractions to those that kernels and the library support, and
// fuses. `lowering` may be null. Program::Build accepts the module afterwards.
absl::Status LowerForEngine(Module* module, const CustomLowering* lowering, std::vector<std::string>* log);

// Returns options for Program::Build with the threads of the process.
ProgramOptions OptionsForRuntime(CustomCallRegistry* custom_calls);

// Runs the passes up to and including fusion on a module for one device.
absl::Status RunEnginePipeline(Module* module, std::vector<std::string>* log);

absl::StatusOr<std::shared_ptr<Executable>> CompileOnEngine(std::unique_ptr<Module> module,
                                                            const CompileOptions& options,
                                                            CustomCallRegistry* custom_calls);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_
