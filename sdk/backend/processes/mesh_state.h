// The state of a MessageMesh. message_mesh.cc has the connections, mesh_frames.cc what arrives, mesh_failures.cc the
// reports of failures and the time limits, mesh_exchange.cc the exchanges of launches. Used by these files only.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MESH_STATE_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MESH_STATE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "base/mutex.h"
#include "sdk/backend/processes/frame.h"
#include "sdk/backend/processes/message_mesh.h"
#include "sdk/backend/processes/shared_memory.h"

namespace backplane {
namespace message_mesh {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A process that has sent more than this before it was expected is not read from until some of it is used.
constexpr int64_t kMaxQueuedBytes = int64_t{256} << 20;
// Launches of which others have spoken before this process has started them.
constexpr size_t kMaxUnknownLaunches = 65536;
// How long a transfer may go on after its launch has failed. Then the connections are closed, since its memory cannot
// be released otherwise.
constexpr milliseconds kTransferGrace{2000};
constexpr milliseconds kWatchInterval{100};
constexpr size_t kPostedFrames = 3;
// Smaller parts are sent in messages, although the memory is shared. With rings a message costs little, and so does the
// one that announces a block.
constexpr int64_t kMinSharedBytes = 64 * 1024, kMinSharedBytesWithRings = 16 * 1024;
static_assert(sizeof(FrameHeader) + kMinSharedBytesWithRings <= MessageRing::kMaxRecordBytes);
// The blocks of one array that is being sent. While the receivers copy one, the next is filled.
constexpr size_t kBlocksOfSend = 4;
// How often a sender looks whether a block is free.
constexpr std::chrono::microseconds kFirstBlockPause{20}, kLastBlockPause{1000};
// After the time limit of an exchange the processes that are waited for are asked whether they are alive. One that does
// not answer within this time is the cause.
constexpr milliseconds kPingTime{1000};
// Processes that do answer wait for another one themselves, and report it within this time.
constexpr milliseconds kReportTime{3000};
// How long an exchange that has failed waits until its report is sent, because the host may end the process then.
constexpr milliseconds kReportFlush{500};
// For the last messages, before the connections are closed.
constexpr milliseconds kPartingTime{30};

inline std::string Seconds(milliseconds limit) { return absl::StrCat(static_cast<double>(limit.count()) / 1000, " s"); }

// An error text of the transport.
struct ErrorText {
  char text[512] = {};
  BackplaneTransportError get() { return {text, sizeof text}; }
};

inline uint64_t HashProcesses(const std::vector<int32_t>& processes) {
  return Fnv1a64(
      absl::string_view(reinterpret_cast<const char*>(processes.data()), processes.size() * sizeof(processes[0])));
}

// A part of one exchange with one process.
struct PartKey {
  ExchangeKey key;
  int64_t part = 0;
  int32_t peer = 0;
  friend bool operator==(const PartKey&, const PartKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PartKey& k) {
    return H::combine(std::move(h), k.key, k.part, k.peer);
  }
};

// A part that this process expects, or sends after an offer.
struct PartState {
  enum class Step : uint8_t { kWaiting, kAnswered, kStarted, kDone } step = Step::kWaiting;
  int32_t peer = 0;
  int64_t part = 0, bytes = 0;
  void* to = nullptr;          // of a receive
  const void* from = nullptr;  // of a send
  uint64_t slot = 0;           // of an answered send
  // Of a receive: the threads that copy into it now, and the bytes of the chunks that were announced and copied.
  int copies = 0;
  int64_t announced = 0, copied = 0;
};

// What has arrived and is not expected yet: an offer, the data, or chunks in shared memory.
struct Arrived {
  bool is_offer = false;
  int64_t bytes = 0;
  std::string data;
  std::vector<SharedChunk> chunks;
  int64_t announced = 0;  // the bytes of the chunks
};

struct Claim {
  int32_t peer;
  LaunchProgram program;
};

// A launch, as this process knows it.
struct Record {
  bool registered = false;
  std::vector<int32_t> processes;
  LaunchProgram program;
  milliseconds limit{0};
  absl::Status failure;
  Clock::time_point failed_at;
  std::function<void(const absl::Status&)> on_failure;
  std::vector<Claim> claims;  // of other processes, before the registration
  absl::flat_hash_map<PartKey, Arrived> arrived;
  absl::flat_hash_map<PartKey, PartState*> receives, sends;
  std::vector<std::string> active;  // the operations that wait, for messages
  CondVar changed;

  bool Includes(int32_t process) const {
    return std::find(processes.begin(), processes.end(), process) != processes.end();
  }
  // "all-reduce.3 of jit_step", for messages
  std::string Doing() const {
    return active.empty() ? program.name : absl::StrCat(active.front(), " of ", program.name);
  }
};

using LaunchKey = std::pair<uint64_t, uint64_t>;  // hash of the processes, number

// A group of transfers that must end in time.
struct Watch {
  Clock::time_point deadline;
  std::shared_ptr<Record> record;
  std::string what;
  std::atomic<int32_t> peer{-1};  // whose transfer is waited for
};

// An array that is sent through shared memory, to one or several processes.
struct SharedSend {
  const std::byte* data = nullptr;
  int64_t bytes = 0, position = 0;  // what is before `position` is in the shared memory
  struct Reader {
    int32_t process;
    int64_t part;
  };
  std::vector<Reader> readers;
  std::vector<uint32_t> blocks;  // used in turn
  size_t next = 0;
  bool uses_rings = true;  // for the messages that announce the blocks
  bool IsDone() const { return position == bytes; }
};

using FrameBuffer = std::unique_ptr<char[]>;

}  // namespace message_mesh

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
        rings_(new Ring[static_cast<size_t>(count_)]) {}
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
  void LosePeer(int32_t peer, const std::string& why);

