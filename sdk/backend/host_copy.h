// Blocking copies between the host's arrays and device arrays whose storage is ordinary host memory, whatever their
// layouts. The arrays are ready. Thread-safe.
#ifndef BACKPLANE_SDK_BACKEND_HOST_COPY_H_
#define BACKPLANE_SDK_BACKEND_HOST_COPY_H_

#include "absl/status/status.h"
#include "sdk/backend/backend.h"

namespace backplane {

// Both return InvalidArgument where the shapes differ or the device array's storage is too small.
// Tiled layouts: writes zeros into the padding.
absl::Status CopyHostArray(const HostArray& src, const DeviceArray& dst);
absl::Status CopyArrayToHost(const DeviceArray& src, const Shape& host_shape_with_layout, void* dst);

// Returns InvalidArgument, beginning with `what`, where the storage of `array` is smaller than its shape needs.
absl::Status CheckStorageFits(const DeviceArray& array, absl::string_view what);

// Returns the bytes that an array takes in its layout, with the padding of tiles. InvalidArgument for a shape that is
// no array or does not fit its layout.
absl::StatusOr<size_t> ComputeStorageBytes(const Shape& shape);

// The same for shapes that are known to fit their layouts; 0 for what is no array.
size_t StorageBytes(const Shape& shape);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_HOST_COPY_H_
