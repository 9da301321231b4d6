// Blocking copies between host arrays and device arrays whose storage is ordinary host memory, for all layouts. The
// arrays must be ready. Thread-safe.
#ifndef BACKPLANE_SDK_BACKEND_HOST_COPY_H_
#define BACKPLANE_SDK_BACKEND_HOST_COPY_H_

#include "absl/status/status.h"
#include "sdk/backend/backend.h"

namespace backplane {

// Both return InvalidArgument if the shapes differ or if the storage of the device array is too small. CopyHostArray
// writes zeros to the padding of tiles.
absl::Status CopyHostArray(const HostArray& src, const DeviceArray& dst);
absl::Status CopyArrayToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst);

// Returns InvalidArgument, with a message that begins with `what`, if the storage of `array` is too small for its
// shape.
absl::Status CheckStorageFits(const DeviceArray& array, absl::string_view what);

// Returns how many bytes an array occupies in its layout, including the padding of tiles. Returns InvalidArgument if
// the shape is not an array or the layout is not valid for it.
absl::StatusOr<size_t> ComputeStorageBytes(const Shape& shape);

// The same for shapes with valid layouts. Returns 0 for shapes that are not arrays.
size_t StorageBytes(const Shape& shape);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_COPY_H_
