#include "plugins/tpu_emulator/program/tile_view.h"

#include <algorithm>
#include <utility>

#include "core/passes/rewrite.h"
#include "core/types/literal.h"
#include "core/types/physical_layout.h"
#include "plugins/tpu_emulator/program/permuted.h"

namespace backplane::tpu {
namespace {

Instruction* Reshaped(Computation* c, Instruction* x, std::vector<int64_t> dims) {
  const Shape shape(x->shape().element_type(), dims);
  return x->shape().dimensions() == shape.dimensions() ? x : Make(c, x, Opcode::kReshape, shape, {x});
}

Instruction* Cut(Computation* c, Instruction* x, absl::Span<const int64_t> dims) {
  if (std::equal(dims.begin(), dims.end(), x->shape().dimensions().begin(), x->shape().dimensions().end())) return x;
  SliceConfig slices;
  for (int64_t size : dims) slices.push_back({0, size, 1});
  Attributes attrs;
  attrs.Set(AttrId::kSlices, std::move(slices));
  return Make(c, x, Opcode::kSlice, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
}

// The view's places, dimension by dimension, digits from major to minor, idle ones last.
Ints ByDimension(const TileView& view) {
  Ints places;
  for (const auto& digits : view.digits) {
    for (const TileView::Digit& d : digits) places.push_back(d.place);
  }
  places.insert(places.end(), view.idle.begin(), view.idle.end());
  return places;
}

std::vector<int64_t> PaddedDims(const TileView& view) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < view.dims.size(); ++d) dims.push_back(view.PaddedSize(static_cast<int64_t>(d)));
  return dims;
}

// What is cut along a dimension: all of it, or so many indices.
bool IsWhole(const TileView& view, size_t d, int64_t part) { return part == view.dims[d]; }

Instruction* ScalarOf(Computation* c, PrimitiveType type, int64_t value) {
  return MakeConstant(c, nullptr, Literal::ScalarInt(type, value));
}

}  // namespace

int64_t TileView::PaddedSize(int64_t dim) const {
  int64_t size = 1;
  for (const Digit& d : digits[static_cast<size_t>(dim)]) size *= d.size;
  return size;
}

bool TileView::HasPadding() const {
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    if (HasPadding(d)) return true;
  }
  return false;
}

bool TileView::KeepsRuns() const {
  if (HasPadding()) return false;
  size_t last = sizes.size();
  while (last > 0 && sizes[last - 1] == 1) --last;
  for (size_t d = digits.size(); d-- > 0;) {
    if (digits[d].empty()) continue;
    return digits[d].back().divisor == 1 && digits[d].back().place + 1 == static_cast<int64_t>(last);
  }
  return true;
}

std::optional<TileView> TileView::Of(const Shape& shape) {
  if (!shape.IsArray() || !shape.has_layout() || shape.layout().tiles.empty() || shape.num_elements() == 0 ||
      shape.HasDynamicDimensions()) {
    return std::nullopt;
  }
  const absl::StatusOr<PhysicalLayout> physical = PhysicalLayout::Of(shape);
  if (!physical.ok() || !physical->separable() || physical->element_bits() != 8 * ByteWidth(shape.element_type()))
    return std::nullopt;
  TileView view;
  view.dims.assign(shape.dimensions().begin(), shape.dimensions().end());
  view.sizes.assign(physical->bounds().begin(), physical->bounds().end());
  if (view.sizes == view.dims) return std::nullopt;
  std::vector<int64_t> strides(view.sizes.size(), 1);
  for (size_t i = view.sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * view.sizes[i];
  std::vector<bool> taken(view.sizes.size(), false);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    view.digits.emplace_back();
    int64_t above = 0;  // what the digit before covers
    for (const PhysicalLayout::Digit& digit : physical->digits(d)) {
      if (digit.size == 1) continue;
      size_t place = 0;
      while (place < taken.size() &&
             (taken[place] || strides[place] != digit.stride || view.sizes[place] != digit.size)) {
        ++place;
      }
      if (place == taken.size() || (above != 0 && above != digit.divisor * digit.size)) return std::nullopt;
      taken[place] = true;
      above = digit.divisor;
      view.digits.back().push_back({digit.divisor, digit.size, static_cast<int64_t>(place)});
    }
    if (above > 1 || view.PaddedSize(d) < shape.dimensions(d)) return std::nullopt;
  }
  for (size_t place = 0; place < taken.size(); ++place) {
    if (taken[place]) continue;
    if (view.sizes[place] != 1) return std::nullopt;
    view.idle.push_back(static_cast<int64_t>(place));
  }
  Ints busy;
  for (const auto& digits : view.digits) {
    for (const Digit& d : digits) busy.push_back(d.place);
  }
  if (!view.HasPadding() && std::is_sorted(busy.begin(), busy.end())) return std::nullopt;  // in rows
  return view;
}

