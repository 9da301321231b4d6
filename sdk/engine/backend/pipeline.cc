#include "sdk/engine/backend/pipeline.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/import/option_names.h"
#include "core/passes/calls.h"
#include "core/passes/combine_collectives.h"
#include "core/passes/expand_reductions.h"
#include "core/passes/isolate_dynamic_sizes.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "sdk/codegen/accuracy.h"
#include "sdk/compiler/legalize.h"
#include "sdk/compiler/outline_scalar_control.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/backend/executable.h"
#include "sdk/engine/codegen/classify.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/compiler/fuse.h"
#include "sdk/engine/compiler/library_problems.h"
#include "sdk/engine/compiler/program.h"

namespace backplane::engine {

NamedValues CountCost(const Module& module) {
  Cost total;
  for (const Computation* c : ControlFlowComputations(&module)) {
    for (const auto& i : c->instructions()) {
      if (i->Is(Opcode::kParameter) || i->Is(Opcode::kTuple) || i->Is(Opcode::kGetTupleElement) ||
          i->Is(Opcode::kConstant) || i->Is(Opcode::kWhile) || i->Is(Opcode::kConditional)) {
        continue;
      }
      Instruction::ContextStorage storage;
      const Cost cost = CostOf(i->Context(storage), i->shape());
      total.flops += cost.flops;
      total.transcendentals += cost.transcendentals;
      total.bytes_accessed += cost.bytes_accessed;
    }
  }
  NamedValues v;
  v["flops"] = static_cast<float>(total.flops);
  v["transcendentals"] = static_cast<float>(total.transcendentals);
  v["bytes accessed"] = static_cast<float>(total.bytes_accessed);
  return v;
}

namespace {

void LogPasses(const PassPipeline& pipeline, std::vector<std::string>* log) {
  if (log == nullptr) return;
  double total = 0;
  for (const PassPipeline::Record& r : pipeline.log()) total += r.milliseconds;
  log->push_back(absl::StrFormat("passes of %s: %.2f ms", pipeline.name(), total));
  for (const PassPipeline::Record& r : pipeline.log()) {
    if (r.milliseconds >= 1 || PassDebugging::OfProcess().time_each)
      log->push_back(absl::StrFormat("  %s: %.2f ms", r.pass, r.milliseconds));
  }
}

}  // namespace

absl::Status PartitionForDevices(Module* module, const CompileOptions& options, std::vector<std::string>* log) {
  RETURN_IF_ERROR(CheckCallBudget(*module));
  PassPipeline p("devices");
  p.Add<PartitionModule>(PartitionOptions{options.allow_spmd_sharding_propagation_to_output, log,
                                          options.allow_spmd_sharding_propagation_to_parameters});
  p.Add<ExpandAsync>();
  p.Add<SimplifyCollectives>();
  RETURN_IF_ERROR(p.Run(module).status());
  LogPasses(p, log);
  return absl::OkStatus();
}

namespace {

absl::Status ResolveSizes(Module* module) {
  RETURN_IF_ERROR(InlineAllCalls(module).status());
  return RunPass(ResolveDynamicSizes(), module).status();
}

absl::Status IsolateSizes(Module* module) {
  RETURN_IF_ERROR(InlineAllCalls(module).status());
  return RunPass(IsolateDynamicSizes(), module).status();
}

// Makes the program one call, for which there is no kernel: the evaluator runs it.
void WrapInCall(Module* module) {
  Computation* program = module->entry();
  Computation* entry = module->AddComputation("evaluated");
  std::vector<Instruction*> parameters;
  for (const Instruction* p : program->parameters()) parameters.push_back(entry->AddClone(p, p->shape(), {}));
  entry->set_root(Make(entry, nullptr, Opcode::kCall, program->root()->shape(), std::move(parameters), {}, {program}));
  module->set_entry(entry);
}

}  // namespace

bool IsFullyInterpreted(const Module& module) {
  const Instruction* root = module.entry()->root();
  return root->Is(Opcode::kCall) && !StaysCall(*root);
}

namespace {

// A fusion in the host's program, which another compiler has optimized, is only a grouping. One that has no kernel here
// is inlined, so that kernels and library calls are found for its instructions.
absl::Status DissolveFusions(Module* module) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Computation* c : ControlFlowComputations(module)) {
      bool here = false;
      for (Instruction* i : c->Snapshot()) {
        if (!i->Is(Opcode::kFusion) || codegen::CanPlanKernel(*i->called(0)).ok()) continue;
        Replace(i, Inline(c, i->called(0), i->operands()));
        if (i->HasSideEffect()) RETURN_IF_ERROR(c->Remove(i));
        here = true;
      }
      if (!here) continue;
      c->RemoveDead();
      c->SortTopologically();
      changed = true;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SimplifyForEngine(Module* module, std::vector<std::string>* log) {
  RETURN_IF_ERROR(CheckCallBudget(*module));
  RETURN_IF_ERROR(DissolveFusions(module));
  if (HasDynamicSizes(*module)) {
    if (absl::Status tried = ResolveSizes(module->Clone().get()); tried.ok()) {
      RETURN_IF_ERROR(ResolveSizes(module));
    } else if (IsolateSizes(module->Clone().get()).ok()) {
      if (log != nullptr) log->push_back(absl::StrCat("dynamic sizes: apart from the rest: ", tried.message()));
      RETURN_IF_ERROR(IsolateSizes(module));
    } else {
      if (log != nullptr)
        log->push_back(absl::StrCat("dynamic sizes: the whole program is interpreted: ", tried.message()));
      WrapInCall(module);
      return absl::OkStatus();
    }
  }
  PassPipeline p("rare operations");
  p.Add<ExpandAsync>();
  p.Add<ExpandScans>();
  p.Add<ExpandReductions>([](const Computation& c) { return codegen::CanCall(c).ok(); });
  p.Add<ExpandDots>();
  p.set_fixed_point(8);  // each brings to light what the others take
  RETURN_IF_ERROR(p.Run(module).status());
  std::unique_ptr<PassPipeline> common = CommonPipeline();
  RETURN_IF_ERROR(common->Run(module).status());
  ASSIGN_OR_RETURN(bool unrolled, RunPass(UnrollLoops(), module));
  if (unrolled) RETURN_IF_ERROR(common->Run(module).status());
  RETURN_IF_ERROR(RunPass(CombineAllReduces(), module).status());
  LogPasses(*common, log);
  return absl::OkStatus();
}

absl::Status LowerForEngine(Module* module, const CustomLowering* lowering, std::vector<std::string>* log) {
  if (IsFullyInterpreted(*module)) return absl::OkStatus();
  PassPipeline p("cpu");
  compiler::ContractionRules contractions;
  contractions.supports_type = [](PrimitiveType t) { return ToElementType(t).has_value(); };
  contractions.is_claimed = [lowering](const Instruction& i) { return IsClaimedBy(lowering, i); };
  p.Add<compiler::LegalizeLayouts>();  // row-major arrays only, but where host or custom call look
  p.Add<compiler::LegalizeTypes>();    // element types and sizes that a library kernel or generated code takes
  p.Add<compiler::LegalizeContractions>(std::move(contractions));  // dots and convolutions that the library takes
  p.Add<SimplifyAlgebra>(false);  // transposes that the two brought in, but not back into dots
  p.Add<EliminateCommonSubexpressions>();
  p.Add<RemoveDeadCode>();
  p.Add<UnshareComputations>();  // one caller for each body: its buffers are that caller's
  p.Add<compiler::OutlineScalarControl>([](const Instruction& i) { return codegen::CanEmit(i).ok(); });
  p.Add<Fuse>(lowering);  // kernels
  p.Add<RemoveDeadCode>();
  RETURN_IF_ERROR(p.Run(module).status());
  LogPasses(p, log);
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
  const std::string fingerprint = absl::StrCat(module->Fingerprint(), "-", jit::HostFingerprint());
  RETURN_IF_ERROR(PartitionForDevices(module.get(), options, &log));
  RETURN_IF_ERROR(SimplifyForEngine(module.get(), &log));
  NamedValues cost = CountCost(*module);
  RETURN_IF_ERROR(LowerForEngine(module.get(), nullptr, &log));
  const ProgramOptions program_options = OptionsForRuntime(custom_calls);
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Build(std::move(module), program_options, &log));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log.push_back(absl::StrFormat("buffers, code and steps: %.2f ms", took.count()));
  return EngineExecutable::Create(std::move(program), options, std::move(cost), fingerprint, std::move(log));
}

}  // namespace backplane::engine
