// What a MessageMesh knows of its launches and of the messages in progress, and its limits. Used by its files only.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MESH_RECORDS_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MESH_RECORDS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/fnv.h"
#include "base/mutex.h"
#include "sdk/backend/processes/frame.h"
#include "sdk/backend/processes/launch_exchange.h"
#include "sdk/backend/processes/part_table.h"
#include "sdk/backend/processes/shared_memory.h"
#include "sdk/backend/processes/transport.h"

namespace backplane {
namespace message_mesh {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A process counts what it sends before it is expected (QueueCost), and beyond Options::max_ahead_bytes it only offers.
// From kPostLimits times that limit on it keeps no further message for the receiver, and from MaxAbortBytes on it does
// not report failures for now. The receiver gives up a process of which it would have to queue more than kQueueLimits
// times the limit. Offers of exchanges fit in between: an exchange waits for the answers.
constexpr int64_t kPostLimits = 3, kQueueLimits = 4;
constexpr int64_t MaxAbortBytes(int64_t limit) { return (kPostLimits + kQueueLimits) * limit / 2; }
// The messages that a process keeps for one other process may have as many bytes as this times the limit. One message
// alone may be larger.
constexpr int64_t kKeptLimits = 256;
// What the receiver needs for a message besides its data.
constexpr int64_t kQueuedEntryBytes = 512;
constexpr int64_t QueueCost(int64_t data_bytes) { return kQueuedEntryBytes + data_bytes; }
// What it needs for a launch of which the sender is the first to speak, until it starts the launch. The first message
// of a launch to a process costs that in addition.
constexpr int64_t kQueuedLaunchBytes = 2048;
// What a message costs besides that.
inline int64_t FrameCost(const FrameHeader& header) {
  switch (header.kind) {
    case FrameKind::kData:
      return QueueCost(static_cast<int64_t>(header.payload_bytes));
    case FrameKind::kOffer:
    case FrameKind::kKept:
      return QueueCost(0);
    case FrameKind::kAbort:
      return static_cast<int64_t>(header.payload_bytes);
    default:
      return 0;
  }
}
// When as many frames that nobody waits for may still be on their way to a process, it is asked for an answer, which
// tells that they have arrived.
constexpr size_t kUnawaitedFrames = 64;
// How often a transfer without progress may be given the time limit of its launch again, because its process answers.
constexpr int kMaxExtensions = 10;
// How long a transfer may go on after its launch has failed. Then the connections are closed, since its memory cannot
// be released otherwise.
constexpr milliseconds kTransferGrace{2000};
constexpr milliseconds kWatchInterval{100};
constexpr size_t kPostedFrames = 3;
// A part is sent in pieces of this size, each of which is a transfer of its own, so that its progress can be seen.
constexpr int64_t kPieceBytes = int64_t{16} << 20;
// Smaller parts are sent in messages, although the memory is shared. The limit is lower with rings, because the message
// that announces a block costs little there.
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
// How long a client that is closed lets its launches go on, and others take the messages that it keeps for them.
constexpr milliseconds kCloseLaunches{3000};
// How long it then waits until the others have handled its last messages.
constexpr milliseconds kCloseFlush{10000};
constexpr milliseconds kClosePause{1};

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

// A part that this process expects, or sends after an offer.
struct PartState {
  enum class Step : uint8_t { kWaiting, kAnswered, kStarted, kDone } step = Step::kWaiting;
  PartKey key;
  int64_t bytes = 0;
  bool is_kept = false;        // of a receive: the sender waits for kTaken
  void* to = nullptr;          // of a receive
  const void* from = nullptr;  // of a send
  uint64_t slot = 0;           // of an answered send
  // Of a receive: the threads that copy into it now, and the bytes of the chunks that were announced and copied.
  int copies = 0;
  int64_t announced = 0, copied = 0;
  PartState* next = nullptr;
};

// What has arrived and is not expected yet: an offer, the data, or chunks in shared memory.
struct Arrived {
  PartKey key;
  bool is_offer = false;
  bool is_kept = false;  // an offer whose sender waits for kTaken
  int64_t bytes = 0;
  std::string data;
  std::vector<SharedChunk> chunks;
  int64_t announced = 0;  // the bytes of the chunks
  int64_t cost = 0;       // of what was sent ahead; chunks are counted otherwise
  Arrived* next = nullptr;
};

struct Claim {
  int32_t peer;
  LaunchProgram program;
};

// A process that has spoken of a launch which this one has not started.
struct Speaker {
  int32_t peer;
  bool has_opened = false;  // its message with `opens_launch` has come
  int64_t cost = 0;         // of what is queued: the launch and the text of a failure
  int64_t text_bytes = 0;   // of that text
};

// A launch, as this process knows it.
struct Record {
  bool registered = false;
  std::vector<int32_t> processes;
  LaunchProgram program;
  milliseconds limit{0};
  absl::Status failure;
  absl::Status own_failure;  // of this process, before the registration: to be reported then
  Clock::time_point failed_at;
  std::function<void(const absl::Status&)> on_failure;
  // After the failure: what is left to the control thread. The reports if there was no memory for them; the call if
  // that, or if the launch has failed at its start.
  bool owes_reports = false, owes_call = false;
  Clock::time_point call_at{};  // earliest; unset until the reports are on their way
  // How many reports had been queued in all after those of this failure; 0: it has none. And whether they have left.
  uint64_t last_report = 0;
  bool has_flushed = false;
  int32_t not_reported_to = -1;   // besides lost processes
  std::vector<Claim> claims;      // of other processes, before the registration
  std::vector<Speaker> speakers;  // the same
  // By the place in `processes`: whether the receiver's memory for this launch is counted, and is told of in a message.
  enum class Opening : uint8_t { kNone, kCounted, kTold };
  std::vector<Opening> openings;
  PartTable<Arrived> arrived;  // owned
  PartTable<PartState> receives, sends;
  std::vector<std::string> active;  // the operations that wait, for messages
  CondVar changed;

