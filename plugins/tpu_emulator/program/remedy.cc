#include "plugins/tpu_emulator/program/remedy.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "plugins/tpu_emulator/machine/capacity.h"
#include "plugins/tpu_emulator/program/layouts.h"

namespace backplane::tpu {
namespace {

constexpr int64_t kMinPaddingBytes = 64 << 10;

std::string FormatDims(absl::Span<const int64_t> dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

Shape WithDefaultLayout(PrimitiveType type, absl::Span<const int64_t> dims, TileShape tile) {
  Shape s(type, dims);
  s.set_layout(DefaultLayout(type, dims, tile));
  return s;
}

}  // namespace

std::string SuggestPaddingRemedy(const Shape& shape, TileShape tile) {
  if (!shape.IsArray() || !shape.has_layout() || shape.num_elements() == 0) return "";
  const int64_t now = PaddedBytes(shape), dense = ComputeUnpaddedBytes(shape);
  if (now - dense < kMinPaddingBytes || 3 * (now - dense) < now) return "";
  const PrimitiveType type = shape.element_type();
  const std::string instead = absl::StrCat(" instead of ", FormatBytes(now));

  int64_t best = now;
  std::string remedy;
  const Shape in_default_order = WithDefaultLayout(type, shape.dimensions(), tile);
  if (const int64_t bytes = PaddedBytes(in_default_order); bytes < best) {
    best = bytes;
    remedy = absl::StrCat("In the order of dimensions ", in_default_order.layout().ToString(), " it takes ",
                          FormatBytes(bytes), instead, ": the layout was asked for, or comes from a transpose.");
  }
  // Never suggest to make a vector of a matrix.
  for (int64_t d = 0; shape.rank() > 2 && d + 1 < shape.rank(); ++d) {
    if (shape.dimensions(d) == 1 && shape.dimensions(d + 1) == 1) continue;
    std::vector<int64_t> merged(shape.dimensions().begin(), shape.dimensions().end());
    merged[static_cast<size_t>(d)] *= merged[static_cast<size_t>(d) + 1];
    merged.erase(merged.begin() + d + 1);
    const int64_t bytes = PaddedBytes(WithDefaultLayout(type, merged, tile));
    if (bytes >= best) continue;
    best = bytes;
    remedy = absl::StrCat("With dimensions ", d, " and ", d + 1, " merged, as ", FormatDims(merged), ", it takes ",
                          FormatBytes(bytes), instead, ".");
  }
  // If reordering and merging do not help, suggest sizes that fill the tiles.
  if (4 * (now - best) >= now) return remedy;
  const Layout& layout = shape.layout();
  std::vector<int64_t> filled(shape.dimensions().begin(), shape.dimensions().end());
  bool changed = false;
  for (size_t n = 0; n < 2 && n < layout.minor_to_major.size() && !layout.tiles.empty(); ++n) {
    const Tile& t = layout.tiles[0];
    if (n >= t.dims.size()) break;
    const int64_t size = t.dims[t.dims.size() - 1 - n];
    int64_t& dim = filled[static_cast<size_t>(layout.minor_to_major[n])];
    const int64_t up = (dim + size - 1) / size * size;
    changed |= up != dim;
    dim = up;
  }
  if (!changed) return remedy;
  return absl::StrCat(remedy, remedy.empty() ? "" : " ", "It takes as much memory as ", FormatDims(filled),
                      " would: choose sizes that fill the tiles. ", Name(type), FormatDims(shape.dimensions()),
                      " wastes ", FormatBytes(now - dense), ".");
}

}  // namespace backplane::tpu
