// Suggests how to make a padded array smaller, in a sentence for the author of the program.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REMEDY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REMEDY_H_

#include <string>

#include "core/types/shape.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {

// `shape` is an array with a tiled layout. Returns an empty string if the padding is less than a third of the array or
// less than 64 KiB, or if nothing helps. Suggests whichever of these saves most: the default order of the dimensions,
// or merging two adjacent dimensions. If neither helps enough, also suggests sizes that fill their tiles.
std::string SuggestPaddingRemedy(const Shape& shape, TileShape tile);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REMEDY_H_
