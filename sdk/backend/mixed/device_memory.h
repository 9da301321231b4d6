// The memory of an accelerator, as its author hands it to a mixed backend (mixed_backend.h).
//
// Three calls bring a device up: give room, copy in, copy out. What a program's kernels read and write lies there;
// what the evaluator reads is copied out first, and what it makes is copied in when a kernel or the caller wants it.
// Arrays are dense and row-major inside kernels and copies; other layouts that a host asks for are kept by the base.
//
// Addresses are whatever the device calls one: the base adds offsets to them and never looks at what lies there.
// Thread-safety: everything from any thread, concurrently. Copies return when they are done.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_DEVICE_MEMORY_H_
#define BACKPLANE_SDK_BACKEND_MIXED_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace backplane::mixed {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Room for `bytes` (never 0), aligned for every element type. ResourceExhausted where there is none.
  virtual absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) = 0;
  virtual void Free(int32_t device, void* address, size_t bytes) = 0;

  virtual absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) = 0;
  virtual absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) = 0;
  // Between two places of one device. The default goes through the host.
  virtual absl::Status CopyWithin(int32_t device, const void* from, void* to, size_t bytes);

  // What one device holds in all, for the host's statistics.
  virtual std::optional<int64_t> Capacity(int32_t device) const { return std::nullopt; }
};

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_DEVICE_MEMORY_H_
