// What would make a padded array smaller, in a sentence for the person who wrote the program.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REMEDY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REMEDY_H_

#include <string>

#include "core/types/shape.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {

// Of an array with a tiled layout. Empty where padding is less than a third of the array and less than 64 KiB, or
// where nothing helps. Considered, the first that saves most: another order of the dimensions (the default one),
// merging two neighbours into one, and sizes that fill their tiles (what the padding holds could be data).
std::string PaddingRemedy(const Shape& shape, TileShape tile);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_REMEDY_H_
