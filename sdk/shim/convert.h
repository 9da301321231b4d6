// Conversion between the C ABI's element types, dimensions and layouts and ours.
#ifndef BACKPLANE_SDK_SHIM_CONVERT_H_
#define BACKPLANE_SDK_SHIM_CONVERT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/pjrt_c_api.h"
#include "core/types/shape.h"

namespace backplane::shim {

PJRT_Buffer_Type ToBufferType(PrimitiveType type);  // INVALID for tuple, opaque, invalid
absl::StatusOr<PrimitiveType> FromBufferType(PJRT_Buffer_Type type);

// Reads and validates the shape of an array or token, without layout.
absl::StatusOr<Shape> ReadShape(PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims);

// Converts a dense layout to an order of dimensions (and tiles). A strided layout must be dense in some order.
absl::StatusOr<Layout> ReadLayout(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape);

// The C form of a layout. Contains pointers to itself and must not be moved.
class LayoutView {
 public:
  explicit LayoutView(const Layout& layout);
  LayoutView(const LayoutView&) = delete;
  LayoutView& operator=(const LayoutView&) = delete;
  const PJRT_Buffer_MemoryLayout& view() const { return view_; }

 private:
  std::vector<int64_t> minor_to_major_, tile_dims_;
  std::vector<size_t> tile_dim_sizes_;
  PJRT_Buffer_MemoryLayout view_{};
};

}  // namespace backplane::shim

#endif  // BACKPLANE_SDK_SHIM_CONVERT_H_
