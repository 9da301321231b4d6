#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/passes/rewrite.h"
#include "sdk/compiler/dot_strides.h"
#include "sdk/compiler/legalize.h"

namespace backplane::compiler {
namespace {

// The type in which an element type without a kernel is multiplied.
PrimitiveType ComputedAs(const ContractionRules& rules, PrimitiveType t) {
  if (rules.supports_type(t)) return t;
  if (IsFloat(t)) return PrimitiveType::kF32;
  return IsSigned(t) ? PrimitiveType::kS8 : PrimitiveType::kU8;
}

Instruction* Convert(Computation* c, Instruction* x, PrimitiveType to) {
  if (x->shape().element_type() == to) return x;
  return Make(c, x, Opcode::kConvert, x->shape().WithElementType(to), {x});
}

Instruction* Permute(Computation* c, Instruction* x, const Ints& permutation) {
  std::vector<int64_t> dims;
  for (int64_t p : permutation) dims.push_back(x->shape().dimensions(p));
  Attributes attrs;
  attrs.Set(AttrId::kDimensions, permutation);
  return Make(c, x, Opcode::kTranspose, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
}

// Batch dims, then free, then contracting; the dimension numbers follow.
Instruction* Canonical(Computation* c, Instruction* x, Ints& batch, Ints& contracting) {
  Ints order = batch;
  for (int64_t d = 0; d < x->shape().rank(); ++d) {
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end()) {
      order.push_back(d);
    }
  }
  order.insert(order.end(), contracting.begin(), contracting.end());
  const int64_t first = x->shape().rank() - static_cast<int64_t>(contracting.size());
  std::iota(batch.begin(), batch.end(), 0);
  std::iota(contracting.begin(), contracting.end(), first);
  return Permute(c, x, order);
}

// The pairs of contracting dims in the order of the right side: a side that stays as it is has them in that order, dims
// of size one aside, and one that is permuted must follow.
void OrderContracting(DotDimensions& d) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t k = 0; k < d.rhs_contracting.size(); ++k) pairs.emplace_back(d.rhs_contracting[k], d.lhs_contracting[k]);
  std::sort(pairs.begin(), pairs.end());
  for (size_t k = 0; k < pairs.size(); ++k) std::tie(d.rhs_contracting[k], d.lhs_contracting[k]) = pairs[k];
}

// An algorithm of one component and one product wants its operands rounded to its types; what else there is means more
// exact products than these, and the kernels' own are.
Instruction* Rounded(Computation* c, Instruction* x, PrimitiveType type, int64_t components) {
  const PrimitiveType from = x->shape().element_type();
  if (components != 1 || !IsFloat(type) || !IsFloat(from) || BitWidth(type) >= BitWidth(from)) return x;
  return Convert(c, Convert(c, x, type), from);
}

Instruction* LegalDot(const ContractionRules& rules, Computation* c, Instruction* dot) {
  Instruction* lhs = dot->operand(0);
  Instruction* rhs = dot->operand(1);
  Attributes attrs = dot->attrs();
  if (attrs.Has(AttrId::kDotAlgorithm)) {
    const DotAlgorithm a = attrs.Get<DotAlgorithm>(AttrId::kDotAlgorithm);
    if (a.primitive_operations == 1) {
      lhs = Rounded(c, lhs, a.lhs_type, a.lhs_components);
      rhs = Rounded(c, rhs, a.rhs_type, a.rhs_components);
    }
    // Done. What is left is tf32, which has no number among the types: kernels may round to it.
    if (a.lhs_type != PrimitiveType::kInvalid) attrs.Erase(AttrId::kDotAlgorithm);
  }
  DotDimensions d = dot->dot_dims();
  const DotOperandRuns runs = GetDotOperandRuns(*dot);
  if (!runs.lhs_ok() || !runs.rhs_ok()) OrderContracting(d);
  if (!runs.lhs_ok()) lhs = Canonical(c, lhs, d.lhs_batch, d.lhs_contracting);
  if (!runs.rhs_ok()) rhs = Canonical(c, rhs, d.rhs_batch, d.rhs_contracting);
  lhs = Convert(c, lhs, ComputedAs(rules, lhs->shape().element_type()));
  rhs = Convert(c, rhs, ComputedAs(rules, rhs->shape().element_type()));
  const PrimitiveType result = ComputedAs(rules, dot->shape().element_type());
  if (lhs == dot->operand(0) && rhs == dot->operand(1) && result == dot->shape().element_type()) return nullptr;
  attrs.Set(AttrId::kDotDims, std::move(d));
  Instruction* now = Make(c, dot, Opcode::kDot, dot->shape().WithElementType(result), {lhs, rhs}, std::move(attrs));
  return Convert(c, now, dot->shape().element_type());
}

Instruction* LegalConvolution(const ContractionRules& rules, Computation* c, Instruction* conv) {
  const bool in_f32 = rules.convolves_in_f32 && rules.convolves_in_f32(*conv);
  auto computed_as = [&](const Instruction* x) {
    const PrimitiveType t = x->shape().element_type();
    return in_f32 && IsFloat(t) ? PrimitiveType::kF32 : ComputedAs(rules, t);
  };
  const PrimitiveType l = computed_as(conv->operand(0)), r = computed_as(conv->operand(1)), o = computed_as(conv);
  if (l == conv->operand(0)->shape().element_type() && r == conv->operand(1)->shape().element_type() &&
      o == conv->shape().element_type())
    return nullptr;
  Instruction* now = Make(c, conv, Opcode::kConvolution, conv->shape().WithElementType(o),
                          {Convert(c, conv->operand(0), l), Convert(c, conv->operand(1), r)}, conv->attrs());
  return Convert(c, now, conv->shape().element_type());
}

