#include "core/passes/registry/registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/combine_collectives.h"
#include "core/passes/expand_reductions.h"
#include "core/passes/isolate_dynamic_sizes.h"
#include "core/passes/order_effects.h"
#include "core/passes/partition/partition_module.h"
#include "core/passes/passes.h"

namespace backplane {
namespace {

using Factory = std::unique_ptr<Pass> (*)();

template <typename P>
std::unique_ptr<Pass> Make() {
  return std::make_unique<P>();
}

// Without a plugin every scalar computation counts as supported.
std::unique_ptr<Pass> MakeExpandReductions() {
  return std::make_unique<ExpandReductions>([](const Computation&) { return true; });
}

struct Entry {
  Factory make;
  const char* summary;
};

constexpr Entry kEntries[] = {
    {+[]() -> std::unique_ptr<Pass> { return MakeCommonPipeline(); }, "the passes that every plugin runs"},
    {&Make<CombineAllReduces>, "combines independent all-reduces into one with several operands"},
    {&Make<DropLayouts>, "drops layouts; bitcasts between layouts become transposes"},
    {&Make<EliminateCommonSubexpressions>, "merges equal pure instructions of a computation"},
    {&Make<ExpandAsync>, "replaces start and done of asynchronous operations by synchronous operations"},
    {&Make<ExpandDots>, "expands ragged dots to loops, scaled dots to products and a plain dot"},
    {&MakeExpandReductions, "expands reductions whose computation builds arrays to loops"},
    {&Make<ExpandOperations>, "expands operations without kernels to simpler ones"},
    {&Make<ExpandScans>, "expands scans to loops"},
    {&Make<FoldConstants>, "evaluates instructions with constant operands"},
    {&Make<HoistLoopInvariants>, "moves loop-invariant work in front of loops"},
    {&Make<InlineCalls>, "inlines calls"},
    {&Make<IsolateDynamicSizes>, "moves instructions on arrays of dynamic size into one fusion"},
    {&Make<OrderEffects>, "keeps control dependencies between side effects only"},
    {&Make<PartitionModule>, "partitions a program on full arrays (SPMD)"},
    {&Make<RemoveDeadCode>, "removes dead instructions and unreachable computations"},
    {&Make<ResolveDynamicSizes>, "replaces dimensions of dynamic size by full ones and a separate size"},
    {&Make<SimplifyAlgebra>, "applies algebraic identities that hold for every value of the type"},
    {&Make<SimplifyCollectives>,
     "simplifies collectives without a partner; moves sends before the receives that depend on them"},
    {&Make<SimplifyControlFlow>,
     "removes constant and unused loop state, and loops and conditionals with a constant condition"},
    {&Make<SimplifyTuples>, "bypasses tuples"},
    {&Make<UnrollLoops>, "unrolls short loops over elementwise arithmetic"},
    {&Make<UnshareComputations>, "clones computations that several loops or branches share"},
};

}  // namespace

std::vector<RegisteredPass> ListPasses() {
  std::vector<RegisteredPass> all;
  for (const Entry& entry : kEntries) {
    const std::unique_ptr<Pass> pass = entry.make();
    RegisteredPass& listed = all.emplace_back();
    listed.name = std::string(pass->name());
    listed.summary = entry.summary;
    listed.required = pass->IsRequired();
    if (!pass->IsPipeline()) continue;
    for (const auto& member : static_cast<const PassPipeline&>(*pass).passes()) {
      listed.runs.emplace_back(member->name());
    }
  }
  std::sort(all.begin(), all.end(), [](const RegisteredPass& a, const RegisteredPass& b) { return a.name < b.name; });
  return all;
}

absl::StatusOr<std::unique_ptr<Pass>> MakePass(absl::string_view name) {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) {
    std::unique_ptr<Pass> pass = entry.make();
    if (pass->name() == name) return pass;
    names.emplace_back(pass->name());
  }
  std::sort(names.begin(), names.end());
  return absl::NotFoundError(absl::StrCat("no pass '", name, "'; there are ", absl::StrJoin(names, ", ")));
}

}  // namespace backplane
