#include "core/types/physical_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kNoDimension = -1;

absl::Status Bad(absl::string_view message) { return absl::InvalidArgumentError(absl::StrCat("layout: ", message)); }

std::string Text(absl::Span<const int64_t> values) { return absl::StrCat("[", absl::StrJoin(values, ","), "]"); }

bool Product(absl::Span<const int64_t> dims, int64_t* product) {
  *product = 1;
  for (int64_t d : dims) {
    if (__builtin_mul_overflow(*product, d, product)) return false;
  }
  return true;
}

// Reverses minor_to_major.
absl::StatusOr<DimVector> MajorToMinor(absl::Span<const int64_t> minor_to_major, int64_t rank) {
  DimVector order(minor_to_major.rbegin(), minor_to_major.rend());
  DimVector sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool good = static_cast<int64_t>(order.size()) == rank;
  for (int64_t i = 0; good && i < rank; ++i) good = sorted[i] == i;
  if (!good)
    return Bad(absl::StrCat("minor_to_major ", Text(minor_to_major), " is no permutation of ", rank,
                            " dimensions [layout_e1]"));
  return order;
}

}  // namespace

absl::StatusOr<PhysicalLayout> PhysicalLayout::Of(const Shape& shape) {
  if (!shape.IsArray()) return Bad(absl::StrCat(shape.ToString(), " is no array"));
  return Of(shape.dimensions(), shape.has_layout() ? shape.layout() : Layout::RowMajor(shape.rank()),
            8 * ByteWidth(shape.element_type()));
}

absl::StatusOr<PhysicalLayout> PhysicalLayout::Of(absl::Span<const int64_t> dims, const Layout& layout,
                                                  int64_t element_bits) {
  PhysicalLayout p;
  p.dims_.assign(dims.begin(), dims.end());
  p.stored_ = p.dims_;
  p.element_bits_ = layout.element_size_in_bits != 0 ? layout.element_size_in_bits : element_bits;
  ASSIGN_OR_RETURN(p.order_, MajorToMinor(layout.minor_to_major, static_cast<int64_t>(dims.size())));
  for (int64_t d : p.order_) {
    p.bounds_.push_back(dims[d]);
    p.pieces_.push_back({d, 1, dims[d], true});
  }
  if (dims.empty() && !layout.tiles.empty()) {  // a tiled scalar is laid out as an array of one element
    p.bounds_.push_back(1);
    p.pieces_.push_back({kNoDimension, 1, 1, true});
  }
  for (const Tile& tile : layout.tiles) RETURN_IF_ERROR(p.Apply(tile));
  p.tail_alignment_ = layout.tail_alignment;
  p.prefix_bytes_ = layout.metadata_prefix_bytes;
  RETURN_IF_ERROR(p.Finish());
  return p;
}

absl::StatusOr<PhysicalLayout> PhysicalLayout::Padded(absl::Span<const int64_t> dims,
                                                      absl::Span<const int64_t> minor_to_major,
                                                      absl::Span<const int64_t> padded, int64_t element_bits) {
  if (padded.size() != dims.size()) {
    return Bad(absl::StrCat("padded_dimensions ", Text(padded), " has ", padded.size(), " entries, the array ",
                            dims.size(), " dimensions [layout_e2]"));
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (padded[i] < dims[i]) {
      return Bad(absl::StrCat("dimension ", i, " of size ", dims[i], " is padded to ", padded[i], " [layout_e2]"));
    }
  }
  PhysicalLayout p;
  p.dims_.assign(dims.begin(), dims.end());
  p.stored_.assign(padded.begin(), padded.end());
  p.element_bits_ = element_bits;
  ASSIGN_OR_RETURN(p.order_, MajorToMinor(minor_to_major, static_cast<int64_t>(dims.size())));
  for (int64_t d : p.order_) {
    p.bounds_.push_back(padded[d]);
    p.pieces_.push_back({d, 1, padded[d], true});
  }
  RETURN_IF_ERROR(p.Finish());
  return p;
}

absl::Status PhysicalLayout::Apply(const Tile& tile) {
  const size_t k = tile.dims.size(), n = bounds_.size();
  if (k == 0) return absl::OkStatus();
  if (k > n) {
    return Bad(absl::StrCat("a tile of rank ", k, " on ", n, " physical dimensions [layout_e4]"));
  }
  for (size_t i = 0; i < k; ++i) {
    const int64_t t = tile.dims[i];
    if (t == Tile::kCombine && i + 1 == k) return Bad("the most minor entry of a tile is * [layout_e4]");
    if (t <= 0 && t != Tile::kCombine) return Bad(absl::StrCat("a tile of size ", t, " [layout_e4]"));
  }
  levels_.push_back({bounds_, tile.dims});
  DimVector bounds(bounds_.begin(), bounds_.end() - k), positions;
  std::vector<Piece> pieces, inner;
  if (separable_) pieces.assign(pieces_.begin(), pieces_.end() - static_cast<std::ptrdiff_t>(k));
  int64_t merged = 1;
  for (size_t i = 0; i < k; ++i) {
    const int64_t t = tile.dims[i];
    int64_t bound = 0;
    if (__builtin_mul_overflow(merged, bounds_[n - k + i], &bound)) return Bad("sizes overflow [layout_e9]");
    if (t == Tile::kCombine) {
      merged = bound;
      separable_ = separable_ && bounds_[n - k + i] == 1;  // a dimension of one element does not matter
      continue;
    }
    merged = 1;
    const int64_t count = bound / t + (bound % t != 0);
    bounds.push_back(count);
    positions.push_back(t);
    if (!separable_) continue;
    const Piece& p = pieces_[n - k + i];
    // Inside a tile the digits stay separable only if the tile is divided evenly.
    if (!p.outermost && p.size % t != 0) separable_ = false;
    int64_t divisor = 0;
    if (__builtin_mul_overflow(p.divisor, t, &divisor)) return Bad("sizes overflow [layout_e9]");
    pieces.push_back({p.dim, divisor, count, p.outermost});
    inner.push_back({p.dim, p.divisor, t, false});
  }
  bounds.insert(bounds.end(), positions.begin(), positions.end());
  pieces.insert(pieces.end(), inner.begin(), inner.end());
  bounds_ = std::move(bounds);
  pieces_ = std::move(pieces);
  return absl::OkStatus();
}

