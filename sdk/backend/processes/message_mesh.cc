#include "sdk/backend/processes/message_mesh.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fnv.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/frame.h"

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
  enum class Step : uint8_t { kWaiting, kCopying, kAnswered, kStarted, kDone } step = Step::kWaiting;
  int32_t peer = 0;
  int64_t part = 0, bytes = 0;
  void* to = nullptr;          // of a receive
  const void* from = nullptr;  // of a send
  uint64_t slot = 0;           // of an answered send
};

// What has arrived and is not expected yet.
struct Arrived {
  bool is_offer = false;
  int64_t bytes = 0;
  std::string data;
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

using FrameBuffer = std::unique_ptr<char[]>;

}  // namespace message_mesh

using namespace message_mesh;  // NOLINT: names of this file

class MessageMesh::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(const Options& options)
      : transport_(options.transport),
        self_(options.process),
        count_(options.num_processes),
        lost_(static_cast<size_t>(count_)),
        leaving_(static_cast<size_t>(count_)),
        heard_(static_cast<size_t>(count_)),
        queued_bytes_(static_cast<size_t>(count_)) {}
  ~State() {
    if (mesh_ != nullptr) transport_->destroy(mesh_);
  }

  int32_t self() const { return self_; }
  int32_t count() const { return count_; }
  absl::Status Connect(const Options& options);
  void Receive(int32_t peer);  // the body of a receiving thread
  void Control();              // the body of the thread for reports and time limits
  void Close();
  void LosePeer(int32_t peer, const std::string& why);

  std::shared_ptr<Record> Register(const LaunchKey& key, std::shared_ptr<Record> record, absl::Status* failure);
  void FlushReports() ABSL_LOCKS_EXCLUDED(mu_);
  LaunchKey NextLaunch(const std::vector<int32_t>& processes);
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

  absl::Status TransportError(int code, const ErrorText& error, int32_t peer) const;
  FrameHeader HeaderFor(const LaunchKey& launch, const Record& record, FrameKind kind, const ExchangeKey& key,
                        int64_t part) const;
  FrameBuffer TakeBuffer();
  void ReturnBuffer(FrameBuffer buffer);
  absl::Status StartFrame(int32_t peer, const FrameHeader& header, const void* payload, std::vector<Pending>* pending);
  absl::Status StartReceive(int32_t peer, const PartState& part, const FrameHeader& ready,
                            std::vector<Pending>* pending);
  absl::Status WaitFor(std::vector<Pending>& pending, Watch& watch);
  absl::Status HandleFrame(int32_t peer, const FrameHeader& header, const char* payload);
  void CheckWatches();
  void SendReport(Report report);
  // Fails a launch and queues the reports for `except` and the other processes. Returns what to call without the lock.
  Callback FailLocked(const LaunchKey& key, Record& record, absl::Status why, bool report, int32_t except = -1)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void QueuePlainFrame(int32_t peer, FrameKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ExchangeTokens(const std::string& token, Clock::time_point deadline);
  absl::Status CheckClaim(const Record& record, const Claim& claim) const;

  const BackplaneTransport* const transport_;
  const int32_t self_, count_;
  BackplaneMesh* mesh_ = nullptr;  // set by Connect
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
  std::vector<std::pair<int32_t, FrameBuffer>> hello_answers_;  // while connecting
};

absl::Status MessageMesh::State::TransportError(int code, const ErrorText& error, int32_t peer) const {
  const std::string text = absl::StrCat("process ", peer, ": ", error.text);
  switch (code) {
    case BACKPLANE_TRANSPORT_TIMED_OUT:
      return absl::DeadlineExceededError(text);
    case BACKPLANE_TRANSPORT_CLOSED:
      return absl::CancelledError(absl::StrCat("process ", peer, ": the connections are closed"));
    default:
      return absl::UnavailableError(absl::StrCat("process ", peer, " is lost: ", error.text));
  }
}

// ---- Connecting --------------------------------------------------------------------------------------------------

namespace {

struct StoreAccess {
  KeyValueStore* store;
  std::string prefix;
  Clock::time_point deadline;
};

int PutInStore(void* store, const char* key, const void* data, size_t size) {
  auto* access = static_cast<StoreAccess*>(store);
  const absl::Status put = CatchExceptions([&] {
    return access->store->Put(access->prefix + key, absl::string_view(static_cast<const char*>(data), size));
  });
  return put.ok() ? 0 : 1;
}

int GetFromStore(void* store, const char* key, void* data, size_t capacity, size_t* size) {
  auto* access = static_cast<StoreAccess*>(store);
  const auto left = std::chrono::duration_cast<milliseconds>(access->deadline - Clock::now());
  const absl::StatusOr<std::string> value =
      CatchExceptions([&] { return access->store->Get(access->prefix + key, std::max(left, milliseconds(1))); });
  if (!value.ok() || value->size() > capacity) return 1;
  std::memcpy(data, value->data(), value->size());
  *size = value->size();
  return 0;
}

}  // namespace

