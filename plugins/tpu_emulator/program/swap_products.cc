#include "plugins/tpu_emulator/program/swap_products.h"

#include <algorithm>

#include "core/passes/rewrite.h"

namespace backplane::tpu {
namespace {

// The dimensions of a dot's result are batch, free ones of the left operand, free ones of the right operand.
bool SwapsFreeDimensions(const Instruction& transpose, const Instruction& dot) {
  const DotDimensions& d = dot.dot_dims();
  const int64_t batch = static_cast<int64_t>(d.lhs_batch.size());
  const int64_t left = dot.operand(0)->shape().rank() - batch - static_cast<int64_t>(d.lhs_contracting.size());
  const int64_t right = dot.operand(1)->shape().rank() - batch - static_cast<int64_t>(d.rhs_contracting.size());
  const Ints& permutation = transpose.dimensions();
  for (int64_t r = 0; r < static_cast<int64_t>(permutation.size()); ++r) {
    const int64_t from = r < batch ? r : r < batch + right ? r + left : r - right;
    if (permutation[static_cast<size_t>(r)] != from) return false;
  }
  return true;
}

Instruction* MakeSwappedDot(Computation* c, const Instruction& transpose, const Instruction& dot) {
  Attributes attrs = dot.attrs();
  const DotDimensions d = dot.dot_dims();
  DotDimensions swapped;
  swapped.lhs_batch = d.rhs_batch;
  swapped.rhs_batch = d.lhs_batch;
  swapped.lhs_contracting = d.rhs_contracting;
  swapped.rhs_contracting = d.lhs_contracting;
  attrs.Set(AttrId::kDotDims, std::move(swapped));
  if (attrs.Has(AttrId::kOperandPrecision)) {
    Precisions precisions = attrs.Get<Precisions>(AttrId::kOperandPrecision);
    std::reverse(precisions.begin(), precisions.end());
    attrs.Set(AttrId::kOperandPrecision, std::move(precisions));
  }
  if (attrs.Has(AttrId::kDotAlgorithm)) {
    DotAlgorithm algorithm = attrs.Get<DotAlgorithm>(AttrId::kDotAlgorithm);
    std::swap(algorithm.lhs_type, algorithm.rhs_type);
    std::swap(algorithm.lhs_components, algorithm.rhs_components);
    attrs.Set(AttrId::kDotAlgorithm, algorithm);
  }
  InstructionSpec spec;
  spec.opcode = Opcode::kDot;
  spec.shape = transpose.shape();
  spec.operands = {dot.operand(1), dot.operand(0)};
  spec.attrs = std::move(attrs);
  spec.metadata = dot.metadata();
  return c->AddBefore(const_cast<Instruction*>(&transpose), std::move(spec));
}

}  // namespace

absl::StatusOr<bool> SwapTransposedProducts::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kTranspose) || !i->operand(0)->Is(Opcode::kDot)) continue;
      const Instruction& dot = *i->operand(0);
      if (dot.users().size() != 1 || dot.IsRoot() || i->shape().HasDynamicDimensions() || !SwapsFreeDimensions(*i, dot))
        continue;
      i->ReplaceAllUsesWith(MakeSwappedDot(c, *i, dot));
      here = true;
    }
    if (here) c->RemoveDead();
    changed |= here;
  }
  return changed;
}

}  // namespace backplane::tpu
