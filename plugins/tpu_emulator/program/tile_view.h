// Describes the memory of a tiled array as a row-major array of its own, and maps the dimensions of one to the other.
// f32[256,8,32]{0,2,1:T(8,128)} is f32[8,4,2,8,128] in memory: the second dimension, the tiles of the third, the tiles
// of the first, and a tile.
//
// With this, a program can take the memory of an argument as a value, and operations on the array can be expressed as
// operations on its memory. The padding is part of that value, but never reaches an element of the array.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILE_VIEW_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILE_VIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/computation.h"

namespace backplane::tpu {

// A value type. Arrays that differ only in their element type have equal views.
struct TileView {
  struct Digit {
    int64_t divisor, size;  // the digit is (index / divisor) % size; the first one is index / divisor
    int64_t memory_dim;     // an index into `sizes`
    bool operator==(const Digit&) const = default;
  };
  std::vector<int64_t> dims;               // of the array
  std::vector<int64_t> sizes;              // of the memory, major to minor
  std::vector<std::vector<Digit>> digits;  // for each array dimension, major first; without digits of size 1
  std::vector<int64_t> unit_dims;          // the memory dimensions of size 1
  bool operator==(const TileView&) const = default;

  // Returns nullopt if the memory is row-major, if elements are packed, or if the layout cannot be expressed as digits.
  static std::optional<TileView> Of(const Shape& shape);

  Shape PhysicalShape(PrimitiveType type) const { return Shape(type, sizes); }
  int64_t PaddedSize(int64_t dim) const;
  bool HasPadding(int64_t dim) const { return PaddedSize(dim) != dims[static_cast<size_t>(dim)]; }
  bool HasPadding() const;
  // Whether the array has no padding and adjacent elements in memory are adjacent in a row. Kernels can then convert
  // between tiles and rows by whole vectors.
  bool KeepsRowsContiguous() const;
};

// Emits the conversion of the memory to the row-major array, and back. WriteToTiles requires a view without padding.
// New instructions are appended to the computation.
Instruction* ReadFromTiles(Computation* c, const TileView& view, Instruction* memory);
Instruction* WriteToTiles(Computation* c, const TileView& view, Instruction* array);

// Slices with run-time starts, as in dynamic-slice and dynamic-update-slice, expressed on the memory. `slice` has the
// sizes along the array's dimensions. CanSlice checks them: each dimension must be taken in full, have size one, or
// have a single digit. A slice to be `written` must not cover padding. MakeMemorySliceStarts emits the start indices,
// in the order of view.sizes, clamped as the operations define.
bool CanSlice(const TileView& view, absl::Span<const int64_t> slice, bool written);
std::vector<int64_t> ComputeMemorySliceSizes(const TileView& view, absl::Span<const int64_t> slice);
std::vector<Instruction*> MakeMemorySliceStarts(Computation* c, const TileView& view, absl::Span<const int64_t> slice,
                                                absl::Span<Instruction* const> starts);
// Emits the conversion of a slice of the memory to the slice of the array, and back.
Instruction* ReadSliceFromTiles(Computation* c, const TileView& view, absl::Span<const int64_t> slice,
                                Instruction* memory);
Instruction* WriteSliceToTiles(Computation* c, const TileView& view, absl::Span<const int64_t> slice,
                               Instruction* array);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILE_VIEW_H_
