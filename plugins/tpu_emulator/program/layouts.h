// Assigns tiled layouts to all values of a program that has been fused into kernels.
//
//   - Arguments and results of the entry have given layouts (ModuleConfig). Other values get the machine's default
//     layout, or the order of an operand with the same dimensions, so that a kernel iterates over all of its arrays in
//     one order.
//   - A transpose becomes a bitcast whose result has the permuted order. A reshape becomes a bitcast if the
//     tiles match; otherwise it becomes a kernel that moves the elements.
//   - If a kernel, a loop or the entry needs a value in another order, a copy is inserted.
//   - The state of a loop keeps the layouts of its initial value.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LAYOUTS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LAYOUTS_H_

#include <optional>

#include "absl/status/status.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {

// Requires that no body, condition or branch has two callers (UnshareComputations).
absl::Status AssignLayouts(Module* module, TileShape tile);

// Returns the layout with which a reshape of `from` to `to` does not move any element in memory, if there is one.
// `from` has a layout.
std::optional<Layout> BitcastLayout(const Shape& from, const Shape& to, TileShape tile);

// The size of an array in its layout, padding included. Row-major if it has no layout; 0 if it is not an array.
int64_t PaddedBytes(const Shape& shape);
int64_t CountPaddedElements(const Shape& shape);
// The size without padding; narrow types are packed.
int64_t ComputeUnpaddedBytes(const Shape& shape);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LAYOUTS_H_
