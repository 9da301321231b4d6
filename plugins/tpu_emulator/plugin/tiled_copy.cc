#include "plugins/tpu_emulator/plugin/tiled_copy.h"

#include <algorithm>

#include "core/types/physical_layout.h"
#include "core/types/status_macros.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kPieceBytes = 1 << 18;
constexpr int64_t kMostPieces = 32;

// So many indices of dimension 0 make a piece that is contiguous in tiles as well as in rows; 0: it cannot be cut.
int64_t UnitOfMajor(const Shape& shape, const PhysicalLayout& physical) {
  const Layout& layout = shape.layout();
  const int64_t rank = shape.rank();
  if (rank == 0 || layout.minor_to_major.back() != 0 || !physical.separable()) return 0;
  if (physical.element_bits() != 8 * ByteWidth(shape.element_type())) return 0;
  int64_t unit = 1;
  for (const Tile& tile : layout.tiles) {
    if (static_cast<int64_t>(tile.dims.size()) > rank) {
      // A further tile divides what the one before it left.
      if (&tile == &layout.tiles.front()) return 0;
      continue;
    }
    if (static_cast<int64_t>(tile.dims.size()) == rank && &tile == &layout.tiles.front()) unit = tile.dims.front();
  }
  return unit;
}

}  // namespace

bool LiesInRows(const Shape& shape) {
  if (!shape.has_layout()) return true;
  const absl::StatusOr<PhysicalLayout> physical = PhysicalLayout::Of(shape);
  if (!physical.ok() || !physical->separable() || physical->has_padding()) return false;
  if (physical->element_bits() != 8 * ByteWidth(shape.element_type())) return false;
  int64_t stride = 1;
  for (int64_t d = shape.rank(); d-- > 0; stride *= shape.dimensions(d)) {
    for (const PhysicalLayout::Digit& digit : physical->digits(d)) {
      if (digit.divisor < shape.dimensions(d) && digit.stride != digit.divisor * stride) return false;
    }
  }
  return true;
}

absl::StatusOr<TiledCopy> TiledCopy::Plan(const Shape& tiled, Direction direction) {
  TiledCopy copy;
  auto relayout = [&](const Shape& in_tiles) -> absl::StatusOr<std::shared_ptr<const Relayout>> {
    Shape rows = in_tiles.WithoutLayout();
    rows.set_row_major();
    ASSIGN_OR_RETURN(Relayout r,
                     direction == Direction::kToRows ? Relayout::Plan(in_tiles, rows) : Relayout::Plan(rows, in_tiles));
    return std::make_shared<const Relayout>(std::move(r));
  };
  ASSIGN_OR_RETURN(PhysicalLayout physical, PhysicalLayout::Of(tiled));
  copy.bytes_ = tiled.num_elements() * ByteWidth(tiled.element_type());
  const int64_t unit = UnitOfMajor(tiled, physical);
  const int64_t wanted = std::min(kMostPieces, copy.bytes_ / kPieceBytes);
  if (unit > 0 && wanted > 1 && tiled.dimensions(0) >= 2 * unit) {
    const int64_t n = tiled.dimensions(0), units = (n + unit - 1) / unit;
    const int64_t step = (units + wanted - 1) / wanted * unit;
    std::shared_ptr<const Relayout> whole;
    int64_t in_rows = 0, in_tiles = 0;
    for (int64_t at = 0; at < n; at += step) {
      Shape part(tiled.element_type(), tiled.dimensions());
      std::vector<int64_t> dims(tiled.dimensions().begin(), tiled.dimensions().end());
      dims[0] = std::min(step, n - at);
      part = Shape(tiled.element_type(), dims);
      part.set_layout(tiled.layout());
      std::shared_ptr<const Relayout> r = whole;
      if (r == nullptr || dims[0] != step) {
        ASSIGN_OR_RETURN(r, relayout(part));
        if (dims[0] == step) whole = r;
      }
      const bool to_rows = direction == Direction::kToRows;
      copy.pieces_.push_back({r, to_rows ? in_tiles : in_rows, to_rows ? in_rows : in_tiles});
      in_rows += to_rows ? r->target_bytes() : r->source_bytes();
      in_tiles += to_rows ? r->source_bytes() : r->target_bytes();
    }
    if (in_tiles == physical.byte_size() && in_rows == copy.bytes_) return copy;
    copy.pieces_.clear();  // some layout that is not cut as thought
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Relayout> all, relayout(tiled));
  copy.pieces_.push_back({std::move(all), 0, 0});
  return copy;
}

void TiledCopy::RunPiece(size_t piece, const void* from, void* to) const {
  const Piece& p = pieces_[piece];
  p.relayout->Run(static_cast<const std::byte*>(from) + p.from, static_cast<std::byte*>(to) + p.to);
}

void TiledCopy::Run(const void* from, void* to, engine::ThreadPool* pool) const {
  if (pool == nullptr || pieces_.size() < 2) {
    for (size_t p = 0; p < pieces_.size(); ++p) RunPiece(p, from, to);
    return;
  }
  pool->ParallelFor(static_cast<int64_t>(pieces_.size()),
                    [&](int64_t p, int) { RunPiece(static_cast<size_t>(p), from, to); });
}

}  // namespace backplane::tpu
