// The memory of an accelerator, as the author of a backend hands it to MemorySpaces (memory_spaces.h) or to a mixed
// backend (mixed/mixed_backend.h).
//
// Four functions are enough: allocate, free, copy in, copy out. Addresses are whatever the device calls one: callers
// add offsets to them and never follow them. In a mixed backend arrays are dense and row-major inside kernels and
// copies.
//
// Thread-safety: everything is called from any thread, concurrently. Copies return when they are done.
#ifndef BACKPLANE_SDK_BACKEND_DEVICE_MEMORY_H_
#define BACKPLANE_SDK_BACKEND_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace backplane {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // `bytes` is never 0. The address is aligned for every element type. ResourceExhausted where there is no room.
  virtual absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) = 0;
  virtual void Free(int32_t device, void* address, size_t bytes) = 0;

  virtual absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) = 0;
  virtual absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) = 0;
  // Between two addresses of one device. The default goes through the host.
  virtual absl::Status CopyWithin(int32_t device, const void* from, void* to, size_t bytes);

  // The bytes of one device in all, for the host's statistics.
  virtual std::optional<int64_t> Capacity(int32_t device) const { return std::nullopt; }
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_DEVICE_MEMORY_H_
