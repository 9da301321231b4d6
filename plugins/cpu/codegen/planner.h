// Parts of planning, each in its own file. Internal to plan.cc.
#ifndef BACKPLANE_PLUGINS_CPU_CODEGEN_PLANNER_H_
#define BACKPLANE_PLUGINS_CPU_CODEGEN_PLANNER_H_

#include <vector>

#include "plugins/cpu/codegen/plan.h"

namespace backplane::cpu::codegen {

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
  bool split = false;         // first partial results of blocks, then their combination
  std::vector<std::vector<VarId>> groups;
  int64_t lanes = 0, column_block = 0, outer = 1, columns = 1;
  int unroll = 1;
  int64_t blocks = 1, block_size = 0, block_extent = 0;
};
ReductionChoice ChooseReduction(GroupWalk& walk, const AccessWalk::ArraySet& materialized,
                                const std::vector<const Instruction*>& reduces, const Index* index, int width,
                                const jit::HostInfo& host);

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace backplane::cpu::codegen

#endif  // BACKPLANE_PLUGINS_CPU_CODEGEN_PLANNER_H_
