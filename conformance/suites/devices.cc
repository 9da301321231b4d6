// Devices and their properties.
#include <algorithm>
#include <set>

#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

std::vector<PJRT_Device*> All(Kit& k) {
  KIT_ARGS(k, a, PJRT_Client_Devices);
  a.client = k.client();
  KIT_OK(k, PJRT_Client_Devices, a);
  return {a.devices, a.devices + a.num_devices};
}

void Lists(Kit& k) {
  const std::vector<PJRT_Device*> all = All(k);
  k.Require(!all.empty(), "the client has no devices");
  for (PJRT_Device* d : k.devices())
    k.Require(std::count(all.begin(), all.end(), d) == 1, "an addressable device stands not once among all devices");
  k.Require(All(k) == all, "two calls give different lists");
}

void Ids(Kit& k) {
  std::set<int> ids;
  for (PJRT_Device* d : All(k)) {
    const int id = GetId(k, d);
    k.Require(id >= 0, "a device has the id ", id);
    k.Require(ids.insert(id).second, "two devices have the id ", id);
  }
}

void Lookup(Kit& k) {
  for (PJRT_Device* d : All(k)) {
    KIT_ARGS(k, a, PJRT_Client_LookupDevice);
    a.client = k.client();
    a.id = GetId(k, d);
    KIT_OK(k, PJRT_Client_LookupDevice, a);
    k.Require(a.device == d, "looking up id ", a.id, " gives another device");
  }
}

void LookupAbsent(Kit& k) {
  for (int id : {987654, -1}) {
    KIT_ARGS(k, a, PJRT_Client_LookupDevice);
    a.client = k.client();
    a.id = id;
    KIT_FAILS(k, PJRT_Client_LookupDevice, a, absl::StrCat("id ", id), PJRT_Error_Code_INVALID_ARGUMENT,
              PJRT_Error_Code_NOT_FOUND);
  }
}

void LookupAddressable(Kit& k) {
  for (PJRT_Device* d : k.devices()) {
    KIT_ARGS(k, h, PJRT_Device_LocalHardwareId);
    h.device = d;
    KIT_OK(k, PJRT_Device_LocalHardwareId, h);
    k.Require(h.local_hardware_id >= -1, "local hardware id ", h.local_hardware_id);
    if (h.local_hardware_id < 0) continue;
    KIT_ARGS(k, a, PJRT_Client_LookupAddressableDevice);
    a.client = k.client();
    a.local_hardware_id = h.local_hardware_id;
    KIT_OK(k, PJRT_Client_LookupAddressableDevice, a);
    k.Require(a.addressable_device == d, "looking up hardware id ", h.local_hardware_id, " gives another device");
  }
  KIT_ARGS(k, a, PJRT_Client_LookupAddressableDevice);
  a.client = k.client();
  a.local_hardware_id = 987654;
  KIT_FAILS(k, PJRT_Client_LookupAddressableDevice, a, "hardware id 987654", PJRT_Error_Code_INVALID_ARGUMENT,
            PJRT_Error_Code_NOT_FOUND);
}

void Addressable(Kit& k) {
  for (PJRT_Device* d : All(k)) {
    KIT_ARGS(k, a, PJRT_Device_IsAddressable);
    a.device = d;
    KIT_OK(k, PJRT_Device_IsAddressable, a);
    const bool listed = std::count(k.devices().begin(), k.devices().end(), d) == 1;
    k.Require(a.is_addressable == listed, "device ", GetId(k, d), " says ",
              a.is_addressable ? "addressable" : "not addressable", ", the list says otherwise");
    KIT_ARGS(k, p, PJRT_DeviceDescription_ProcessIndex);
    p.device_description = GetDescription(k, d);
    KIT_OK(k, PJRT_DeviceDescription_ProcessIndex, p);
    if (listed)
      k.Require(p.process_index == 0, "an addressable device of a lone process belongs to process ", p.process_index);
  }
}

