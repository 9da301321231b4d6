// The layout that a TPU's compiler gives an argument or a result when nobody asks for another one.
//
// One closed rule, the same on v4, v5e, v5p, v6e and tpu7x. A 32-bit word of a sublane holds `pack` elements (1 for 32
// and 64 bits, 2 for 16, 4 for 8, 8 for 4, 16 for 2). Two dimensions become the minor ones, tiled by t2 rows of 128
// lanes, with `pack` rows interleaved in a word: {i,j,...:T(t2,128)(pack,1)}. They are chosen to pad least, so the
// default is not always row-major. The rule was fitted to what a real compiler answers; the table beside the tests
// holds a sample of those answers.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_DEFAULT_LAYOUT_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_DEFAULT_LAYOUT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/types/layout.h"
#include "core/types/primitive_type.h"

namespace backplane::tpu {

// Elements of this type in a 32-bit word: at least 1.
int64_t PackedElements(PrimitiveType type);

// The tile of a vector register: every known machine's is 8 rows (sublanes) of 128 lanes; a machine of one's own may
// have another (Machine::tile_rows, tile_lanes), and the rule is then the same with its numbers. Powers of two.
struct TileShape {
  int64_t rows = 8, lanes = 128;
};

// Rows of the tile over the second-minor dimension, when that dimension has `size` elements.
int64_t TileRows(PrimitiveType type, int64_t size, TileShape tile = {});

// `type` is an array type, each dimension at least 0. An array without elements gets the row-major layout, untiled.
Layout DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims, TileShape tile = {});

// The same with an order that somebody chose: a TPU has no untiled arrays, so a request for an order is one for tiles
// in that order. `minor_to_major` is a permutation of the dimensions.
Layout TiledLayout(PrimitiveType type, absl::Span<const int64_t> dims, absl::Span<const int64_t> minor_to_major,
                   TileShape tile = {});

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_DEFAULT_LAYOUT_H_
