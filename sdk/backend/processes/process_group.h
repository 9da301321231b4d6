// The processes of one program, as a client sees them: their meeting, the devices of all of them, and their messages.
//
// A backend whose client may run in several processes takes three steps:
//   1. In CreateClient it takes the options of this file out of the create options (TakeProcessOptions) and, if there
//      are several processes, calls ProcessGroup::Join with the topology of its own devices.
//   2. It uses the group's topology as the client's topology and `addressable` for Client::addressable.
//   3. It passes the group to JoinLaunch (sdk/backend/collectives/join_launch.h), so that collectives reach the devices
//      of other processes. A vendor with a communication library of its own implements LaunchExchangeService or its
//      collectives over that, and needs only the first two steps.
//
// The meeting. Each process puts a record into the host's key-value store: build, number of processes, transport, host
// and devices. It reads those of the others and checks that they fit. Process 0 also puts a random token, which every
// connection has to show. A store may serve several clients one after another; the records of each are numbered.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_PROCESS_GROUP_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_PROCESS_GROUP_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/processes/launch_exchange.h"
#include "sdk/backend/processes/message_mesh.h"

namespace backplane {

// Create options. JAX passes node_id and num_nodes to every plugin after jax.distributed.initialize.
struct ProcessOptions {
  int32_t process = 0, num_processes = 1;  // `node_id`, `num_nodes` (1 to 4096)
  std::string transport = "gloo";          // `transport`: "gloo" or the path of an adapter (load_transport.h)
  // `network_interface`: the name of an interface ("eth0") or an address of this machine. Connections are accepted
  // there only. Not given: the loopback interface if all processes are on one machine, otherwise the first other
  // interface that is up and has an IPv4 address.
  std::string network_interface;
  // `shared_memory_megabytes`, 0 to 256: of this process; 0: it shares no memory. Not given: 32 over Gloo, 0 over other
  // transports, which may have shared memory of their own.
  std::optional<int64_t> shared_megabytes;
  std::chrono::milliseconds connect_limit{120000};  // `connect_timeout_seconds`, 1 to 86400: for meeting and connecting
};

// Reads these options and removes them from `options`. Returns InvalidArgument for invalid values. `partition_index`,
// which some hosts pass, is removed as well and has no meaning here.
absl::StatusOr<ProcessOptions> TakeProcessOptions(NamedValues* options);
// The names of the options, for messages.
inline constexpr char kProcessOptionNames[] =
    "node_id, num_nodes, transport, network_interface, shared_memory_megabytes, connect_timeout_seconds";

// Thread-safe. The destructor leaves. Must not be destroyed on a thread that reports a failure of a launch.
class ProcessGroup : public LaunchExchangeService {
 public:
  // Meets the other processes and connects to them. `local` describes the devices of this process, with ids from 0.
  // Blocks until all have come or the time has run out. Errors name the process that does not come or does not fit.
  static absl::StatusOr<std::shared_ptr<ProcessGroup>> Join(const ProcessOptions& options, KeyValueStore* store,
                                                            const Topology& local);

  // The host reports that a process has failed: launches in which it takes part fail.
  void ReportFailure(int32_t process, const std::string& why) { mesh_->ReportFailure(process, why); }

  // Tells the other processes that this one leaves, and fails later launches. Those in progress have 3 seconds to end.
  // Returns when the others know, but at the latest after another 10 seconds. A client calls it in Close, and first
  // when it is destroyed. May be repeated.
  void Leave() { mesh_->Close(); }

  // The devices and memories of all processes, in the order of the processes. Equal on all of them.
  const Topology& topology() const { return topology_; }
  bool addressable(int32_t device) const { return GetProcess(device) == process(); }
  int32_t processes_here() const { return processes_here_; }  // how many of them run on this machine, at least 1
  int32_t first_device() const { return first_device_; }      // the id of the first device of this process

  int32_t process() const override { return options_.process; }
  int32_t GetProcess(int32_t device) const override {
    return topology_.devices[static_cast<size_t>(device)].process_index;
  }
  std::shared_ptr<LaunchExchange> JoinLaunch(std::vector<int32_t> processes, const LaunchProgram& program,
                                             std::chrono::milliseconds time_limit,
                                             std::function<void(const absl::Status&)> on_failure) override;

 private:
  ProcessGroup() = default;
  ProcessOptions options_;
  Topology topology_;
  int32_t first_device_ = 0, processes_here_ = 0;
  std::unique_ptr<MessageMesh> mesh_;
};

// The topology of a client, and the processes whose devices it describes.
struct JoinedTopology {
  Topology topology;
  std::shared_ptr<ProcessGroup> group;  // null: there is only this process
};

// Steps 1 and 2 for a backend. `platform` is its name, `local` describes its devices. If the backend cannot create its
// client and passes an error instead, the other processes are told so and need not wait; returns that error.
absl::StatusOr<JoinedTopology> JoinProcesses(const ProcessOptions& options, const HostServices& services,
                                             const std::string& platform, absl::StatusOr<Topology> local);

// Returns the devices and memories of several processes as one topology: ids follow one another in the order of the
// processes, and `process_index` is set. Names and attributes are those of the first one.
absl::StatusOr<Topology> MergeTopologies(const std::vector<Topology>& processes);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_PROCESS_GROUP_H_
