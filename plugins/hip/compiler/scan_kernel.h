// Scans: reduce-windows whose windows are the prefixes, or the suffixes, of the rows along one dimension (cumsum,
// cummax). Each element is combined a few times, however long the row is.
//
// A block scans a row, tile by tile: it loads a tile into shared memory, each thread scans some neighbouring elements,
// the threads scan their totals, and the total of the tile is carried to the next one. Where rows are many and not
// contiguous, each thread scans a row, so that neighbouring threads read neighbouring elements.
#ifndef BACKPLANE_PLUGINS_HIP_COMPILER_SCAN_KERNEL_H_
#define BACKPLANE_PLUGINS_HIP_COMPILER_SCAN_KERNEL_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"

namespace backplane::hip {

// The dimension and the direction of a scan.
struct Scan {
  int64_t dimension = 0;
  bool reverse = false;  // from the last element to the first
};

// Returns the scan that the instruction is, if a kernel of its own computes it: its reducer is a commutative operation
// for each result, with an identity, and the rows are not short. Otherwise returns nullopt.
std::optional<Scan> FindScan(const Instruction& instruction);

struct KernelPlan;  // of kernel_plan.h, which includes this header
absl::StatusOr<KernelPlan> PlanScan(const Instruction& reduce_window);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_COMPILER_SCAN_KERNEL_H_
