#include "sdk/backend/processes/mpi/engine.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace backplane::adapter {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// MPI cannot wake a thread. The engine asks often while messages are likely and rarely while they are not.
constexpr int kBusyPolls = 100, kQuickPolls = 400, kSlowPolls = 1000;
constexpr microseconds kQuickPause{20}, kSlowPause{200}, kIdlePause{1000};
// What a process sent before it left has arrived when nothing has come from it for this time, in which MPI was asked
// this often. The time alone says nothing if this process did not run in it.
constexpr milliseconds kLastMessages{50};
constexpr int kLastPolls = 20;
// How long the threads that wait for what has arrived may take to look at it. It may be the reason why a process left.
constexpr milliseconds kLastLook{2000};
constexpr int kTestsOfCancelled = 10;
// Longer than hosts wait for one another at their end.
constexpr std::chrono::minutes kFinalizeLimit{10};

// Variables that launchers set for each process: Open MPI's, Slurm's and MPICH's, and those of the PMIx standard.
constexpr const char* kLauncherVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "PMI_RANK"};

}  // namespace

std::string FormatMpiError(int error) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  if (MPI_Error_string(error, text, &size) != MPI_SUCCESS) return "MPI error " + std::to_string(error);
  return std::string(text, static_cast<size_t>(size));
}

MpiEngine& MpiEngine::Get() {
  static auto* const engine = new MpiEngine;
  return *engine;
}

void MpiEngine::Start(Clock::time_point deadline) {
  const bool launched = std::any_of(std::begin(kLauncherVariables), std::end(kLauncherVariables),
                                    [](const char* name) { return std::getenv(name) != nullptr; });
  if (!launched)
    throw std::runtime_error(
        "this process was not started by MPI; start the program with mpirun -n and the number of processes");
  std::unique_lock<std::mutex> lock(mu_);
  if (state_ == State::kNew) {
    state_ = State::kStarting;
    std::thread([this] { Run(); }).detach();
  }
  if (!changed_.wait_until(lock, deadline, [this] { return state_ != State::kStarting; }))
    throw std::runtime_error("MPI_Init_thread has not ended in time");
  ThrowIfBrokenLocked();
}

void MpiEngine::ThrowIfBrokenLocked() const {
  if (state_ == State::kBroken) throw std::runtime_error(error_);
  if (state_ != State::kRunning) throw std::runtime_error("MPI has ended in this process");
}

// Returns an error text, or "".
std::string MpiEngine::Initialize() {
  int was_initialized = 0, was_finalized = 0, level = 0;
  MPI_Initialized(&was_initialized);
  MPI_Finalized(&was_finalized);
  if (was_finalized != 0) return "MPI has ended in this process";
  if (was_initialized != 0) {
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) return "the host has started MPI without MPI_THREAD_MULTIPLE";
  } else {
    if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level); error != MPI_SUCCESS)
      return "MPI_Init_thread: " + FormatMpiError(error);
    is_owner_ = true;
    if (level < MPI_THREAD_SERIALIZED) return "this MPI does not support calls from several threads";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
  void* tag = nullptr;
  int has_tag = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &has_tag);
  max_tag_ = has_tag != 0 ? *static_cast<int*>(tag) : 32767;
  return "";
}

void MpiEngine::Run() {
  prctl(PR_SET_NAME, "backplane-mpi");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds; for the short pauses
  const std::string error = Initialize();
  std::unique_lock<std::mutex> lock(mu_);
  if (is_owner_) std::atexit([] { MpiEngine::Get().Finish(); });
  error_ = error;
  state_ = error.empty() ? State::kRunning : State::kBroken;
  changed_.notify_all();
  while (state_ == State::kRunning || state_ == State::kBroken) {
    if (state_ == State::kRunning) {
      PollLocked();
      EndPeersLocked();
    }
    if (state_ == State::kBroken || active_.empty()) {
      work_.wait(lock);
    } else if (idle_polls_ < kBusyPolls) {
      lock.unlock();
      sched_yield();
      lock.lock();
    } else {
      work_.wait_for(lock, idle_polls_ < kQuickPolls  ? kQuickPause
                           : idle_polls_ < kSlowPolls ? kSlowPause
                                                      : kIdlePause);
    }
  }
  lock.unlock();
  if (is_owner_ && !has_lost_process_) MPI_Finalize();
  lock.lock();
  state_ = State::kEnded;
  changed_.notify_all();
}

