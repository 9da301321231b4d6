#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/topology_bytes.h"
#include "sdk/shim/compile_cache.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {

ClientState::ClientState(std::unique_ptr<Client> c, std::shared_ptr<HostKeyValues> kv)
    : key_values(std::move(kv)), client(std::move(c)), topology(client->topology()) {
  const Topology& description = topology.topology;
  for (const DeviceInfo& info : description.devices) {
    auto device = std::make_unique<PJRT_Device>();
    device->client = this;
    device->description = topology.descriptions[info.id];
    device->addressable = client->addressable(info.id);
    devices.push_back(device.get());
    if (device->addressable) {
      if (addressable_devices.empty()) process_index = info.process_index;
      addressable_devices.push_back(device.get());
    }
    owned_devices.push_back(std::move(device));
  }
  for (const MemoryInfo& info : description.memories) {
    auto memory = std::make_unique<MemoryObject>();
    memory->vtable = GetMemoryTable();
    memory->client = this;
    memory->info = &info;
    memory->host = client->IsHostMemory(info.id);
    memory->zero_copy_alignment = client->ZeroCopyAlignment(info.id);
    bool addressable = false;
    std::string names;
    for (int32_t d : info.devices) {
      memory->devices.push_back(devices[d]);
      addressable |= devices[d]->addressable;
      absl::StrAppend(&names, names.empty() ? "" : ", ", description.devices[d].to_string);
    }
    memory->to_string = absl::StrCat(info.kind, "(id=", info.id, ")");
    memory->debug_string =
        absl::StrCat(description.platform_name, " memory ", info.id, " of kind ", info.kind, " of ", names);
    memories.push_back(memory.get());
    if (addressable) addressable_memories.push_back(memory.get());
    owned_memories.push_back(std::move(memory));
  }
  for (auto& device : owned_devices) {
    if (!device->addressable) continue;
    for (int32_t m : device->info().memories) device->memories.push_back(memories[m]);
  }
}

namespace {
void DestroyClient(ClientState* state) {
  if (!Event::InCallback()) {
    delete state;
    return;
  }
  try {
    std::thread([state] { delete state; }).detach();
  } catch (...) {  // no thread can be created: it is leaked, because here it might wait for itself
  }
}
}  // namespace

std::shared_ptr<ClientState> NewClientState(std::unique_ptr<Client> client, std::shared_ptr<HostKeyValues> key_values) {
  return std::shared_ptr<ClientState>(new ClientState(std::move(client), std::move(key_values)), &DestroyClient);
}

PJRT_Device* ClientState::FindDevice(int32_t id) const {
  return id >= 0 && id < static_cast<int32_t>(devices.size()) ? devices[id] : nullptr;
}

MemoryObject* ClientState::FindMemory(int32_t id) const {
  return id >= 0 && id < static_cast<int32_t>(owned_memories.size()) ? owned_memories[id].get() : nullptr;
}

absl::StatusOr<MemoryObject*> ChooseMemory(ClientState& client, PJRT_Device* device, PJRT_Memory* memory,
                                           PJRT_Device** chosen_device) {
  MemoryObject* chosen = nullptr;
  if (memory != nullptr) {
    chosen = ToMemory(memory);
    if (chosen->client != &client) return absl::InvalidArgumentError("memory: belongs to another client");
    if (device == nullptr ||
        std::find(chosen->devices.begin(), chosen->devices.end(), device) == chosen->devices.end()) {
      device = chosen->devices.front();
    }
  } else {
    if (device == nullptr) return absl::InvalidArgumentError("neither a device nor a memory was given");
    if (device->client != &client) return absl::InvalidArgumentError("device: belongs to another client");
    if (device->memories.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(device->info().to_string, ": cannot be addressed by this process"));
    }
    chosen = ToMemory(device->memories.front());
  }
  if (chosen_device != nullptr) *chosen_device = device;
  return chosen;
}

absl::Status Client_Create(PJRT_Client_Create_Args& a) {
  ASSIGN_OR_RETURN(NamedValues options, ReadNamedValues(a.create_options, a.num_options));
  std::shared_ptr<HostKeyValues> key_values = HostKeyValues::Of(a);
  ASSIGN_OR_RETURN(std::shared_ptr<const CompileCache> compile_cache, TakeCompileCache(&options));
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Plugin().backend->CreateClient(options, {key_values}));
  RETURN_IF_ERROR(CheckTopology(client->topology()));
  a.client = new PJRT_Client{NewClientState(std::move(client), std::move(key_values))};
  a.client->state->topology.compile_cache = std::move(compile_cache);
  // The size of this struct is the first in a session that shows the host's version. Hosts query the attributes later.
  Plugin().host_is_old = a.struct_size < PJRT_STRUCT_SIZE(PJRT_Client_Create_Args, kv_try_get_user_arg);
  return absl::OkStatus();
}

absl::Status Client_Destroy(PJRT_Client_Destroy_Args& a) {
  if (a.client == nullptr) return absl::OkStatus();
  const std::shared_ptr<ClientState> state = std::move(a.client->state);
  delete a.client;
  // A callback may be what the backend would wait for.
  if (!Event::InCallback()) {
    // Without memory for it the destructor closes the client.
    (void)CatchExceptions([&] { state->client->Close(); });
  }
  if (state->key_values != nullptr) state->key_values->Close();
  return absl::OkStatus();
}