  // Starts a launch and returns its key, and the failure of which others have already told.
  LaunchKey Register(const std::shared_ptr<Record>& record, absl::Status* failure);
  void FlushReports() ABSL_LOCKS_EXCLUDED(mu_);
  void Unregister(const LaunchKey& key);
  void FailFromHere(const LaunchKey& key, const std::shared_ptr<Record>& record, const absl::Status& why);
  absl::Status RunExchange(const LaunchKey& launch, const std::shared_ptr<Record>& record, const ExchangeKey& key,
                           absl::string_view what, absl::Span<const OutgoingPart> sends,
                           absl::Span<const IncomingPart> receives);

 private:
  struct Pending {
    BackplaneTransfer* transfer;
    int32_t peer;
    FrameBuffer buffer;  // null: memory of the caller
  };
  struct Report {
    int32_t peer;
    FrameHeader header;
    std::string text;
  };
  using Callback = std::function<void()>;

  absl::Status SizeError(absl::string_view doing, int32_t peer, int64_t sent, int64_t expected) const;
  absl::Status TransportError(int code, const ErrorText& error, int32_t peer) const;
  FrameHeader HeaderFor(const LaunchKey& launch, const Record& record, FrameKind kind, const ExchangeKey& key,
                        int64_t part) const;
  FrameBuffer TakeBuffer();
  void ReturnBuffer(FrameBuffer buffer);
  absl::Status StartFrame(int32_t peer, const FrameHeader& header, const void* payload, std::vector<Pending>* pending);
  // The same with a buffer that has room for the frame.
  absl::Status StartFrameIn(FrameBuffer buffer, int32_t peer, const FrameHeader& header, const void* payload,
                            std::vector<Pending>* pending);
  // Sends a frame through the ring to `peer`. Returns false if there is none, or no room.
  bool PostInRing(int32_t peer, const FrameHeader& header, const void* payload);
  // Handles all frames that are in the ring from `peer`.
  absl::Status DrainRing(int32_t peer);
  absl::Status StartReceive(int32_t peer, const PartState& part, const FrameHeader& ready,
                            std::vector<Pending>* pending);
  absl::Status WaitFor(std::vector<Pending>& pending, Watch& watch);
  absl::Status HandleFrame(int32_t peer, const FrameHeader& header, const char* payload);
  // Returns the part into which the chunk is to be copied, or null. Sets `keep` if the chunk is released later, and
  // `then` to what to call without the lock.
  absl::StatusOr<PartState*> HandleChunkLocked(const LaunchKey& launch, Record& record, const PartKey& key,
                                               const FrameHeader& header, bool* keep, Callback* then)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishChunkLocked(Record& record, const PartKey& key, PartState& part, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropArrivedLocked(int32_t peer, const Arrived& arrived) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<SharedSend> PlanSharedSends(absl::Span<const OutgoingPart> sends, std::vector<OutgoingPart>* others);
  // Returns whether anything was written. `like` is the header of their messages.
  absl::StatusOr<bool> AdvanceSharedSends(const FrameHeader& like, std::vector<SharedSend>& sends, Watch& watch);
  void ReturnBlocks(absl::Span<const SharedSend> sends);
  void CheckWatches();
  void SendReport(Report report);
  // Fails a launch and queues the reports for `except` and the other processes. Returns what to call without the lock.
  Callback FailLocked(const LaunchKey& key, Record& record, absl::Status why, bool report, int32_t except = -1)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void QueuePlainFrame(int32_t peer, FrameKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
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
  std::atomic<bool> closing_{false};

  Mutex mu_;
  std::map<LaunchKey, std::shared_ptr<Record>> records_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> next_sequence_ ABSL_GUARDED_BY(mu_);
  size_t unknown_launches_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<absl::Status> lost_ ABSL_GUARDED_BY(mu_);        // by process
  std::vector<bool> leaving_ ABSL_GUARDED_BY(mu_);             // by process
  std::vector<Clock::time_point> heard_ ABSL_GUARDED_BY(mu_);  // by process: when its last frame came
  std::vector<int64_t> queued_bytes_ ABSL_GUARDED_BY(mu_);     // by process: what arrived before it was expected
  std::vector<int64_t> queued_chunks_ ABSL_GUARDED_BY(mu_);    // by process: those in its shared memory
  CondVar queue_drained_;
  std::deque<Report> reports_ ABSL_GUARDED_BY(mu_);
  bool sending_reports_ ABSL_GUARDED_BY(mu_) = false;
  CondVar reports_sent_;
  std::vector<Watch*> watches_ ABSL_GUARDED_BY(mu_);
  CondVar control_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;

  Mutex buffers_mu_;
  std::vector<FrameBuffer> buffers_ ABSL_GUARDED_BY(buffers_mu_);
  std::vector<Pending> sent_reports_;  // of the control thread; their memory is kept until the connections are closed
  std::vector<std::pair<int32_t, FrameBuffer>> answers_;  // while connecting

  // What a process sends through its ring and what it sends through the connection is handled in two threads. The order
  // of the two does not matter, except that everything in the ring is handled before a later frame of the connection,
  // such as a goodbye, and before the loss of the connection.
  struct Ring {
    Mutex mu;  // taken before mu_; guards the reader's side
    FrameBuffer record ABSL_GUARDED_BY(mu);
  };
  const std::unique_ptr<Ring[]> rings_;  // by process
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MESH_STATE_H_
