// Copies arrays with arbitrary strides within host memory. Dense runs are copied in blocks and transposes in tiles.
//
// Strides are in bytes, one per dimension. Source strides may be 0 or negative. Elements of the destination must not
// overlap. Thread-safe.
#ifndef BACKPLANE_SDK_BACKEND_STRIDED_COPY_H_
#define BACKPLANE_SDK_BACKEND_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/types/shape.h"

namespace backplane {

// Copies one array. `width` is the size of an element in bytes. An array without elements copies nothing.
void StridedCopy(absl::Span<const int64_t> dims, size_t width, const void* src, absl::Span<const int64_t> src_strides,
                 void* dst, absl::Span<const int64_t> dst_strides);

// Returns the byte strides of a dense array. A shape without layout is row-major. Returns Unimplemented for tiled
// layouts.
absl::StatusOr<DimVector> DenseByteStrides(const Shape& shape);

// Whether the strides are those of a dense row-major array. Dimensions of size 1 may have any stride.
bool IsDenseRowMajor(absl::Span<const int64_t> dims, size_t width, absl::Span<const int64_t> byte_strides);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_STRIDED_COPY_H_