absl::Status Client_PlatformName(PJRT_Client_PlatformName_Args& a) {
  BP_REQUIRE(a.client);
  const std::string& name = a.client->state->topology.topology.platform_name;
  a.platform_name = name.c_str();
  a.platform_name_size = name.size();
  return absl::OkStatus();
}

absl::Status Client_ProcessIndex(PJRT_Client_ProcessIndex_Args& a) {
  BP_REQUIRE(a.client);
  a.process_index = a.client->state->process_index;
  return absl::OkStatus();
}

absl::Status Client_PlatformVersion(PJRT_Client_PlatformVersion_Args& a) {
  BP_REQUIRE(a.client);
  const std::string& version = a.client->state->topology.topology.platform_version;
  a.platform_version = version.c_str();
  a.platform_version_size = version.size();
  return absl::OkStatus();
}

absl::Status Client_TopologyDescription(PJRT_Client_TopologyDescription_Args& a) {
  BP_REQUIRE(a.client);
  a.topology = &a.client->state->topology;
  return absl::OkStatus();
}

absl::Status Client_Devices(PJRT_Client_Devices_Args& a) {
  BP_REQUIRE(a.client);
  a.devices = a.client->state->devices.data();
  a.num_devices = a.client->state->devices.size();
  return absl::OkStatus();
}

absl::Status Client_AddressableDevices(PJRT_Client_AddressableDevices_Args& a) {
  BP_REQUIRE(a.client);
  a.addressable_devices = a.client->state->addressable_devices.data();
  a.num_addressable_devices = a.client->state->addressable_devices.size();
  return absl::OkStatus();
}

absl::Status Client_LookupDevice(PJRT_Client_LookupDevice_Args& a) {
  BP_REQUIRE(a.client);
  a.device = a.client->state->FindDevice(a.id);
  if (a.device == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("device: no id ", a.id, " among ", a.client->state->devices.size(), " devices"));
  }
  return absl::OkStatus();
}

absl::Status Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args& a) {
  BP_REQUIRE(a.client);
  for (PJRT_Device* device : a.client->state->addressable_devices) {
    if (device->info().local_hardware_id == a.local_hardware_id) {
      a.addressable_device = device;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("device: no local hardware id ", a.local_hardware_id, " among ",
                                                 a.client->state->addressable_devices.size(), " addressable devices"));
}

absl::Status Client_AddressableMemories(PJRT_Client_AddressableMemories_Args& a) {
  BP_REQUIRE(a.client);
  a.addressable_memories = a.client->state->addressable_memories.data();
  a.num_addressable_memories = a.client->state->addressable_memories.size();
  return absl::OkStatus();
}

absl::Status Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args& a) {
  BP_REQUIRE(a.client);
  BP_REQUIRE(a.default_assignment);
  if (a.num_replicas < 1 || a.num_partitions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("device assignment: ", a.num_replicas, " replicas of ", a.num_partitions, " partitions"));
  }
  const int64_t wanted = int64_t{a.num_replicas} * a.num_partitions;
  const int64_t have = static_cast<int64_t>(a.client->state->devices.size());
  if (wanted > have) {
    return absl::InvalidArgumentError(absl::StrCat("device assignment: ", a.num_replicas, " replicas of ",
                                                   a.num_partitions, " partitions need ", wanted,
                                                   " devices, there are ", have));
  }
  if (a.default_assignment_size < static_cast<size_t>(wanted)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device assignment: room for ", a.default_assignment_size, " ids, needed ", wanted));
  }
  for (int64_t i = 0; i < wanted; ++i) a.default_assignment[i] = static_cast<int>(i);
  return absl::OkStatus();
}

absl::Status Client_DmaMap(PJRT_Client_DmaMap_Args& a) {
  BP_REQUIRE(a.client);
  if (a.size > 0) BP_REQUIRE(a.data);
  return a.client->state->client->RegisterHostMemory(a.data, a.size);
}

absl::Status Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args& a) {
  BP_REQUIRE(a.client);
  if (a.num_process_infos > 0) BP_REQUIRE(a.process_infos);
  const auto* at = reinterpret_cast<const char*>(a.process_infos);
  for (size_t i = 0; i < a.num_process_infos; ++i) {
    const auto* given = reinterpret_cast<const PJRT_ProcessInfo*>(at);
    ASSIGN_OR_RETURN(const PJRT_ProcessInfo info,
                     ReadStruct<PJRT_ProcessInfo>("PJRT_ProcessInfo", given, PJRT_ProcessInfo_STRUCT_SIZE));
    at += given->struct_size;  // the size of the elements in the host's header
    if (info.state != PJRT_ProcessState_kError) continue;
    if (info.error_message_size > 0) BP_REQUIRE(info.error_message);
    a.client->state->client->ReportProcessFailure(
        info.task_id, std::string(info.error_message_size > 0 ? info.error_message : "", info.error_message_size));
  }
  return absl::OkStatus();
}

absl::Status Client_DmaUnmap(PJRT_Client_DmaUnmap_Args& a) {
  BP_REQUIRE(a.client);
  return a.client->state->client->UnregisterHostMemory(a.data);
}

}  // namespace backplane::shim
