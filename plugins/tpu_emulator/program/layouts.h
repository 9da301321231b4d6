// Gives every value of a program that is cut into kernels its place in memory: a tiled layout.
//
//   - Arguments and results of the entry have theirs (ModuleConfig); other values get the machine's default layout, or
//     the order of the largest operand of the same sizes, so that a kernel goes over all of its arrays in one order.
//   - A transpose is a bitcast: its result has the permuted order. A reshape is a bitcast where the tiles agree, else a
//     kernel that moves the elements.
//   - Where a kernel, a loop or the entry wants another order than a value has, a copy stands between.
//   - A loop's state keeps the layouts it comes in with.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LAYOUTS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LAYOUTS_H_

#include <optional>

#include "absl/status/status.h"
#include "core/ir/module.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {

// No body, condition or branch has two callers (UnshareComputations).
absl::Status AssignLayouts(Module* module, TileShape tile);

// The layout in which a reshape of `from`, which has a layout, lies in memory just as `from` does; none when there is
// no such layout.
std::optional<Layout> BitcastLayout(const Shape& from, const Shape& to, TileShape tile);

// Bytes that an array takes in its layout, padding included; row-major when it has none. 0 for what is no array.
int64_t PaddedBytes(const Shape& shape);
int64_t PaddedElements(const Shape& shape);
// Without padding, narrow types packed.
int64_t UnpaddedBytes(const Shape& shape);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LAYOUTS_H_
