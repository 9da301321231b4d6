// Plans the loops that compute one element of the result of a reduction. Emits no IR.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_REDUCE_NEST_H_
#define BACKPLANE_SDK_CODEGEN_BODY_REDUCE_NEST_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sdk/codegen/body/index_names.h"

namespace backplane::codegen {

struct ReduceNest {
  std::vector<VarId> vars;
  std::vector<std::vector<VarId>> groups;  // the loops, outer to inner, each with the variables that one counter counts
  Index reduced;                           // index in the reduced dimensions
  std::vector<Access> accesses;
  int width = 1;      // bytes of the widest element that is computed inside
  int body_size = 0;  // number of instructions that are evaluated for each element
  int64_t total = 1;  // number of reduced elements
};

// Analyzes reductions over the same dimensions and shapes for the result element at `index`. Arrays in `materialized`
// are read from memory. Adds the variables of the loops to the table.
ReduceNest AnalyzeReduce(VarTable& vars, const AccessWalk::ArraySet& materialized,
                         absl::Span<const Instruction* const> reduces, const Index& index);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_REDUCE_NEST_H_