absl::Status MessageMesh::State::Connect(const Options& options) {
  StoreAccess access{options.store, options.key_prefix, Clock::now() + options.connect_limit};
  BackplaneConnectArgs args{};
  args.process = self_;
  args.num_processes = count_;
  args.address = options.address.c_str();
  args.time_limit_ms = options.connect_limit.count();
  args.store = &access;
  args.put = &PutInStore;
  args.get = &GetFromStore;
  ErrorText error;
  if (transport_->connect(&args, &mesh_, error.get()) != BACKPLANE_TRANSPORT_OK) {
    mesh_ = nullptr;
    return absl::UnavailableError(absl::StrCat("process ", self_, " of ", count_, ": cannot connect over ",
                                               transport_->name, " from ", options.address, ": ", error.text));
  }
  const absl::Status greeted = ExchangeTokens(options.token, access.deadline);
  if (!greeted.ok()) transport_->shut_down(mesh_);
  return greeted;
}

// Every connection must show the token of the job before anything else is read from it.
absl::Status MessageMesh::State::ExchangeTokens(const std::string& token, Clock::time_point deadline) {
  std::vector<Pending>& hellos = sent_reports_;  // after an error their memory is still in use
  std::vector<std::pair<int32_t, FrameBuffer>>& answers = hello_answers_;
  ErrorText error;
  FrameHeader hello;
  hello.process = static_cast<uint16_t>(self_);
  hello.payload_bytes = token.size();
  std::vector<BackplaneTransfer*> receives;
  for (int32_t peer = 0; peer < count_; ++peer) {
    if (peer == self_) continue;
    FrameBuffer buffer(new char[kFrameBytes]());
    BackplaneTransfer* transfer = nullptr;
    if (int code =
            transport_->start_receive(mesh_, peer, kFrameSlot, buffer.get(), kFrameBytes, &transfer, error.get());
        code != BACKPLANE_TRANSPORT_OK)
      return TransportError(code, error, peer);
    answers.emplace_back(peer, std::move(buffer));
    receives.push_back(transfer);
    RETURN_IF_ERROR(StartFrame(peer, hello, token.data(), &hellos));
  }
  const auto left = [&] {
    return std::max<int64_t>(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count(), 1);
  };
  for (size_t i = 0; i < receives.size(); ++i) {
    const auto& [peer, buffer] = answers[i];
    if (int code = transport_->wait(receives[i], left(), error.get()); code != BACKPLANE_TRANSPORT_OK)
      return TransportError(code, error, peer);
    FrameHeader got;
    std::memcpy(&got, buffer.get(), sizeof got);
    if (!got.IsValid() || got.kind != FrameKind::kHello || got.process != peer ||
        absl::string_view(buffer.get() + sizeof got, got.payload_bytes) != token) {
      return absl::PermissionDeniedError(absl::StrCat("process ", self_, " of ", count_, ": what answered as process ",
                                                      peer, " does not belong to this job or has another build"));
    }
  }
  for (Pending& p : hellos) {
    if (int code = transport_->wait(p.transfer, left(), error.get()); code != BACKPLANE_TRANSPORT_OK)
      return TransportError(code, error, p.peer);
  }
  hellos.clear();
  answers.clear();
  return absl::OkStatus();
}

// ---- Frames ------------------------------------------------------------------------------------------------------

FrameBuffer MessageMesh::State::TakeBuffer() {
  {
    MutexLock lock(buffers_mu_);
    if (!buffers_.empty()) {
      FrameBuffer buffer = std::move(buffers_.back());
      buffers_.pop_back();
      return buffer;
    }
  }
  return FrameBuffer(new char[kFrameBytes]);
}

void MessageMesh::State::ReturnBuffer(FrameBuffer buffer) {
  constexpr size_t kKeptBuffers = 32;
  if (buffer == nullptr) return;
  MutexLock lock(buffers_mu_);
  if (buffers_.size() < kKeptBuffers) buffers_.push_back(std::move(buffer));
}

