#include "plugins/tpu_emulator/machine/default_layout.h"

#include <algorithm>
#include <bit>

#include "core/types/integer_division.h"

namespace backplane::tpu {
namespace {

int64_t NextPowerOfTwo(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

// Bits of an element in memory. An element that does not divide a word evenly, for example 6 bits, takes a byte.
int64_t StoredBits(PrimitiveType type) {
  const int64_t bits = BitWidth(type);
  return bits < 8 && 32 % bits != 0 ? 8 : bits;
}

struct MinorPair {
  int64_t minor, second;
};

// Returns the pair of dimensions that needs the least padding; the first one, from the row-major end, if several do.
MinorPair ChooseMinorPair(PrimitiveType type, absl::Span<const int64_t> dims, TileShape tile) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  const bool two_bits = PackedElements(type) == 16;
  MinorPair best{rank - 1, rank - 2};
  // In floating point: the product of the other dimensions may exceed 2^63, and only the order of the costs matters.
  double best_cost = -1;
  bool best_exact = false;
  for (int64_t i = rank - 1; i >= 0; --i) {
    for (int64_t j = rank - 1; j >= 0; --j) {
      if (i == j) continue;
      const int64_t rows = two_bits ? tile.rows : TileRows(type, dims[j], tile);
      const int64_t padded_minor = RoundUp(dims[i], tile.lanes), padded_second = RoundUp(dims[j], rows);
      double cost = static_cast<double>(padded_minor) * static_cast<double>(padded_second);
      for (int64_t d = 0; d < rank; ++d) {
        if (d != i && d != j) cost *= static_cast<double>(dims[d]);
      }
      const bool exact = two_bits && padded_minor == dims[i] && padded_second == dims[j];
      if (best_cost < 0 || cost < best_cost || (cost == best_cost && exact && !best_exact)) {
        best = {i, j};
        best_cost = cost;
        best_exact = exact;
      }
    }
  }
  return best;
}

}  // namespace

int64_t PackedElements(PrimitiveType type) { return std::max<int64_t>(1, 32 / StoredBits(type)); }

int64_t TileRows(PrimitiveType type, int64_t size, TileShape tile) {
  const int64_t pack = PackedElements(type);
  switch (pack) {
    case 1:
    case 2:
      return std::clamp<int64_t>(NextPowerOfTwo(size), pack, std::max(pack, tile.rows));
    case 4:
      return size % (tile.rows * pack) == 0
                 ? tile.rows * pack
                 : std::clamp<int64_t>(NextPowerOfTwo(size), pack, std::max(pack, tile.rows));
    default:
      return size % (tile.rows * pack) == 0 ? tile.rows * pack : pack;  // 8 rows: 4 bits 64 or 8, 2 bits 128 or 16
  }
}

Layout TiledLayout(PrimitiveType type, absl::Span<const int64_t> dims, absl::Span<const int64_t> minor_to_major,
                   TileShape tile) {
  const int64_t rank = static_cast<int64_t>(dims.size()), pack = PackedElements(type);
  Layout layout;
  layout.minor_to_major.assign(minor_to_major.begin(), minor_to_major.end());
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return layout;

  if (StoredBits(type) < 8) layout.element_size_in_bits = StoredBits(type);
  if (rank == 0) {
    layout.tiles.push_back({{tile.lanes * pack}});
    return layout;
  }
  if (rank == 1) {
    const int64_t register_size = tile.rows * tile.lanes;
    layout.tiles.push_back({{std::max(tile.lanes * pack, std::min(register_size, NextPowerOfTwo(dims[0])))}});
    if (pack > 1) layout.tiles.push_back({{tile.lanes}});
  } else {
    layout.tiles.push_back({{TileRows(type, dims[minor_to_major[1]], tile), tile.lanes}});
  }
  if (pack > 1) layout.tiles.push_back({{pack, 1}});
  return layout;
}

Layout DefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims, TileShape tile) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  DimVector order = Layout::RowMajor(rank).minor_to_major;
  if (rank >= 2 && std::find(dims.begin(), dims.end(), 0) == dims.end()) {
    const MinorPair pair = ChooseMinorPair(type, dims, tile);
    order = {pair.minor, pair.second};
    for (int64_t d = rank - 1; d >= 0; --d) {
      if (d != pair.minor && d != pair.second) order.push_back(d);
    }
  }
  return TiledLayout(type, dims, order, tile);
}

}  // namespace backplane::tpu
