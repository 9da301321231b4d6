// Parts of planning, each in its own file. Internal to plan.cc.
#ifndef BACKPLANE_SDK_ENGINE_CODEGEN_PLANNER_H_
#define BACKPLANE_SDK_ENGINE_CODEGEN_PLANNER_H_

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/types/integer_division.h"
#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

// Units of work from which on a loop is worth running on several threads as it is.
constexpr int64_t kMinParallelUnits = 16;

inline int64_t Product(absl::Span<const int64_t> v) {
  int64_t p = 1;
  for (int64_t n : v) p *= n;
  return p;
}

// What a walk over all targets of a phase met.
struct GroupWalk {
  VarTable vars;
  PhaseLoops loops;
  std::vector<Access> accesses;
  std::vector<ReduceUse> reduces;
  std::vector<Affine> observed;
  AccessWalk::ArraySet visited;
  bool too_complex = false;
};

// Makes it a kTranspose phase when arrays are read across the output's last loop. False: it is none.
bool PlanTranspose(Phase& phase, const GroupWalk& walk, const std::vector<std::vector<VarId>>& groups,
                   const jit::HostInfo& host);

// How outputs of the reduced shape are computed. `together`: all reductions can run in one sweep at `index`.
struct ReductionChoice {
  enum Form { kLoop, kScalars, kColumns } form = kLoop;
  bool split = false;  // first partial results of blocks, then their combination
  std::vector<std::vector<VarId>> groups;
  int64_t lanes = 0, column_block = 0, outer = 1, columns = 1;
  int unroll = 1;
  int64_t blocks = 1, block_size = 0, block_extent = 0;
};
ReductionChoice ChooseReduction(GroupWalk& walk, const AccessWalk::ArraySet& materialized,
                                const std::vector<const Instruction*>& reduces, const Index* index, int width,
                                const jit::HostInfo& host);

inline const Shape& ShapeOf(const Target& t) {
  const Shape& s = t.instruction->shape();
  return s.IsTuple() ? s.tuple_shapes(t.element) : s;
}

// Cuts one computation into phases.
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

  // Outputs whose operation has loops of its own.
  absl::StatusOr<bool> PlanSpecial(const Target& t, const std::vector<Target>& outputs);
  bool PlanScatter(Phase phase);
  absl::StatusOr<bool> PlanSelectAndScatter(const Target& t);
  absl::StatusOr<bool> PlanScan(const Target& t, int64_t d);

  // Splits targets into groups that share loops.
  absl::Status PlanTargets(std::vector<Target> targets);

  // Walks all targets of the phase, cutting its extents until reshapes inside fall on loop boundaries.
  GroupWalk Walk(Phase& phase);
  static Index ValueIndex(const Target& t, const Index& index);
  static std::set<VarId> LoopVarsOf(const VarTable& vars, const Index& index);
  absl::Status PlanGroup(std::vector<Target> group, std::vector<Target>& rest);

  // Whether adding the row output keeps all reductions at the rows.
  bool FitsRows(const Phase& phase, const Target& t, size_t unit_vars);

  // Computes reductions ahead, into temporaries.
  absl::Status Materialize(const std::vector<const Instruction*>& cut);
  int WidthOf(const AccessWalk::ArraySet& visited, const Phase& phase);
  // Of computing `elements` places of a kernel's loops from what they visit.
  double CyclesOf(const AccessWalk::ArraySet& visited, int64_t elements);
  bool AnyShared(const Phase& phase) const;
  void FinishFlat(Phase& phase, int width);

  // A phase with lanes along its last loop. `rows`: its first `unit_vars` variables are the units, the rest is the row.
  absl::Status FinishLoop(Phase phase, const GroupWalk& w, size_t unit_vars, bool rows, bool allow_transpose = true);

  // Which reductions are swept together, and which values are worth keeping from one sweep to the next.
  void PlanRows(Phase& phase, const GroupWalk& w, int64_t row);
  void FindJoint(Phase& phase, const GroupWalk& w, const std::vector<const Instruction*>& reduces);
  absl::Status FinishReduction(Phase phase, GroupWalk& w, const std::vector<const ReduceUse*>& uses);

  const Computation& computation_;
  const KernelOptions& options_;
  const jit::HostInfo& host_;
  FusionPlan plan_;
  AccessWalk::ArraySet materialized_;
  std::vector<Materialized> stored_;  // where materialized instructions lie; complete once they are in materialized_
};

}  // namespace backplane::engine::codegen

#endif  // BACKPLANE_SDK_ENGINE_CODEGEN_PLANNER_H_
