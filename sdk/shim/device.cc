#include "absl/strings/str_cat.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

struct PJRT_AsyncTrackingEvent {
  std::string description;
};

namespace backplane::shim {

absl::Status DeviceDescription_Id(PJRT_DeviceDescription_Id_Args& a) {
  BP_REQUIRE(a.device_description);
  a.id = a.device_description->info->id;
  return absl::OkStatus();
}

absl::Status DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args& a) {
  BP_REQUIRE(a.device_description);
  a.process_index = a.device_description->info->process_index;
  return absl::OkStatus();
}

absl::Status DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args& a) {
  BP_REQUIRE(a.device_description);
  a.attributes = a.device_description->attributes.data();
  a.num_attributes = a.device_description->attributes.size();
  return absl::OkStatus();
}

absl::Status DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args& a) {
  BP_REQUIRE(a.device_description);
  const std::string& kind = a.device_description->info->kind;
  a.device_kind = kind.c_str();
  a.device_kind_size = kind.size();
  return absl::OkStatus();
}

absl::Status DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args& a) {
  BP_REQUIRE(a.device_description);
  const std::string& text = a.device_description->info->debug_string;
  a.debug_string = text.c_str();
  a.debug_string_size = text.size();
  return absl::OkStatus();
}

absl::Status DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args& a) {
  BP_REQUIRE(a.device_description);
  const std::string& text = a.device_description->info->to_string;
  a.to_string = text.c_str();
  a.to_string_size = text.size();
  return absl::OkStatus();
}

absl::Status Device_GetDescription(PJRT_Device_GetDescription_Args& a) {
  BP_REQUIRE(a.device);
  a.device_description = a.device->description;
  return absl::OkStatus();
}

absl::Status Device_IsAddressable(PJRT_Device_IsAddressable_Args& a) {
  BP_REQUIRE(a.device);
  a.is_addressable = a.device->addressable;
  return absl::OkStatus();
}

absl::Status Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args& a) {
  BP_REQUIRE(a.device);
  a.local_hardware_id = a.device->addressable ? a.device->info().local_hardware_id : -1;
  return absl::OkStatus();
}

absl::Status Device_AddressableMemories(PJRT_Device_AddressableMemories_Args& a) {
  BP_REQUIRE(a.device);
  a.memories = a.device->memories.data();
  a.num_memories = a.device->memories.size();
  return absl::OkStatus();
}

absl::Status Device_DefaultMemory(PJRT_Device_DefaultMemory_Args& a) {
  BP_REQUIRE(a.device);
  if (a.device->memories.empty()) {
    return absl::NotFoundError(absl::StrCat(a.device->info().to_string, ": has no memory this client can address"));
  }
  a.memory = a.device->memories.front();
  return absl::OkStatus();
}

absl::Status Device_MemoryStats(PJRT_Device_MemoryStats_Args& a) {
  BP_REQUIRE(a.device);
  ASSIGN_OR_RETURN(MemoryStats stats, a.device->client->client->GetMemoryStats(a.device->info().id));
  auto put = [](const std::optional<int64_t>& value, int64_t& out, bool& is_set) {
    is_set = value.has_value();
    out = value.value_or(0);
  };
  a.bytes_in_use = stats.bytes_in_use;
  put(stats.peak_bytes_in_use, a.peak_bytes_in_use, a.peak_bytes_in_use_is_set);
  put(stats.num_allocs, a.num_allocs, a.num_allocs_is_set);
  put(stats.largest_alloc_size, a.largest_alloc_size, a.largest_alloc_size_is_set);
  put(stats.bytes_limit, a.bytes_limit, a.bytes_limit_is_set);
  put(stats.bytes_reserved, a.bytes_reserved, a.bytes_reserved_is_set);
  put(stats.peak_bytes_reserved, a.peak_bytes_reserved, a.peak_bytes_reserved_is_set);
  // The share of one device, because all devices use the same host memory.
  std::optional<int64_t> reservable = stats.bytes_limit;
  if (reservable && !a.device->memories.empty() && ToMemory(a.device->memories.front())->host)
    *reservable /= static_cast<int64_t>(a.device->client->addressable_devices.size());
  put(reservable, a.bytes_reservable_limit, a.bytes_reservable_limit_is_set);
  put(stats.largest_free_block_bytes, a.largest_free_block_bytes, a.largest_free_block_bytes_is_set);
  put(stats.pool_bytes, a.pool_bytes, a.pool_bytes_is_set);
  put(std::nullopt, a.peak_pool_bytes, a.peak_pool_bytes_is_set);
  put(std::nullopt, a.peak_allocated_bytes, a.peak_allocated_bytes_is_set);
  return absl::OkStatus();
}

absl::Status Device_ClearMemoryStats(PJRT_Device_ClearMemoryStats_Args& a) {
  BP_REQUIRE(a.device);
  return a.device->client->client->ClearMemoryStats(a.device->info().id);
}

absl::Status Device_GetAttributes(PJRT_Device_GetAttributes_Args& a) {
  BP_REQUIRE(a.device);
  auto* list = new NamedValueList(a.device->info().attributes);
  a.attributes = list->data();
  a.num_attributes = list->size();
  a.device_attributes = reinterpret_cast<PJRT_Device_Attributes*>(list);
  a.attributes_deleter = [](PJRT_Device_Attributes* attributes) {
    delete reinterpret_cast<NamedValueList*>(attributes);
  };
  return absl::OkStatus();
}

absl::Status Device_CreateAsyncTrackingEvent(PJRT_Device_CreateAsyncTrackingEvent_Args& a) {
  BP_REQUIRE(a.device);
  if (a.description_size > 0) BP_REQUIRE(a.description);
  a.event = new PJRT_AsyncTrackingEvent{std::string(a.description == nullptr ? "" : a.description, a.description_size)};
  return absl::OkStatus();
}

absl::Status AsyncTrackingEvent_Destroy(PJRT_AsyncTrackingEvent_Destroy_Args& a) {
  delete a.event;
  return absl::OkStatus();
}

}  // namespace backplane::shim