FrameHeader MessageMesh::State::HeaderFor(const LaunchKey& launch, const Record& record, FrameKind kind,
                                          const ExchangeKey& key, int64_t part) const {
  FrameHeader header;
  header.kind = kind;
  header.process = static_cast<uint16_t>(self_);
  header.set = launch.first;
  header.sequence = launch.second;
  header.key = key;
  header.part = part;
  header.SetProgram(record.program);
  return header;
}

absl::Status MessageMesh::State::StartFrame(int32_t peer, const FrameHeader& header, const void* payload,
                                            std::vector<Pending>* pending) {
  FrameBuffer buffer = TakeBuffer();
  std::memcpy(buffer.get(), &header, sizeof header);
  if (header.payload_bytes > 0) std::memcpy(buffer.get() + sizeof header, payload, header.payload_bytes);
  BackplaneTransfer* transfer = nullptr;
  ErrorText error;
  pending->reserve(pending->size() + 1);
  const int code = transport_->start_send(mesh_, peer, kFrameSlot, buffer.get(), sizeof header + header.payload_bytes,
                                          &transfer, error.get());
  if (code != BACKPLANE_TRANSPORT_OK) return TransportError(code, error, peer);
  pending->push_back({transfer, peer, std::move(buffer)});
  return absl::OkStatus();
}

absl::Status MessageMesh::State::StartReceive(int32_t peer, const PartState& part, const FrameHeader& ready,
                                              std::vector<Pending>* pending) {
  BackplaneTransfer* transfer = nullptr;
  ErrorText error;
  pending->reserve(pending->size() + 2);
  const int code = transport_->start_receive(mesh_, peer, ready.slot, part.to, static_cast<size_t>(part.bytes),
                                             &transfer, error.get());
  if (code != BACKPLANE_TRANSPORT_OK) return TransportError(code, error, peer);
  pending->push_back({transfer, peer, nullptr});
  return StartFrame(peer, ready, nullptr, pending);
}

// Waits for all transfers, also after an error, because they use the memory of the caller.
absl::Status MessageMesh::State::WaitFor(std::vector<Pending>& pending, Watch& watch) {
  absl::Status result;
  for (Pending& p : pending) {
    watch.peer = p.peer;
    ErrorText error;
    const int code = transport_->wait(p.transfer, -1, error.get());
    if (code != BACKPLANE_TRANSPORT_OK && result.ok()) result = TransportError(code, error, p.peer);
    ReturnBuffer(std::move(p.buffer));
  }
  pending.clear();
  watch.peer = -1;
  return result;
}

void MessageMesh::State::Receive(int32_t peer) {
  // Several receives are posted, so that the other process rarely waits for one.
  std::array<FrameBuffer, kPostedFrames> buffers;
  std::array<BackplaneTransfer*, kPostedFrames> transfers{};
  size_t posted = 0;  // receives from `next` on, in the order of the ring
  absl::Status lost;
  for (size_t next = 0; lost.ok(); next = (next + 1) % kPostedFrames) {
    ErrorText error;
    int code = BACKPLANE_TRANSPORT_OK;
    while (posted < kPostedFrames && code == BACKPLANE_TRANSPORT_OK) {
      const size_t at = (next + posted) % kPostedFrames;
      if (buffers[at] == nullptr) buffers[at].reset(new char[kFrameBytes]);
      code = transport_->start_receive(mesh_, peer, kFrameSlot, buffers[at].get(), kFrameBytes, &transfers[at],
                                       error.get());
      if (code == BACKPLANE_TRANSPORT_OK) ++posted;
    }
    if (posted > 0) {
      code = transport_->wait(transfers[next], -1, error.get());
      --posted;
    }
    if (code != BACKPLANE_TRANSPORT_OK) {
      lost = absl::UnavailableError(error.text);
    } else {
      FrameHeader header;
      std::memcpy(&header, buffers[next].get(), sizeof header);
      lost = !header.IsValid() || header.process != peer
                 ? absl::InvalidArgumentError("it sent an invalid message")
                 : CatchExceptions([&] { return HandleFrame(peer, header, buffers[next].get() + sizeof header); });
    }
    if (!lost.ok() && !closing_) LosePeer(peer, std::string(lost.message()));
    // What is still posted ends when the connections are closed; until then its memory is in use.
    for (; !lost.ok() && posted > 0; --posted) {
      next = (next + 1) % kPostedFrames;
      (void)transport_->wait(transfers[next], -1, error.get());
    }
  }
}

absl::Status MessageMesh::State::CheckClaim(const Record& record, const Claim& claim) const {
  if (claim.program.digest == record.program.digest) return absl::OkStatus();
  return DifferentProgramsError(self_, record.program, claim.peer, claim.program);
}

