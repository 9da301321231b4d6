#include "sdk/backend/processes/process_group.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/wire.h"
#include "core/types/status_macros.h"
#include "sdk/backend/build_id.h"
#include "sdk/backend/processes/load_transport.h"
#include "sdk/backend/processes/network_address.h"
#include "sdk/backend/processes/shared_memory.h"
#include "sdk/backend/topology_bytes.h"

namespace backplane {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kMaxMergedDevices = 65536;
constexpr int64_t kSharedMegabytes = 32;  // over Gloo
constexpr size_t kMaxFailureText = 1000;
constexpr int kMaxMeetings = 10000;  // of clients one after another over one store

// What a process tells the others.
struct MeetingRecord {
  std::string build, transport, network, token, topology;
  std::string failure;  // why it does not come; it has no other fields then
  int64_t num_processes = 0;

  std::string Serialize() const {
    WireWriter out;
    out.Bytes(1, build);
    out.Varint(2, static_cast<uint64_t>(num_processes));
    out.Bytes(3, transport);
    out.Bytes(4, network);
    out.Bytes(5, token);
    out.Bytes(6, topology);
    out.Bytes(7, failure);
    return out.Take();
  }
  static absl::StatusOr<MeetingRecord> Parse(absl::string_view bytes) {
    MeetingRecord r;
    WireReader in(bytes);
    while (in.Next()) {
      if (in.field == 1) r.build = std::string(in.bytes);
      if (in.field == 2) r.num_processes = static_cast<int64_t>(in.value);
      if (in.field == 3) r.transport = std::string(in.bytes);
      if (in.field == 4) r.network = std::string(in.bytes);
      if (in.field == 5) r.token = std::string(in.bytes);
      if (in.field == 6) r.topology = std::string(in.bytes);
      if (in.field == 7) r.failure = std::string(in.bytes);
    }
    if (!in.ok()) return absl::InvalidArgumentError("its record in the key-value store is invalid");
    return r;
  }
};

std::string MakeToken() {
  std::random_device random;
  std::string bytes;
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = random();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return absl::BytesToHexString(bytes);
}

std::string MeetingPrefix(const std::string& platform, int meeting) {
  return absl::StrCat("backplane/", platform, "/", meeting, "/");
}
std::string RecordKey(const std::string& platform, int meeting, int32_t process) {
  return absl::StrCat(MeetingPrefix(platform, meeting), "process/", process);
}

// Puts the record of this process and returns the number of this meeting: the first one at which this process was not
// before, which the others use, too.
absl::StatusOr<int> PutRecord(KeyValueStore& store, const std::string& platform, int32_t process,
                              const std::string& record) {
  absl::Status last;
  for (int meeting = 0; meeting < kMaxMeetings; ++meeting) {
    const std::string key = RecordKey(platform, meeting, process);
    if (store.TryGet(key).ok()) continue;
    last = store.Put(key, record);
    if (last.ok()) return meeting;
    if (last.code() != absl::StatusCode::kAlreadyExists) break;
  }
  return last;
}

// Tells the other processes why this one does not come to the meeting. Returns `why`.
absl::Status RefuseMeeting(const ProcessOptions& options, KeyValueStore& store, const std::string& platform,
                           const absl::Status& why) {
  absl::string_view text = why.message().empty() ? "unknown error" : why.message();
  if (text.size() > kMaxFailureText) {
    size_t n = kMaxFailureText;
    while (n > 0 && (text[n] & 0xC0) == 0x80) --n;  // not within a character of UTF-8
    text = text.substr(0, n);
  }
  MeetingRecord mine;
  mine.failure = std::string(text);
  (void)PutRecord(store, platform, options.process, mine.Serialize());  // without it the others wait for their limit
  return why;
}

absl::Status NameProcess(int32_t process, int32_t count, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("process ", process, " of ", count, ": ", status.message()));
}

