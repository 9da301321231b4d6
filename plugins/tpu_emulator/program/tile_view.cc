#include "plugins/tpu_emulator/program/tile_view.h"

#include <algorithm>
#include <utility>

#include "core/passes/rewrite.h"
#include "core/types/literal.h"
#include "core/types/physical_layout.h"
#include "plugins/tpu_emulator/program/make_transpose.h"

namespace backplane::tpu {
namespace {

Instruction* MakeReshape(Computation* c, Instruction* x, std::vector<int64_t> dims) {
  const Shape shape(x->shape().element_type(), dims);
  return x->shape().dimensions() == shape.dimensions() ? x : Make(c, x, Opcode::kReshape, shape, {x});
}

Instruction* SliceFromOrigin(Computation* c, Instruction* x, absl::Span<const int64_t> dims) {
  if (std::equal(dims.begin(), dims.end(), x->shape().dimensions().begin(), x->shape().dimensions().end())) return x;
  SliceConfig slices;
  for (int64_t size : dims) slices.push_back({0, size, 1});
  Attributes attrs;
  attrs.Set(AttrId::kSlices, std::move(slices));
  return Make(c, x, Opcode::kSlice, Shape(x->shape().element_type(), dims), {x}, std::move(attrs));
}

// Returns the memory dimensions in the order of the array's dimensions, digits from major to minor, unit ones last.
Ints ListMemoryDims(const TileView& view) {
  Ints memory_dims;
  for (const auto& digits : view.digits) {
    for (const TileView::Digit& d : digits) memory_dims.push_back(d.memory_dim);
  }
  memory_dims.insert(memory_dims.end(), view.unit_dims.begin(), view.unit_dims.end());
  return memory_dims;
}

std::vector<int64_t> PaddedDims(const TileView& view) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < view.dims.size(); ++d) dims.push_back(view.PaddedSize(static_cast<int64_t>(d)));
  return dims;
}

// Whether the slice takes all of dimension d.
bool IsFullDimension(const TileView& view, size_t d, int64_t slice) { return slice == view.dims[d]; }