absl::Status MessageMesh::State::HandleFrame(int32_t peer, const FrameHeader& header, const char* payload) {
  const size_t p = static_cast<size_t>(peer);
  const LaunchKey launch(header.set, header.sequence);
  const PartKey key{header.key, header.part, peer};
  Callback then;
  MutexLock lock(mu_);
  heard_[p] = Clock::now();
  if (header.kind == FrameKind::kGoodbye) leaving_[p] = true;
  if (header.kind == FrameKind::kPing) QueuePlainFrame(peer, FrameKind::kPong);
  if (header.kind == FrameKind::kGoodbye || header.kind == FrameKind::kPing || header.kind == FrameKind::kPong)
    return absl::OkStatus();
  auto at = records_.find(launch);
  if (at == records_.end()) {
    const auto next = next_sequence_.find(launch.first);
    const bool over = next != next_sequence_.end() && launch.second < next->second;
    if (over) return absl::OkStatus();
    if (unknown_launches_ >= kMaxUnknownLaunches) return absl::ResourceExhaustedError("it starts too many launches");
    at = records_.emplace(launch, std::make_shared<Record>()).first;
    ++unknown_launches_;
  }
  const std::shared_ptr<Record> record = at->second;
  if (header.kind == FrameKind::kAbort) {
    const size_t n = std::min<size_t>(header.payload_bytes, kMaxTextBytes);
    const auto code = header.status_code == 0 || header.status_code > 16
                          ? absl::StatusCode::kAborted
                          : static_cast<absl::StatusCode>(header.status_code);
    then = FailLocked(launch, *record,
                      absl::Status(code, absl::StrCat("process ", peer, " reports: ", absl::string_view(payload, n))),
                      false);
    lock.Unlock();
    if (then) then();
    return absl::OkStatus();
  }
  const Claim claim{peer, header.GetProgram()};
  if (!record->registered) {
    const bool known =
        std::any_of(record->claims.begin(), record->claims.end(), [&](const Claim& c) { return c.peer == peer; });
    if (!known) record->claims.push_back(claim);
  } else if (absl::Status same = CheckClaim(*record, claim); !same.ok()) {
    then = FailLocked(launch, *record, std::move(same), true);
    lock.Unlock();
    FlushReports();
    if (then) then();
    return absl::OkStatus();
  }
  if (!record->failure.ok()) return absl::OkStatus();
  if (header.kind == FrameKind::kReady) {
    const auto send = record->sends.find(key);
    if (send == record->sends.end()) return absl::OkStatus();  // the sender has given up
    if (header.slot == kFrameSlot) return absl::InvalidArgumentError("it sent an invalid slot");
    send->second->slot = header.slot;
    send->second->step = PartState::Step::kAnswered;
    record->sends.erase(send);
    record->changed.NotifyAll();
    return absl::OkStatus();
  }
  if (header.kind != FrameKind::kData && header.kind != FrameKind::kOffer)
    return absl::InvalidArgumentError("it sent an unexpected message");
  const bool is_offer = header.kind == FrameKind::kOffer;
  const int64_t bytes = static_cast<int64_t>(is_offer ? header.total_bytes : header.payload_bytes);
  const auto receive = record->receives.find(key);
  if (receive == record->receives.end()) {
    Arrived arrived{is_offer, bytes, {}};
    if (!is_offer) arrived.data.assign(payload, static_cast<size_t>(bytes));
    if (!record->arrived.emplace(key, std::move(arrived)).second)
      return absl::InvalidArgumentError("it sent a message twice");
    if (!is_offer) queued_bytes_[p] += bytes;
    while (queued_bytes_[p] > kMaxQueuedBytes && !closing_) queue_drained_.WaitFor(mu_, kWatchInterval);
    return absl::OkStatus();
  }
  PartState* const part = receive->second;
  record->receives.erase(receive);
  if (part->bytes != bytes) {
    part->step = PartState::Step::kDone;
    then = FailLocked(launch, *record,
                      absl::InvalidArgumentError(absl::StrCat(record->Doing(), ": process ", peer, " sends ", bytes,
                                                              " bytes, process ", self_, " expects ", part->bytes)),
                      true);
    lock.Unlock();
    FlushReports();
    if (then) then();
    return absl::OkStatus();
  }
  if (is_offer) {
    part->step = PartState::Step::kAnswered;
  } else {
    part->step = PartState::Step::kCopying;
    lock.Unlock();
    std::memcpy(part->to, payload, static_cast<size_t>(bytes));
    lock.Lock();
    part->step = PartState::Step::kDone;
  }
  record->changed.NotifyAll();
  return absl::OkStatus();
}

