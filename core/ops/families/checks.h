// Checks and small computations that the families' shape rules share.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_CHECKS_H_
#define BACKPLANE_CORE_OPS_FAMILIES_CHECKS_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/family.h"
#include "core/types/status_macros.h"

namespace backplane {

std::string FormatDims(absl::Span<const int64_t> dims);  // "[2,3]"

template <typename... Args>
absl::Status Fail(const OpContext& op, absl::string_view label, const Args&... args) {
  return op.Error(label, absl::StrCat(args...));
}

// Returns the label of a rule that many operations share: "add_c1" for the operation add and the rule "c1".
std::string Label(const OpContext& op, absl::string_view rule);

bool IsUnique(absl::Span<const int64_t> values);
bool IsStrictlyIncreasing(absl::Span<const int64_t> values);
bool AllInRange(absl::Span<const int64_t> values, int64_t low, int64_t high);  // low <= v < high
bool Contains(absl::Span<const int64_t> values, int64_t v);
bool IsPermutation(absl::Span<const int64_t> values, int64_t n);

// Whether element types and dimensions are equal, recursively. Ignores layouts and whether dimensions are dynamic.
bool SameTypeAndDims(const Shape& a, const Shape& b);
inline bool SameDims(const Shape& a, const Shape& b) { return a.dimensions() == b.dimensions(); }

// These functions return InvalidArgument if the operation does not have what they require: operand i or all
// operands are arrays, there are n called computations, the result shape is declared (and is an array).
absl::Status CheckOperandIsArray(const OpContext& op, int i);
absl::Status CheckOperandsAreArrays(const OpContext& op);
absl::Status CheckCalledCount(const OpContext& op, int n);
absl::StatusOr<Shape> GetDeclaredShape(const OpContext& op);
absl::StatusOr<Shape> GetDeclaredArrayShape(const OpContext& op);

// Requires that the i-th called computation takes `parameters` and returns `result`. Compares dimensions and types.
absl::Status CheckSignature(const OpContext& op, int i, absl::Span<const Shape> parameters, const Shape& result,
                            absl::string_view label);
// Requires that the i-th called computation is a reducer of n values: (E0..En-1, E0..En-1) -> E or a tuple, all
// scalars. Returns the element types of the accumulators, which may be wider than those of `inputs` (promotion).
absl::StatusOr<std::vector<PrimitiveType>> CheckCombiner(const OpContext& op, int i,
                                                         absl::Span<const PrimitiveType> inputs,
                                                         absl::string_view label);
bool IsPromotable(PrimitiveType from, PrimitiveType to);

// Marks the dimensions of `to` as dynamic that are dynamic in `from`.
void CopyDynamic(const Shape& from, Shape& to);

// Returns the size of one dimension after dilation, padding and windowing; -1 on overflow or for a negative padded
// size.
int64_t ComputeWindowedSize(int64_t size, const WindowDimension& w);

// Returns the bytes of all array leaves.
double CountShapeBytes(const Shape& shape);
// Returns a cost that accesses the bytes of all operands and of the result and executes flops_per_element operations
// per result element.
Cost ElementCost(const OpContext& op, const Shape& result, double flops_per_element);
double ElementCount(const Shape& shape);  // of all array leaves

// Checks that source_target_pairs lists no source twice, no target twice and no negative id. Each argument is the label
// for one of these errors.
absl::Status CheckPairs(const OpContext& op, absl::string_view sources, absl::string_view targets,
                        absl::string_view range);

// Checks replica_groups and use_global_device_ids of a collective or of its start half.
absl::Status CheckGroups(const OpContext& op);

// Checks that the output and the operand of each alias in output_to_operand_aliasing have the same type.
absl::Status CheckOutputAliases(const OpContext& op, const Shape& result, absl::string_view label);

// Checks that the computation of a collective reduction, or of its start half, combines two scalars of the first
// operand's type to one.
absl::Status CheckReducer(const OpContext& op, absl::string_view label);

// Returns the declared result, an array or a tuple, as a list with one array per operand. Each array must have the rank
// and the element type of its operand.
absl::StatusOr<std::vector<Shape>> InferResultOfEach(const OpContext& op, const Shape& declared);
// Whether `large` is `small` with dimension d multiplied by `factor`, or by any number if `factor` is 0.
bool IsScaledAlongDim(const Shape& small, const Shape& large, int64_t d, int64_t factor);
// Checks that `result` fits an all-gather of the operands, or the start half of one. The labels are those for an
// invalid dimension and for a size that does not fit.
absl::Status CheckGathered(const OpContext& op, const Shape& result, absl::string_view dimension,
                           absl::string_view size);
// Returns the number of processes in a group, or 0 if the instruction alone does not determine it. That is so without
// groups, and for local ids with a channel, where a group may cover all replicas or partitions.
int64_t KnownGroupSize(const OpContext& op);
// Returns the number of ids in the first group of a collective, or 0 without groups.
int64_t GroupSize(const OpContext& op);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_CHECKS_H_