absl::Status CheckFits(const MeetingRecord& mine, const MeetingRecord& other) {
  if (other.num_processes != mine.num_processes) {
    return absl::FailedPreconditionError(
        absl::StrCat("it was told that there are ", other.num_processes, " processes"));
  }
  if (other.build != mine.build) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has another build of the plugin, ", other.build, "; this one is ", mine.build));
  }
  if (other.transport != mine.transport) {
    return absl::FailedPreconditionError(
        absl::StrCat("it uses the transport ", other.transport, ", this process ", mine.transport));
  }
  return absl::OkStatus();
}

// What the records of all processes say.
struct Meeting {
  int number = 0;
  std::vector<Topology> topologies;  // by process
  std::string token;
  int32_t processes_here = 0;  // on this machine and network
};

// Reads the records of a meeting. Returns none if a process did not come to it, and has put a record for the next one.
absl::StatusOr<std::optional<Meeting>> ReadRecords(KeyValueStore& store, const std::string& platform, int number,
                                                   const MeetingRecord& mine, Clock::time_point deadline,
                                                   const ProcessOptions& options) {
  Meeting out;
  out.number = number;
  const int32_t count = options.num_processes;
  for (int32_t p = 0; p < count; ++p) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    absl::StatusOr<std::string> bytes = store.Get(RecordKey(platform, number, p), std::max(left, milliseconds(1)));
    if (!bytes.ok()) {
      return NameProcess(
          p, count,
          absl::Status(bytes.status().code(), absl::StrCat("it has not created its client within ",
                                                           static_cast<double>(options.connect_limit.count()) / 1000,
                                                           " s: ", bytes.status().message())));
    }
    absl::StatusOr<MeetingRecord> record = MeetingRecord::Parse(*bytes);
    if (!record.ok()) return NameProcess(p, count, record.status());
    if (!record->failure.empty()) {
      if (store.TryGet(RecordKey(platform, number + 1, p)).ok()) return std::optional<Meeting>();
      return NameProcess(p, count, absl::AbortedError(absl::StrCat("it has no client: ", record->failure)));
    }
    if (absl::Status fits = CheckFits(mine, *record); !fits.ok()) return NameProcess(p, count, fits);
    if (p == 0) out.token = record->token;
    if (record->network == mine.network) ++out.processes_here;
    absl::StatusOr<Topology> topology = ParseTopology(record->topology);
    if (!topology.ok()) return NameProcess(p, count, topology.status());
    out.topologies.push_back(*std::move(topology));
  }
  return std::optional<Meeting>(std::move(out));
}

}  // namespace