// ---- Failures ----------------------------------------------------------------------------------------------------

MessageMesh::State::Callback MessageMesh::State::FailLocked(const LaunchKey& key, Record& record, absl::Status why,
                                                            bool report, int32_t except) {
  if (!record.failure.ok()) return nullptr;
  record.failure = why;
  record.failed_at = Clock::now();
  record.changed.NotifyAll();
  if (report) {
    for (int32_t peer : record.processes) {
      if (peer == self_ || peer == except || !lost_[static_cast<size_t>(peer)].ok()) continue;
      FrameHeader header = HeaderFor(key, record, FrameKind::kAbort, {}, 0);
      header.status_code = static_cast<uint8_t>(why.code());
      std::string text(why.message().substr(0, kMaxTextBytes));
      header.payload_bytes = text.size();
      reports_.push_back({peer, header, std::move(text)});
    }
    control_.NotifyAll();
  }
  if (record.on_failure == nullptr) return nullptr;
  return [call = std::exchange(record.on_failure, nullptr), why = std::move(why)] { call(why); };
}

void MessageMesh::State::FailFromHere(const LaunchKey& key, const std::shared_ptr<Record>& record,
                                      const absl::Status& why) {
  MutexLock lock(mu_);
  (void)FailLocked(key, *record, why, true);  // the caller knows
}

void MessageMesh::State::LosePeer(int32_t peer, const std::string& why) {
  std::vector<Callback> calls;
  {
    MutexLock lock(mu_);
    absl::Status& lost = lost_[static_cast<size_t>(peer)];
    if (!lost.ok()) return;
    lost = absl::UnavailableError(leaving_[static_cast<size_t>(peer)]
                                      ? absl::StrCat("process ", peer, " has closed its client")
                                      : absl::StrCat("process ", peer, " is lost: ", why));
    for (const auto& [key, record] : records_) {
      if (!record->registered || !record->Includes(peer)) continue;
      absl::Status status(lost.code(), absl::StrCat(record->Doing(), ": ", lost.message()));
      if (Callback call = FailLocked(key, *record, std::move(status), true, peer)) calls.push_back(std::move(call));
    }
  }
  for (const Callback& call : calls) call();
}

void MessageMesh::State::QueuePlainFrame(int32_t peer, FrameKind kind) {
  FrameHeader header;
  header.kind = kind;
  header.process = static_cast<uint16_t>(self_);
  reports_.push_back({peer, header, ""});
  control_.NotifyAll();
}

void MessageMesh::State::SendReport(Report report) {
  (void)CatchExceptions([&] {
    // The result is of no interest: a lost process needs no report.
    (void)StartFrame(report.peer, report.header, report.text.data(), &sent_reports_);
  });
}

// Waits until the reports of a failure are on their way. After an error the host may end the process, and the others
// should learn the reason and not only that the process is gone.
void MessageMesh::State::FlushReports() {
  {
    const auto flushed = Clock::now() + kReportFlush;
    MutexLock lock(mu_);
    while ((!reports_.empty() || sending_reports_) && !stopped_ && Clock::now() < flushed)
      reports_sent_.WaitUntil(mu_, flushed);
  }
  std::this_thread::sleep_for(kPartingTime);  // until the network has them
}

// Ends transfers that last too long. They use memory that cannot be released otherwise, so all connections are closed.
void MessageMesh::State::CheckWatches() {
  bool shut_down = false;
  std::vector<Callback> calls;
  {
    MutexLock lock(mu_);
    const auto now = Clock::now();
    for (Watch* watch : watches_) {
      Record& record = *watch->record;
      if (!record.failure.ok()) {
        shut_down |= watch->peer >= 0 && now > record.failed_at + kTransferGrace;
      } else if (watch->peer >= 0 && now > watch->deadline) {
        for (const auto& [key, at] : records_) {
          if (at.get() != &record) continue;
          if (Callback call = FailLocked(key, record,
                                         absl::DeadlineExceededError(absl::StrCat(
                                             watch->what, " of ", record.program.name, ": process ", watch->peer.load(),
                                             " did not answer within ", Seconds(record.limit))),
                                         true, watch->peer))
            calls.push_back(std::move(call));
        }
      }
    }
  }
  for (const Callback& call : calls) call();
  if (shut_down) transport_->shut_down(mesh_);
}

