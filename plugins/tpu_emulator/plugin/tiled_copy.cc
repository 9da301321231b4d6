#include "plugins/tpu_emulator/plugin/tiled_copy.h"

#include <algorithm>
#include <cstring>

#include "core/types/physical_layout.h"
#include "core/types/status_macros.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kPieceBytes = 1 << 18;
constexpr int64_t kMaxPieces = 32;

// Returns how many indices of the most major dimension form a contiguous block of tiles; 0 if the array cannot be
// split.
int64_t MajorBlockSize(const Shape& shape, const PhysicalLayout& physical) {
  const Layout& layout = shape.layout();
  if (shape.rank() == 0 || layout.tiles.empty() || !physical.separable()) return 0;
  if (physical.element_bits() != 8 * ByteWidth(shape.element_type())) return 0;
  const Tile& first = layout.tiles.front();  // further tiles only subdivide this one
  const int64_t covered = static_cast<int64_t>(first.dims.size());
  if (covered > shape.rank()) return 0;
  return covered == shape.rank() ? first.dims.front() : 1;
}

}  // namespace

bool IsDenseRowMajor(const Shape& shape) {
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
  const PrimitiveType type = tiled.element_type();
  auto relayout = [&](const PhysicalLayout& tiles,
                      const PhysicalLayout& rows) -> absl::StatusOr<std::shared_ptr<const Relayout>> {
    ASSIGN_OR_RETURN(Relayout r, direction == Direction::kToRowMajor ? Relayout::Plan(type, tiles, rows)
                                                                     : Relayout::Plan(type, rows, tiles));
    return std::make_shared<const Relayout>(std::move(r));
  };
  ASSIGN_OR_RETURN(PhysicalLayout physical, PhysicalLayout::Of(tiled));
  copy.bytes_ = tiled.num_elements() * ByteWidth(type);
  const int64_t block = MajorBlockSize(tiled, physical);
  const int64_t wanted = std::min(kMaxPieces, copy.bytes_ / kPieceBytes);
  const int64_t major = block == 0 ? 0 : tiled.layout().minor_to_major.back();
  if (block > 0 && wanted > 1 && tiled.dimensions(major) >= 2 * block) {
    // The row-major side of a piece is a part of the whole array and has its strides.
    const std::vector<int64_t> whole(tiled.dimensions().begin(), tiled.dimensions().end());
    std::vector<int64_t> row_order(whole.size());
    for (size_t i = 0; i < row_order.size(); ++i) row_order[i] = static_cast<int64_t>(row_order.size() - 1 - i);
    const int64_t stride = RowMajorStrides(tiled.dimensions())[static_cast<size_t>(major)];
    const int64_t n = whole[static_cast<size_t>(major)], blocks = (n + block - 1) / block;
    const int64_t step = (blocks + wanted - 1) / wanted * block;
    std::shared_ptr<const Relayout> full;
    int64_t in_tiles = 0;
    for (int64_t at = 0; at < n; at += step) {
      std::vector<int64_t> dims = whole;
      dims[static_cast<size_t>(major)] = std::min(step, n - at);
      Shape part(type, dims);
      part.set_layout(tiled.layout());
      ASSIGN_OR_RETURN(PhysicalLayout tiles, PhysicalLayout::Of(part));
      std::shared_ptr<const Relayout> r = full;
      if (r == nullptr || n - at < step) {
        ASSIGN_OR_RETURN(PhysicalLayout rows, PhysicalLayout::Padded(dims, row_order, whole, 8 * ByteWidth(type)));
        ASSIGN_OR_RETURN(r, relayout(tiles, rows));
        if (n - at >= step) full = r;
      }
      const int64_t in_rows = at * stride * ByteWidth(type);
      const bool to_rows = direction == Direction::kToRowMajor;
      copy.pieces_.push_back({std::move(r), to_rows ? in_tiles : in_rows, to_rows ? in_rows : in_tiles, 0});
      in_tiles += tiles.byte_size();
    }
    if (in_tiles == physical.byte_size()) return copy;
    copy.pieces_.clear();  // the pieces do not match the layout
  }
  Shape rows_shape = tiled.WithoutLayout();
  rows_shape.set_row_major();
  ASSIGN_OR_RETURN(PhysicalLayout rows, PhysicalLayout::Of(rows_shape));
  ASSIGN_OR_RETURN(std::shared_ptr<const Relayout> all, relayout(physical, rows));
  copy.pieces_.push_back({std::move(all), 0, 0, 0});
  return copy;
}

TiledCopy TiledCopy::PlanBytes(int64_t bytes) {
  TiledCopy copy;
  copy.bytes_ = bytes;
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    copy.pieces_.push_back({nullptr, at, at, std::min(kPieceBytes, bytes - at)});
  }
  return copy;
}

void TiledCopy::RunPiece(size_t piece, const void* from, void* to) const {
  const Piece& p = pieces_[piece];
  const std::byte* source = static_cast<const std::byte*>(from) + p.from;
  std::byte* target = static_cast<std::byte*>(to) + p.to;
  if (p.relayout == nullptr) {
    std::memcpy(target, source, static_cast<size_t>(p.bytes));
  } else {
    p.relayout->Run(source, target);
  }
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
