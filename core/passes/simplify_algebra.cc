#include "absl/algorithm/container.h"
#include "core/passes/algebra/rules.h"

#include <algorithm>

#include "core/passes/passes.h"

namespace backplane {
namespace algebra {

bool IsIdentity(absl::Span<const int64_t> permutation) {
  for (size_t d = 0; d < permutation.size(); ++d) {
    if (permutation[d] != static_cast<int64_t>(d)) return false;
  }
  return true;
}

Shape RemoveDimensions(const Shape& shape, absl::Span<const int64_t> dimensions) {
  DimVector kept;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (!absl::c_linear_search(dimensions, d)) kept.push_back(shape.dimensions(d));
  }
  return Shape(shape.element_type(), kept);
}

int64_t GetSmallest(PrimitiveType t) { return IsSigned(t) ? -(int64_t{1} << (BitWidth(t) - 2)) * 2 : 0; }

int64_t GetLargest(PrimitiveType t) {
  if (t == PrimitiveType::kPred) return 1;
  if (IsSigned(t)) return ~GetSmallest(t);
  return BitWidth(t) == 64 ? -1 : (int64_t{1} << BitWidth(t)) - 1;
}

int64_t ReadClampedStart(const Literal& l, int64_t element, int64_t largest) {
  const int64_t n = l.GetAsInt(element);
  if (n < 0 && IsUnsigned(l.shape().element_type())) return largest;  // a u64 that exceeds int64_t
  return std::clamp<int64_t>(n, 0, largest);
}

}  // namespace algebra

RuleSet SimplifyAlgebra::MakeRules(bool transposes_into_dots) {
  RuleSet all;
  algebra::AddArithmeticRules(&all);
  algebra::AddConversionRules(&all);
  algebra::AddMovementRules(&all);
  algebra::AddSliceRules(&all);
  algebra::AddIndexingRules(&all);
  algebra::AddReductionRules(&all);
  if (transposes_into_dots) algebra::AddDotRules(&all);
  RuleSet guarded;
  for (RewriteRule rule : all.rules()) {
    rule.apply = [apply = std::move(rule.apply)](Instruction* i, Rewriter& to) -> Instruction* {
      if (!i->shape().IsArray() || i->shape().HasDynamicDimensions()) return nullptr;
      for (const Instruction* o : i->operands()) {
        if (o->shape().HasDynamicDimensions()) return nullptr;
      }
      return apply(i, to);
    };
    guarded.Add(std::move(rule));
  }
  return guarded;
}

SimplifyAlgebra::SimplifyAlgebra(bool transposes_into_dots) : rules_(MakeRules(transposes_into_dots)) {}

absl::StatusOr<bool> SimplifyAlgebra::Run(Module* module) {
  bool changed = false;
  for (Computation* c : CollectControlFlowComputations(module)) {
    if (!Rewriter(c, rules_, &applied_).Run()) continue;
    c->RemoveDead();
    changed = true;
  }
  return changed;
}

}  // namespace backplane
