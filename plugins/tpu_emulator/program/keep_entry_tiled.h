// Lets a program work on the tiled memory of arguments and results, instead of converting arguments to row-major before
// it starts and results to tiles after it ends.
//
// A parameter or result that stays tiled has the shape of its memory (tile_view.h) in the program. These values stay
// tiled:
//   - A chain of elementwise operations that ends in a result, over arrays with the result's layout. It runs over the
//     memory with the padding; what it computes in the padding never reaches an element. If the layout has no padding
//     and keeps rows contiguous, other values are read into the chain by index arithmetic.
//   - A dynamic-update-slice into an argument that becomes a result. It writes the updated elements only.
//   - A dynamic-slice of an argument. It reads the slice only.
//   - Dots of such values on the matrix unit.
// Other values are row-major. If an argument has both kinds of users, a kernel reads it into a row-major array for the
// others. Arguments that only contractions read and results that contractions make keep their logical shape here: the
// matrix unit reads and writes tiles itself (array/array_lowering.h).
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KEEP_ENTRY_TILED_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KEEP_ENTRY_TILED_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/ir/module.h"

namespace backplane::tpu {

// `parameters` and `result` are shapes with the entry's layouts. Changes the shape of each parameter and result that
// stays tiled to that of its memory; IsTiledMemory recognizes them. Adds a line to `log`, which may be null. Returns
// whether the module changed.
bool KeepEntryTiled(Module* module, absl::Span<const Shape> parameters, const Shape& result,
                    std::vector<std::string>* log);

// Whether `in_program`, a parameter or result of a program, is the memory of an array of shape `array` (with layout).
bool IsTiledMemory(const Shape& in_program, const Shape& array);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_KEEP_ENTRY_TILED_H_
