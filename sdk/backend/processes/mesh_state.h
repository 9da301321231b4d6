// The state of a MessageMesh. message_mesh.cc has the connections, mesh_transfers.cc what is sent and received,
// mesh_frames.cc what is done with the messages that arrive, mesh_posts.cc the messages that this process keeps,
// mesh_failures.cc the reports of failures and the time limits, mesh_launches.cc the launches that it
// knows, mesh_exchange.cc their exchanges. Used by these files only.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MESH_STATE_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MESH_STATE_H_

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/frame.h"
#include "sdk/backend/processes/mesh_records.h"
#include "sdk/backend/processes/message_mesh.h"
#include "sdk/backend/processes/shared_memory.h"

namespace backplane {

using namespace message_mesh;  // NOLINT: names of the files of this class

class MessageMesh::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(const Options& options)
      : transport_(options.transport),
        self_(options.process),
        count_(options.num_processes),
        lost_(static_cast<size_t>(count_)),
        leaving_(static_cast<size_t>(count_)),
        heard_(static_cast<size_t>(count_)),
        queued_bytes_(static_cast<size_t>(count_)),
        queued_chunks_(static_cast<size_t>(count_)),
        used_bytes_(static_cast<size_t>(count_)),
        ahead_bytes_(static_cast<size_t>(count_)),
        max_ahead_bytes_(options.max_ahead_bytes),
        kept_bytes_(static_cast<size_t>(count_)),
        deferred_(static_cast<size_t>(count_)),
        queued_reports_(static_cast<size_t>(count_)),
        max_unawaited_frames_(options.max_unawaited_frames),
        unawaited_(static_cast<size_t>(count_)),
        moved_(new std::atomic<Clock::time_point>[static_cast<size_t>(count_)]()),
        rings_(new Ring[static_cast<size_t>(count_)]) {
    buffers_.reserve(kKeptBuffers);
  }
  ~State() {
    if (mesh_ != nullptr) transport_->destroy(mesh_);
  }

  int32_t self() const { return self_; }
  int32_t count() const { return count_; }
  bool SharesMemoryWith(int32_t peer) const { return shared_ != nullptr && shared_->Reaches(peer); }
  absl::Status Connect(const Options& options);
  bool HasRings(int32_t peer) const { return shared_ != nullptr && shared_->HasRings(peer); }
  void Receive(int32_t peer);          // the body of a receiving thread
  void ReceiveFromRing(int32_t peer);  // the same for messages in shared memory
  void Control();                      // the body of the thread for reports and time limits
  void Close();
  // `tells`: `peer` may not know, and is told.
  void LosePeer(int32_t peer, absl::string_view why, bool tells);
  // Whether the process needs nothing more of this one: it has answered the last ping, is leaving, or is lost.
  bool HasHandledAll(int32_t peer);

  // Starts a launch and returns its key, and the failure that must be told at once. A failure that this process reports
  // is told later.
  LaunchKey Register(const std::shared_ptr<Record>& record, absl::Status* failure);
  // Waits until the reports of a failed launch are on their way, if it has any.
  void FlushReports(Record& record) ABSL_LOCKS_EXCLUDED(mu_);
  void Unregister(const LaunchKey& key);
  void FailFromHere(const LaunchKey& key, const std::shared_ptr<Record>& record, const absl::Status& why);
  absl::Status Exchange(const LaunchKey& launch, const std::shared_ptr<Record>& record, const ExchangeKey& key,
                        absl::string_view what, absl::Span<const OutgoingPart> sends,
                        absl::Span<const IncomingPart> receives);
  size_t CountKept() {
    MutexLock lock(mu_);
    return kept_.size();
  }
  absl::Status Post(const LaunchKey& launch, const std::shared_ptr<Record>& record, const ExchangeKey& key,
                    absl::string_view what, int32_t process, std::string bytes);

 private:
  static constexpr size_t kKeptBuffers = 32;
  // What is to be called, without the lock, after a launch has failed. Without one, it is false.
  struct Callback {
    std::function<void(const absl::Status&)> call;
    absl::Status why;
    explicit operator bool() const { return call != nullptr; }
    void operator()() const { call(why); }
  };
  // An exchange in progress. Other threads have pointers to it, and transfers use memory of it and of the caller, so
  // its destructor ends all that, also after an exception.
  struct RunningExchange {
    RunningExchange(State* s, const LaunchKey& l, const std::shared_ptr<Record>& r, const ExchangeKey& k,
                    absl::string_view what)
        : state(s), launch(l), key(k) {
      watch.record = r;
      watch.what = std::string(what);
    }
    ~RunningExchange() {
      if (!has_ended) state->AbandonExchange(*this);
    }
    RunningExchange(const RunningExchange&) = delete;
    RunningExchange& operator=(const RunningExchange&) = delete;
    Record& record() const { return *watch.record; }
    void Note(absl::Status status) {
      if (error.ok()) error = std::move(status);
    }
    // Returns the error with the names of the operation and the program, if there is memory for them.
    absl::Status MakeNamedError() const {
      absl::Status named = error;
      (void)CatchExceptions([&] {
        named =
            absl::Status(error.code(), absl::StrCat(watch.what, " of ", record().program.name, ": ", error.message()));
      });
      return named;
    }

