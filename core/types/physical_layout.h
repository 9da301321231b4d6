// Where the elements of an array lie in memory: a layout applied to the array's sizes.
//
// The physical dimensions are the logical ones in major to minor order. A tile covers as many of the most minor ones as
// it has entries: each of these, of size d, becomes two, ceil(d / t) tiles and t places in a tile; all tile counts
// stand in front of all places, so the next tile usually splits the places further. A `*` first merges its dimension
// into the next more minor one. The dimensions after the last tile are laid out row-major: that is the linear index.
// Where a size is no multiple of its tile, places are padding; what they hold means nothing.
//
// A layout may round the number of elements up at the end (L), and put metadata in front of the first (M): the latter
// counts in bytes only.
//
// The older form pads dimensions at their high ends instead (padded_dimensions); its padding may have a declared value.
//
// Indices and sizes are in elements unless they say bits or bytes; 64-bit throughout, overflow is an error. Objects are
// immutable; any thread may read them. Errors: InvalidArgument.
#ifndef BACKPLANE_CORE_TYPES_PHYSICAL_LAYOUT_H_
#define BACKPLANE_CORE_TYPES_PHYSICAL_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/types/shape.h"

namespace backplane {

class PhysicalLayout {
 public:
  // An array shape with its layout; row-major when it has none. Element size: the layout's, else that of the type in
  // buffers (one byte for types that are narrower).
  static absl::StatusOr<PhysicalLayout> Of(const Shape& shape);
  static absl::StatusOr<PhysicalLayout> Of(absl::Span<const int64_t> dims, const Layout& layout, int64_t element_bits);
  // The older form: dimension d is stored as if its size were padded_dimensions[d].
  static absl::StatusOr<PhysicalLayout> Padded(absl::Span<const int64_t> dims, absl::Span<const int64_t> minor_to_major,
                                               absl::Span<const int64_t> padded_dimensions, int64_t element_bits);

  const DimVector& dims() const { return dims_; }      // the logical sizes
  const DimVector& bounds() const { return bounds_; }  // after all tiles, major to minor: (2,3,2,2) for [3,5] in T(2,2)
  int64_t num_elements() const { return num_elements_; }  // padding included
  int64_t num_logical() const { return num_logical_; }
  bool has_padding() const { return num_elements_ != num_logical_; }
  int64_t element_bits() const { return element_bits_; }
  int64_t prefix_bytes() const { return prefix_bytes_; }  // before the first element
  int64_t byte_size() const { return prefix_bytes_ + (num_elements_ * element_bits_ + 7) / 8; }  // packed without gaps

  // The index must lie inside the dims.
  int64_t LinearIndex(absl::Span<const int64_t> index) const;
  // Empty: a place of padding. `linear` must be below num_elements().
  std::optional<DimVector> LogicalIndex(int64_t linear) const;
  // As LinearIndex, for indices from outside: an error names the dimension that is out of bounds.
  absl::StatusOr<int64_t> CheckedLinearIndex(absl::Span<const int64_t> index) const;

  // Most layouts are separable: the linear index is the sum, over all dimensions, of digits of that dimension's index
  // times a stride. Digit: (index / divisor) % size, the digit with the largest divisor without the %.
  struct Digit {
    int64_t divisor = 1, size = 1, stride = 1;
  };
  bool separable() const { return separable_; }
  const std::vector<Digit>& digits(int64_t dim) const { return digits_[dim]; }  // divisors descending; when separable

 private:
  // One tile as it was applied: sizes before it, of which the last tile.size() are covered.
  struct Level {
    DimVector before;  // all dimensions before the tile
    DimVector tile;    // entries, Tile::kCombine among them
  };
  absl::Status Apply(const Tile& tile);
  absl::Status Finish();

  DimVector dims_, order_;  // order: logical dimension at each physical place, major to minor
  DimVector stored_;        // logical sizes with the older form's padding
  DimVector bounds_;
  std::vector<Level> levels_;
  int64_t num_elements_ = 0, num_logical_ = 0, element_bits_ = 8;
  int64_t tail_alignment_ = 1, prefix_bytes_ = 0;
  bool separable_ = true;
  struct Piece {
    int64_t dim, divisor, size;
    bool outermost;
  };
  std::vector<Piece> pieces_;  // what each of bounds_ is, while separable
  std::vector<std::vector<Digit>> digits_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_TYPES_PHYSICAL_LAYOUT_H_
