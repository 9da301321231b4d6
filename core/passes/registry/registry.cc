#include "core/passes/registry/registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/combine_collectives.h"
#include "core/passes/expand_folds.h"
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

// No plugin is there to run a computation as it is: reducers of plain arithmetic stay.
std::unique_ptr<Pass> MakeExpandFolds() {
  return std::make_unique<ExpandFolds>([](const Computation&) { return true; });
}

struct Entry {
  Factory make;
  const char* summary;
};

constexpr Entry kEntries[] = {
    {+[]() -> std::unique_ptr<Pass> { return CommonPipeline(); }, "the passes that every plugin runs"},
    {&Make<CombineAllReduces>, "all-reduces that do not wait for one another become one of several arrays"},
    {&Make<DropLayouts>, "layouts go; bitcasts between layouts become transposes"},
    {&Make<EliminateCommonSubexpressions>, "equal pure instructions of one computation become one"},
    {&Make<ExpandAsync>, "the two halves of an asynchronous operation become one operation"},
    {&Make<ExpandDots>, "ragged dots become loops, scaled dots products and a plain dot"},
    {&MakeExpandFolds, "reductions whose computation builds arrays become loops"},
    {&Make<ExpandOperations>, "operations without kernels become simpler ones"},
    {&Make<ExpandScans>, "scans become loops"},
    {&Make<FoldConstants>, "instructions whose operands are constants become constants"},
    {&Make<HoistLoopInvariants>, "work that is the same in every turn of a loop moves in front of it"},
    {&Make<InlineCalls>, "called computations take the place of their calls"},
    {&Make<IsolateDynamicSizes>, "instructions on arrays of dynamic size move into one fusion"},
    {&Make<OrderEffects>, "control dependencies remain between operations with effects only"},
    {&Make<PartitionModule>, "a program on full arrays becomes the program that every partition runs (SPMD)"},
    {&Make<RemoveDeadCode>, "instructions and computations that nothing needs go"},
    {&Make<ResolveDynamicSizes>, "dimensions of dynamic size become full ones and a number beside them"},
    {&Make<SimplifyAlgebra>, "identities that hold for every value of the type"},
    {&Make<SimplifyCollectives>, "collectives without a partner go; sends move before what waits for them"},
    {&Make<SimplifyControlFlow>, "constant or unused loop state goes; known conditions decide loops and branches"},
    {&Make<SimplifyTuples>, "elements of tuples become the values themselves"},
    {&Make<UnrollLoops>, "short loops over elementwise arithmetic become copies of their body"},
    {&Make<UnshareComputations>, "every loop and branch gets computations of its own"},
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
