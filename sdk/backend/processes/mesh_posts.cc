// What a MessageMesh sends without waiting for it: messages that this process keeps, and small frames.
#include "core/types/status_macros.h"
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
  FrameHeader header = MakeHeader(launch, *record, FrameKind::kKept, key, 0);
  const KeptKey kept_key(launch, PartKey{key, 0, process});
  {
    MutexLock lock(mu_);
    OpenLaunchLocked(run);
    int64_t& ahead = ahead_bytes_[static_cast<size_t>(process)];
    const bool fits = !run.shared.empty() || (size <= kMaxPayloadBytes && ahead + QueueCost(size) <= max_ahead_bytes_);
    if (fits) {
      for (const OutgoingPart& s : run.messages) ahead += QueueCost(s.bytes);
      run.is_counted = true;
    } else if (record->failure.ok()) {
      run.messages.clear();
      run.error = KeepLocked(kept_key, std::move(bytes));
    }
    if (!fits && record->failure.ok() && run.error.ok()) {
      header.total_bytes = static_cast<uint64_t>(size);
      lock.Unlock();
      header.opens_launch = TellLaunch(*record, process);
      if (!PostInRing(process, header, nullptr)) run.error = SendUnawaited({process, header, ""});
      if (run.error.ok()) {
        EndExchange(run);
        return absl::OkStatus();
      }
      if (header.opens_launch) UntellLaunch(*record, process);
      lock.Lock();
      // The receiver does not know of it.
      if (const auto at = kept_.find(kept_key); at != kept_.end() && !at->second->is_sent) (void)TakeKeptLocked(at);
      ahead -= std::min(ahead, QueueCost(0));
    }
  }
  if (!run.error.ok()) run.error = run.MakeNamedError();
  return RunExchange(run);
}

absl::Status MessageMesh::State::KeepLocked(const KeptKey& key, std::string bytes) {
  const int32_t peer = key.second.peer;
  const auto p = static_cast<size_t>(peer);
  const auto size = static_cast<int64_t>(bytes.size());
  if (!lost_[p].ok()) return lost_[p];  // nobody would take or free the message
  if (ahead_bytes_[p] + QueueCost(0) > kPostLimits * max_ahead_bytes_ ||
      (kept_bytes_[p] > 0 && kept_bytes_[p] + size > kKeptLimits * max_ahead_bytes_)) {
    return absl::ResourceExhaustedError(absl::StrCat("process ", peer, " does not take its data; process ", self_,
                                                     " keeps ", kept_bytes_[p], " bytes for it and cannot keep more"));
  }
  auto kept = std::make_unique<KeptMessage>();
  kept->transfers.reserve(CountPieces(size));
  kept->bytes = std::move(bytes);
  if (!kept_.try_emplace(key, std::move(kept)).second)
    return absl::InvalidArgumentError(absl::StrCat("a second message for process ", peer));
  ahead_bytes_[p] += QueueCost(0);
  kept_bytes_[p] += size;
  return absl::OkStatus();
}

std::unique_ptr<KeptMessage> MessageMesh::State::TakeKeptLocked(KeptMessages::const_iterator at) {
  kept_bytes_[static_cast<size_t>(at->first.second.peer)] -= static_cast<int64_t>(at->second->bytes.size());
  for_close_.NotifyAll();
  return std::move(kept_.extract(at).mapped());
}

void MessageMesh::State::FreeKept(int32_t peer) {
  while (true) {
    std::unique_ptr<KeptMessage> kept;
    {
      MutexLock lock(mu_);
      const auto at =
          std::find_if(kept_.begin(), kept_.end(), [&](const auto& entry) { return entry.first.second.peer == peer; });
      if (at == kept_.end()) return;
      kept = TakeKeptLocked(at);
    }
    WaitForAll(kept->transfers);
  }
}

void MessageMesh::State::WaitForAll(const std::vector<Pending>& pending) {
  ErrorText error;
  for (const Pending& p : pending) (void)transport_->wait(p.transfer, -1, error.get());
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
  const int code = StartPieces(key.second.peer, header.slot, kept->bytes.data(), nullptr,
                               static_cast<int64_t>(kept->bytes.size()), &kept->transfers, &error);
  if (code == BACKPLANE_TRANSPORT_OK) return absl::OkStatus();
  std::unique_ptr<KeptMessage> taken;
  {
    MutexLock lock(mu_);
    taken = TakeKeptLocked(kept_.find(key));
  }
  WaitForAll(taken->transfers);  // their connection has ended
  return absl::UnavailableError(error.text);
}