Instruction* MakeScalar(Computation* c, PrimitiveType type, int64_t value) {
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

bool TileView::KeepsRowsContiguous() const {
  if (HasPadding()) return false;
  size_t last = sizes.size();
  while (last > 0 && sizes[last - 1] == 1) --last;
  for (size_t d = digits.size(); d-- > 0;) {
    if (digits[d].empty()) continue;
    return digits[d].back().divisor == 1 && digits[d].back().memory_dim + 1 == static_cast<int64_t>(last);
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
  std::vector<bool> used(view.sizes.size(), false);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    view.digits.emplace_back();
    int64_t previous_divisor = 0;  // the divisor of the digit before
    for (const PhysicalLayout::Digit& digit : physical->digits(d)) {
      if (digit.size == 1) continue;
      size_t memory_dim = 0;
      while (memory_dim < used.size() &&
             (used[memory_dim] || strides[memory_dim] != digit.stride || view.sizes[memory_dim] != digit.size)) {
        ++memory_dim;
      }
      if (memory_dim == used.size() || (previous_divisor != 0 && previous_divisor != digit.divisor * digit.size))
        return std::nullopt;
      used[memory_dim] = true;
      previous_divisor = digit.divisor;
      view.digits.back().push_back({digit.divisor, digit.size, static_cast<int64_t>(memory_dim)});
    }
    if (previous_divisor > 1 || view.PaddedSize(d) < shape.dimensions(d)) return std::nullopt;
  }
  for (size_t memory_dim = 0; memory_dim < used.size(); ++memory_dim) {
    if (used[memory_dim]) continue;
    if (view.sizes[memory_dim] != 1) return std::nullopt;
    view.unit_dims.push_back(static_cast<int64_t>(memory_dim));
  }
  Ints order;
  for (const auto& digits : view.digits) {
    for (const Digit& d : digits) order.push_back(d.memory_dim);
  }
  if (!view.HasPadding() && std::is_sorted(order.begin(), order.end())) return std::nullopt;  // row-major
  return view;
}

Instruction* ReadFromTiles(Computation* c, const TileView& view, Instruction* memory) {
  return SliceFromOrigin(c, MakeReshape(c, MakeTranspose(c, memory, ListMemoryDims(view)), PaddedDims(view)),
                         view.dims);
}

Instruction* WriteToTiles(Computation* c, const TileView& view, Instruction* array) {
  return WriteSliceToTiles(c, view, view.dims, array);
}

bool CanSlice(const TileView& view, absl::Span<const int64_t> slice, bool written) {
  for (size_t d = 0; d < slice.size(); ++d) {
    if (IsFullDimension(view, d, slice[d])) {
      if (written && view.HasPadding(static_cast<int64_t>(d))) return false;  // what would be written there?
    } else if (slice[d] != 1 && (view.digits[d].size() != 1 || view.digits[d][0].divisor != 1)) {
      return false;
    }
  }
  return true;
}

std::vector<int64_t> ComputeMemorySliceSizes(const TileView& view, absl::Span<const int64_t> slice) {
  std::vector<int64_t> sizes(view.sizes.size(), 1);
  for (size_t d = 0; d < slice.size(); ++d) {
    for (const TileView::Digit& digit : view.digits[d])
      sizes[static_cast<size_t>(digit.memory_dim)] = IsFullDimension(view, d, slice[d]) ? digit.size : slice[d];
  }
  return sizes;
}

std::vector<Instruction*> MakeMemorySliceStarts(Computation* c, const TileView& view, absl::Span<const int64_t> slice,
                                                absl::Span<Instruction* const> starts) {
  // Use one type for all, wide enough for the array's sizes and for out-of-range starts.
  PrimitiveType type = PrimitiveType::kS32;
  for (const Instruction* s : starts) {
    if (BitWidth(s->shape().element_type()) >= 32) type = s->shape().element_type();
  }
  const Shape scalar = Shape::Scalar(type);
  std::vector<Instruction*> out(view.sizes.size(), nullptr);
  Instruction* zero = MakeScalar(c, type, 0);
  for (size_t d = 0; d < slice.size(); ++d) {
    if (IsFullDimension(view, d, slice[d]) || view.digits[d].empty()) continue;
    Instruction* start = starts[d];
    if (start->shape().element_type() != type) start = Make(c, start, Opcode::kConvert, scalar, {start});
    start = Make(c, start, Opcode::kClamp, scalar, {zero, start, MakeScalar(c, type, view.dims[d] - slice[d])});
    for (size_t k = 0; k < view.digits[d].size(); ++k) {
      const TileView::Digit& digit = view.digits[d][k];
      Instruction* at = start;
      if (digit.divisor > 1) at = Make(c, at, Opcode::kDivide, scalar, {at, MakeScalar(c, type, digit.divisor)});
      if (k > 0) at = Make(c, at, Opcode::kRemainder, scalar, {at, MakeScalar(c, type, digit.size)});
      out[static_cast<size_t>(digit.memory_dim)] = at;
    }
  }
  std::replace(out.begin(), out.end(), static_cast<Instruction*>(nullptr), zero);
  return out;
}

Instruction* ReadSliceFromTiles(Computation* c, const TileView& view, absl::Span<const int64_t> slice,
                                Instruction* memory) {
  std::vector<int64_t> padded(slice.begin(), slice.end());
  for (size_t d = 0; d < slice.size(); ++d) {
    if (IsFullDimension(view, d, slice[d])) padded[d] = view.PaddedSize(static_cast<int64_t>(d));
  }
  return SliceFromOrigin(c, MakeReshape(c, MakeTranspose(c, memory, ListMemoryDims(view)), std::move(padded)), slice);
}

Instruction* WriteSliceToTiles(Computation* c, const TileView& view, absl::Span<const int64_t> slice,
                               Instruction* array) {
  const Ints memory_dims = ListMemoryDims(view);
  const std::vector<int64_t> sizes = ComputeMemorySliceSizes(view, slice);
  std::vector<int64_t> by_dimension;
  Ints permutation(memory_dims.size());
  for (size_t k = 0; k < memory_dims.size(); ++k) {
    by_dimension.push_back(sizes[static_cast<size_t>(memory_dims[k])]);
    permutation[static_cast<size_t>(memory_dims[k])] = static_cast<int64_t>(k);
  }
  return MakeTranspose(c, MakeReshape(c, array, std::move(by_dimension)), permutation);
}

}  // namespace backplane::tpu
