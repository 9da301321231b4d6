// The rewrite rules of SimplifyAlgebra, grouped by topic. Each rule holds for every value of the type, NaN and signed
// zeros included, and none reorders float arithmetic. Rules see only arrays without dynamic dimensions.
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

// ---- helpers of the rules

// Whether the list is 0, 1, 2, ...
bool IsIdentity(absl::Span<const int64_t> permutation);
// Returns the shape without the dimensions in `dimensions`, which must be sorted.
Shape RemoveDimensions(const Shape& shape, absl::Span<const int64_t> dimensions);
// The smallest and the largest value of an integer type of 8 to 64 bits, or of pred. The largest u64 is given as its
// bit pattern.
int64_t GetSmallest(PrimitiveType t);
int64_t GetLargest(PrimitiveType t);
// Returns an element of an integer literal, clamped to [0, largest] as the start index of a slice is.
int64_t ReadClampedStart(const Literal& l, int64_t element, int64_t largest);

}  // namespace backplane::algebra

#endif  // BACKPLANE_CORE_PASSES_ALGEBRA_RULES_H_
