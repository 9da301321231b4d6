// An array that lies in tiles, seen as one that lies in rows: the sizes of its memory, and which of them are which
// digit of which dimension's index. f32[256,8,32]{0,2,1:T(8,128)} is f32[8,4,2,8,128]: the second dimension, the third
// one's tiles, the first one's tiles, and a tile.
//
// So a program can name the memory of an argument as a value of its own, and operations on the array become operations
// on that value: padding included, which no operation here lets through into the array.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILE_VIEW_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILE_VIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/computation.h"

namespace backplane::tpu {

// A value; equal views of arrays of different types are equal.
struct TileView {
  struct Digit {
    int64_t divisor, size;  // (index / divisor) % size, or all of index / divisor
    int64_t place;          // in `sizes`
    bool operator==(const Digit&) const = default;
  };
  std::vector<int64_t> dims;               // of the array
  std::vector<int64_t> sizes;              // of its memory, major to minor: the view's shape
  std::vector<std::vector<Digit>> digits;  // by dimension, major first; none of size one
  std::vector<int64_t> idle;               // places of size one
  bool operator==(const TileView&) const = default;

  // None for what lies in rows anyhow, for packed elements and for layouts whose dimensions have no digits.
  static std::optional<TileView> Of(const Shape& shape);

  Shape PhysicalShape(PrimitiveType type) const { return Shape(type, sizes); }
  int64_t PaddedSize(int64_t dim) const;
  bool HasPadding(int64_t dim) const { return PaddedSize(dim) != dims[static_cast<size_t>(dim)]; }
  bool HasPadding() const;
  // Neighbours in memory are neighbours in a row, and there is no padding: kernels read rows into tiles, and tiles into
  // rows, by whole vectors.
  bool KeepsRuns() const;
};

// The array as it is in rows, out of its memory, and back; the latter for views without padding. Instructions are added
// at the end of the computation.
Instruction* Untiled(Computation* c, const TileView& view, Instruction* memory);
Instruction* Tiled(Computation* c, const TileView& view, Instruction* array);

// A part of an array with run-time starts, as dynamic-slice and dynamic-update-slice have it, in the memory's terms:
// every dimension is taken whole, is cut to one index, or has only one digit. Sizes are checked by Fits; Starts makes
// the scalars, in the order of the view's sizes, clamped as the operations clamp them.
bool PartFits(const TileView& view, absl::Span<const int64_t> part, bool written);
std::vector<int64_t> PartSizes(const TileView& view, absl::Span<const int64_t> part);
std::vector<Instruction*> PartStarts(Computation* c, const TileView& view, absl::Span<const int64_t> part,
                                     absl::Span<Instruction* const> starts);
// The part as its array, out of what was cut from memory, and back.
Instruction* UntiledPart(Computation* c, const TileView& view, absl::Span<const int64_t> part, Instruction* memory);
Instruction* TiledPart(Computation* c, const TileView& view, absl::Span<const int64_t> part, Instruction* array);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_TILE_VIEW_H_
