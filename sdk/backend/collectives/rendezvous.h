// Synchronizes the devices during a launch of a program.
//
// In this folder "process" has the meaning of HLO: one replica and partition of a program, which runs on one device. A
// process of the operating system is called a node. A launch may have devices in several nodes. Each node has a Launch
// of its own for the rendezvous of its devices; a LaunchExchange connects them.
//
// A launch is one execution of a program on all its devices. The devices join it by run id (LaunchRegistry). For each
// collective the members of a group enter a rendezvous: each passes a pointer to its data and blocks. The last member
// to arrive performs the operation for all. The other members stay blocked until it is done, so the data that the
// pointers refer to stays valid. No lock is held during the operation.
//
// A rendezvous cannot block for ever. A launch fails as a whole, and every member that waits in it or arrives later
// gets an error, if
//   - the program of a member fails (Aborted, with the text of that error),
//   - the program of a member ends before it has entered a rendezvous of its group (Internal),
//   - a member has waited longer than the time limit (DeadlineExceeded, naming the missing members).
//
// Waiting blocks the calling thread. A backend must run each device of a launch on its own thread.
// Thread-safety: LaunchRegistry and Launch are thread-safe. A LaunchMember belongs to the thread of its device.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_RENDEZVOUS_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_RENDEZVOUS_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "sdk/backend/processes/launch_exchange.h"

namespace backplane {

struct LaunchOptions {
  int64_t replicas = 1, partitions = 1;
  std::chrono::milliseconds time_limit{120000};  // of one wait
  std::vector<int32_t> devices;                  // device ids by process, for messages; may be empty
  std::vector<int32_t> node_of;                  // by process; empty: all are in this node
  int32_t node = 0;                              // this node
};

class Launch {
 public:
  explicit Launch(LaunchOptions options) : options_(std::move(options)), ended_(process_count(), false) {}

  int64_t process_count() const { return options_.replicas * options_.partitions; }
  int64_t local_process_count() const;  // those of this node
  bool IsLocal(int64_t process) const { return options_.node_of.empty() || GetNode(process) == options_.node; }
  int32_t GetNode(int64_t process) const {
    return options_.node_of.empty() ? options_.node : options_.node_of[static_cast<size_t>(process)];
  }
  // Sets the connection to the other nodes. Must be called before the launch is used, if it has several.
  void Connect(std::shared_ptr<LaunchExchange> exchange);
  // Null if all processes are in this node.
  std::shared_ptr<LaunchExchange> exchange() const;
  const LaunchOptions& options() const { return options_; }

  // Identifies a rendezvous: the number of the operation in the program, the iteration (how often the members executed
  // the operation before), and the first process of the group.
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  // Performs the operation. `contributions` holds the pointers of the members, in the order of the group; null for
  // members in other nodes.
  using Operation = absl::FunctionRef<absl::Status(absl::Span<void* const> contributions)>;

  // Enters a rendezvous as member number `position` of `group`, a list of process numbers. Only the members of this
  // node meet. Blocks until the operation is done or the launch has failed. Every member gets the status of the
  // operation. `what` names the operation in messages. All members must pass the same group and an equivalent
  // operation.
  absl::Status EnterRendezvous(const Key& key, absl::string_view what, absl::Span<const int64_t> group, size_t position,
                               void* contribution, Operation operation);

  // Sends bytes to one process without waiting for it. The launch owns a message until it is fetched.
  absl::Status PostMessage(int64_t channel, int64_t iteration, int64_t from, int64_t to, std::string bytes,
                           absl::string_view what = "send");
  // Blocks until the message arrives and returns its bytes. A message from another node must have `expected_bytes`.
  absl::StatusOr<std::string> FetchMessage(int64_t channel, int64_t iteration, int64_t from, int64_t to,
                                           int64_t expected_bytes, absl::string_view what);

  // Reports that the program of a process has ended. A status that is not OK fails the launch.
  void End(int64_t process, const absl::Status& status);
  // Fails the launch. Ignores an OK status. The first failure is the one that is reported.
  void Fail(const absl::Status& status);

  size_t CountPending() const;  // rendezvous that are not over and messages that are not fetched; for tests

 private:
  struct Rendezvous {
    std::string what;
    std::vector<void*> contributions;
    std::vector<bool> has_arrived;
    std::vector<int64_t> group;
    size_t arrived = 0, left = 0;
    bool done = false;
    absl::Status result;
    CondVar cv;
  };
  using MessageKey = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // channel, iteration, source, target
  void FailLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckMissingMembersStillRun(const Rendezvous& rendezvous) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string FormatProcess(int64_t process) const;
  std::string FormatMissing(const Rendezvous& rendezvous) const;

  const LaunchOptions options_;
  mutable Mutex mu_;
  std::shared_ptr<LaunchExchange> exchange_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> ended_ ABSL_GUARDED_BY(mu_);
  std::map<Key, std::shared_ptr<Rendezvous>> rendezvous_ ABSL_GUARDED_BY(mu_);
  std::map<MessageKey, std::string> messages_ ABSL_GUARDED_BY(mu_);
  CondVar message_posted_;
};

// The side of one device in a launch. Counts how often the device executed each operation, so that members match the
// iterations of a loop. Must be ended by End; otherwise the destructor fails the launch.
class LaunchMember {
 public:
  // Fails the launch with InvalidArgument if it has no such replica or partition.
  LaunchMember(std::shared_ptr<Launch> launch, int64_t replica, int64_t partition);
  ~LaunchMember();
  LaunchMember(const LaunchMember&) = delete;
  LaunchMember& operator=(const LaunchMember&) = delete;

  Launch& launch() const { return *launch_; }
  int64_t process() const { return process_; }
  // Returns how often it was called for `operation` before.
  int64_t NextIteration(int64_t operation) { return iterations_[operation]++; }
  void End(const absl::Status& status) noexcept;

 private:
  const std::shared_ptr<Launch> launch_;
  const int64_t process_;
  bool ended_ = false;
  std::unordered_map<int64_t, int64_t> iterations_;  // of std, which stays valid if there is no memory
};

// The launches in progress, by run id. Keeps a launch until all its devices in this node have joined: one device may
// post messages, fail or end before another joins, and the latter must find that state. If some devices never join, the
// registry drops the launch at the first Join after its time limit. By then every waiting member has timed out.
class LaunchRegistry {
 public:
  // Returns the launch `run_id`. The first caller creates it with its `options`, and calls `connect` for it if its
  // processes are in several nodes. The calls of `connect` are in the order of the first joins.
  using ConnectNodes = absl::FunctionRef<std::shared_ptr<LaunchExchange>(const std::shared_ptr<Launch>&)>;
  std::shared_ptr<Launch> Join(int64_t run_id, const LaunchOptions& options, const ConnectNodes* connect = nullptr);
  // Declares that the remaining devices will never join. The launch fails with Aborted for those that have.
  void Abandon(int64_t run_id, const absl::Status& why);
  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<Launch> launch;
    int64_t missing = 0;  // devices that have not joined
    std::chrono::steady_clock::time_point limit;
  };
  mutable Mutex mu_;
  std::map<int64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_RENDEZVOUS_H_
