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

// The elements of a list that a host passed, which the plugin has not checked yet. Empty for null, and for more than a
// thousand elements, which no rank or layout has: the memory may not exist then.
absl::Span<const int64_t> ListOfHost(const int64_t* list, size_t count);

// A copy of a layout of the C ABI; empty for null. Lists that ListOfHost does not take are empty.
std::optional<host::BufferLayout> CopyLayout(const PJRT_Buffer_MemoryLayout* layout);

// The C form of a layout, which refers to `layout`.
class CLayout {
 public:
  explicit CLayout(const std::optional<host::BufferLayout>& layout);
  explicit CLayout(std::optional<host::BufferLayout>&&) = delete;  // the layout would be destroyed
  CLayout(const CLayout&) = delete;
  PJRT_Buffer_MemoryLayout* get() { return given_ ? &c_ : nullptr; }

 private:
  bool given_;
  PJRT_Buffer_MemoryLayout c_{};
  std::vector<int64_t> tile_dims_;
  std::vector<size_t> tile_dim_sizes_;
};

// The strides of an array in host memory and the memory that it occupies.
struct HostExtent {
  std::vector<int64_t> byte_strides;
  int64_t below = 0;  // bytes before element zero, where strides are negative
  size_t size = 0;    // bytes from the first to the end of the last element
};
// Computes the extent for `layout` (null: dense, last dimension fastest). Returns INVALID_ARGUMENT if tiles, strides or
// the order do not match the dimensions, or if the array is too large.
absl::StatusOr<HostExtent> ComputeExtent(PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
                                         const host::BufferLayout* layout);
absl::StatusOr<HostExtent> ComputeExtentOfStrides(PJRT_Buffer_Type type, absl::Span<const int64_t> dims,
                                                  absl::Span<const int64_t> byte_strides);

// Copies dense row-major bytes to the positions that `extent` gives. `memory` has extent.size bytes.
void Scatter(absl::string_view dense, size_t element_size, absl::Span<const int64_t> dims, const HostExtent& extent,
             std::byte* memory);

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_ARRAY_BYTES_H_