void MessageMesh::State::Control() {
  while (true) {
    std::deque<Report> reports;
    {
      MutexLock lock(mu_);
      sending_reports_ = false;
      if (reports_.empty()) reports_sent_.NotifyAll();
      if (reports_.empty() && !stopped_) control_.WaitFor(mu_, kWatchInterval);
      reports.swap(reports_);
      sending_reports_ = !reports.empty();
      if (reports.empty() && stopped_) return;
    }
    for (Report& report : reports) SendReport(std::move(report));
    (void)CatchExceptions([&] { CheckWatches(); });
  }
}

void MessageMesh::State::Close() {
  std::vector<Callback> calls;
  {
    MutexLock lock(mu_);
    for (const auto& [key, record] : records_) {
      if (!record->registered) continue;
      if (Callback call = FailLocked(key, *record, absl::CancelledError("the client is being closed"), true))
        calls.push_back(std::move(call));
    }
    for (int32_t peer = 0; peer < count_; ++peer) {
      if (peer != self_ && lost_[static_cast<size_t>(peer)].ok()) QueuePlainFrame(peer, FrameKind::kGoodbye);
    }
    stopped_ = true;
    control_.NotifyAll();
  }
  for (const Callback& call : calls) call();
  std::this_thread::sleep_for(kPartingTime);
  closing_ = true;
  transport_->shut_down(mesh_);
}

// ---- Launches ----------------------------------------------------------------------------------------------------

LaunchKey MessageMesh::State::NextLaunch(const std::vector<int32_t>& processes) {
  const uint64_t set = HashProcesses(processes);
  MutexLock lock(mu_);
  return {set, next_sequence_[set]++};
}

std::shared_ptr<Record> MessageMesh::State::Register(const LaunchKey& key, std::shared_ptr<Record> record,
                                                     absl::Status* failure) {
  MutexLock lock(mu_);
  std::shared_ptr<Record>& known = records_[key];
  if (known != nullptr) {
    --unknown_launches_;
    record->arrived = std::move(known->arrived);
    record->claims = std::move(known->claims);
    record->failure = known->failure;
    record->failed_at = known->failed_at;
  }
  known = record;
  record->registered = true;
  if (record->failure.ok() && closing_) record->failure = absl::CancelledError("the client is being closed");
  for (int32_t peer : record->processes) {
    const absl::Status& lost = lost_[static_cast<size_t>(peer)];
    if (lost.ok() || !record->failure.ok()) continue;
    (void)FailLocked(key, *record, absl::Status(lost.code(), absl::StrCat(record->program.name, ": ", lost.message())),
                     true);
  }
  for (const Claim& claim : record->claims) {
    absl::Status same = CheckClaim(*record, claim);
    if (!same.ok() && record->failure.ok()) (void)FailLocked(key, *record, std::move(same), true);
  }
  *failure = record->failure;
  return record;
}

void MessageMesh::State::Unregister(const LaunchKey& key) {
  MutexLock lock(mu_);
  const auto at = records_.find(key);
  if (at == records_.end()) return;
  for (const auto& [part, arrived] : at->second->arrived)
    queued_bytes_[static_cast<size_t>(part.peer)] -= static_cast<int64_t>(arrived.data.size());
  records_.erase(at);
  queue_drained_.NotifyAll();
}