// Ends MPI when the process exits. MPI_Finalize waits for the other processes, so it is left out if one is lost, and
// not waited for without end.
void MpiEngine::Finish() {
  std::unique_lock<std::mutex> lock(mu_);
  if (state_ == State::kStarting) return;  // MPI_Init_thread hangs
  if (state_ == State::kBroken) has_lost_process_ = true;
  for (BackplaneMesh* mesh : meshes_) {
    mesh->is_closed = true;
    for (BackplaneTransfer* transfer : mesh->transfers) EndLocked(transfer, BACKPLANE_TRANSPORT_CLOSED, "closed");
  }
  if (state_ == State::kBroken) has_lost_process_ = true;
  state_ = State::kEnding;
  work_.notify_all();
  changed_.wait_for(lock, kFinalizeLimit, [this] { return state_ == State::kEnded; });
}

void MpiEngine::AddLocked(BackplaneTransfer* transfer) {
  active_.push_back(transfer);
  requests_.push_back(transfer->request);
  int done = 0;
  MPI_Status status;
  const int error = MPI_Test(&requests_.back(), &done, &status);
  if (error != MPI_SUCCESS || done != 0) {
    active_.pop_back();
    requests_.pop_back();
    CompleteLocked(transfer, error);
    return;
  }
  idle_polls_ = 0;
  work_.notify_all();
}

void MpiEngine::CompleteLocked(BackplaneTransfer* transfer, int error) {
  transfer->code = error == MPI_SUCCESS ? BACKPLANE_TRANSPORT_OK : BACKPLANE_TRANSPORT_FAILED;
  if (error != MPI_SUCCESS) transfer->error = FormatMpiError(error);
  transfer->copy.reset();
  if (!transfer->mesh->peers.empty()) {
    BackplaneMesh::Peer& peer = transfer->mesh->peers[static_cast<size_t>(transfer->peer)];
    peer.last_used = Clock::now();
    peer.polls = 0;
  }
  transfer->changed.notify_all();
}

void MpiEngine::PollLocked() {
  if (active_.empty()) return;
  if (!is_owner_) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return BreakLocked("the host has ended MPI");
  }
  int done = 0;
  indices_.resize(active_.size());
  statuses_.resize(active_.size());
  const int error =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done, indices_.data(), statuses_.data());
  if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return BreakLocked("MPI_Testsome: " + FormatMpiError(error));
  ++idle_polls_;
  if (done == MPI_UNDEFINED || done == 0) return;
  idle_polls_ = 0;
  for (int i = 0; i < done; ++i) {
    BackplaneTransfer*& transfer = active_[static_cast<size_t>(indices_[static_cast<size_t>(i)])];
    CompleteLocked(transfer, error == MPI_SUCCESS ? MPI_SUCCESS : statuses_[static_cast<size_t>(i)].MPI_ERROR);
    transfer = nullptr;
  }
  size_t kept = 0;
  for (size_t i = 0; i < active_.size(); ++i) {
    if (active_[i] == nullptr) continue;
    active_[kept] = active_[i];
    requests_[kept++] = requests_[i];
  }
  active_.resize(kept);
  requests_.resize(kept);
}

void MpiEngine::Wait(std::unique_lock<std::mutex>& lock, BackplaneTransfer* transfer,
                     const Clock::time_point* deadline) {
  const auto has_ended = [&] { return transfer->code != BackplaneTransfer::kActive; };
  if (deadline == nullptr) {
    transfer->changed.wait(lock, has_ended);
  } else if (!transfer->changed.wait_until(lock, *deadline, has_ended)) {
    EndLocked(transfer, BACKPLANE_TRANSPORT_TIMED_OUT, "no answer in time");
  }
}