void MessageMesh::State::HandleTaken(const KeptKey& key) {
  std::unique_ptr<KeptMessage> kept;
  {
    MutexLock lock(mu_);
    const auto at = kept_.find(key);
    if (at == kept_.end()) return;
    kept = TakeKeptLocked(at);
  }
  WaitForAll(kept->transfers);  // all bytes are there, so this does not take long
}

void MessageMesh::State::QueueTakenLocked(const LaunchKey& launch, const PartKey& key) {
  FrameHeader header;
  header.kind = FrameKind::kTaken;
  header.process = static_cast<uint16_t>(self_);
  header.set = launch.first;
  header.sequence = launch.second;
  header.key = key.key;
  header.part = key.part;
  (void)CatchExceptions([&] {
    mu_.AssertHeld();
    QueueReportLocked({key.peer, header, ""});
  });
}

void MessageMesh::State::CountUsedFrameLocked(int32_t peer, const FrameHeader& header) {
  if (const int64_t cost = FrameCost(header); cost > 0) AddUsedBytesLocked(peer, cost);
}

void MessageMesh::State::AddUsedBytesLocked(int32_t peer, int64_t bytes) {
  int64_t& used = used_bytes_[static_cast<size_t>(peer)];
  used += bytes;
  if (used < max_ahead_bytes_ / 8) return;
  FrameHeader header;
  header.kind = FrameKind::kRoom;
  header.process = static_cast<uint16_t>(self_);
  header.total_bytes = static_cast<uint64_t>(used);
  (void)CatchExceptions([&] {
    mu_.AssertHeld();
    QueueReportLocked({peer, header, ""});
    used = 0;  // otherwise it is told next time
  });
}

absl::Status MessageMesh::State::StartUnawaitedLocked(int32_t peer, FrameHeader header, const std::string& text) {
  Unawaited& to = unawaited_[static_cast<size_t>(peer)];
  const bool is_ping = header.kind == FrameKind::kPing;
  if (is_ping) header.sequence = ++pings_;
  if (is_ping) to.last_ping = header.sequence;
  FrameBuffer buffer(new char[sizeof header + text.size()]);  // no larger than the frame
  RETURN_IF_ERROR(StartFrameIn(std::move(buffer), peer, header, text.data(), &to.frames));
  if (!is_ping || to.ping != 0) return absl::OkStatus();
  to.ping = header.sequence;
  to.asked.swap(to.frames);
  return absl::OkStatus();
}

void MessageMesh::State::AskWhetherArrivedLocked(int32_t peer) {
  const Unawaited& to = unawaited_[static_cast<size_t>(peer)];
  if (to.frames.size() < kUnawaitedFrames || to.ping != 0) return;
  FrameHeader ping;
  ping.kind = FrameKind::kPing;
  ping.process = static_cast<uint16_t>(self_);
  // Without memory the next frame asks.
  (void)CatchExceptions([&] {
    unawaited_mu_.AssertHeld();
    return StartUnawaitedLocked(peer, ping, "");
  });
}

absl::Status MessageMesh::State::SendUnawaited(const Report& report) {
  bool is_read = false;
  absl::Status started(absl::StatusCode::kUnavailable, "");
  {
    MutexLock lock(unawaited_mu_);
    const Unawaited& to = unawaited_[static_cast<size_t>(report.peer)];
    is_read = to.asked.size() + to.frames.size() < max_unawaited_frames_;
    if (is_read) {
      started = CatchExceptions([&] {
        unawaited_mu_.AssertHeld();
        return StartUnawaitedLocked(report.peer, report.header, report.text);
      });
      AskWhetherArrivedLocked(report.peer);
    }
  }
  if (!is_read) (void)CatchExceptions([&] { LosePeer(report.peer, "it does not read its messages", /*tells=*/false); });
  return started;
}

void MessageMesh::State::FreeUnawaited(int32_t peer, uint64_t number) {
  std::vector<Pending> arrived;
  {
    MutexLock lock(unawaited_mu_);
    Unawaited& to = unawaited_[static_cast<size_t>(peer)];
    to.last_pong = std::max(to.last_pong, number);
    if (to.ping == 0 || number < to.ping) return;
    arrived.swap(to.asked);
    to.ping = 0;
    AskWhetherArrivedLocked(peer);
  }
  WaitForAll(arrived);
}

}  // namespace backplane