absl::Status MessageMesh::State::RunExchange(const LaunchKey& launch, const std::shared_ptr<Record>& record,
                                             const ExchangeKey& key, absl::string_view what,
                                             absl::Span<const OutgoingPart> sends,
                                             absl::Span<const IncomingPart> receives) {
  using Step = PartState::Step;
  const auto deadline = Clock::now() + record->limit;
  std::vector<PartState> in, out;  // `out` has the parts that are offered
  std::vector<std::pair<size_t, Arrived>> early;
  in.reserve(receives.size());
  for (const IncomingPart& r : receives) {
    if (r.bytes > 0) in.push_back({Step::kWaiting, r.process, r.part, r.bytes, r.data, nullptr, 0});
  }
  for (const OutgoingPart& s : sends) {
    if (s.bytes > kMaxPayloadBytes) out.push_back({Step::kWaiting, s.process, s.part, s.bytes, nullptr, s.data, 0});
  }
  Watch watch;
  watch.deadline = deadline;
  watch.record = record;
  watch.what = std::string(what);
  absl::Status error;
  Callback then;
  {
    MutexLock lock(mu_);
    if (!record->failure.ok()) {
      const absl::Status failure = record->failure;
      lock.Unlock();
      FlushReports();
      return failure;
    }
    for (size_t i = 0; i < in.size(); ++i) {
      const PartKey part{key, in[i].part, in[i].peer};
      const auto at = record->arrived.find(part);
      if (at == record->arrived.end()) {
        record->receives[part] = &in[i];
        continue;
      }
      if (at->second.bytes != in[i].bytes && error.ok()) {
        error = absl::InvalidArgumentError(absl::StrCat(what, " of ", record->program.name, ": process ", in[i].peer,
                                                        " sends ", at->second.bytes, " bytes, process ", self_,
                                                        " expects ", in[i].bytes));
      }
      in[i].step = at->second.is_offer ? Step::kAnswered : Step::kDone;
      if (!at->second.is_offer) {
        queued_bytes_[static_cast<size_t>(in[i].peer)] -= at->second.bytes;
        early.emplace_back(i, std::move(at->second));
      }
      record->arrived.erase(at);
    }
    if (!early.empty()) queue_drained_.NotifyAll();
    for (PartState& s : out) record->sends[PartKey{key, s.part, s.peer}] = &s;
    record->active.push_back(watch.what);
    watches_.push_back(&watch);
    if (!error.ok()) then = FailLocked(launch, *record, error, true);
  }
  if (then) {
    FlushReports();
    then();
  }
  std::vector<Pending> pending, frames;
  Clock::time_point wait_until = deadline, asked{};
  auto note = [&](absl::Status status) {
    if (error.ok()) error = std::move(status);
  };
  if (error.ok()) {
    for (const auto& [i, arrived] : early) std::memcpy(in[i].to, arrived.data.data(), arrived.data.size());
    for (const OutgoingPart& s : sends) {
      if (s.bytes <= 0) continue;
      const bool offered = s.bytes > kMaxPayloadBytes;
      FrameHeader header = HeaderFor(launch, *record, offered ? FrameKind::kOffer : FrameKind::kData, key, s.part);
      (offered ? header.total_bytes : header.payload_bytes) = static_cast<uint64_t>(s.bytes);
      note(StartFrame(s.process, header, s.data, &frames));
    }
    note(WaitFor(frames, watch));
  }
  while (error.ok()) {
    std::vector<PartState*> answered;
    {
      MutexLock lock(mu_);
      bool waiting = false;
      for (PartState& s : in) {
        if (s.step == Step::kAnswered) answered.push_back(&s);
        waiting |= s.step == Step::kWaiting || s.step == Step::kCopying;
      }
      for (PartState& s : out) {
        if (s.step == Step::kAnswered) answered.push_back(&s);
        waiting |= s.step == Step::kWaiting;
      }
      if (!record->failure.ok()) {
        error = record->failure;
        break;
      }
      if (answered.empty()) {
        if (!waiting) break;
        if (!record->changed.WaitUntil(mu_, wait_until) && Clock::now() >= wait_until && record->failure.ok()) {
          std::vector<int32_t> missing;
          auto add = [&](const PartState& s) {
            if (s.step == Step::kWaiting && std::find(missing.begin(), missing.end(), s.peer) == missing.end())
              missing.push_back(s.peer);
          };
          for (const PartState& s : in) add(s);
          for (const PartState& s : out) add(s);
          if (missing.empty()) continue;
          if (wait_until == deadline) {
            asked = Clock::now();
            for (int32_t peer : missing) QueuePlainFrame(peer, FrameKind::kPing);
            wait_until = asked + kPingTime;
            continue;
          }
          std::vector<int32_t> silent;
          for (int32_t peer : missing) {
            if (heard_[static_cast<size_t>(peer)] < asked) silent.push_back(peer);
          }
          if (silent.empty() && wait_until < asked + kReportTime) {
            wait_until = asked + kReportTime;
            continue;
          }
          if (!silent.empty()) missing = silent;
          error = absl::DeadlineExceededError(absl::StrCat(what, " of ", record->program.name, ": process ",
                                                           absl::StrJoin(missing, ", process "),
                                                           " did not answer within ", Seconds(record->limit)));
          then = FailLocked(launch, *record, error, true);
        }
        continue;
      }
      for (PartState* s : answered) s->step = Step::kStarted;
    }
    for (PartState* s : answered) {
      if (s->to != nullptr) {
        FrameHeader ready = HeaderFor(launch, *record, FrameKind::kReady, key, s->part);
        ready.slot = next_slot_.fetch_add(1);
        note(StartReceive(s->peer, *s, ready, &pending));
      } else {
        BackplaneTransfer* transfer = nullptr;
        ErrorText text;
        pending.reserve(pending.size() + 1);
        const int code = transport_->start_send(mesh_, s->peer, s->slot, s->from, static_cast<size_t>(s->bytes),
                                                &transfer, text.get());
        if (code == BACKPLANE_TRANSPORT_OK)
          pending.push_back({transfer, s->peer, nullptr});
        else
          note(TransportError(code, text, s->peer));
      }
    }
  }
  if (then) std::exchange(then, nullptr)();
  note(WaitFor(pending, watch));
  MutexLock lock(mu_);
  // The receiving thread may still copy into a part.
  auto copying = [&] {
    return std::any_of(in.begin(), in.end(), [](const PartState& s) { return s.step == Step::kCopying; });
  };
  while (copying()) record->changed.WaitFor(mu_, kWatchInterval);
  for (const PartState& s : in) record->receives.erase(PartKey{key, s.part, s.peer});
  for (const PartState& s : out) record->sends.erase(PartKey{key, s.part, s.peer});
  watches_.erase(std::find(watches_.begin(), watches_.end(), &watch));
  record->active.erase(std::find(record->active.begin(), record->active.end(), watch.what));
  if (error.ok()) return absl::OkStatus();
  if (record->failure.ok()) {
    absl::Status named(error.code(), absl::StrCat(what, " of ", record->program.name, ": ", error.message()));
    then = FailLocked(launch, *record, std::move(named), true);
  }
  const absl::Status result = record->failure;
  lock.Unlock();
  FlushReports();
  if (then) then();
  return result;
}