// The same products with the operands exchanged: batch dims, then the columns, then the rows.
Instruction* SwapOperands(Computation* c, Instruction* dot) {
  const DotDimensions& d = dot->dot_dims();
  Attributes attrs = dot->attrs();
  attrs.Set(AttrId::kDotDims, DotDimensions{d.rhs_batch, d.lhs_batch, d.rhs_contracting, d.lhs_contracting});
  Precisions precision = dot->attrs().Get<Precisions>(AttrId::kOperandPrecision);
  if (precision.size() == 2) {
    std::swap(precision[0], precision[1]);
    attrs.Set(AttrId::kOperandPrecision, std::move(precision));
  }
  if (attrs.Has(AttrId::kDotAlgorithm)) {
    DotAlgorithm algorithm = attrs.Get<DotAlgorithm>(AttrId::kDotAlgorithm);
    std::swap(algorithm.lhs_type, algorithm.rhs_type);
    std::swap(algorithm.lhs_components, algorithm.rhs_components);
    attrs.Set(AttrId::kDotAlgorithm, algorithm);
  }
  const int64_t batch = static_cast<int64_t>(d.lhs_batch.size());
  const int64_t rows = dot->operand(0)->shape().rank() - batch - static_cast<int64_t>(d.lhs_contracting.size());
  std::vector<int64_t> dims(dot->shape().dimensions().begin(), dot->shape().dimensions().end());
  std::rotate(dims.begin() + batch, dims.begin() + batch + rows, dims.end());
  return Make(c, dot, Opcode::kDot, Shape(dot->shape().element_type(), dims), {dot->operand(1), dot->operand(0)},
              std::move(attrs));
}

// A dot that writes its result as the transpose wants it; by rows or, with the operands exchanged, by columns.
Instruction* PermutedDot(Computation* c, Instruction* transpose) {
  Instruction* dot = transpose->operand(0);
  if (dot->users().size() != 1 || dot->IsRoot()) return nullptr;
  const DotOperandRuns runs = GetDotOperandRuns(*dot);
  if (!runs.lhs_ok() || !runs.rhs_ok()) return nullptr;
  Ints permutation = transpose->dimensions();
  if (!CanWritePermuted(*dot, permutation)) {
    // Where each dim of the dot stands in the exchanged one.
    const DotDimensions& d = dot->dot_dims();
    const int64_t batch = static_cast<int64_t>(d.lhs_batch.size()), rank = dot->shape().rank();
    const int64_t rows = dot->operand(0)->shape().rank() - batch - static_cast<int64_t>(d.lhs_contracting.size());
    const int64_t columns = rank - batch - rows;
    for (int64_t& p : permutation) {
      if (p >= batch) p = p < batch + rows ? p + columns : p - rows;
    }
    dot = SwapOperands(c, dot);
    if (!CanWritePermuted(*dot, permutation)) return nullptr;  // the exchanged one is unused: removed as dead
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) return dot;
  Computation* body = c->parent()->AddComputation("permuted_dot");
  body->set_is_fusion(true);
  std::vector<Instruction*> parameters;
  for (int64_t k = 0; k < 2; ++k) {
    Attributes number;
    number.Set(AttrId::kParameterNumber, k);
    parameters.push_back(Make(body, nullptr, Opcode::kParameter, dot->operand(k)->shape(), {}, std::move(number)));
  }
  Instruction* inner = body->AddClone(dot, dot->shape(), parameters);
  body->set_root(Permute(body, inner, permutation));
  Attributes attrs;
  attrs.SetEnum(AttrId::kFusionKind, FusionKind::kCustom);
  return Make(c, transpose, Opcode::kFusion, transpose->shape(), {dot->operand(0), dot->operand(1)}, std::move(attrs),
              {body});
}

}  // namespace

absl::StatusOr<bool> LegalizeContractions::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    bool here = false;
    for (Instruction* i : c->Snapshot()) {
      if ((i->users().empty() && i != c->root()) || IsClaimed(*i)) continue;
      Instruction* r = i->Is(Opcode::kDot)           ? LegalDot(rules_, c, i)
                       : i->Is(Opcode::kConvolution) ? LegalConvolution(rules_, c, i)
                                                     : nullptr;
      if (r == nullptr) continue;
      Replace(i, r);
      here = true;
    }
    if (here) c->RemoveDead();
    for (Instruction* i : c->Snapshot()) {
      if (!i->Is(Opcode::kTranspose) || (i->users().empty() && i != c->root())) continue;
      if (!i->operand(0)->Is(Opcode::kDot) || IsClaimed(*i->operand(0))) continue;
      if (Instruction* r = PermutedDot(c, i); r != nullptr) {
        Replace(i, r);
        here = true;
      }
    }
    if (here) {
      c->RemoveDead();
      c->SortTopologically();
    }
    changed |= here;
  }
  return changed;
}

}  // namespace backplane::compiler
