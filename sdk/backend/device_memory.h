// The memory of an accelerator, which the author of a backend implements for MemorySpaces (memory_spaces.h) or for a
// mixed backend (mixed/mixed_backend.h).
//
// Four functions suffice: allocate, free, copy in, copy out. In a mixed backend kernels read and write device memory.
// Operands of instructions that the evaluator runs are copied to the host first; their results are copied to the device
// when a kernel or the caller needs them there. Arrays are dense and row-major in kernels and copies; the mixed backend
// converts other layouts that a host asks for.
//
// Addresses may be any pointer-sized values: callers add offsets to them and never dereference them.
// Must be thread-safe. Copies return when they are done.
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

  // Allocates `bytes` (never 0), aligned for every element type. Returns ResourceExhausted if memory has run out.
  virtual absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) = 0;
  virtual void Free(int32_t device, void* address, size_t bytes) = 0;

  virtual absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) = 0;
  virtual absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) = 0;
  // Copies within one device. The default copies through host memory.
  virtual absl::Status CopyWithin(int32_t device, const void* from, void* to, size_t bytes);

  // Returns the memory size of a device in bytes, for the memory statistics.
  virtual std::optional<int64_t> Capacity(int32_t device) const { return std::nullopt; }
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_DEVICE_MEMORY_H_