  ~Record() {
    arrived.RemoveAll([](Arrived* a) { delete a; });
  }
  bool Includes(int32_t process) const {
    return std::find(processes.begin(), processes.end(), process) != processes.end();
  }
  Opening& OpeningFor(int32_t process) {  // one of `processes`, which are sorted
    const auto at = std::lower_bound(processes.begin(), processes.end(), process);
    return openings[static_cast<size_t>(at - processes.begin())];
  }
  // Whether an exchange waits for something of the process.
  bool AwaitsLocked(int32_t process) {
    const auto is_of_process = [&](const PartState& part) { return part.key.peer == process; };
    return receives.Any(is_of_process) || sends.Any(is_of_process);
  }
  // Returns what the launch is doing, for messages: "all-reduce.3 of jit_step".
  std::string FormatOperation() const {
    return active.empty() ? program.name : absl::StrCat(active.front(), " of ", program.name);
  }
};

static_assert(sizeof(Record) + sizeof(Speaker) + sizeof(Claim) + 2 * sizeof(FrameHeader::program) + 256 <=
              kQueuedLaunchBytes);

using LaunchKey = std::pair<uint64_t, uint64_t>;  // hash of the processes, number

// A group of transfers that must end in time.
struct Watch {
  Clock::time_point deadline;  // for the other processes to come
  std::shared_ptr<Record> record;
  std::string what;
  std::atomic<int32_t> peer{-1};           // whose transfer is waited for
  std::atomic<Clock::time_point> since{};  // since when
  // Of the control thread: when it asked the process whether it is alive, and how often it has extended the time.
  Clock::time_point asked{};
  int extensions = 0;
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
struct Pending {
  BackplaneTransfer* transfer;
  int32_t peer;
  FrameBuffer buffer;  // null: memory of the caller
};
constexpr size_t CountPieces(int64_t bytes) { return static_cast<size_t>((bytes + kPieceBytes - 1) / kPieceBytes); }

// Makes room for `more` elements, so that adding many takes linear time.
template <typename T>
void ReserveMore(std::vector<T>* to, size_t more) {
  if (to->capacity() < to->size() + more) to->reserve(std::max(2 * to->size(), to->size() + more));
}

// A message that this process keeps until its receiver has taken it.
struct KeptMessage {
  std::string bytes;
  bool is_sent = false;            // the receiver has asked for it
  std::vector<Pending> transfers;  // of the receiving thread; has room for all pieces
};
using KeptKey = std::pair<LaunchKey, PartKey>;
using KeptMessages = std::unordered_map<KeptKey, std::unique_ptr<KeptMessage>, absl::Hash<KeptKey>>;

}  // namespace message_mesh

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MESH_RECORDS_H_
