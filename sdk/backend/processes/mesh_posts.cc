// What a MessageMesh sends without waiting for it: messages that this process keeps, and small frames.
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {

absl::Status MessageMesh::State::Post(const LaunchKey& launch, const std::shared_ptr<Record>& record,
                                      const ExchangeKey& key, absl::string_view what, int32_t process,
                                      std::string bytes) {
  if (bytes.empty()) return absl::OkStatus();
  const auto size = static_cast<int64_t>(bytes.size());
  const OutgoingPart send{process, 0, bytes.data(), size};
  RunningExchange run(this, launch, record, key, what);
  run.watch.deadline = Clock::now() + record->limit;
  PlanSends({&send, 1}, /*at_once=*/true, &run);
  FrameHeader header = HeaderFor(launch, *record, FrameKind::kKept, key, 0);
  {
    MutexLock lock(mu_);
    int64_t& ahead = ahead_bytes_[static_cast<size_t>(process)];
    const bool fits = !run.shared.empty() || (size <= kMaxPayloadBytes && ahead + QueueCost(size) <= max_ahead_bytes_);
    if (fits) {
      for (const OutgoingPart& s : run.messages) ahead += QueueCost(s.bytes);
      run.is_counted = true;
    } else if (record->failure.ok()) {
      auto kept = std::make_unique<KeptMessage>();
      kept->bytes = std::move(bytes);
      kept_[KeptKey(launch, PartKey{key, 0, process})] = std::move(kept);
      ahead += QueueCost(0);
      run.messages.clear();
    }
    if (!fits && record->failure.ok()) {
      header.total_bytes = static_cast<uint64_t>(size);
      lock.Unlock();
      if (!PostInRing(process, header, nullptr)) SendUnawaited({process, header, ""});
      EndExchange(run);
      return absl::OkStatus();
    }
  }
  return RunExchange(run);
}

// The receiver has memory for a kept message. It is sent from where it is. The receiver's answer, which the same thread
// handles, tells when it is there.
absl::Status MessageMesh::State::HandleReady(const FrameHeader& header, const KeptKey& key, bool* is_kept) {
  KeptMessage* kept = nullptr;
  {
    MutexLock lock(mu_);
    const auto at = kept_.find(key);
    *is_kept = at != kept_.end();
    if (!*is_kept) return absl::OkStatus();
    kept = at->second.get();
    if (header.slot == kFrameSlot || kept->is_sent) return absl::InvalidArgumentError("it sent an invalid slot");
    kept->is_sent = true;  // only this thread removes it now
  }
  ErrorText error;
  const int code = transport_->start_send(mesh_, key.second.peer, header.slot, kept->bytes.data(), kept->bytes.size(),
                                          &kept->transfer, error.get());
  return code == BACKPLANE_TRANSPORT_OK ? absl::OkStatus() : absl::UnavailableError(error.text);
}

void MessageMesh::State::HandleTaken(const KeptKey& key) {
  std::unique_ptr<KeptMessage> kept;
  {
    MutexLock lock(mu_);
    const auto at = kept_.find(key);
    if (at == kept_.end()) return;
    kept = std::move(at->second);
    kept_.erase(at);
  }
  // All bytes are there, so this does not take long.
  ErrorText error;
  if (kept->transfer != nullptr) (void)transport_->wait(kept->transfer, -1, error.get());
}

void MessageMesh::State::QueueTakenLocked(const LaunchKey& launch, const PartKey& key) {
  FrameHeader header;
  header.kind = FrameKind::kTaken;
  header.process = static_cast<uint16_t>(self_);
  header.set = launch.first;
  header.sequence = launch.second;
  header.key = key.key;
  header.part = key.part;
  reports_.push_back({key.peer, header, ""});
  control_.NotifyAll();
}

void MessageMesh::State::AddUsedBytesLocked(int32_t peer, int64_t bytes) {
  int64_t& used = used_bytes_[static_cast<size_t>(peer)];
  used += bytes;
  if (used < max_ahead_bytes_ / 8) return;
  FrameHeader header;
  header.kind = FrameKind::kRoom;
  header.process = static_cast<uint16_t>(self_);
  header.total_bytes = static_cast<uint64_t>(used);
  reports_.push_back({peer, header, ""});
  control_.NotifyAll();
  used = 0;
}

void MessageMesh::State::StartUnawaitedLocked(int32_t peer, FrameHeader header, const std::string& text) {
  Unawaited& to = unawaited_[static_cast<size_t>(peer)];
  const bool is_ping = header.kind == FrameKind::kPing;
  if (is_ping) header.sequence = ++pings_;
  FrameBuffer buffer(new char[sizeof header + text.size()]);  // no larger than the frame
  if (!StartFrameIn(std::move(buffer), peer, header, text.data(), &to.frames).ok() || !is_ping || to.ping != 0) return;
  to.ping = header.sequence;
  to.before = to.frames.size();
}

void MessageMesh::State::AskWhetherArrivedLocked(int32_t peer) {
  const Unawaited& to = unawaited_[static_cast<size_t>(peer)];
  if (to.frames.size() < kUnawaitedFrames || to.ping != 0) return;
  FrameHeader ping;
  ping.kind = FrameKind::kPing;
  ping.process = static_cast<uint16_t>(self_);
  StartUnawaitedLocked(peer, ping, "");
}

void MessageMesh::State::SendUnawaited(const Report& report) {
  // The result is of no interest: a lost process needs no frame.
  (void)CatchExceptions([&] {
    MutexLock lock(unawaited_mu_);
    StartUnawaitedLocked(report.peer, report.header, report.text);
    AskWhetherArrivedLocked(report.peer);
  });
}

void MessageMesh::State::FreeUnawaited(int32_t peer, uint64_t number) {
  std::vector<Pending> arrived;
  {
    MutexLock lock(unawaited_mu_);
    Unawaited& to = unawaited_[static_cast<size_t>(peer)];
    if (to.ping == 0 || number < to.ping) return;
    const auto end = to.frames.begin() + static_cast<std::ptrdiff_t>(to.before);
    arrived.assign(std::make_move_iterator(to.frames.begin()), std::make_move_iterator(end));
    to.frames.erase(to.frames.begin(), end);
    to.ping = 0;
    to.before = 0;
    AskWhetherArrivedLocked(peer);
  }
  ErrorText error;
  for (const Pending& p : arrived) (void)transport_->wait(p.transfer, -1, error.get());
}

}  // namespace backplane
