// The memory layout of an array: order of dimensions, tiles, element size, memory space, and further properties that
// compilers for accelerators use.
//
// minor_to_major[0] is the dimension that varies fastest; row-major of rank 3 is {2,1,0}. A tile covers the most minor
// dimensions of the permuted array and is itself row-major; several tiles apply one after another. Text form, as XLA
// prints it, with fields in this order and default values omitted:
// {1,0:T(8,128)(2,1)L(1024)#(u32)*(u64)E(4)S(1)SC(0:2)(1:4,6)M(128)}. physical_layout.h computes the positions of
// elements.
#ifndef BACKPLANE_CORE_TYPES_LAYOUT_H_
#define BACKPLANE_CORE_TYPES_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/types/primitive_type.h"

namespace backplane {

using DimVector = absl::InlinedVector<int64_t, 6>;

struct Tile {
  static constexpr int64_t kCombine = INT64_MIN;  // printed `*`: this dimension is merged into the next more minor one
  DimVector dims;
  bool operator==(const Tile&) const = default;
};

// Splits one dimension between parts of a memory: a part begins at each of these indices.
struct LayoutSplit {
  int64_t dimension = 0;
  DimVector indices;
  bool operator==(const LayoutSplit&) const = default;
};

struct Layout {
  DimVector minor_to_major;
  std::vector<Tile> tiles;
  int64_t element_size_in_bits = 0;  // 0: the natural size of the element type
  int64_t memory_space = 0;
  int64_t tail_alignment = 1;  // L(n): pads the end to a multiple of this number of elements
  // #(u32), *(u64): types of the indices and pointers that a compiler stores with the array; kInvalid: not specified.
  PrimitiveType index_type = PrimitiveType::kInvalid;
  PrimitiveType pointer_type = PrimitiveType::kInvalid;
  std::vector<LayoutSplit> splits;    // SC(0:2): does not affect the positions of elements
  int64_t metadata_prefix_bytes = 0;  // M(n): bytes before the elements, for sizes known at run time only

  static Layout RowMajor(int64_t rank);
  bool IsRowMajor() const;       // descending order, no tiles, natural element size, no prefix or tail alignment
  std::string ToString() const;  // with braces
  bool operator==(const Layout&) const = default;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_LAYOUT_H_
