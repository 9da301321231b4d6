// How the elements of an array lie in memory: order of dimensions, tiles, element size, memory space.
//
// minor_to_major[0] is the dimension that varies fastest; row-major of rank 3 is {2,1,0}. A tile covers the most minor
// dimensions of the (already permuted) array and is itself laid out row-major; several tiles apply one after another.
// Text form, as XLA prints it: {1,0:T(8,128)(2,1)E(4)S(1)}. Definitions: docs/layouts and the layout tests.
#ifndef BACKPLANE_CORE_TYPES_LAYOUT_H_
#define BACKPLANE_CORE_TYPES_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace backplane {

using DimVector = absl::InlinedVector<int64_t, 6>;

struct Tile {
  static constexpr int64_t kCombine = INT64_MIN;  // printed `*`: this dimension is merged into the next more minor one
  DimVector dims;
  bool operator==(const Tile&) const = default;
};

struct Layout {
  DimVector minor_to_major;
  std::vector<Tile> tiles;
  int64_t element_size_in_bits = 0;  // 0: the natural size of the element type
  int64_t memory_space = 0;

  static Layout RowMajor(int64_t rank);
  bool IsRowMajor() const;       // descending order, no tiles, natural element size
  std::string ToString() const;  // with braces
  bool operator==(const Layout&) const = default;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_LAYOUT_H_