void Texts(Kit& k) {
  for (PJRT_Device* d : All(k)) {
    PJRT_DeviceDescription* description = GetDescription(k, d);
#define TEXT(fn, field, field_size)                                                              \
  {                                                                                              \
    KIT_ARGS(k, a, fn);                                                                          \
    a.device_description = description;                                                          \
    KIT_OK(k, fn, a);                                                                            \
    k.Require(a.field != nullptr && a.field_size > 0 && a.field_size < 65536, #fn, ": no text"); \
  }
    TEXT(PJRT_DeviceDescription_Kind, device_kind, device_kind_size);
    TEXT(PJRT_DeviceDescription_DebugString, debug_string, debug_string_size);
    TEXT(PJRT_DeviceDescription_ToString, to_string, to_string_size);
#undef TEXT
  }
}

void DescriptionAttributes(Kit& k) {
  for (PJRT_Device* d : All(k)) {
    KIT_ARGS(k, a, PJRT_DeviceDescription_Attributes);
    a.device_description = GetDescription(k, d);
    KIT_OK(k, PJRT_DeviceDescription_Attributes, a);
    const auto values = host::CopyNamedValues(a.attributes, a.num_attributes);
    k.Require(values.ok(), "PJRT_DeviceDescription_Attributes: ", values.status().message());
  }
}

void DeviceAttributes(Kit& k) {
  for (PJRT_Device* d : k.devices()) {
    KIT_ARGS(k, a, PJRT_Device_GetAttributes);
    a.device = d;
    KIT_OK(k, PJRT_Device_GetAttributes, a);
    const auto values = host::CopyNamedValues(a.attributes, a.num_attributes);
    k.Require(values.ok(), "PJRT_Device_GetAttributes: ", values.status().message());
    k.Require(a.attributes_deleter != nullptr, "PJRT_Device_GetAttributes: no deleter, which hosts call");
    a.attributes_deleter(a.device_attributes);
  }
}

PJRT_Device_MemoryStats_Args Stats(Kit& k) {
  KIT_ARGS(k, a, PJRT_Device_MemoryStats);
  a.device = k.device();
  KIT_OK(k, PJRT_Device_MemoryStats, a);
  return a;
}

void MemoryStats(Kit& k) {
  const std::vector<float> data(1 << 20, 1.0f);
  const auto before = Stats(k);
  k.Require(before.bytes_in_use >= 0, "bytes_in_use is ", before.bytes_in_use);
  PJRT_Buffer* buffer = Put<float>(k, {1 << 20}, data);
  Await(k, ReadyEvent(k, buffer), "the buffer");
  const auto with = Stats(k);
  k.Require(with.bytes_in_use >= before.bytes_in_use + (4 << 20), "a buffer of 4 MiB raises bytes_in_use from ",
            before.bytes_in_use, " to ", with.bytes_in_use);
  if (with.peak_bytes_in_use_is_set)
    k.Require(with.peak_bytes_in_use >= with.bytes_in_use, "the peak, ", with.peak_bytes_in_use,
              ", lies below what is in use, ", with.bytes_in_use);
  if (with.bytes_limit_is_set)
    k.Require(with.bytes_limit >= with.bytes_in_use, "the limit, ", with.bytes_limit, ", lies below what is in use");
  Destroy(k, buffer);
  k.Require(WaitFor(5, [&] { return Stats(k).bytes_in_use <= before.bytes_in_use; }), "bytes_in_use stays at ",
            Stats(k).bytes_in_use, " after the buffer was destroyed, it was ", before.bytes_in_use);
}

void ClearMemoryStats(Kit& k) {
  PJRT_Buffer* buffer = Put<float>(k, {1 << 20}, std::vector<float>(1 << 20, 1.0f));
  Destroy(k, buffer);
  KIT_ARGS(k, a, PJRT_Device_ClearMemoryStats);
  a.device = k.device();
  KIT_OK(k, PJRT_Device_ClearMemoryStats, a);
  WaitFor(5, [&] { return Stats(k).bytes_in_use < (4 << 20); });
  KIT_OK(k, PJRT_Device_ClearMemoryStats, a);
  const auto now = Stats(k);
  if (now.peak_bytes_in_use_is_set)
    k.Require(now.peak_bytes_in_use == now.bytes_in_use, "after clearing the peak is ", now.peak_bytes_in_use,
              ", in use are ", now.bytes_in_use);
}

void DefaultAssignment(Kit& k) {
  const int count = static_cast<int>(k.devices().size());
  std::vector<int> ids(static_cast<size_t>(count) + 2, -55);
  KIT_ARGS(k, a, PJRT_Client_DefaultDeviceAssignment);
  a.client = k.client();
  a.num_replicas = 1;
  a.num_partitions = count;
  a.default_assignment = ids.data();
  a.default_assignment_size = static_cast<size_t>(count);
  KIT_OK(k, PJRT_Client_DefaultDeviceAssignment, a);
  std::set<int> known, used;
  for (PJRT_Device* d : All(k)) known.insert(GetId(k, d));
  for (int i = 0; i < count; ++i) {
    k.Require(known.count(ids[static_cast<size_t>(i)]) == 1, "place ", i, " is given to device ",
              ids[static_cast<size_t>(i)], ", which there is not");
    k.Require(used.insert(ids[static_cast<size_t>(i)]).second, "device ", ids[static_cast<size_t>(i)],
              " is given two places");
  }
  k.Require(ids[static_cast<size_t>(count)] == -55, "more places were written than the array has");
}

void DefaultAssignmentTooMany(Kit& k) {
  std::vector<int> ids(4096, -55);
  KIT_ARGS(k, a, PJRT_Client_DefaultDeviceAssignment);
  a.client = k.client();
  a.num_replicas = 64;
  a.num_partitions = 64;
  a.default_assignment = ids.data();
  a.default_assignment_size = 2;  // too small for the answer
  KIT_FAILS(k, PJRT_Client_DefaultDeviceAssignment, a, "an array too small for the answer");
  k.Require(ids[2] == -55, "more places were written than the array has");
}

void TrackingEvent(Kit& k) {
  KIT_ARGS(k, a, PJRT_Device_CreateAsyncTrackingEvent);
  a.device = k.device();
  a.description = "kit";
  a.description_size = 3;
  KIT_OK(k, PJRT_Device_CreateAsyncTrackingEvent, a);
  if (a.event == nullptr) return;
  KIT_ARGS(k, d, PJRT_AsyncTrackingEvent_Destroy);
  d.event = a.event;
  KIT_OK(k, PJRT_AsyncTrackingEvent_Destroy, d);
}

void PoisonNothing(Kit& k) {
  KIT_ARGS(k, a, PJRT_Device_PoisonExecution);
  a.device = k.device();
  a.launch_id = 4242;
  a.error_code = PJRT_Error_Code_ABORTED;
  a.error_message = "poison";
  a.error_message_size = 6;
  a.poisoned = true;
  KIT_OK(k, PJRT_Device_PoisonExecution, a);
  k.Require(!a.poisoned, "an execution that there is not was poisoned");
}

void AllDevicesWork(Kit& k) {
  for (size_t i = 0; i < k.devices().size(); ++i) {
    PJRT_Buffer* b = Put<float>(k, {4}, {1, 2, 3, static_cast<float>(i)}, k.device(i));
    k.Require(GetDevice(k, b) == k.device(i), "a buffer made for device ", i, " is on another one");
    k.Require(GetAs<float>(k, b) == std::vector<float>({1, 2, 3, static_cast<float>(i)}), "device ", i,
              " gives other contents back");
    Destroy(k, b);
  }
}

constexpr Check kChecks[] = {
    {"devices.lists", "PJRT_Client_Devices PJRT_Client_AddressableDevices", "addressable devices are among all devices",
     Lists},
    {"devices.ids", "PJRT_DeviceDescription_Id", "no two devices have one id", Ids},
    {"devices.lookup", "PJRT_Client_LookupDevice", "a device is found by its id", Lookup},
    {"devices.lookup_absent", "PJRT_Client_LookupDevice", "an id that there is not gives an error", LookupAbsent},
    {"devices.lookup_addressable", "PJRT_Client_LookupAddressableDevice", "a device is found by its hardware id",
     LookupAddressable},
    {"devices.addressable", "PJRT_Device_IsAddressable", "a device knows whether it is addressable", Addressable},
    {"devices.texts", "PJRT_DeviceDescription_Kind", "kind and descriptions are texts", Texts},
    {"devices.description_attributes", "PJRT_DeviceDescription_Attributes", "attributes of a description can be read",
     DescriptionAttributes},
    {"devices.attributes", "PJRT_Device_GetAttributes", "attributes of a device can be read and given back",
     DeviceAttributes},
    {"devices.memory_stats", "PJRT_Device_MemoryStats", "memory statistics follow what is allocated", MemoryStats},
    {"devices.clear_memory_stats", "PJRT_Device_MemoryStats PJRT_Device_ClearMemoryStats",
     "clearing lets the peak start anew", ClearMemoryStats},
    {"devices.default_assignment", "PJRT_Client_DefaultDeviceAssignment",
     "a default assignment names devices, each once", DefaultAssignment},
    {"devices.default_assignment_room", "PJRT_Client_DefaultDeviceAssignment",
     "an array that is too small gives an error", DefaultAssignmentTooMany},
    {"devices.tracking_event", "PJRT_Device_CreateAsyncTrackingEvent", "a tracking event can be made and destroyed",
     TrackingEvent},
    {"devices.poison_nothing", "PJRT_Device_PoisonExecution", "poisoning an absent execution says so", PoisonNothing},
    {"devices.all_work", "", "each addressable device holds data", AllDevicesWork},
};

}  // namespace

absl::Span<const Check> DevicesSuite() { return kChecks; }

}  // namespace backplane::conformance
