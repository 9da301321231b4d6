#include "sdk/compiler/pipeline.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/passes/calls.h"
#include "core/passes/combine_collectives.h"
#include "core/passes/expand_reductions.h"
#include "core/passes/isolate_dynamic_sizes.h"
#include "core/passes/order_effects.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane::compiler {

NamedValues ComputeCostAnalysis(const Module& module) {
  Cost total;
  for (const Computation* c : CollectControlFlowComputations(&module)) {
    for (const auto& i : c->instructions()) {
      if (i->Is(Opcode::kParameter) || i->Is(Opcode::kTuple) || i->Is(Opcode::kGetTupleElement) ||
          i->Is(Opcode::kConstant) || i->Is(Opcode::kWhile) || i->Is(Opcode::kConditional)) {
        continue;
      }
      Instruction::ContextStorage storage;
      const Cost cost = EstimateCost(i->Context(storage), i->shape());
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

// A fusion in the host's program, which another compiler has optimized, is only a grouping. One that has no kernel here
// is inlined, so that kernels and library calls are found for its instructions.
absl::Status DissolveFusions(Module* module, const TargetFacts& target) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Computation* c : CollectControlFlowComputations(module)) {
      bool here = false;
      for (Instruction* i : c->Snapshot()) {
        if (!i->Is(Opcode::kFusion) || target.has_kernel_for(*i->called(0))) continue;
        ReplaceByInlined(i, i->called(0));
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

bool IsFullyInterpreted(const Module& module) {
  const Instruction* root = module.entry()->root();
  return root->Is(Opcode::kCall) && !IsMarkedNotInlineable(*root);
}

absl::Status SimplifyForTarget(Module* module, const TargetFacts& target, std::vector<std::string>* log) {
  RETURN_IF_ERROR(CheckCallBudget(*module));
  RETURN_IF_ERROR(DissolveFusions(module, target));
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
  p.Add<ExpandReductions>(target.can_call);
  p.Add<ExpandDots>();
  p.set_fixed_point(8);  // each brings to light what the others take
  RETURN_IF_ERROR(p.Run(module).status());
  std::unique_ptr<PassPipeline> common = MakeCommonPipeline();
  RETURN_IF_ERROR(common->Run(module).status());
  ASSIGN_OR_RETURN(bool unrolled, RunPass(UnrollLoops(), module));
  if (unrolled) RETURN_IF_ERROR(common->Run(module).status());
  RETURN_IF_ERROR(RunPass(CombineAllReduces(), module).status());
  LogPasses(*common, log);
  return absl::OkStatus();
}

}  // namespace backplane::compiler
