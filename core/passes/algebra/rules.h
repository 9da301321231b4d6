// The rules of SimplifyAlgebra by what they are about. Each holds for every value of the type, NaN and signed zeros
// included; none puts floats in another order. They are asked only about arrays without dynamic dimensions.
#ifndef BACKPLANE_CORE_PASSES_ALGEBRA_RULES_H_
#define BACKPLANE_CORE_PASSES_ALGEBRA_RULES_H_

#include "core/passes/rewriter.h"

namespace backplane::algebra {

void AddArithmeticRules(RuleSet* rules);
void AddConversionRules(RuleSet* rules);
void AddMovementRules(RuleSet* rules);
void AddSliceRules(RuleSet* rules);
void AddIndexingRules(RuleSet* rules);
void AddReductionRules(RuleSet* rules);
void AddDotRules(RuleSet* rules);

// ---- for the rules

// 0, 1, 2, ...
bool IsIdentity(absl::Span<const int64_t> permutation);
// The dimensions of the shape without those of the list, which is sorted.
Shape WithoutDimensions(const Shape& shape, absl::Span<const int64_t> dimensions);
bool Contains(absl::Span<const int64_t> list, int64_t n);
// The smallest and the largest number of an integer type of 8 to 64 bits, or pred; the bits of u64's largest.
int64_t Smallest(PrimitiveType t);
int64_t Largest(PrimitiveType t);
// The value of an integer literal's element, held within [0, largest]: as starts of slices are.
int64_t ClampedStart(const Literal& l, int64_t element, int64_t largest);

}  // namespace backplane::algebra

#endif  // BACKPLANE_CORE_PASSES_ALGEBRA_RULES_H_
