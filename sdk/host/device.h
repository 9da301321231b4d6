// Devices, their descriptions and memories. All are views of objects that belong to the client (or topology) and are
// valid as long as it lives. Copies are cheap. Thread-safe.
#ifndef BACKPLANE_SDK_HOST_DEVICE_H_
#define BACKPLANE_SDK_HOST_DEVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sdk/host/loader.h"

namespace backplane::host {

class Memory;

// The description of a device, which may be a device of another process or of a topology.
class DeviceDescription {
 public:
  DeviceDescription(const Plugin& plugin, PJRT_DeviceDescription* raw) : plugin_(&plugin), raw_(raw) {}
  absl::StatusOr<int> Id() const;            // unique on the platform, in all processes
  absl::StatusOr<int> ProcessIndex() const;  // the process that can use it
  absl::StatusOr<std::string> Kind() const;  // the model
  absl::StatusOr<std::string> DebugString() const;
  absl::StatusOr<std::string> ToString() const;
  absl::StatusOr<std::vector<NamedValue>> Attributes() const;
  PJRT_DeviceDescription* raw() const { return raw_; }

 private:
  const Plugin* plugin_;
  PJRT_DeviceDescription* raw_;
};

// Statistics of a device's allocator, in bytes except `num_allocs`. Values that the platform does not report are empty.
struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved,
      peak_bytes_reserved, bytes_reservable_limit, largest_free_block_bytes, pool_bytes, peak_pool_bytes,
      peak_allocated_bytes;
};

class Device {
 public:
  Device() = default;  // no device
  Device(const Plugin& plugin, PJRT_Device* raw) : plugin_(&plugin), raw_(raw) {}
  absl::StatusOr<DeviceDescription> Description() const;
  absl::StatusOr<int> Id() const;  // of its description
  absl::StatusOr<bool> IsAddressable() const;
  absl::StatusOr<int> LocalHardwareId() const;  // -1: it has none
  absl::StatusOr<std::vector<Memory>> AddressableMemories() const;
  absl::StatusOr<Memory> DefaultMemory() const;
  // Returns the memory of this kind. Returns NOT_FOUND, with the available kinds, if there is none.
  absl::StatusOr<Memory> MemoryOfKind(absl::string_view kind) const;
  absl::StatusOr<MemoryStats> Stats() const;
  absl::Status ClearStats() const;
  absl::StatusOr<std::vector<NamedValue>> Attributes() const;
  // Makes the outputs of the oldest unfinished execution of this launch fail. Returns false if there is none.
  absl::StatusOr<bool> PoisonExecution(int32_t launch_id, const absl::Status& error) const;

  explicit operator bool() const { return raw_ != nullptr; }
  friend bool operator==(const Device& a, const Device& b) { return a.raw_ == b.raw_; }
  PJRT_Device* raw() const { return raw_; }
  const Plugin& plugin() const { return *plugin_; }

 private:
  const Plugin* plugin_ = nullptr;
  PJRT_Device* raw_ = nullptr;
};

class Memory {
 public:
  Memory() = default;  // no memory
  Memory(const Plugin& plugin, PJRT_Memory* raw) : plugin_(&plugin), raw_(raw) {}
  absl::StatusOr<int> Id() const;
  absl::StatusOr<std::string> Kind() const;  // "device", "pinned_host", "unpinned_host", or a kind of the platform
  absl::StatusOr<int> KindId() const;
  absl::StatusOr<std::string> DebugString() const;
  absl::StatusOr<std::string> ToString() const;
  absl::StatusOr<std::vector<Device>> AddressableByDevices() const;

  explicit operator bool() const { return raw_ != nullptr; }
  friend bool operator==(const Memory& a, const Memory& b) { return a.raw_ == b.raw_; }
  PJRT_Memory* raw() const { return raw_; }

 private:
  const Plugin* plugin_ = nullptr;
  PJRT_Memory* raw_ = nullptr;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_DEVICE_H_
