#include "sdk/backend/processes/message_mesh.h"

#include <cstring>

#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {

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
  absl::Status greeted = ExchangeTokens(options.token, access.deadline);
  if (greeted.ok()) greeted = ShareMemory(options.shared_blocks, access.deadline);
  if (!greeted.ok()) transport_->shut_down(mesh_);
  // Now, because want of memory while a message is read would cost the process that sent it.
  for (int32_t peer = 0; peer < count_ && greeted.ok(); ++peer) {
    if (!HasRings(peer)) continue;
    Ring& ring = rings_[static_cast<size_t>(peer)];
    MutexLock lock(ring.mu);
    ring.record.reset(new char[MessageRing::kMaxRecordBytes]);
  }
  return greeted;
}

absl::Status MessageMesh::State::ExchangeFrames(FrameKind kind, const std::function<std::string(int32_t)>& make_payload,
                                                const std::function<absl::Status(int32_t, absl::string_view)>& accept,
                                                Clock::time_point deadline) {
  std::vector<Pending>& sent = greetings_;  // after an error their memory is still in use
  ErrorText error;
  std::vector<BackplaneTransfer*> receives;
  for (int32_t peer = 0; peer < count_; ++peer) {
    if (peer == self_) continue;
    FrameBuffer buffer(new char[kFrameBytes]());
    BackplaneTransfer* transfer = nullptr;
    if (int code =
            transport_->start_receive(mesh_, peer, kFrameSlot, buffer.get(), kFrameBytes, &transfer, error.get());
        code != BACKPLANE_TRANSPORT_OK)
      return TransportError(code, error, peer);
    answers_.emplace_back(peer, std::move(buffer));
    receives.push_back(transfer);
    const std::string payload = make_payload(peer);
    FrameHeader header;
    header.kind = kind;
    header.process = static_cast<uint16_t>(self_);
    header.payload_bytes = payload.size();
    RETURN_IF_ERROR(StartFrame(peer, header, payload.data(), &sent));
  }
  const auto left = [&] {
    return std::max<int64_t>(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count(), 1);
  };
  for (size_t i = 0; i < receives.size(); ++i) {
    const auto& [peer, buffer] = answers_[i];
    if (int code = transport_->wait(receives[i], left(), error.get()); code != BACKPLANE_TRANSPORT_OK)
      return TransportError(code, error, peer);
    FrameHeader got;
    std::memcpy(&got, buffer.get(), sizeof got);
    if (!got.IsValid() || got.kind != kind || got.process != peer) {
      return absl::PermissionDeniedError(absl::StrCat("process ", self_, " of ", count_, ": what answered as process ",
                                                      peer, " does not belong to this job or has another build"));
    }
    RETURN_IF_ERROR(accept(peer, absl::string_view(buffer.get() + sizeof got, got.payload_bytes)));
  }
  for (Pending& p : sent) {
    if (int code = transport_->wait(p.transfer, left(), error.get()); code != BACKPLANE_TRANSPORT_OK)
      return TransportError(code, error, p.peer);
  }
  sent.clear();
  answers_.clear();
  return absl::OkStatus();
}

// Every connection must show the token of the job before anything else is read from it.
absl::Status MessageMesh::State::ExchangeTokens(const std::string& token, Clock::time_point deadline) {
  return ExchangeFrames(
      FrameKind::kHello, [&](int32_t) { return token; },
      [&](int32_t peer, absl::string_view got) {
        if (got == token) return absl::OkStatus();
        return absl::PermissionDeniedError(absl::StrCat("process ", self_, " of ", count_,
                                                        ": what answered as process ", peer,
                                                        " does not belong to this job or has another build"));
      },
      deadline);
}

// Two processes share memory if each of them reaches that of the other. If a process has none, or cannot reach another
// one's, the data between these two goes over the transport, which is no error.
absl::Status MessageMesh::State::ShareMemory(int64_t blocks, Clock::time_point deadline) {
  if (blocks > 0) {
    absl::StatusOr<std::unique_ptr<SharedMemory>> made = SharedMemory::Create(self_, count_, blocks);
    if (made.ok()) shared_ = *std::move(made);
  }
  const std::string own = shared_ == nullptr ? "" : shared_->Describe();
  RETURN_IF_ERROR(ExchangeFrames(
      FrameKind::kMemory, [&](int32_t) { return own; },
      [&](int32_t peer, absl::string_view description) {
        if (shared_ != nullptr && !description.empty()) (void)shared_->Open(peer, description);
        return absl::OkStatus();
      },
      deadline));
  return ExchangeFrames(
      FrameKind::kMemory, [&](int32_t peer) { return std::string(SharesMemoryWith(peer) ? "1" : ""); },
      [&](int32_t peer, absl::string_view reached) {
        if (shared_ != nullptr && reached.empty()) shared_->Close(peer);
        return absl::OkStatus();
      },
      deadline);
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
    return state_->Exchange(key_, record_, key, what, sends, receives);
  }
  absl::Status Post(const ExchangeKey& key, absl::string_view what, int32_t process, std::string bytes) override {
    return state_->Post(key_, record_, key, what, process, std::move(bytes));
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
      if (peer == s->self()) continue;
      mesh->threads_.emplace_back([s, peer] { s->Receive(peer); });
      if (s->HasRings(peer)) mesh->threads_.emplace_back([s, peer] { s->ReceiveFromRing(peer); });
    }
    mesh->threads_.emplace_back([s] { s->Control(); });
  });
  RETURN_IF_ERROR(started);
  return mesh;
}

MessageMesh::~MessageMesh() { Close(); }

bool MessageMesh::SharesMemoryWith(int32_t process) const {
  return process >= 0 && process < state_->count() && state_->SharesMemoryWith(process);
}

size_t MessageMesh::CountKept() const { return state_->CountKept(); }

void MessageMesh::ReportFailure(int32_t process, const std::string& why) {
  if (process < 0 || process >= state_->count() || process == state_->self()) return;
  state_->LosePeer(process, why, /*tells=*/true);
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
  record->processes = std::move(processes);
  record->openings.resize(record->processes.size());
  record->on_failure = on_failure;
  absl::Status failure;
  const LaunchKey key = state_->Register(record, &failure);
  auto exchange = std::make_shared<LaunchMessages>(state_, key, record);
  if (!failure.ok() && on_failure) on_failure(failure);
  return exchange;
}

}  // namespace backplane
