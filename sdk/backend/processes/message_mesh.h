// Messages between the processes of one client, over any transport: the launches' exchanges, and what happens if a
// process fails, ends, stops or runs another program.
//
// Parts of up to LaunchExchange::kMaxPostedBytes are sent at once; the receiver keeps those that it does not expect
// yet. Larger parts are offered. When the receiver has memory for one, it says so, and the part is sent there without a
// copy. A receiver keeps up to `max_ahead_bytes` of each process; beyond that small parts are offered, too. So messages
// are always read, and none waits behind others that nobody takes. A sender keeps at most kKeptLimits * max_ahead_bytes
// of posts for one process, or one larger message, and none while the receiver has not used kPostLimits *
// max_ahead_bytes (mesh_state.h); then a post fails its launch. Between processes of one machine the data of parts from
// kMinSharedBytes on goes through shared memory (shared_memory.h), and the messages say where it is. One thread for
// each other process receives, so an error of a connection is noticed at once. Another thread sends reports of failures
// and watches the time limits.
//
// Every message names its launch by the processes that take part and a number, and carries the digest of the program.
// The sizes in a message are checked before memory is allocated or written for it. A process that sends an invalid
// message counts as lost, and is told so.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MESSAGE_MESH_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MESSAGE_MESH_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/backend/key_values.h"
#include "sdk/backend/processes/launch_exchange.h"
#include "sdk/backend/processes/transport.h"

namespace backplane {

// Thread-safe. The destructor closes the mesh.
class MessageMesh {
 public:
  struct Options {
    const BackplaneTransport* transport = nullptr;
    int32_t process = 0, num_processes = 0;
    std::string address;  // to listen on
    std::string token;    // of the job; a connection whose other end does not send it is refused
    std::chrono::milliseconds connect_limit{120000};
    int64_t shared_blocks = 0;  // of the shared memory of this process, up to kMaxSharedBlocks; 0: none
    int64_t max_ahead_bytes = int64_t{64} << 20;  // equal in all processes
    // A process that leaves so many reports and answers of this one unread is given up.
    size_t max_unawaited_frames = size_t{1} << 20;
    KeyValueStore* store = nullptr;  // used during Connect only
    std::string key_prefix;          // of the keys in the store
  };

  // Connects all processes, each of which must call it. Returns the error of the first step that failed.
  static absl::StatusOr<std::unique_ptr<MessageMesh>> Connect(const Options& options);
  ~MessageMesh();
  MessageMesh(const MessageMesh&) = delete;
  MessageMesh& operator=(const MessageMesh&) = delete;

  // Whether the data of collectives goes through memory that this process shares with `process`.
  bool SharesMemoryWith(int32_t process) const;

  size_t CountKept() const;  // the messages that their receivers have not taken; for tests

  // A process has failed, as the host says. Ignored for this process, and for one that is lost already.
  void ReportFailure(int32_t process, const std::string& why);
  // What the destructor does: lets the launches in progress go on for up to 3 seconds, then fails them and all later
  // ones, and waits up to 10 seconds until the other processes have handled what this one has sent. May be repeated.
  // Must not be called on a thread that reports a failure.
  void Close();

  // See LaunchExchangeService. The result may outlive the mesh; it has failed then.
  std::shared_ptr<LaunchExchange> JoinLaunch(std::vector<int32_t> processes, const LaunchProgram& program,
                                             std::chrono::milliseconds time_limit,
                                             std::function<void(const absl::Status&)> on_failure);

 private:
  class State;
  class LaunchMessages;
  explicit MessageMesh(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;
  std::once_flag closed_;
  std::vector<std::thread> threads_;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MESSAGE_MESH_H_
