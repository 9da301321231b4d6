#include "sdk/backend/device_memory.h"

#include <memory>

#include "core/types/status_macros.h"

namespace backplane {

absl::Status DeviceMemory::CopyWithin(int32_t device, const void* from, void* to, size_t bytes) {
  std::unique_ptr<std::byte[]> host(new std::byte[bytes]);
  RETURN_IF_ERROR(CopyOut(device, from, host.get(), bytes));
  return CopyIn(device, host.get(), to, bytes);
}

}  // namespace backplane