Instruction* Untiled(Computation* c, const TileView& view, Instruction* memory) {
  return Cut(c, Reshaped(c, Permuted(c, memory, ByDimension(view)), PaddedDims(view)), view.dims);
}

Instruction* Tiled(Computation* c, const TileView& view, Instruction* array) {
  return TiledPart(c, view, view.dims, array);
}

bool PartFits(const TileView& view, absl::Span<const int64_t> part, bool written) {
  for (size_t d = 0; d < part.size(); ++d) {
    if (IsWhole(view, d, part[d])) {
      if (written && view.HasPadding(static_cast<int64_t>(d))) return false;  // what would be written there?
    } else if (part[d] != 1 && (view.digits[d].size() != 1 || view.digits[d][0].divisor != 1)) {
      return false;
    }
  }
  return true;
}

std::vector<int64_t> PartSizes(const TileView& view, absl::Span<const int64_t> part) {
  std::vector<int64_t> sizes(view.sizes.size(), 1);
  for (size_t d = 0; d < part.size(); ++d) {
    for (const TileView::Digit& digit : view.digits[d])
      sizes[static_cast<size_t>(digit.place)] = IsWhole(view, d, part[d]) ? digit.size : part[d];
  }
  return sizes;
}

std::vector<Instruction*> PartStarts(Computation* c, const TileView& view, absl::Span<const int64_t> part,
                                     absl::Span<Instruction* const> starts) {
  // All of one type, wide enough for the array's sizes and for what tells a start behind the end.
  PrimitiveType type = PrimitiveType::kS32;
  for (const Instruction* s : starts) {
    if (BitWidth(s->shape().element_type()) >= 32) type = s->shape().element_type();
  }
  const Shape scalar = Shape::Scalar(type);
  std::vector<Instruction*> out(view.sizes.size(), nullptr);
  Instruction* zero = ScalarOf(c, type, 0);
  for (size_t d = 0; d < part.size(); ++d) {
    if (IsWhole(view, d, part[d]) || view.digits[d].empty()) continue;
    Instruction* start = starts[d];
    if (start->shape().element_type() != type) start = Make(c, start, Opcode::kConvert, scalar, {start});
    start = Make(c, start, Opcode::kClamp, scalar, {zero, start, ScalarOf(c, type, view.dims[d] - part[d])});
    for (size_t k = 0; k < view.digits[d].size(); ++k) {
      const TileView::Digit& digit = view.digits[d][k];
      Instruction* at = start;
      if (digit.divisor > 1) at = Make(c, at, Opcode::kDivide, scalar, {at, ScalarOf(c, type, digit.divisor)});
      if (k > 0) at = Make(c, at, Opcode::kRemainder, scalar, {at, ScalarOf(c, type, digit.size)});
      out[static_cast<size_t>(digit.place)] = at;
    }
  }
  std::replace(out.begin(), out.end(), static_cast<Instruction*>(nullptr), zero);
  return out;
}

Instruction* UntiledPart(Computation* c, const TileView& view, absl::Span<const int64_t> part, Instruction* memory) {
  std::vector<int64_t> padded(part.begin(), part.end());
  for (size_t d = 0; d < part.size(); ++d) {
    if (IsWhole(view, d, part[d])) padded[d] = view.PaddedSize(static_cast<int64_t>(d));
  }
  return Cut(c, Reshaped(c, Permuted(c, memory, ByDimension(view)), std::move(padded)), part);
}

Instruction* TiledPart(Computation* c, const TileView& view, absl::Span<const int64_t> part, Instruction* array) {
  const Ints places = ByDimension(view);
  const std::vector<int64_t> sizes = PartSizes(view, part);
  std::vector<int64_t> by_dimension;
  Ints permutation(places.size());
  for (size_t k = 0; k < places.size(); ++k) {
    by_dimension.push_back(sizes[static_cast<size_t>(places[k])]);
    permutation[static_cast<size_t>(places[k])] = static_cast<int64_t>(k);
  }
  return Permuted(c, Reshaped(c, array, std::move(by_dimension)), permutation);
}

}  // namespace backplane::tpu
