// Tools that the evaluation functions of the families share: results, strided copies, iteration over indices.
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

// Returns the declared result shape, or the inferred one if none is declared.
absl::StatusOr<Shape> InferResultShape(const OpContext& op);
// Returns a literal of zeros. Returns ResourceExhausted if the shape needs more than the physical memory of the
// machine.
absl::StatusOr<Literal> AllocateLiteral(const OpContext& op, const Shape& shape);
// Whether the operation combines two elements of a type to one of the same type, so that a reduction can apply it.
bool HasBinaryKernel(Opcode opcode);
// Returns the kernel of such an operation for operands and results of one type, or nullopt if there is none.
std::optional<ElementwiseKernel> SelectBinaryKernel(Opcode opcode, PrimitiveType type);

// Copies dims[0] x dims[1] x ... elements of `width` bytes. Strides and offsets are in elements and may be negative or
// 0.
struct StridedSide {
  int64_t offset = 0;
  DimVector strides;
};
void StridedCopy(int width, absl::Span<const int64_t> dims, const std::byte* from, const StridedSide& source,
                 std::byte* to, const StridedSide& target);

// Returns the elements of x, converted to `to`, as a dense array whose dimension i is dimension order[i] of x.
std::vector<std::byte> PackAs(const Literal& x, absl::Span<const int64_t> order, PrimitiveType to);

// Returns element number i, in row-major order, as a scalar literal.
Literal ScalarAt(const Literal& x, int64_t i);

// Writes n copies of one element of `width` bytes.
void FillElements(int width, const std::byte* element, std::byte* to, int64_t n);

// Iterates over the indices of `dims` in row-major order and maintains one linear offset for each of kSides arrays.
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
  bool Next() {  // returns false after the last index
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

// The outputs along one dimension for which window element `w` reads an operand element and not padding or a dilation
// hole. For 0 <= k < count, output first + k * step reads operand element in_first + k * in_step.
struct WindowLine {
  int64_t first = 0, step = 1, count = 0, in_first = 0, in_step = 1;
};

WindowLine MakeWindowLine(const WindowDimension& d, int64_t input, int64_t output, int64_t w);

// Returns the results of a reduction as one value: a tuple, or the only literal.
inline Literal PackResults(std::vector<Literal> results, bool tuple) {
  return tuple ? Literal::Tuple(std::move(results)) : std::move(results[0]);
}

}  // namespace backplane

#endif  // BACKPLANE_CORE_OPS_FAMILIES_ELEMENTS_H_
