// The positions of an array's elements in memory: a layout applied to the dimensions of an array.
//
// The physical dimensions are the logical ones in major to minor order. A tile covers as many of the most minor
// dimensions as it has entries. Each of these, of size d, is split in two: ceil(d / t) tiles and t positions in a tile.
// All tile counts come before all positions, so the next tile usually splits the positions further. A `*` first merges
// its dimension into the next more minor one. After the last tile the dimensions are row-major, which gives the linear
// index. If a size is not a multiple of its tile, some positions are padding, with unspecified contents.
//
// A layout may round the number of elements up at the end (L), and reserve a prefix for metadata (M), which is counted
// in bytes only.
//
// The older form pads dimensions at their high ends instead (padded_dimensions); that padding may have a specified
// value.
//
// Indices and sizes are in elements unless stated otherwise, and are 64-bit; overflow is an error. Objects are
// immutable and thread-safe. Errors are InvalidArgument.
#ifndef BACKPLANE_CORE_TYPES_PHYSICAL_LAYOUT_H_
#define BACKPLANE_CORE_TYPES_PHYSICAL_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/types/shape.h"

namespace backplane {

class PhysicalLayout {
 public:
  // Applies the layout of an array shape, or row-major if it has none. The element size is that of the layout, else the
  // storage size of the type (one byte for narrower types).
  static absl::StatusOr<PhysicalLayout> Of(const Shape& shape);
  static absl::StatusOr<PhysicalLayout> Of(absl::Span<const int64_t> dims, const Layout& layout, int64_t element_bits);
  // The older form: stores dimension d as if its size were padded_dimensions[d].
  static absl::StatusOr<PhysicalLayout> Padded(absl::Span<const int64_t> dims, absl::Span<const int64_t> minor_to_major,
                                               absl::Span<const int64_t> padded_dimensions, int64_t element_bits);

  const DimVector& dims() const { return dims_; }      // logical sizes
  const DimVector& bounds() const { return bounds_; }  // after all tiles, major to minor: (2,3,2,2) for [3,5] in T(2,2)
  int64_t num_elements() const { return num_elements_; }  // including padding
  int64_t num_logical() const { return num_logical_; }
  bool has_padding() const { return num_elements_ != num_logical_; }
  int64_t element_bits() const { return element_bits_; }
  int64_t prefix_bytes() const { return prefix_bytes_; }  // before the first element
  int64_t byte_size() const { return prefix_bytes_ + (num_elements_ * element_bits_ + 7) / 8; }  // packed without gaps

  // Requires an index within the dimensions.
  int64_t LinearIndex(absl::Span<const int64_t> index) const;
  // Returns nullopt for padding. Requires `linear` < num_elements().
  std::optional<DimVector> LogicalIndex(int64_t linear) const;
  // As LinearIndex, but returns an error that names the dimension if the index is out of bounds.
  absl::StatusOr<int64_t> CheckedLinearIndex(absl::Span<const int64_t> index) const;

  // Most layouts are separable: the linear index is the sum, over all dimensions, of digits of that dimension's index
  // times a stride. A digit is (index / divisor) % size; the digit with the largest divisor has no %.
  struct Digit {
    int64_t divisor = 1, size = 1, stride = 1;
  };
  bool separable() const { return separable_; }
  const std::vector<Digit>& digits(int64_t dim) const {
    return digits_[dim];
  }  // by descending divisor; only if separable

 private:
  // One applied tile: the sizes before it, of which the last tile.size() are covered.
  struct Level {
    DimVector before;  // all dimensions before the tile
    DimVector tile;    // entries, including Tile::kCombine
  };
  absl::Status Apply(const Tile& tile);
  absl::Status Finish();

  DimVector dims_, order_;  // order: logical dimension of each physical one, major to minor
  DimVector stored_;        // logical sizes including the padding of the older form
  DimVector bounds_;
  std::vector<Level> levels_;
  int64_t num_elements_ = 0, num_logical_ = 0, element_bits_ = 8;
  int64_t tail_alignment_ = 1, prefix_bytes_ = 0;
  bool separable_ = true;
  struct Piece {
    int64_t dim, divisor, size;
    bool outermost;
  };
  std::vector<Piece> pieces_;  // describes each of bounds_ while separable
  std::vector<std::vector<Digit>> digits_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_PHYSICAL_LAYOUT_H_
