// Declarations that the files of the planner share. Internal to planning.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PLANNER_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PLANNER_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/types/integer_division.h"
#include "sdk/codegen/body/combiner.h"
#include "sdk/codegen/body/computed_bytes.h"
#include "sdk/codegen/body/reduce_nest.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

using backplane::codegen::AnalyzeCombiner;
using backplane::codegen::AnalyzeReduce;
using backplane::codegen::Combiner;
using backplane::codegen::ComputedBytes;
using backplane::codegen::ComputedWidth;
using backplane::codegen::MayReorder;
using backplane::codegen::ReduceNest;

// A loop with at least this many work items is distributed over threads without splitting it further.
constexpr int64_t kMinParallelItems = 16;

inline int64_t Product(absl::Span<const int64_t> v) {
  int64_t p = 1;
  for (int64_t n : v) p *= n;
  return p;
}
int64_t ComputeExtent(const VarTable& vars, absl::Span<const VarId> group);  // of the counter that counts all of them
// Returns the number of lanes for vectors along a loop of `extent` elements, at most `lanes`; 0 if the loop is too
// short.
int64_t LanesAlong(int64_t extent, int64_t lanes);

// Outputs that share loops, before the kind of the phase is chosen.
struct Draft {
  std::vector<PhaseOutput> outputs;
  LoopNest nest;  // groups: none yet
  std::vector<MultiOutput> multi_output;
  std::vector<PartialReduction> partials;
};

// The result of a walk over all outputs of a draft.
struct GroupWalk {
  VarTable vars;
  PhaseLoops loops;
  std::vector<Access> accesses;
  std::vector<ReduceUse> reduces;
  std::vector<Affine> observed;
  std::vector<Guard> conditions;
  AccessWalk::ArraySet visited;
  bool too_complex = false;
};

// Returns the loops of the draft with its extents grouped. `groups` consists of variables of the walk.
LoopNest MakeNest(const Draft& draft, const GroupWalk& walk, const std::vector<std::vector<VarId>>& groups);

// Returns a transpose phase without its outputs if arrays are read across the last loop of the outputs, else nullopt.
// `groups` are the grouped loops.
std::optional<Phase> PlanTranspose(const Draft& draft, const GroupWalk& walk,
                                   const std::vector<std::vector<VarId>>& groups, const jit::HostInfo& host);

// How the results of reductions are computed.
struct ReductionChoice {
  enum Form { kLoop, kElements, kColumns } form = kLoop;
  bool split = false;  // first partial results of blocks, then their combination
  std::vector<std::vector<VarId>> groups;
  int64_t lanes = 0, column_block = 0, outer = 1, columns = 1;
  int unroll = 1;
  int64_t blocks = 1, block_size = 0, block_extent = 0;
};
// `index` is the index of the results if all reductions can run in one pass, else null.
ReductionChoice ChooseReduction(GroupWalk& walk, const AccessWalk::ArraySet& materialized,
                                const std::vector<const Instruction*>& reduces, const Index* index, int width,
                                const jit::HostInfo& host);

// Divides one computation into phases.
class Planner {
 public:
  Planner(const Computation& c, const KernelOptions& options)
      : computation_(c), options_(options), host_(options.host ? *options.host : jit::Host()) {
    plan_.computation = &c;
    plan_.host = &host_;
    plan_.inputs = static_cast<int>(c.parameters().size());
  }

  absl::StatusOr<FusionPlan> Run();

 private:
  int NewTemp(int64_t bytes);
  void Push(Phase phase);
  bool IsShared(int output_buffer) const;
  bool AnyShared(absl::Span<const PhaseOutput> outputs) const;

  // Plans outputs whose operation has loops of its own. Returns false for any other output.
  absl::StatusOr<bool> PlanSpecial(const PhaseOutput& output, const std::vector<PhaseOutput>& all);
  void PlanScatter(const Instruction* op, std::vector<PhaseOutput> outputs);
  void PlanSelectAndScatter(const PhaseOutput& output);
  void PlanScan(const PhaseOutput& output, int64_t dimension);

  // Splits outputs into groups that share loops.
  absl::Status PlanOutputs(std::vector<PhaseOutput> outputs);
  absl::Status PlanGroup(std::vector<PhaseOutput> group, std::vector<PhaseOutput>& rest);

  // Walks over all outputs and splits the extents of the nest until reshapes inside coincide with loop boundaries.
  GroupWalk Walk(Draft& draft);
  static std::set<VarId> CollectLoopVars(const VarTable& vars, const Index& index);
  // Whether the output can be computed once per row, so that all reductions stay inside rows.
  bool FitsRows(const Draft& draft, const PhaseOutput& output, size_t item_vars);

  // Computes reductions in an earlier phase, into temporary buffers.
  absl::Status Materialize(const std::vector<const Instruction*>& reduces);
  int ComputeWidth(const AccessWalk::ArraySet& visited, absl::Span<const PhaseOutput> outputs);
  // Estimates the cycles for computing `elements` elements from the visited instructions.
  double EstimateCycles(const AccessWalk::ArraySet& visited, int64_t elements);

  // Each of these adds a phase.
  void PushFlat(Draft draft, int width, double cycles, std::string note);
  void PushLoop(Draft draft, const GroupWalk& w, bool allow_transpose);
  // Adds a phase and returns true if short loops are better unrolled. `groups` are the grouped loops.
  bool PushUnrolled(Draft& draft, const GroupWalk& w, const std::vector<std::vector<VarId>>& groups);
  // Adds a phase for each segment of the last loop and returns true, if it is long and conditions hold in all of a
  // segment or not at all.
  bool PushSegments(const Draft& draft, const GroupWalk& w, const std::vector<std::vector<VarId>>& groups);
  // The first `item_vars` variables index the work items, the others the elements of a row.
  void PushRows(Draft draft, const GroupWalk& w, size_t item_vars);
  // Returns false and adds no phase if the reductions should be computed by a phase of their own, because what follows
  // them is better computed in vectors.
  bool PushReduction(const Draft& draft, GroupWalk& w, const std::vector<const ReduceUse*>& uses);

  // Returns the groups of reductions that can share a pass.
  std::vector<MultiOutput> FindMultiOutput(const GroupWalk& w, const std::vector<const Instruction*>& reduces);
  // Chooses the values that are staged between passes over a row.
  void StageRows(Phase& phase, RowPhase& rows, const GroupWalk& w);

  const Computation& computation_;
  const KernelOptions& options_;
  const jit::HostInfo& host_;
  FusionPlan plan_;
  AccessWalk::ArraySet materialized_;
  std::vector<Materialized> stored_;  // buffers of materialized instructions; complete once they are in materialized_
};

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PLANNER_H_
