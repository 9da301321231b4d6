// Arguments and results that a program leaves in their tiles, instead of reading them into rows before it begins and
// writing them into tiles when it has ended.
//
// The program's parameter is then the argument's memory (tile_view.h), its result that of the result. What is done so:
//   - a chain of elementwise operations that ends in a result, over arrays that lie as it does: over the memory,
//   padding
//     and all; what is computed there is never read as data. Where the layout has no padding and keeps rows' runs,
//     other values are read into the chain by their kernels' index arithmetic;
//   - dynamic-update-slice into an argument that becomes a result: the rows that change, and no others;
//   - dynamic-slice of an argument: what it takes, and no more;
//   - dots of such values, on the matrix unit.
// Everything else goes by rows: an argument of which others want rows too is read into them by a kernel of its own.
// An argument that only contractions read, and a result that one makes, stay logical here: the unit reads and writes
// tiles itself (array/array_steps.h).
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LIVE_IN_TILES_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LIVE_IN_TILES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/ir/module.h"

namespace backplane::tpu {

// `parameters`, `result`: shapes with the layouts of the entry's. Changes the shapes of parameters and results that
// stay in tiles to those of their memory; LivesInTiles tells them. `log` (may be null): a line. True: changed.
bool LiveInTiles(Module* module, absl::Span<const Shape> parameters, const Shape& result,
                 std::vector<std::string>* log);

// Whether a parameter or result of a program is the memory of an array of shape `array`, which has a layout.
bool LivesInTiles(const Shape& in_program, const Shape& array);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_LIVE_IN_TILES_H_
