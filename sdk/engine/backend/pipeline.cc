#include "sdk/engine/backend/pipeline.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/import/option_names.h"
#include "core/passes/passes.h"
#include "core/types/status_macros.h"
#include "sdk/codegen/accuracy.h"
#include "sdk/compiler/expand_small_dots.h"
#include "sdk/compiler/legalize.h"
#include "sdk/compiler/outline_scalar_control.h"
#include "sdk/compiler/select_small_branches.h"
#include "sdk/compiler/split_reductions.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/backend/executable.h"
#include "sdk/engine/codegen/classify.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/compiler/fuse.h"
#include "sdk/engine/compiler/fuse_attention.h"
#include "sdk/engine/compiler/library_problems.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {

absl::Status SimplifyForEngine(Module* module, std::vector<std::string>* log) {
  compiler::TargetFacts target;
  target.can_call = [](const Computation& c) { return codegen::CanCall(c).ok(); };
  target.has_kernel_for = [](const Computation& c) { return codegen::CanPlanKernel(c).ok(); };
  return compiler::SimplifyForTarget(module, target, log);
}

absl::Status LowerForEngine(Module* module, const CustomLowering* lowering, std::vector<std::string>* log) {
  if (compiler::IsFullyInterpreted(*module)) return absl::OkStatus();
  PassPipeline p("cpu");
  compiler::ContractionRules contractions;
  contractions.supports_type = [](PrimitiveType t) { return ToElementType(t).has_value(); };
  contractions.convolves_in_f32 = IsConvolutionFasterInF32;
  contractions.is_claimed = [lowering](const Instruction& i) { return IsClaimedBy(lowering, i); };
  p.Add<compiler::LegalizeLayouts>();  // row-major arrays only, but where host or custom call look
  p.Add<compiler::LegalizeTypes>();    // element types and sizes that a library kernel or generated code takes
  p.Add<compiler::SelectSmallBranches>();
  p.Add<FuseAttention>(lowering);
  p.Add<compiler::ExpandSmallDots>(contractions.is_claimed);       // to broadcasts, products and sums
  p.Add<compiler::SplitReductions>();
  p.Add<compiler::LegalizeContractions>(std::move(contractions));  // dots and convolutions that the library takes
  p.Add<SimplifyAlgebra>(false);  // transposes that the two brought in, but not back into dots
  p.Add<EliminateCommonSubexpressions>();
  p.Add<RemoveDeadCode>();
  p.Add<UnshareComputations>();  // one caller for each body: its buffers are that caller's
  p.Add<compiler::OutlineScalarControl>([](const Instruction& i) { return codegen::CanEmit(i).ok(); });
  p.Add<Fuse>(lowering);  // kernels
  p.Add<RemoveDeadCode>();
  RETURN_IF_ERROR(p.Run(module).status());
  compiler::LogPasses(p, log);
  return absl::OkStatus();
}

absl::Status RunEnginePipeline(Module* module, std::vector<std::string>* log) {
  RETURN_IF_ERROR(SimplifyForEngine(module, log));
  return LowerForEngine(module, nullptr, log);
}

ProgramOptions OptionsForRuntime(CustomCallRegistry* custom_calls) {
  Runtime& runtime = Runtime::Get();
  ProgramOptions options;
  options.pool = &runtime.pool;
  options.num_threads = runtime.pool.num_threads();
  options.custom_calls = custom_calls;
  return options;
}

absl::StatusOr<std::shared_ptr<Executable>> CompileOnEngine(std::unique_ptr<Module> module,
                                                            const CompileOptions& options,
                                                            CustomCallRegistry* custom_calls) {
  std::vector<std::string> log;
  RETURN_IF_ERROR(CheckOptionNames(options.env_option_overrides));
  module->config().num_replicas = options.num_replicas;
  module->config().num_partitions = options.num_partitions;
  RETURN_IF_ERROR(::backplane::codegen::CheckAccuracy(*module, jit::Host().target.has_fma));
  const std::string fingerprint = absl::StrCat(module->Fingerprint(), "-", jit::ComputeHostFingerprint());
  RETURN_IF_ERROR(compiler::PartitionForDevices(module.get(), options, &log));
  RETURN_IF_ERROR(SimplifyForEngine(module.get(), &log));
  NamedValues cost = compiler::ComputeCostAnalysis(*module);
  RETURN_IF_ERROR(LowerForEngine(module.get(), nullptr, &log));
  const ProgramOptions program_options = OptionsForRuntime(custom_calls);
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Build(std::move(module), program_options, &log));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log.push_back(absl::StrFormat("buffers, code and steps: %.2f ms", took.count()));
  return EngineExecutable::Create(std::move(program), options, std::move(cost), fingerprint, std::move(log));
}

}  // namespace backplane::engine
