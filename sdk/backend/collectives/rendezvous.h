// Where the devices of one process meet during a launch of a program.
//
// A launch is one execution of a program on all its devices; the devices join it by run id (LaunchRegistry). For each
// collective the members of a group meet: everybody brings a pointer and blocks; the one who comes last does the work
// for all while the others wait, so whatever the pointers lead to stays valid until the work is done. One wait for each
// member, no lock held during the work.
//
// Nobody waits for ever. A launch fails as a whole, and everybody who waits in it or comes later gets an error, when
//   - a member's program ends in an error (Aborted, with that error's text),
//   - a member's program ends without having come to a meeting it belongs to (Internal),
//   - somebody has waited longer than the time limit (DeadlineExceeded, naming who is missing).
//
// Waiting blocks the calling thread: a backend runs the devices of a launch on threads of their own.
// Thread-safety: LaunchRegistry and Launch from any thread; a LaunchMember belongs to the thread of its device.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_RENDEZVOUS_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_RENDEZVOUS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace backplane {

struct LaunchOptions {
  int64_t replicas = 1, partitions = 1;
  std::chrono::milliseconds time_limit{120000};
  std::vector<int32_t> devices;  // of each process, for messages; may be empty
};

class Launch {
 public:
  explicit Launch(LaunchOptions options) : options_(std::move(options)), ended_(process_count(), false) {}

  int64_t process_count() const { return options_.replicas * options_.partitions; }
  const LaunchOptions& options() const { return options_; }

  // A meeting: the operation's number, how often the members came by it before, and the group's first process.
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  using Work = absl::FunctionRef<absl::Status(absl::Span<void* const> brought)>;

  // Member `position` of `group` (numbers of processes, in the order in which `work` sees what they brought). `what`
  // names the operation in messages. The work's error is everybody's.
  absl::Status Meet(const Key& key, absl::string_view what, absl::Span<const int64_t> group, size_t position,
                    void* brought, Work work);

  // Bytes left for one receiver: the sender does not wait. A letter nobody fetches goes with the launch.
  absl::Status Post(int64_t channel, int64_t turn, int64_t from, int64_t to, std::string bytes);
  absl::StatusOr<std::string> Fetch(int64_t channel, int64_t turn, int64_t from, int64_t to, absl::string_view what);

  // The process's program has come to its end.
  void End(int64_t process, const absl::Status& status);
  // The launch cannot go on. OK is no failure; the first failure counts.
  void Fail(const absl::Status& status);

  size_t open_meetings() const;  // for tests: meetings and letters that are still kept

 private:
  struct Meeting {
    std::string what;
    std::vector<void*> brought;
    std::vector<bool> here;
    std::vector<int64_t> group;
    size_t arrived = 0, left = 0;
    bool done = false;
    absl::Status result;
    std::condition_variable cv;
  };
  using Letter = std::tuple<int64_t, int64_t, int64_t, int64_t>;
  void FailLocked(const absl::Status& status);
  absl::Status CheckAllMayCome(const Meeting& meeting) const;
  std::string Name(int64_t process) const;
  std::string Missing(const Meeting& meeting) const;

  const LaunchOptions options_;
  mutable std::mutex mu_;
  absl::Status failure_;                              // under mu_
  std::vector<bool> ended_;                           // under mu_
  std::map<Key, std::shared_ptr<Meeting>> meetings_;  // under mu_
  std::map<Letter, std::string> letters_;             // under mu_
  std::condition_variable posted_;
};

// One device's side of a launch: counts how often it came by each operation, so that the turns of loops find one
// another. Ends the launch for its process when it is destroyed without a word (an error: it was dropped).
class LaunchMember {
 public:
  // A replica or partition that the launch does not have makes the launch fail (InvalidArgument).
  LaunchMember(std::shared_ptr<Launch> launch, int64_t replica, int64_t partition);
  ~LaunchMember();
  LaunchMember(const LaunchMember&) = delete;
  LaunchMember& operator=(const LaunchMember&) = delete;

  Launch& launch() const { return *launch_; }
  int64_t process() const { return process_; }
  int64_t NextTurn(int64_t operation) { return turns_[operation]++; }
  void End(const absl::Status& status);

 private:
  const std::shared_ptr<Launch> launch_;
  const int64_t process_;
  bool ended_ = false;
  absl::flat_hash_map<int64_t, int64_t> turns_;
};

// The launches under way. Keeps a launch until all its devices have joined: a device may have sent its letters, failed
// or ended before another one comes, who must find what it left. A launch that some devices never join is let go at the
// first join after its time limit; whoever waits in it has given up by then.
class LaunchRegistry {
 public:
  // The launch `run_id`, made with `options` by whoever comes first.
  std::shared_ptr<Launch> Join(int64_t run_id, const LaunchOptions& options);
  // The devices that have not joined never will: the launch fails (Aborted) for those that have.
  void Abandon(int64_t run_id, const absl::Status& why);
  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<Launch> launch;
    int64_t missing = 0;
    std::chrono::steady_clock::time_point limit;
  };
  mutable std::mutex mu_;
  std::map<int64_t, Entry> entries_;  // under mu_
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_RENDEZVOUS_H_
