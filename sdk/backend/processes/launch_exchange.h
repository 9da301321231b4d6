// The messages of one launch between the processes that run it.
//
// A launch of a program on devices of several processes runs in each of them. For each collective the devices of one
// process meet in a rendezvous (sdk/backend/collectives/rendezvous.h). The last one of them then exchanges data with
// the other processes, by means of these interfaces. ProcessGroup (process_group.h) implements them over a transport; a
// vendor may implement them over hardware of its own.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_LAUNCH_EXCHANGE_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_LAUNCH_EXCHANGE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane {

// Names an exchange within its launch. All processes that take part pass equal keys.
struct ExchangeKey {
  int64_t operation = 0;  // its number in the program
  int64_t iteration = 0;  // how often the members executed the instruction before
  int64_t group = 0;      // the first member of the group
  int64_t phase = 0;      // which step of the operation

  friend bool operator==(const ExchangeKey&, const ExchangeKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ExchangeKey& k) {
    return H::combine(std::move(h), k.operation, k.iteration, k.group, k.phase);
  }
};

// Memory that is sent to, or received from, another process. `part` tells the parts for one process apart.
struct OutgoingPart {
  int32_t process = 0;
  int64_t part = 0;
  const void* data = nullptr;
  int64_t bytes = 0;
};
struct IncomingPart {
  int32_t process = 0;
  int64_t part = 0;
  void* data = nullptr;
  int64_t bytes = 0;
};

// Thread-safe. Ends with its destructor, which the owner calls when all devices of this process have ended.
class LaunchExchange {
 public:
  virtual ~LaunchExchange() = default;
  virtual int32_t process() const = 0;  // this process
  // Sends and receives all parts, and returns when the memory of all of them is the caller's again. The sizes must
  // agree on both sides. `what` names the operation in messages. Parts without bytes are ignored. If the launch fails,
  // here or in another process, or another process is lost or silent for the time limit of the launch, it returns an
  // error that names the process; the launch has failed then.
  virtual absl::Status Exchange(const ExchangeKey& key, absl::string_view what, absl::Span<const OutgoingPart> sends,
                                absl::Span<const IncomingPart> receives) = 0;
  // Parts of at most this size are sent before the receiver asks for them, as long as it has room for them.
  static constexpr int64_t kMaxPostedBytes = 256 * 1024;
  // Sends `bytes` to a process, which receives them as part 0 by Exchange with the same key; a key is used once in a
  // launch. Does not wait for the receiver: what does not fit into its room stays in this process, also after the end
  // of the launch, until the receiver asks for it. If more would stay here than an implementation keeps for one
  // process, the launch fails with ResourceExhausted, which names the receiver.
  virtual absl::Status Post(const ExchangeKey& key, absl::string_view what, int32_t process, std::string bytes) = 0;
  // Reports to the other processes that the launch has failed in this one. Does not wait.
  virtual void Fail(const absl::Status& why) = 0;
};

// What the processes compare, so that they never exchange data of different programs.
struct LaunchProgram {
  std::string name;     // for messages
  uint64_t digest = 0;  // of everything that must agree
  // Parts of it, by which a message tells what differs. They need not be set.
  std::string parameters;  // "f32[2,3], s32[]", cut off if it is long
  uint64_t arrays = 0;     // the digest of all parameters and results
  int64_t num_instructions = 0;
  uint64_t operations = 0;  // the digest of their operations and shapes
};

// Returns the error for processes that launch different programs: their names, and what differs.
absl::Status DifferentProgramsError(int32_t process, const LaunchProgram& program, int32_t other_process,
                                    const LaunchProgram& other);

// Gives out the exchanges of launches. Thread-safe.
class LaunchExchangeService {
 public:
  virtual ~LaunchExchangeService() = default;
  virtual int32_t process() const = 0;
  virtual int32_t GetProcess(int32_t device) const = 0;  // the process of a device of the client's topology
  // Returns the exchange of the next launch among `processes` (sorted, each once, more than one). All processes must
  // launch the same programs among the same processes in the same order. `on_failure` is called at most once, on any
  // thread, if another process fails the launch or is lost. It must not call the service.
  virtual std::shared_ptr<LaunchExchange> JoinLaunch(std::vector<int32_t> processes, const LaunchProgram& program,
                                                     std::chrono::milliseconds time_limit,
                                                     std::function<void(const absl::Status&)> on_failure) = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_LAUNCH_EXCHANGE_H_
