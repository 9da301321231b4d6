// Attention (sdk/compiler/attention.h) as one kernel: which programs get it, and how it divides the work.
//
// A block has a tile of queries of one item. It goes over the keys a tile at a time and keeps, for each query, the
// largest score so far, the sum of the exponentials, and the sums of the values that they weigh. If a larger score
// comes, the sums are scaled (online softmax). The scores are in registers.
//
// The sums are divided by the sum of the exponentials at the end. So the weights that the values meet are the
// exponentials, at most 1, rounded to the type of the second product. A sum may overflow where the program's would not:
// if it adds values beyond the largest number of f32 divided by the number of keys.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_ATTENTION_PLAN_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_ATTENTION_PLAN_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/hip/compiler/kernel_plan.h"
#include "sdk/compiler/attention.h"

namespace backplane::hip {

// Numbers by item as sums of digits: first + sum over the digits of stride * (item / divisor % size).
struct ItemOffsets {
  struct Digit {
    int64_t divisor, size, stride;
  };
  int64_t first = 0;
  std::vector<Digit> digits;
};
// Returns nullopt if the offsets are no such sums with few digits.
std::optional<ItemOffsets> FindItemOffsets(absl::Span<const int64_t> offsets);

// Returns the plan, or Unimplemented if no kernel computes the attention.
absl::StatusOr<KernelPlan> PlanAttention(const compiler::Attention& attention, const GpuTarget& target);

// Returns how many elements a row of queries, keys or values has in shared memory; zeros fill it.
int64_t PadAttentionRow(int64_t elements, const MatrixStep* step);

// Whether all pieces of 16 bytes of the rows of an array are aligned and wholly inside or outside of the row.
bool HasAlignedRows(const compiler::AttentionView& view, int64_t row_stride, int64_t elements);

// Whether it pays to find out whether all values are finite, so that tiles of keys that bands hide need not be
// computed.
bool MaySkipKeys(const compiler::Attention& attention, const GpuTarget& target);

// Whether one kernel is faster than the separate products and the softmax.
bool IsFasterAsOneKernel(const compiler::Attention& attention, const GpuTarget& target);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_ATTENTION_PLAN_H_
