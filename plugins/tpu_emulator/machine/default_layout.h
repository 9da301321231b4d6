// The layout that a TPU's compiler gives an argument or a result if the program does not ask for one.
//
// The rule is the same on v4, v5e, v5p, v6e and tpu7x. A 32-bit word of a sublane holds `pack` elements: 1 of 32 and 64
// bits, 2 of 16, 4 of 8, 8 of 4, 16 of 2. Two dimensions become the minor ones. They are tiled by t2 rows of 128 lanes,
// with `pack` rows interleaved in a word: {i,j,...:T(t2,128)(pack,1)}. The pair that needs the least padding is chosen,
// so the default is not always row-major. The rule was derived from the answers of a real compiler;
// testdata/default_layouts.tsv holds a sample of them.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_DEFAULT_LAYOUT_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_DEFAULT_LAYOUT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/types/layout.h"
#include "core/types/primitive_type.h"

namespace backplane::tpu {

// Returns the number of elements of this type in a 32-bit word; at least 1.
int64_t PackedElements(PrimitiveType type);

// The tile of a vector register. All known machines have 8 rows (sublanes) of 128 lanes. A user-defined machine may
// have another tile (Machine::tile_rows, tile_lanes). Both are powers of two.
struct TileShape {
  int64_t rows = 8, lanes = 128;
};

// Returns the rows of the tile for a second-minor dimension of `size` elements.
int64_t TileRows(PrimitiveType type, int64_t size, TileShape tile = {});

// `type` is an array type; dimensions are at least 0. An array without elements has the untiled row-major layout.
Layout DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims, TileShape tile = {});

// The same with a given order of dimensions. A TPU has no untiled arrays, so a request for an order means a tiled
// layout in that order. `minor_to_major` is a permutation of the dimensions.
Layout TiledLayout(PrimitiveType type, absl::Span<const int64_t> dims, absl::Span<const int64_t> minor_to_major,
                   TileShape tile = {});

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_MACHINE_DEFAULT_LAYOUT_H_
