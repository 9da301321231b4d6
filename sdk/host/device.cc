#include "sdk/host/device.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/host/handle.h"
#include "sdk/host/status.h"

namespace backplane::host {

// Defines a getter: calls `fn` with the object in `in` and returns the expression `out`.
#define BP_ASK(fn, in, out)                          \
  BP_PJRT_ARGS(*plugin_, a, fn);                     \
  a.in = raw_;                                       \
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, fn, a)); \
  return out

namespace {
template <typename View, typename Raw>
std::vector<View> Views(const Plugin& plugin, Raw* const* list, size_t count) {
  std::vector<View> views;
  for (size_t i = 0; list != nullptr && i < count; ++i) views.emplace_back(plugin, list[i]);
  return views;
}
}  // namespace

absl::StatusOr<int> DeviceDescription::Id() const { BP_ASK(PJRT_DeviceDescription_Id, device_description, a.id); }
absl::StatusOr<int> DeviceDescription::ProcessIndex() const {
  BP_ASK(PJRT_DeviceDescription_ProcessIndex, device_description, a.process_index);
}
absl::StatusOr<std::string> DeviceDescription::Kind() const {
  BP_ASK(PJRT_DeviceDescription_Kind, device_description, internal::CopyString(a.device_kind, a.device_kind_size));
}
absl::StatusOr<std::string> DeviceDescription::DebugString() const {
  BP_ASK(PJRT_DeviceDescription_DebugString, device_description,
         internal::CopyString(a.debug_string, a.debug_string_size));
}
absl::StatusOr<std::string> DeviceDescription::ToString() const {
  BP_ASK(PJRT_DeviceDescription_ToString, device_description, internal::CopyString(a.to_string, a.to_string_size));
}
absl::StatusOr<std::vector<NamedValue>> DeviceDescription::Attributes() const {
  BP_ASK(PJRT_DeviceDescription_Attributes, device_description, CopyNamedValues(a.attributes, a.num_attributes));
}

absl::StatusOr<DeviceDescription> Device::Description() const {
  BP_ASK(PJRT_Device_GetDescription, device, DeviceDescription(*plugin_, a.device_description));
}
absl::StatusOr<int> Device::Id() const {
  BP_ASSIGN_OR_RETURN(DeviceDescription description, Description());
  return description.Id();
}
absl::StatusOr<bool> Device::IsAddressable() const { BP_ASK(PJRT_Device_IsAddressable, device, a.is_addressable); }
absl::StatusOr<int> Device::LocalHardwareId() const {
  BP_ASK(PJRT_Device_LocalHardwareId, device, a.local_hardware_id);
}
absl::StatusOr<std::vector<Memory>> Device::AddressableMemories() const {
  BP_ASK(PJRT_Device_AddressableMemories, device, (Views<Memory>(*plugin_, a.memories, a.num_memories)));
}
absl::StatusOr<Memory> Device::DefaultMemory() const {
  BP_ASK(PJRT_Device_DefaultMemory, device, Memory(*plugin_, a.memory));
}

absl::StatusOr<Memory> Device::MemoryOfKind(absl::string_view kind) const {
  BP_ASSIGN_OR_RETURN(std::vector<Memory> memories, AddressableMemories());
  std::vector<std::string> kinds;
  for (const Memory& memory : memories) {
    BP_ASSIGN_OR_RETURN(std::string k, memory.Kind());
    if (k == kind) return memory;
    kinds.push_back(std::move(k));
  }
  return absl::NotFoundError(absl::StrCat("memory kind '", kind, "': the device has ", absl::StrJoin(kinds, ", ")));
}

absl::StatusOr<MemoryStats> Device::Stats() const {
  BP_PJRT_ARGS(*plugin_, a, PJRT_Device_MemoryStats);
  a.device = raw_;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, PJRT_Device_MemoryStats, a));
  MemoryStats s;
  s.bytes_in_use = a.bytes_in_use;
#define BP_STAT(name) \
  if (a.name##_is_set) s.name = a.name
  BP_STAT(peak_bytes_in_use);
  BP_STAT(num_allocs);
  BP_STAT(largest_alloc_size);
  BP_STAT(bytes_limit);
  BP_STAT(bytes_reserved);
  BP_STAT(peak_bytes_reserved);
  BP_STAT(bytes_reservable_limit);
  BP_STAT(largest_free_block_bytes);
  BP_STAT(pool_bytes);
  BP_STAT(peak_pool_bytes);
  BP_STAT(peak_allocated_bytes);
#undef BP_STAT
  return s;
}

absl::Status Device::ClearStats() const { BP_ASK(PJRT_Device_ClearMemoryStats, device, absl::OkStatus()); }

absl::StatusOr<std::vector<NamedValue>> Device::Attributes() const {
  BP_PJRT_ARGS(*plugin_, a, PJRT_Device_GetAttributes);
  a.device = raw_;
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, PJRT_Device_GetAttributes, a));
  absl::StatusOr<std::vector<NamedValue>> copies = CopyNamedValues(a.attributes, a.num_attributes);
  if (a.attributes_deleter != nullptr) a.attributes_deleter(a.device_attributes);
  return copies;
}

absl::StatusOr<bool> Device::PoisonExecution(int32_t launch_id, const absl::Status& error) const {
  BP_PJRT_ARGS(*plugin_, a, PJRT_Device_PoisonExecution);
  a.device = raw_;
  a.launch_id = launch_id;
  a.error_code = static_cast<PJRT_Error_Code>(error.code());
  a.error_message = error.message().data();
  a.error_message_size = error.message().size();
  BP_RETURN_IF_ERROR(BP_PJRT_CALL(*plugin_, PJRT_Device_PoisonExecution, a));
  return a.poisoned;
}

absl::StatusOr<int> Memory::Id() const { BP_ASK(PJRT_Memory_Id, memory, a.id); }
absl::StatusOr<std::string> Memory::Kind() const {
  BP_ASK(PJRT_Memory_Kind, memory, internal::CopyString(a.kind, a.kind_size));
}
absl::StatusOr<int> Memory::KindId() const { BP_ASK(PJRT_Memory_Kind_Id, memory, a.kind_id); }
absl::StatusOr<std::string> Memory::DebugString() const {
  BP_ASK(PJRT_Memory_DebugString, memory, internal::CopyString(a.debug_string, a.debug_string_size));
}
absl::StatusOr<std::string> Memory::ToString() const {
  BP_ASK(PJRT_Memory_ToString, memory, internal::CopyString(a.to_string, a.to_string_size));
}
absl::StatusOr<std::vector<Device>> Memory::AddressableByDevices() const {
  BP_ASK(PJRT_Memory_AddressableByDevices, memory, (Views<Device>(*plugin_, a.devices, a.num_devices)));
}

#undef BP_ASK

}  // namespace backplane::host
