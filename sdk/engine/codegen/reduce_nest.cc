#include <algorithm>

#include "sdk/engine/codegen/plan.h"

namespace backplane::engine::codegen {

int RowBytes(PrimitiveType t) {
  if (IsComplex(t)) return ByteWidth(t);
  if (IsFloat(t)) return std::max(ByteWidth(t), 4);
  return ByteWidth(t);
}

int64_t LanesFor(const jit::HostInfo& host, int width) {
  return std::clamp<int64_t>(2 * host.target.vector_bytes / std::max(width, 1), 4, 64);
}

ReduceNest AnalyzeReduce(VarTable& vars, const AccessWalk::ArraySet& materialized,
                         absl::Span<const Instruction* const> reduces, const Index& index) {
  ReduceNest nest;
  const Instruction& first = *reduces[0];
  const DimVector& in_dims = first.operand(0)->shape().dimensions();
  std::vector<int64_t> reduced_dims, extents;
  for (int64_t d : SortedDims(first)) {
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
    nest.reduced = Delinearize(vars, position, reduced_dims);
    AccessWalk walk(vars, materialized);
    for (const Instruction* r : reduces) {
      Index in = ReduceOperandIndex(*r, index, nest.reduced);
      for (int64_t i = 0; i < r->operand_count() / 2; ++i) walk.Visit(r->operand(i), in);
    }
    walk.Finish();
    observed = walk.observed();
    nest.accesses = walk.accesses();
    nest.width = 1;
    nest.body_size = 0;
    for (const Instruction* x : walk.visited()) {
      if (!x->shape().IsArray() || x->shape().rank() == 0) continue;
      PrimitiveType t = x->shape().element_type();
      nest.width = std::max(nest.width, RowBytes(IsComplex(t) ? ComplexPart(t) : t));
      ++nest.body_size;
    }
    if (attempt == 12 || !ApplySplits(vars.splits(), nest.vars, extents)) break;
  }
  nest.groups = MergeVars(vars, nest.vars, observed);
  return nest;
}

}  // namespace backplane::engine::codegen
