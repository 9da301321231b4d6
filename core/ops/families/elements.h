// Tools for the families' evaluation: results, strided copies, odometers.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_ELEMENTS_H_
#define BACKPLANE_CORE_OPS_FAMILIES_ELEMENTS_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/ops/elementwise.h"
#include "core/ops/families/checks.h"
#include "core/ops/scalar_program.h"

namespace backplane {

using Args = absl::Span<const Literal* const>;

// The shape of the result: as declared, else inferred.
absl::StatusOr<Shape> ResultShape(const OpContext& op);
// Zeros of a shape; ResourceExhausted when the machine could never hold them.
absl::StatusOr<Literal> NewLiteral(const OpContext& op, const Shape& shape);
// The kernel of a binary reducer on a type; nullopt when there is none.
std::optional<ElementwiseKernel> BinaryKernel(Opcode opcode, PrimitiveType type);

// Copies dims[0] x dims[1] x ... elements of `width` bytes. Strides and offsets are in elements and may be negative or
// 0.
struct StridedSide {
  int64_t offset = 0;
  DimVector strides;
};
void StridedCopy(int width, absl::Span<const int64_t> dims, const std::byte* from, const StridedSide& source,
                 std::byte* to, const StridedSide& target);

// Copies x with its dims in the given order and its elements converted, as one dense array.
std::vector<std::byte> PackAs(const Literal& x, absl::Span<const int64_t> order, PrimitiveType to);

// Element i in memory, as an array without dimensions.
Literal ScalarAt(const Literal& x, int64_t i);

// Writes one element n times.
void FillElements(int width, const std::byte* element, std::byte* to, int64_t n);

// Counts through `dims` in row-major order. Keeps up to kSides linear offsets.
template <int kSides>
class Odometer {
 public:
  Odometer(absl::Span<const int64_t> dims, const std::array<absl::Span<const int64_t>, kSides>& strides)
      : dims_(dims.begin(), dims.end()), index_(dims.size(), 0) {
    for (int s = 0; s < kSides; ++s) strides_[s].assign(strides[s].begin(), strides[s].end());
    for (int64_t d : dims_) empty_ = empty_ || d == 0;
  }
  bool empty() const { return empty_; }
  int64_t offset(int side = 0) const { return offset_[side]; }
  absl::Span<const int64_t> index() const { return index_; }
  bool Next() {  // false: that was the last
    for (int64_t d = static_cast<int64_t>(dims_.size()) - 1; d >= 0; --d) {
      for (int s = 0; s < kSides; ++s) offset_[s] += strides_[s][d];
      if (++index_[d] < dims_[d]) return true;
      for (int s = 0; s < kSides; ++s) offset_[s] -= strides_[s][d] * dims_[d];
      index_[d] = 0;
    }
    return false;
  }

 private:
  DimVector dims_, index_;
  std::array<DimVector, kSides> strides_;
  std::array<int64_t, kSides> offset_{};
  bool empty_ = false;
};

// The outputs along one dimension for which window element `w` reads an input, not padding or a hole: o = first +
// k * step, input = in_first + k * in_step, k < count.
struct WindowLine {
  int64_t first = 0, step = 1, count = 0, in_first = 0, in_step = 1;
};

WindowLine MakeWindowLine(const WindowDimension& d, int64_t input, int64_t output, int64_t w);

// The results of a reducer: the literal itself, or the elements of a tuple.
inline Literal PackResults(std::vector<Literal> results, bool tuple) {
  return tuple ? Literal::Tuple(std::move(results)) : std::move(results[0]);
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_ELEMENTS_H_