    State* const state;
    const LaunchKey launch;
    const ExchangeKey key;
    Watch watch;
    absl::Status error;
    std::vector<PartState> in, out;  // `out` has the parts that are offered
    std::vector<OutgoingPart> messages;
    std::vector<SharedSend> shared;
    std::vector<std::pair<PartState*, std::unique_ptr<Arrived>>> early;  // what had arrived before
    std::vector<Pending> pending, frames;
    Callback then;                // what to call, without the lock, after the launch has failed
    bool is_active = false;       // has its name in the record
    bool is_counted = false;      // what it sends ahead is counted
    bool opens_launch = false;    // one of its messages may be the first of the launch
    size_t messages_started = 0;  // of `messages`, then of `out`
    // When to ask the processes that are waited for whether they are alive, then when to judge their answers.
    Clock::time_point wait_until, asked{};
    std::chrono::microseconds pause = kFirstBlockPause;  // until the next look for a free block
    bool has_ended = false;
  };
  struct Report {
    int32_t peer;
    FrameHeader header;
    std::string text;
  };
  absl::Status SizeError(absl::string_view doing, int32_t peer, int64_t sent, int64_t expected) const;
  absl::Status TransportError(int code, const ErrorText& error, int32_t peer) const;
  FrameHeader MakeHeader(const LaunchKey& launch, const Record& record, FrameKind kind, const ExchangeKey& key,
                         int64_t part) const;
  FrameBuffer TakeBuffer();
  void ReturnBuffer(FrameBuffer buffer);
  absl::Status StartFrame(int32_t peer, const FrameHeader& header, const void* payload, std::vector<Pending>* pending);
  // The same with a buffer that has room for the frame.
  absl::Status StartFrameIn(FrameBuffer buffer, int32_t peer, const FrameHeader& header, const void* payload,
                            std::vector<Pending>* pending);
  // Starts a frame for which nobody waits. Does not throw. ResourceExhausted: there was no memory for it.
  absl::Status SendUnawaited(const Report& report);
  absl::Status StartUnawaitedLocked(int32_t peer, FrameHeader header, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(unawaited_mu_);
  // Sends a ping if many frames may still be on their way.
  void AskWhetherArrivedLocked(int32_t peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(unawaited_mu_);
  // The answer to the ping `number` has come: frees what was sent before it.
  void FreeUnawaited(int32_t peer, uint64_t number);
  // Sends a frame through the ring to `peer`. Returns false if there is none, or no room.
  bool PostInRing(int32_t peer, const FrameHeader& header, const void* payload);
  // Handles all frames that are in the ring from `peer`.
  absl::Status DrainRing(int32_t peer);
  // Starts the transfers of a part to or from memory of the caller; the other is null. `pending` has room for them.
  // Returns the transport's code.
  int StartPieces(int32_t peer, uint64_t slot, const void* from, void* to, int64_t bytes, std::vector<Pending>* pending,
                  ErrorText* error);
  absl::Status StartReceive(int32_t peer, const PartState& part, const FrameHeader& ready,
                            std::vector<Pending>* pending);
  absl::Status WaitFor(std::vector<Pending>& pending, Watch& watch);
  // Returns an error if the process does not keep to the rules. If this process runs out of memory, the launch fails.
  absl::Status HandleFrame(int32_t peer, const FrameHeader& header, const char* payload);
  absl::Status HandleFrameOrThrow(int32_t peer, const FrameHeader& header, const char* payload);
  absl::Status HandleReady(const FrameHeader& header, const KeptKey& key, bool* is_kept);
  void HandleTaken(const KeptKey& key);
  // Keeps a message until its receiver, which has yet to be told of it, has taken it.
  absl::Status KeepLocked(const KeptKey& key, std::string bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::unique_ptr<KeptMessage> TakeKeptLocked(KeptMessages::const_iterator at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitForAll(const std::vector<Pending>& pending);  // ignores their errors
  // Frees all messages for a process whose connection has ended.
  void FreeKept(int32_t peer);
  // Returns the record of a launch of which `peer` speaks. It may be created. Null: the launch is over. Notes what an
  // unregistered launch costs `peer`.
  absl::StatusOr<std::shared_ptr<Record>> FindRecordLocked(const LaunchKey& launch, int32_t peer,
                                                           const FrameHeader& header)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // This process starts a launch of which others have spoken.
  void ForgetSpeakersLocked(const Record& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts the memory that the receivers of the exchange need for the launch, once for each of them. A message that is
  // about to be sent must say so if TellLaunch returns true. If it is not sent after all, UntellLaunch is called.
  void OpenLaunchLocked(RunningExchange& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TellLaunch(Record& record, int32_t peer) ABSL_LOCKS_EXCLUDED(mu_);
  void UntellLaunch(Record& record, int32_t peer) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends a message of an exchange, through the ring if `uses_rings`, which is then whether it did. Does not throw.
  absl::Status SendMessage(RunningExchange& run, int32_t peer, FrameHeader header, const void* payload,
                           bool* uses_rings);
  // Returns the part into which the chunk is to be copied, or null. Sets `keep` if the chunk is released later, and
  // `then` to what to call without the lock.
  absl::StatusOr<PartState*> HandleChunkLocked(const LaunchKey& launch, Record& record, const PartKey& key,
                                               const FrameHeader& header, bool* keep, Callback* then)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishChunkLocked(Record& record, PartState& part, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropArrivedLocked(const LaunchKey& launch, const Arrived& arrived) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Data or an offer of `peer` has been used or dropped, and takes no room here any more. They do not throw.
  void AddUsedBytesLocked(int32_t peer, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountUsedFrameLocked(int32_t peer, const FrameHeader& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does not throw: without memory for the report, the sender keeps the message until one of the two is closed.
  void QueueTakenLocked(const LaunchKey& launch, const PartKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Divides what is sent between shared memory and messages. `at_once`: shared memory is used only if there is room
  // for all now.
  void PlanSends(absl::Span<const OutgoingPart> sends, bool at_once, RunningExchange* run);
  absl::Status RunExchange(RunningExchange& run);
  // The steps of RunExchange. EnterParts makes the exchange known to the other threads, unless the launch has failed:
  // then it returns the failure. A failure that the exchange causes itself is in `run.error`.
  absl::Status EnterParts(RunningExchange& run) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes what has arrived for the part. The part waits for the rest.
  void TakeArrivedLocked(RunningExchange& run, PartState& in) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Divides the messages between those that are sent ahead and those that are only offered, and counts both.
  void DivideMessagesLocked(RunningExchange& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts a message. Returns whether it is sent ahead.
  bool CountAheadLocked(const OutgoingPart& send) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves the parts that can be transferred now to `answered`; waits for a change if there are none. Returns false if
  // the exchange has nothing more to wait for, or its launch has failed.
  bool WaitForAnswers(RunningExchange& run, std::vector<PartState*>* answered) ABSL_LOCKS_EXCLUDED(mu_);
  // Called after a time limit. At first it asks the processes that are waited for whether they are alive. Then it fails
  // the launch: because of those that gave no answer, or because of all of them if each gave one.
  void JudgeSilenceLocked(RunningExchange& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Return an error if the exchange still needs a process that is lost, or has closed its client: any one, one that
  // reads from shared memory, or this one.
  absl::Status FindLostLocked(const RunningExchange& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status FindLostReaderLocked(const RunningExchange& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckPeerLocked(const RunningExchange& run, int32_t peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<int32_t> FindAwaitedLocked(const RunningExchange& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartTransfer(RunningExchange& run, const PartState& part);
  void StartMessages(RunningExchange& run);
  void TakeEarly(RunningExchange& run);
  void EndExchange(RunningExchange& run);
  void AbandonExchange(RunningExchange& run);  // after an exception: fails the launch, and ends the exchange
  // Returns whether anything was written. `like` is the header of their messages.
  absl::StatusOr<bool> AdvanceSharedSends(const FrameHeader& like, RunningExchange& run);
  void CheckWatches();
  // Whether the transfer for which the exchange waits has not come on for the time limit, and its process is silent.
  bool IsStuckLocked(Watch& watch, int32_t peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether a launch of this process goes on, or another process has yet to take a message that is kept for it.
  bool IsNeededLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Fails a launch, unless it has failed already, and queues a report for each other process except `except`. Returns
  // what to call without the lock. Does not throw.
  Callback FailLocked(const LaunchKey& key, Record& record, absl::Status why, bool report, int32_t except = -1)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Queues the reports of a failure that are not queued yet. Does not throw.
  void QueueReportsLocked(const LaunchKey& key, Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Leaves the call of a launch that has failed at its start to the control thread, if there are reports to be sent
  // first.
  bool LeaveCallLocked(Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the reports of the failure had time to leave.
  bool MayCallLocked(Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Queues the reports for which there is room now.
  void QueueDeferredLocked(int32_t peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds `call` to `calls`, or leaves it to the control thread. Does not throw.
  void AddCallLocked(Callback call, Record& record, std::vector<Callback>* calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void QueueReportLocked(Report&& report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void QueuePlainFrame(int32_t peer, FrameKind kind, uint64_t number = 0) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends a frame to each process and receives one of the same kind from each, before the threads start.
  absl::Status ExchangeFrames(FrameKind kind, const std::function<std::string(int32_t)>& make_payload,
                              const std::function<absl::Status(int32_t, absl::string_view)>& accept,
                              Clock::time_point deadline);
  absl::Status ExchangeTokens(const std::string& token, Clock::time_point deadline);
  absl::Status ShareMemory(int64_t blocks, Clock::time_point deadline);
  absl::Status CheckClaim(const Record& record, const Claim& claim) const;

  const BackplaneTransport* const transport_;
  const int32_t self_, count_;
  BackplaneMesh* mesh_ = nullptr;         // set by Connect
  std::unique_ptr<SharedMemory> shared_;  // set by Connect; null: none
  std::atomic<uint64_t> next_slot_{1};
  std::atomic<bool> closing_{false};  // all threads end

  Mutex mu_;
  std::map<LaunchKey, std::shared_ptr<Record>> records_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> next_sequence_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::Status> lost_ ABSL_GUARDED_BY(mu_);        // by process
  std::vector<bool> leaving_ ABSL_GUARDED_BY(mu_);             // by process
  std::vector<Clock::time_point> heard_ ABSL_GUARDED_BY(mu_);  // by process: when its last frame came
  // By process: what arrived before it was expected, and the launches that it has made known.
  std::vector<int64_t> queued_bytes_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> queued_chunks_ ABSL_GUARDED_BY(mu_);  // by process: chunks that were not expected either
  // By process: what it has sent and this process has used, but not yet reported to it.
  std::vector<int64_t> used_bytes_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> ahead_bytes_ ABSL_GUARDED_BY(mu_);  // by process: sent to it, not yet known to be used
  const int64_t max_ahead_bytes_;
  KeptMessages kept_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> kept_bytes_ ABSL_GUARDED_BY(mu_);  // by process: of the messages for it
  std::deque<Report> reports_ ABSL_GUARDED_BY(mu_);
  // By process: reports of failures for which the receiver has no room. They are not counted as sent ahead.
  std::vector<std::deque<Report>> deferred_ ABSL_GUARDED_BY(mu_);
  std::vector<size_t> queued_reports_ ABSL_GUARDED_BY(mu_);  // by process: those that have not been sent
  uint64_t reports_queued_ ABSL_GUARDED_BY(mu_) = 0, reports_done_ ABSL_GUARDED_BY(mu_) = 0;  // in all
  CondVar reports_sent_;
  std::vector<Watch*> watches_ ABSL_GUARDED_BY(mu_);
  CondVar control_;
  bool has_untold_failures_ ABSL_GUARDED_BY(mu_) = false;  // a record owes something
  CondVar for_close_;                                      // a launch has ended, or a kept message is gone
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;              // new launches fail

  Mutex buffers_mu_;
  std::vector<FrameBuffer> buffers_ ABSL_GUARDED_BY(buffers_mu_);
  std::vector<Pending> greetings_;                        // while connecting
  std::vector<std::pair<int32_t, FrameBuffer>> answers_;  // while connecting

  // The frames to a process for which nobody waits. A transfer cannot be asked whether it has ended; but when the
  // answer to a ping comes, all frames before it have.
  struct Unawaited {
    uint64_t ping = 0;            // whose answer has not come; 0: none
    std::vector<Pending> asked;   // up to that ping
    std::vector<Pending> frames;  // later ones
    uint64_t last_ping = 0;       // the number of the last one that was sent
    uint64_t last_pong = 0;       // the number of the last one that was answered
  };
  const size_t max_unawaited_frames_;
  Mutex unawaited_mu_;
  std::vector<Unawaited> unawaited_ ABSL_GUARDED_BY(unawaited_mu_);  // by process
  uint64_t pings_ ABSL_GUARDED_BY(unawaited_mu_) = 0;

  const std::unique_ptr<std::atomic<Clock::time_point>[]> moved_;  // by process: when a transfer has last ended

  // What a process sends through its ring and what it sends through the connection is handled in two threads. The order
  // of the two does not matter, except that everything in the ring is handled before a later frame of the connection,
  // such as a goodbye, and before the loss of the connection.
  struct Ring {
    Mutex mu;  // taken before mu_; guards the reader's side
    FrameBuffer record ABSL_GUARDED_BY(mu);
    bool is_invalid ABSL_GUARDED_BY(mu) = false;  // nothing more is read
  };
  const std::unique_ptr<Ring[]> rings_;  // by process
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MESH_STATE_H_