absl::StatusOr<Topology> MergeTopologies(const std::vector<Topology>& processes) {
  Topology merged;
  for (size_t p = 0; p < processes.size(); ++p) {
    const Topology& local = processes[p];
    if (p == 0) {
      merged.platform_name = local.platform_name;
      merged.platform_version = local.platform_version;
      merged.attributes = local.attributes;
    } else if (local.platform_name != merged.platform_name) {
      return absl::FailedPreconditionError(absl::StrCat("process ", p, " has devices of the platform ",
                                                        local.platform_name, ", process 0 of ", merged.platform_name));
    }
    const auto first_device = static_cast<int32_t>(merged.devices.size());
    const auto first_memory = static_cast<int32_t>(merged.memories.size());
    if (static_cast<int64_t>(merged.devices.size() + local.devices.size()) > kMaxMergedDevices)
      return absl::ResourceExhaustedError(absl::StrCat("the processes have more than ", kMaxMergedDevices, " devices"));
    for (DeviceInfo device : local.devices) {
      const std::string was = absl::StrCat("id=", device.id, ","), is_last = absl::StrCat("id=", device.id, ")");
      device.id += first_device;
      device.process_index = static_cast<int32_t>(p);
      for (int32_t& m : device.memories) m += first_memory;
      // The names of devices show the id as "id=N".
      device.to_string = absl::StrReplaceAll(device.to_string, {{was, absl::StrCat("id=", device.id, ",")},
                                                                {is_last, absl::StrCat("id=", device.id, ")")}});
      absl::StrAppend(&device.debug_string, " of process ", p);
      merged.devices.push_back(std::move(device));
    }
    for (MemoryInfo memory : local.memories) {
      memory.id += first_memory;
      for (int32_t& d : memory.devices) d += first_device;
      merged.memories.push_back(std::move(memory));
    }
  }
  return merged;
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> ProcessGroup::Join(const ProcessOptions& options, KeyValueStore* store,
                                                                 const Topology& local) {
  const int32_t self = options.process, count = options.num_processes;
  if (store == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("process ", self, " of ", count,
                     ": the host has given no key-value store, in which the processes find one another"));
  }
  const auto deadline = Clock::now() + options.connect_limit;
  absl::StatusOr<const BackplaneTransport*> loaded = LoadTransport(options.transport);
  if (!loaded.ok()) return RefuseMeeting(options, *store, local.platform_name, loaded.status());
  const BackplaneTransport* const transport = *loaded;
  // A wrong name of an interface is an error at once, not after the others have come.
  std::string address;
  if (!options.network_interface.empty()) {
    absl::StatusOr<std::string> found = FindListenAddress(options.network_interface);
    if (!found.ok()) return RefuseMeeting(options, *store, local.platform_name, found.status());
    address = *std::move(found);
  }
  MeetingRecord mine;
  mine.build = BuildId();
  mine.num_processes = count;
  mine.transport = transport->name;
  mine.network = NetworkId();
  mine.topology = SerializeTopology(local);
  if (self == 0) mine.token = MakeToken();
  std::optional<Meeting> meeting;
  while (!meeting) {
    const absl::StatusOr<int> number = PutRecord(*store, local.platform_name, self, mine.Serialize());
    if (!number.ok()) return NameProcess(self, count, number.status());
    ASSIGN_OR_RETURN(meeting, ReadRecords(*store, local.platform_name, *number, mine, deadline, options));
  }
  if (address.empty() && meeting->processes_here == count) address = kLoopbackAddress;
  if (address.empty()) {
    ASSIGN_OR_RETURN(address, FindListenAddress(""));
  }
  std::shared_ptr<ProcessGroup> group(new ProcessGroup);
  group->options_ = options;
  group->processes_here_ = meeting->processes_here;
  ASSIGN_OR_RETURN(group->topology_, MergeTopologies(meeting->topologies));
  for (int32_t p = 0; p < self; ++p)
    group->first_device_ += static_cast<int32_t>(meeting->topologies[static_cast<size_t>(p)].devices.size());
  MessageMesh::Options mesh;
  mesh.transport = transport;
  mesh.process = self;
  mesh.num_processes = count;
  mesh.address = address;
  mesh.token = meeting->token;
  mesh.connect_limit = std::max(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()), milliseconds(1));
  mesh.store = store;
  mesh.key_prefix = MeetingPrefix(local.platform_name, meeting->number);
  const bool is_gloo = absl::string_view(transport->name) == "gloo";
  mesh.shared_blocks =
      options.shared_megabytes.value_or(is_gloo ? kSharedMegabytes : 0) * (int64_t{1} << 20) / kSharedBlockBytes;
  ASSIGN_OR_RETURN(group->mesh_, MessageMesh::Connect(mesh));
  return group;
}

absl::StatusOr<JoinedTopology> JoinProcesses(const ProcessOptions& options, const HostServices& services,
                                             const std::string& platform, absl::StatusOr<Topology> local) {
  JoinedTopology out;
  if (options.num_processes == 1) {
    ASSIGN_OR_RETURN(out.topology, std::move(local));
    return out;
  }
  if (!local.ok() && services.key_values != nullptr)
    return RefuseMeeting(options, *services.key_values, platform, local.status());
  RETURN_IF_ERROR(local.status());
  ASSIGN_OR_RETURN(out.group, ProcessGroup::Join(options, services.key_values.get(), *local));
  out.topology = out.group->topology();
  return out;
}

std::shared_ptr<LaunchExchange> ProcessGroup::JoinLaunch(std::vector<int32_t> processes, const LaunchProgram& program,
                                                         milliseconds time_limit,
                                                         std::function<void(const absl::Status&)> on_failure) {
  return mesh_->JoinLaunch(std::move(processes), program, time_limit, std::move(on_failure));
}

}  // namespace backplane