absl::Status PhysicalLayout::Finish() {
  for (int64_t d : dims_) {
    if (d < 0) return Bad(absl::StrCat("negative size in ", Text(dims_)));
  }
  int64_t bits = 0;
  if (element_bits_ <= 0 || element_bits_ > 4096) return Bad(absl::StrCat("elements of ", element_bits_, " bits"));
  if (tail_alignment_ < 1 || prefix_bytes_ < 0) {
    return Bad(absl::StrCat("tail alignment ", tail_alignment_, ", ", prefix_bytes_, " bytes of metadata"));
  }
  bool fits = Product(bounds_, &num_elements_) && Product(dims_, &num_logical_);
  if (fits && num_elements_ % tail_alignment_ != 0) {
    fits = !__builtin_add_overflow(num_elements_, tail_alignment_ - num_elements_ % tail_alignment_, &num_elements_);
  }
  if (!fits || __builtin_mul_overflow(num_elements_, element_bits_, &bits) || bits > INT64_MAX - 7 ||
      (bits + 7) / 8 > INT64_MAX - prefix_bytes_) {
    return Bad(absl::StrCat("the size of ", Text(bounds_), " overflows [layout_e9]"));
  }
  if (!separable_) return absl::OkStatus();
  digits_.resize(dims_.size());
  int64_t stride = 1;
  for (size_t i = bounds_.size(); i-- > 0;) {
    const Piece& p = pieces_[i];
    if (p.dim != kNoDimension) digits_[p.dim].push_back({p.divisor, p.size, stride});
    stride *= std::max<int64_t>(bounds_[i], 1);
  }
  for (auto& d : digits_) {
    // A tile of size 1 yields two digits with the same divisor: the unbounded one comes first.
    std::stable_sort(d.begin(), d.end(), [](const Digit& a, const Digit& b) {
      return a.divisor != b.divisor ? a.divisor > b.divisor : a.size > b.size;
    });
  }
  return absl::OkStatus();
}

int64_t PhysicalLayout::LinearIndex(absl::Span<const int64_t> index) const {
  DimVector at;
  for (int64_t d : order_) at.push_back(index[d]);
  if (order_.empty() && !levels_.empty()) at.push_back(0);
  for (const Level& level : levels_) {
    const size_t k = level.tile.size(), n = level.before.size();
    DimVector tiles(at.begin(), at.end() - k), positions;
    int64_t merged = 0;
    for (size_t i = 0; i < k; ++i) {
      const int64_t e = merged * level.before[n - k + i] + at[n - k + i];
      if (level.tile[i] == Tile::kCombine) {
        merged = e;
        continue;
      }
      merged = 0;
      tiles.push_back(e / level.tile[i]);
      positions.push_back(e % level.tile[i]);
    }
    tiles.insert(tiles.end(), positions.begin(), positions.end());
    at = std::move(tiles);
  }
  int64_t linear = 0;
  for (size_t i = 0; i < at.size(); ++i) linear = linear * bounds_[i] + at[i];
  return linear;
}

absl::StatusOr<int64_t> PhysicalLayout::CheckedLinearIndex(absl::Span<const int64_t> index) const {
  if (index.size() != dims_.size()) {
    return Bad(absl::StrCat("index ", Text(index), " of an array of rank ", dims_.size()));
  }
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= dims_[i]) {
      return Bad(absl::StrCat("index ", Text(index), ": dimension ", i, " has size ", dims_[i]));
    }
  }
  return LinearIndex(index);
}

std::optional<DimVector> PhysicalLayout::LogicalIndex(int64_t linear) const {
  DimVector at(bounds_.size(), 0);
  for (size_t i = bounds_.size(); i-- > 0;) {
    at[i] = linear % bounds_[i];
    linear /= bounds_[i];
  }
  if (linear != 0) return std::nullopt;  // padding at the end
  for (size_t l = levels_.size(); l-- > 0;) {
    const Level& level = levels_[l];
    const size_t k = level.tile.size(), n = level.before.size();
    const size_t kept = n - k;
    size_t split = 0;  // tiled dimensions
    for (int64_t t : level.tile) split += t != Tile::kCombine;
    DimVector before(at.begin(), at.begin() + kept);
    before.resize(n, 0);
    size_t tile = 0;
    for (size_t i = 0; i < k;) {
      // A run of merged dimensions ends at the tiled one.
      size_t end = i;
      int64_t bound = 1;
      while (level.tile[end] == Tile::kCombine) bound *= level.before[kept + end++];
      bound *= level.before[kept + end];
      int64_t e = at[kept + tile] * level.tile[end] + at[kept + split + tile];
      if (e >= bound) return std::nullopt;
      for (size_t j = end + 1; j-- > i;) {
        before[kept + j] = e % level.before[kept + j];
        e /= level.before[kept + j];
      }
      ++tile;
      i = end + 1;
    }
    at = std::move(before);
  }
  DimVector index(dims_.size(), 0);
  for (size_t i = 0; i < order_.size(); ++i) {
    if (at[i] >= dims_[order_[i]]) return std::nullopt;  // padding of the older form
    index[order_[i]] = at[i];
  }
  return index;
}

}  // namespace backplane
