#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "base/wire.h"
#include "sdk/shim/entries.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

absl::StatusOr<std::vector<int32_t>> DeviceAssignment(const ClientState& client, const CompileOptions& options) {
  const int64_t replicas = options.num_replicas, partitions = options.num_partitions;
  if (replicas < 1 || partitions < 1) {
    return absl::InvalidArgumentError(absl::StrCat("load: ", replicas, " replicas of ", partitions, " partitions"));
  }
  if (options.compile_portable_executable) {
    if (replicas * partitions != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("load: a portable executable runs on one device, not on ", replicas * partitions));
    }
    return std::vector<int32_t>();
  }
  std::vector<int32_t> assignment = options.device_assignment;
  if (assignment.empty()) {
    if (replicas * partitions > static_cast<int64_t>(client.devices.size())) {
      return absl::InvalidArgumentError(absl::StrCat("load: ", replicas, " replicas of ", partitions,
                                                     " partitions need ", replicas * partitions, " devices, there are ",
                                                     client.devices.size()));
    }
    for (int32_t i = 0; i < replicas * partitions; ++i) assignment.push_back(i);
    if (assignment.size() == 1 && options.device_ordinal >= 0)
      assignment[0] = static_cast<int32_t>(options.device_ordinal);
  }
  if (static_cast<int64_t>(assignment.size()) != replicas * partitions) {
    return absl::InvalidArgumentError(absl::StrCat("load: device assignment has ", assignment.size(),
                                                   " entries, expected ", replicas, " x ", partitions));
  }
  std::set<int32_t> seen;
  for (int32_t id : assignment) {
    if (client.FindDevice(id) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("load: device assignment names device ", id, ", there are ", client.devices.size()));
    }
    if (!seen.insert(id).second) {
      return absl::InvalidArgumentError(absl::StrCat("load: device assignment names device ", id, " twice"));
    }
  }
  return assignment;
}

// Returns the memory of a kind on a device.
absl::StatusOr<MemoryObject*> MemoryOfKind(PJRT_Device* device, const std::string& kind) {
  for (PJRT_Memory* memory : device->memories) {
    if (ToMemory(memory)->info->kind == kind) return ToMemory(memory);
  }
  // The kind "device" is the device's default memory, whatever its name.
  if ((kind.empty() || kind == "device") && !device->memories.empty()) return ToMemory(device->memories.front());
  return absl::InvalidArgumentError(absl::StrCat("load: ", device->info().to_string, " has no memory of kind ", kind));
}

}  // namespace

absl::StatusOr<PJRT_LoadedExecutable*> LoadExecutable(std::shared_ptr<ClientState> client,
                                                      std::shared_ptr<const Executable> executable,
                                                      CompileOptions options) {
  // The options of a load may select other devices, but not another number of devices, because collectives and
  // shardings were compiled for that number.
  const ExecutableSignature& signature = executable->signature();
  if (options.num_replicas != signature.num_replicas || options.num_partitions != signature.num_partitions) {
    return absl::InvalidArgumentError(absl::StrCat("load: the options ask for ", options.num_replicas, " replicas of ",
                                                   options.num_partitions, " partitions, the program was compiled for ",
                                                   signature.num_replicas, " of ", signature.num_partitions));
  }
  auto out = std::make_unique<PJRT_LoadedExecutable>();
  ASSIGN_OR_RETURN(std::vector<int32_t> assignment, DeviceAssignment(*client, options));
  const LoadOptions load{options, assignment};
  out->device_assignment = std::make_shared<const std::vector<int32_t>>(std::move(assignment));
  out->num_replicas = options.num_replicas;
  out->num_partitions = options.num_partitions;
  for (int32_t i = 0; i < static_cast<int32_t>(out->device_assignment->size()); ++i) {
    PJRT_Device* device = client->FindDevice((*out->device_assignment)[i]);
    if (!device->addressable) continue;
    out->devices.push_back(device);
    out->logical_ids.push_back({i / options.num_partitions, i % options.num_partitions});
    for (const OutputInfo& o : signature.outputs) {
      ASSIGN_OR_RETURN(MemoryObject * memory, MemoryOfKind(device, o.memory_kind));
      out->output_memories.push_back(memory);
    }
  }
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    if (signature.parameters[i].donated) out->donated_arguments.push_back(static_cast<int64_t>(i));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<LoadedExecutable> loaded, client->client->Load(executable, load));
  {
    MutexLock lock(out->mu);
    out->loaded = std::move(loaded);
  }
  out->fingerprint = executable->fingerprint();
  out->client = std::move(client);
  out->executable = std::move(executable);
  out->options = std::move(options);
  return out.release();
}

absl::Status LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args& a) {
  delete a.executable;
  return absl::OkStatus();
}

absl::Status LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args& a) {
  BP_REQUIRE(a.loaded_executable);
  a.executable = new PJRT_Executable(a.loaded_executable->executable);
  return absl::OkStatus();
}

absl::Status LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args& a) {
  BP_REQUIRE(a.executable);
  a.addressable_devices = a.executable->devices.data();
  a.num_addressable_devices = a.executable->devices.size();
  return absl::OkStatus();
}

absl::Status LoadedExecutable_AddressableDeviceLogicalIds(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& a) {
  BP_REQUIRE(a.executable);
  a.addressable_device_logical_ids = a.executable->logical_ids.data();
  a.num_addressable_device_logical_ids = a.executable->logical_ids.size();
  return absl::OkStatus();
}

absl::Status LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& a) {
  BP_REQUIRE(a.executable);
  // DeviceAssignmentProto: replica_count 1, computation_count 2, computation_devices 3 {replica_device_ids 1}.
  const PJRT_LoadedExecutable& e = *a.executable;
  WireWriter proto;
  if (!e.device_assignment->empty()) {
    proto.Varint(1, static_cast<uint64_t>(e.num_replicas));
    proto.Varint(2, static_cast<uint64_t>(e.num_partitions));
    for (int32_t p = 0; p < e.num_partitions; ++p) {
      std::vector<int64_t> ids;
      for (int32_t r = 0; r < e.num_replicas; ++r) ids.push_back((*e.device_assignment)[r * e.num_partitions + p]);
      WireWriter devices;
      devices.Packed(1, absl::MakeConstSpan(ids));
      proto.Bytes(3, devices.str());
    }
  }
  auto* holder = new OwnedBytes{proto.Take()};
  a.serialized_bytes = holder->bytes.data();
  a.serialized_bytes_size = holder->bytes.size();
  a.serialized_device_assignment = reinterpret_cast<PJRT_DeviceAssignmentSerialized*>(holder);
  a.serialized_device_assignment_deleter = &DeleteOwnedBytes<PJRT_DeviceAssignmentSerialized>;
  return absl::OkStatus();
}

absl::Status LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args& a) {
  BP_REQUIRE(a.executable);
  std::shared_ptr<LoadedExecutable> loaded;  // freed after the lock is released, after the last execution
  MutexLock lock(a.executable->mu);
  loaded = std::move(a.executable->loaded);
  return absl::OkStatus();
}

absl::Status LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args& a) {
  BP_REQUIRE(a.executable);
  MutexLock lock(a.executable->mu);
  a.is_deleted = a.executable->loaded == nullptr;
  return absl::OkStatus();
}

absl::Status LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& a) {
  BP_REQUIRE(a.executable);
  a.executable_fingerprint = a.executable->fingerprint.c_str();
  a.executable_fingerprint_size = a.executable->fingerprint.size();
  return absl::OkStatus();
}

}  // namespace backplane::shim
