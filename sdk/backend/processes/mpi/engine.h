// MPI in this process: one thread starts it, completes its requests, and ends it. See adapter.cc.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MPI_ENGINE_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MPI_ENGINE_H_

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "sdk/backend/processes/mpi/lifelines.h"
#include "sdk/backend/processes/transport.h"

// The fields of both are guarded by the engine's lock.
struct BackplaneTransfer {
  static constexpr int kActive = -1;

  BackplaneMesh* mesh = nullptr;
  int32_t peer = 0;
  bool sends = false;
  MPI_Request request = MPI_REQUEST_NULL;
  std::unique_ptr<char[]> copy;  // of what is sent; null: the memory of the caller is used
  int code = kActive;            // later a BackplaneTransportCode
  std::string error;
  std::condition_variable changed;
};

struct BackplaneMesh {
  using Clock = std::chrono::steady_clock;
  struct Peer {
    int rank = 0;                 // in `comm`
    bool has_left = false;        // its lifeline has ended
    bool is_gone = false;         // its transfers have been ended
    Clock::time_point left_at;    // when its lifeline ended
    Clock::time_point last_used;  // when its lifeline ended, or a transfer completed or was unread after that
    int polls = 0;                // of MPI since `last_used`
  };

  int32_t process = 0;
  // Never freed: MPI would give its number to a later communicator, which could receive what was sent over this one.
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<Peer> peers;
  bool is_closed = false;
  std::unordered_set<BackplaneTransfer*> transfers;  // that nobody has waited for yet
  std::unique_ptr<backplane::adapter::Lifelines> lifelines;
};

namespace backplane::adapter {

// There is one engine in a process, and it is never destroyed. All calls of MPI are made under its lock, so that MPI
// needs to support one thread at a time only (MPI_THREAD_SERIALIZED). If MPI has been started by the host, it must
// support several (MPI_THREAD_MULTIPLE), because the host does not know the lock.
//
// A transfer whose memory MPI may still use cannot be ended: MPI has no call for that. Since its memory must be given
// back, the engine never calls MPI again then; it is broken. All transfers fail, and the process has to be started
// again.
//
// Functions throw std::runtime_error. Those whose name ends in Locked need the lock.
class MpiEngine {
 public:
  using Clock = std::chrono::steady_clock;

  static MpiEngine& Get();

  // Starts MPI unless it has been started. Throws if the process was not started by an MPI launcher, because MPI would
  // abort it later.
  void Start(Clock::time_point deadline);
  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int max_tag() const { return max_tag_; }

  std::mutex& mu() { return mu_; }
  void ThrowIfBrokenLocked() const;
  // Watches a request that was just started. Completes it at once if it is done.
  void AddLocked(BackplaneTransfer* transfer);
  // Waits until the transfer is not active, or ends it at the deadline. `lock` holds mu().
  void Wait(std::unique_lock<std::mutex>& lock, BackplaneTransfer* transfer, const Clock::time_point* deadline);
  // Ends a transfer with a process that is gone, unless it is done: a message that came before the end is received.
  void EndIfNotDoneLocked(BackplaneTransfer* transfer);
  // Ends an active transfer.
  void EndLocked(BackplaneTransfer* transfer, int code, const std::string& error);
  void AddMeshLocked(BackplaneMesh* mesh) { meshes_.insert(mesh); }
  void RemoveMeshLocked(BackplaneMesh* mesh) { meshes_.erase(mesh); }
  void PeerHasLeft(BackplaneMesh* mesh, int32_t peer, bool said_goodbye);

 private:
  enum class State { kNew, kStarting, kRunning, kBroken, kEnding, kEnded };

  MpiEngine() = default;
  void Run();
  std::string Initialize();
  void PollLocked();
  void CompleteLocked(BackplaneTransfer* transfer, int error);
  void EndPeersLocked();
  void BreakLocked(const std::string& why);
  void Finish();

  std::mutex mu_;
  std::condition_variable changed_, work_;
  State state_ = State::kNew;
  std::string error_;              // of the start, or why the engine is broken
  bool has_lost_process_ = false;  // MPI_Finalize would wait for it
  bool is_owner_ = false;          // this engine has started MPI
  int rank_ = 0, world_size_ = 0, max_tag_ = 0;
  std::vector<BackplaneTransfer*> active_;
  std::vector<MPI_Request> requests_;  // of active_
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  int idle_polls_ = 0;
  bool has_leavers_ = false;  // some process has left whose transfers have not been ended
  std::unordered_set<BackplaneMesh*> meshes_;
};

std::string FormatMpiError(int error);

}  // namespace backplane::adapter

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MPI_ENGINE_H_
