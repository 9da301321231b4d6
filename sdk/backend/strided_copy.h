// Copies arrays between two places of host memory with any strides, fast where the strides allow it.
//
// Strides are in bytes, one per dimension; a source stride may be 0 or negative, destination strides must not overlap.
// Thread-safety: pure functions.
#ifndef BACKPLANE_SDK_BACKEND_STRIDED_COPY_H_
#define BACKPLANE_SDK_BACKEND_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/types/shape.h"

namespace backplane {

// `width` is the size of an element in bytes. Arrays with an empty dimension copy nothing.
void StridedCopy(absl::Span<const int64_t> dims, size_t width, const void* src, absl::Span<const int64_t> src_strides,
                 void* dst, absl::Span<const int64_t> dst_strides);

// Byte strides of a dense array whose shape has an untiled layout (or none: row-major). Unimplemented for tiles.
absl::StatusOr<DimVector> DenseByteStrides(const Shape& shape);

// True if the strides describe a dense row-major array of these dims (dimensions of size 1 may have any stride).
bool IsDenseRowMajor(absl::Span<const int64_t> dims, size_t width, absl::Span<const int64_t> byte_strides);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_STRIDED_COPY_H_