// ---- The interface -----------------------------------------------------------------------------------------------

class MessageMesh::LaunchMessages : public LaunchExchange {
 public:
  LaunchMessages(std::shared_ptr<State> state, LaunchKey key, std::shared_ptr<Record> record)
      : state_(std::move(state)), key_(std::move(key)), record_(std::move(record)) {}
  ~LaunchMessages() override { state_->Unregister(key_); }
  int32_t process() const override { return state_->self(); }
  absl::Status Exchange(const ExchangeKey& key, absl::string_view what, absl::Span<const OutgoingPart> sends,
                        absl::Span<const IncomingPart> receives) override {
    return state_->RunExchange(key_, record_, key, what, sends, receives);
  }
  void Fail(const absl::Status& why) override { state_->FailFromHere(key_, record_, why); }

 private:
  const std::shared_ptr<State> state_;
  const LaunchKey key_;
  const std::shared_ptr<Record> record_;
};

absl::StatusOr<std::unique_ptr<MessageMesh>> MessageMesh::Connect(const Options& options) {
  if (options.process < 0 || options.process >= options.num_processes || options.num_processes > UINT16_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("processes: index ", options.process, " of ", options.num_processes));
  }
  auto state = std::make_shared<State>(options);
  RETURN_IF_ERROR(state->Connect(options));
  std::unique_ptr<MessageMesh> mesh(new MessageMesh(state));
  const absl::Status started = CatchExceptions([&] {
    State* const s = state.get();
    for (int32_t peer = 0; peer < s->count(); ++peer) {
      if (peer != s->self()) mesh->threads_.emplace_back([s, peer] { s->Receive(peer); });
    }
    mesh->threads_.emplace_back([s] { s->Control(); });
  });
  RETURN_IF_ERROR(started);
  return mesh;
}

MessageMesh::~MessageMesh() { Close(); }

void MessageMesh::ReportFailure(int32_t process, const std::string& why) {
  if (process < 0 || process >= state_->count() || process == state_->self()) return;
  state_->LosePeer(process, why);
}

void MessageMesh::Close() {
  std::call_once(closed_, [this] {
    state_->Close();
    for (std::thread& thread : threads_) thread.join();
  });
}

std::shared_ptr<LaunchExchange> MessageMesh::JoinLaunch(std::vector<int32_t> processes, const LaunchProgram& program,
                                                        milliseconds time_limit,
                                                        std::function<void(const absl::Status&)> on_failure) {
  auto record = std::make_shared<Record>();
  record->program = program;
  record->limit = time_limit;
  const LaunchKey key = state_->NextLaunch(processes);
  record->processes = std::move(processes);
  record->on_failure = on_failure;
  absl::Status failure;
  state_->Register(key, record, &failure);
  auto exchange = std::make_shared<LaunchMessages>(state_, key, record);
  if (!failure.ok()) state_->FlushReports();  // the host may end the process as soon as it knows
  if (!failure.ok() && on_failure) on_failure(failure);
  return exchange;
}

}  // namespace backplane
