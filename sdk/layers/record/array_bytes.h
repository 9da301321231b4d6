// Arrays in host memory as calls of the C ABI describe them: layouts, strides, sizes.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_ARRAY_BYTES_H_
#define BACKPLANE_SDK_LAYERS_RECORD_ARRAY_BYTES_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "api/pjrt_c_api.h"
#include "sdk/host/buffer.h"
#include "sdk/layers/record/session_file.h"

namespace backplane::record {

// A copy of a layout of the C ABI; nothing for null.
std::optional<host::BufferLayout> CopyLayout(const PJRT_Buffer_MemoryLayout* layout);

// The C form, which borrows from `layout`.
class CLayout {
 public:
  explicit CLayout(const std::optional<host::BufferLayout>& layout);
  explicit CLayout(std::optional<host::BufferLayout>&&) = delete;  // it would be gone
  CLayout(const CLayout&) = delete;
  PJRT_Buffer_MemoryLayout* get() { return given_ ? &c_ : nullptr; }

 private:
  bool given_;
  PJRT_Buffer_MemoryLayout c_{};
  std::vector<int64_t> tile_dims_;
  std::vector<size_t> tile_dim_sizes_;
};

// How far apart the elements of an array lie in host memory, and what they span.
struct HostExtent {
  std::vector<int64_t> byte_strides;
  int64_t below = 0;  // bytes before element zero, where strides are negative
  size_t size = 0;    // bytes from the first to the end of the last element
};
// For `layout` (null: dense, last dimension fastest). INVALID_ARGUMENT for tiles, strides or an order that do not fit
// the dims, and what does not fit memory.
absl::StatusOr<HostExtent> ExtentOf(PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
                                    const host::BufferLayout* layout);
absl::StatusOr<HostExtent> ExtentOfStrides(PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
                                           absl::Span<const int64_t> byte_strides);

// Puts dense row-major bytes where the extent says. `memory` is extent.size bytes.
void Scatter(absl::string_view dense, size_t element_size, absl::Span<const int64_t> dims, const HostExtent& extent,
             std::byte* memory);

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_ARRAY_BYTES_H_
