#include "sdk/codegen/body/combiner_emitter.h"

#include <algorithm>
#include <vector>

namespace backplane::codegen {

using llvm::Value;

namespace {

PrimitiveType GetType(const Instruction& reduce, size_t result) {
  return reduce.operand(static_cast<int64_t>(result))->shape().element_type();
}

}  // namespace

const Combiner& CombinerEmitter::GetCombiner(const Instruction& reduce) {
  const Computation* c = reduce.called(0);
  auto it = combiners_.find(c);
  if (it == combiners_.end()) it = combiners_.emplace(c, AnalyzeCombiner(*c)).first;
  return it->second;
}

bool CombinerEmitter::HasIdentities(const Instruction& reduce) {
  const Combiner& c = GetCombiner(reduce);
  for (size_t i = 0; i < c.ops.size(); ++i) {
    if (!ElementEmitter::HasIdentity(c.ops[i], GetType(reduce, i))) return false;
  }
  return !c.ops.empty();
}

bool CombinerEmitter::Identity(const Instruction& reduce, int64_t result, Val* v) {
  const Combiner& c = GetCombiner(reduce);
  const size_t i = static_cast<size_t>(result);
  return !c.ops.empty() && e_.Identity(c.ops[i], GetType(reduce, i), v);
}

Vals CombinerEmitter::Combine(const Instruction& reduce, absl::Span<const Val> accumulators,
                              absl::Span<const Val> inputs, bool rounded, Value* active) {
  const Combiner& c = GetCombiner(reduce);
  if (c.op) {
    const ElementEmitter::FusedSums fused(e_);
    Val v = e_.Binary(*c.op, GetType(reduce, 0), accumulators[0], inputs[0], rounded);
    v.stored = nullptr;
    return {v};
  }
  Vals all(accumulators.begin(), accumulators.end());
  all.insert(all.end(), inputs.begin(), inputs.end());
  int lanes = 0;
  for (const Val& v : all) lanes = std::max(lanes, ElementEmitter::GetLanes(v));
  Vals r = caller_.Call(*reduce.called(0), all, rounded || c.ops.empty(), active);
  for (Val& v : r) {
    v = e_.Splat(v, lanes);
    v.stored = nullptr;
  }
  return r;
}

Vals CombinerEmitter::CombineLanes(const Instruction& reduce, Vals accumulators) {
  int lanes = ElementEmitter::GetLanes(accumulators[0]);
  const bool by_index = !GetCombiner(reduce).op && GetCombiner(reduce).selects_by_index;
  auto part = [&](const Val& v, int from, int count) {
    std::vector<int> pick(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) pick[static_cast<size_t>(i)] = from + i;
    return Val{b_.CreateShuffleVector(v.v, pick), v.im ? b_.CreateShuffleVector(v.im, pick) : nullptr};
  };
  for (; lanes > 1; lanes /= 2) {
    const int half = lanes / 2;
    Vals low, high;
    for (const Val& v : accumulators) {
      low.push_back(part(v, 0, half));
      high.push_back(part(v, half, half));
    }
    accumulators = Combine(reduce, low, high);
    if (by_index) {
      // The pair with the smaller index stands on the left.
      const Vals swapped = Combine(reduce, high, low);
      const bool is_signed = IsSigned(GetType(reduce, 1));
      Value* swap = is_signed ? b_.CreateICmpSGT(low[1].v, high[1].v) : b_.CreateICmpUGT(low[1].v, high[1].v);
      for (size_t i = 0; i < accumulators.size(); ++i) accumulators[i] = e_.Select(swap, swapped[i], accumulators[i]);
    }
  }
  for (Val& v : accumulators) {
    if (!v.v->getType()->isVectorTy()) continue;
    v.v = b_.CreateExtractElement(v.v, uint64_t{0});
    if (v.im) v.im = b_.CreateExtractElement(v.im, uint64_t{0});
  }
  return accumulators;
}

Vals CombinerEmitter::Rounded(const Instruction& reduce, Vals accumulators) {
  for (size_t i = 0; i < accumulators.size(); ++i) {
    const PrimitiveType t = GetType(reduce, i);
    if (IsNarrowFloat(t)) accumulators[i] = e_.Round(t, accumulators[i].v);
  }
  return accumulators;
}

}  // namespace backplane::codegen