void MpiEngine::EndLocked(BackplaneTransfer* transfer, int code, const std::string& error) {
  const auto at = std::find(active_.begin(), active_.end(), transfer);
  if (at == active_.end()) return;
  const auto index = at - active_.begin();
  MPI_Request request = requests_[static_cast<size_t>(index)];
  active_.erase(at);
  requests_.erase(requests_.begin() + index);
  // A receive that has no message yet can be cancelled. One that has is mostly complete at once.
  if (!transfer->sends) MPI_Cancel(&request);
  int done = 0;
  MPI_Status status;
  for (int i = 0; i < kTestsOfCancelled && done == 0; ++i) {
    if (MPI_Test(&request, &done, &status) != MPI_SUCCESS) done = 1;
  }
  transfer->code = code;
  transfer->error = error;
  transfer->changed.notify_all();
  if (done == 0) {
    if (transfer->copy != nullptr)
      (void)transfer->copy.release();  // MPI may still read it
    else
      BreakLocked("MPI cannot end a transfer with process " + std::to_string(transfer->peer) +
                  "; start this process again");
  }
}

void MpiEngine::EndIfNotDoneLocked(BackplaneTransfer* transfer) {
  for (int i = 0; i < kLastPolls && transfer->code == BackplaneTransfer::kActive; ++i) PollLocked();
  EndLocked(transfer, BACKPLANE_TRANSPORT_FAILED, "its connection has ended");
}

void MpiEngine::PeerHasLeft(BackplaneMesh* mesh, int32_t peer, bool said_goodbye) {
  std::lock_guard<std::mutex> lock(mu_);
  has_lost_process_ |= !said_goodbye;
  BackplaneMesh::Peer& p = mesh->peers[static_cast<size_t>(peer)];
  p.has_left = has_leavers_ = true;
  p.last_used = p.left_at = Clock::now();
  p.polls = 0;
  idle_polls_ = 0;
  work_.notify_all();
}

void MpiEngine::EndPeersLocked() {
  if (!has_leavers_) return;
  has_leavers_ = false;
  const auto now = Clock::now();
  for (BackplaneMesh* mesh : meshes_) {
    for (size_t p = 0; p < mesh->peers.size(); ++p) {
      BackplaneMesh::Peer& peer = mesh->peers[p];
      if (!peer.has_left || peer.is_gone) continue;
      const bool is_unread =
          std::any_of(mesh->transfers.begin(), mesh->transfers.end(), [&](const BackplaneTransfer* transfer) {
            return transfer->peer == static_cast<int32_t>(p) && !transfer->sends &&
                   transfer->code == BACKPLANE_TRANSPORT_OK;
          });
      if (is_unread && now < peer.left_at + kLastLook) {
        peer.last_used = now;
        peer.polls = 0;
      }
      if (++peer.polls < kLastPolls || now < peer.last_used + kLastMessages) {
        has_leavers_ = true;
        continue;
      }
      peer.is_gone = true;
      for (BackplaneTransfer* transfer : mesh->transfers) {
        if (transfer->peer == static_cast<int32_t>(p))
          EndLocked(transfer, BACKPLANE_TRANSPORT_FAILED, "its connection has ended");
      }
    }
  }
}

void MpiEngine::BreakLocked(const std::string& why) {
  if (state_ != State::kRunning) return;
  state_ = State::kBroken;
  error_ = why;
  for (BackplaneTransfer* transfer : active_) {
    transfer->code = BACKPLANE_TRANSPORT_FAILED;
    transfer->error = why;
    transfer->changed.notify_all();
  }
  active_.clear();
  requests_.clear();
  changed_.notify_all();
}

}  // namespace backplane::adapter
