// The loops of a reduction over the elements that make one element of its result. No IR is written here.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_REDUCE_NEST_H_
#define BACKPLANE_SDK_CODEGEN_BODY_REDUCE_NEST_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sdk/codegen/body/index_names.h"

namespace backplane::codegen {

struct ReduceNest {
  std::vector<VarId> vars;
  std::vector<std::vector<VarId>> groups;  // the loops, outer to inner: variables that one counter can count
  Index reduced;                           // index in the reduced dimensions
  std::vector<Access> accesses;
  int width = 1;      // bytes of the widest element that is computed on the way
  int body_size = 0;  // number of instructions that are evaluated for each element
  int64_t total = 1;  // number of reduced elements
};

// Of reductions over the same dimensions and shapes, for the element of their results at `index`. Arrays in
// `materialized` are read from memory. The loops' variables are added to the table.
ReduceNest AnalyzeReduce(VarTable& vars, const AccessWalk::ArraySet& materialized,
                         absl::Span<const Instruction* const> reduces, const Index& index);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_REDUCE_NEST_H_
