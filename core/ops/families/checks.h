// Checks and small computations that the families' shape rules share.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_CHECKS_H_
#define BACKPLANE_CORE_OPS_FAMILIES_CHECKS_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/family.h"
#include "core/types/status_macros.h"

namespace backplane {

std::string DimsText(absl::Span<const int64_t> dims);  // "[2,3]"

template <typename... Args>
absl::Status Fail(const OpContext& op, absl::string_view label, const Args&... args) {
  return op.Error(label, absl::StrCat(args...));
}

// "add_c1" for operation add and rule "c1": the label of families that share one rule between many operations.
std::string Label(const OpContext& op, absl::string_view rule);

bool IsUnique(absl::Span<const int64_t> values);
bool IsStrictlyIncreasing(absl::Span<const int64_t> values);
bool AllInRange(absl::Span<const int64_t> values, int64_t low, int64_t high);  // low <= v < high
bool Contains(absl::Span<const int64_t> values, int64_t v);
bool IsPermutation(absl::Span<const int64_t> values, int64_t n);

// Same element type and dimensions, recursively; layouts and dynamism do not count.
bool SameTypeAndDims(const Shape& a, const Shape& b);
inline bool SameDims(const Shape& a, const Shape& b) { return a.dimensions() == b.dimensions(); }

absl::Status WantArray(const OpContext& op, int i);
absl::Status WantArrays(const OpContext& op);  // every operand
absl::Status WantCalled(const OpContext& op, int n);
absl::StatusOr<Shape> WantDeclared(const OpContext& op);
absl::StatusOr<Shape> WantDeclaredArray(const OpContext& op);

// The i-th called computation takes `parameters` and returns `result` (dims and types).
absl::Status WantSignature(const OpContext& op, int i, absl::Span<const Shape> parameters, const Shape& result,
                           absl::string_view label);
// A reducer of n values: (E0..En-1, E0..En-1) -> E or tuple, all scalars. The accumulators' element types may be wider
// than those of `inputs` (promotion). They are returned.
absl::StatusOr<std::vector<PrimitiveType>> WantCombiner(const OpContext& op, int i,
                                                        absl::Span<const PrimitiveType> inputs,
                                                        absl::string_view label);
bool IsPromotable(PrimitiveType from, PrimitiveType to);

// Marks dimensions of the result as dynamic where the operand's are.
void CopyDynamic(const Shape& from, Shape& to);

// Size of one dimension after dilation, padding and windowing; -1 on overflow or a negative padded size.
int64_t WindowedSize(int64_t size, const WindowDimension& w);

// Bytes of every array leaf.
double ShapeBytes(const Shape& shape);
// bytes_accessed of operands and result; flops = per_element * result elements.
Cost ElementCost(const OpContext& op, const Shape& result, double flops_per_element);
double ElementCount(const Shape& shape);  // all leaves

// source_target_pairs: no source twice, no target twice, no negative id; or an error with the label given for it.
absl::Status CheckPairs(const OpContext& op, absl::string_view sources, absl::string_view targets,
                        absl::string_view range);

// replica_groups and use_global_device_ids of a collective or of its start.
absl::Status CheckGroups(const OpContext& op);

// output_to_operand_aliasing: the output and the operand of each alias have one type, or an error with the label.
absl::Status CheckOutputAliases(const OpContext& op, const Shape& result, absl::string_view label);

// The computation of a collective reduction, or of its start: two scalars of the first operand's type to one.
absl::Status CheckReducer(const OpContext& op, absl::string_view label);

// The declared result (one array, or a tuple) as one array for each operand, of its rank and element type.
absl::StatusOr<std::vector<Shape>> ResultOfEach(const OpContext& op, const Shape& declared);
// Whether `large` is `small` with dimension d multiplied by `factor`; by any number when `factor` is 0.
bool GrowsBy(const Shape& small, const Shape& large, int64_t d, int64_t factor);
// Checks that `result` is the result of an all-gather of the operands, or of its start.
absl::Status CheckGathered(const OpContext& op, const Shape& result, absl::string_view dimension,
                           absl::string_view size);
// Group size, where the instruction alone determines it: 0 when each group also covers all partitions or all replicas.
int64_t KnownGroupSize(const OpContext& op);
// Group size of a collective, 0 when the groups are empty.
int64_t GroupSize(const OpContext& op);

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_CHECKS_H_
