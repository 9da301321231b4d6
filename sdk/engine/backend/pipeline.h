// From an imported module to an executable: the engine's table of contents.
#ifndef BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_
#define BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/import/compile_options.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"
#include "sdk/engine/compiler/custom_lowering.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {

// A plugin that compiles more than the engine does takes the three parts in this order, with its own work between them;
// `log` may be null. PartitionForDevices: the one program that each device runs. SimplifyForEngine: fewer operations,
// by their definitions alone; costs are counted and layouts chosen after it. LowerForEngine: row-major arrays, element
// types and contractions that kernels and the library take, fusion; afterwards Program::Build accepts the module.
// `lowering` may be null.
absl::Status PartitionForDevices(Module* module, const CompileOptions& options, std::vector<std::string>* log);
absl::Status SimplifyForEngine(Module* module, std::vector<std::string>* log);
absl::Status LowerForEngine(Module* module, const CustomLowering* lowering, std::vector<std::string>* log);

// After SimplifyForEngine: sizes that no pass could resolve are left, so the evaluator runs the whole program in one
// call, which is all that the entry holds.
bool IsFullyInterpreted(const Module& module);

// Work of one run by the definitions of core/ops; loop bodies count once. "flops", "transcendentals", "bytes accessed".
NamedValues CountCost(const Module& module);

// For Program::Build, with the process's threads.
ProgramOptions OptionsForRuntime(CustomCallRegistry* custom_calls);

// The passes up to and including fusion, on a module for one device.
absl::Status RunEnginePipeline(Module* module, std::vector<std::string>* log);

absl::StatusOr<std::shared_ptr<Executable>> CompileOnEngine(std::unique_ptr<Module> module,
                                                            const CompileOptions& options,
                                                            CustomCallRegistry* custom_calls);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_BACKEND_PIPELINE_H_
