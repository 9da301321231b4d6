#include "sdk/codegen/body/reduce_nest.h"

#include <algorithm>

#include "sdk/codegen/body/computed_bytes.h"

namespace backplane::codegen {

ReduceNest AnalyzeReduce(VarTable& vars, const AccessWalk::ArraySet& materialized,
                         absl::Span<const Instruction* const> reduces, const Index& index) {
  ReduceNest nest;
  const Instruction& first = *reduces[0];
  const DimVector& in_dims = first.operand(0)->shape().dimensions();
  std::vector<int64_t> reduced_dims, extents;
  for (int64_t d : compiler::SortedDims(first)) {
    reduced_dims.push_back(in_dims[d]);
    if (in_dims[d] != 1) extents.push_back(in_dims[d]);
    nest.total *= in_dims[d];
  }
  if (nest.total == 0) return nest;
  std::vector<Affine> observed;
  for (int attempt = 0;; ++attempt) {
    nest.vars.clear();
    for (int64_t n : extents) nest.vars.push_back(vars.Loop(n));
    Affine position;
    int64_t stride = 1;
    for (size_t i = extents.size(); i-- > 0;) {
      position.Add(Affine::Var(nest.vars[i]), stride);
      stride *= extents[i];
    }
    nest.reduced = compiler::Delinearize(vars, position, reduced_dims);
    AccessWalk walk(vars, materialized);
    for (const Instruction* r : reduces) {
      Index in = compiler::ReduceOperandIndex(*r, index, nest.reduced);
      for (int64_t i = 0; i < r->operand_count() / 2; ++i) walk.Visit(r->operand(i), in);
    }
    walk.Finish();
    observed = walk.observed();
    nest.accesses = walk.accesses();
    nest.width = 1;
    nest.body_size = 0;
    for (const Instruction* x : walk.visited()) {
      if (!x->shape().IsArray() || x->shape().rank() == 0) continue;
      nest.width = std::max(nest.width, ComputedWidth(x->shape().element_type()));
      ++nest.body_size;
    }
    if (attempt == 12 || !compiler::ApplySplits(vars.splits(), nest.vars, extents)) break;
  }
  nest.groups = compiler::MergeVars(vars, nest.vars, observed);
  return nest;
}

}  // namespace backplane::codegen
