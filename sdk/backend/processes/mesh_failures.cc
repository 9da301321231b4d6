// Failures of launches and processes, and time limits.
#include <thread>

#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {

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

void MessageMesh::State::LosePeer(int32_t peer, const std::string& why, bool tells) {
  std::vector<Callback> calls;
  {
    MutexLock lock(mu_);
    absl::Status& lost = lost_[static_cast<size_t>(peer)];
    if (!lost.ok()) return;
    lost = absl::UnavailableError(leaving_[static_cast<size_t>(peer)]
                                      ? absl::StrCat("process ", peer, " has closed its client")
                                      : absl::StrCat("process ", peer, " is lost: ", why));
    if (tells && !leaving_[static_cast<size_t>(peer)]) {
      FrameHeader header;
      header.kind = FrameKind::kGoodbye;
      header.process = static_cast<uint16_t>(self_);
      std::string text(lost.message().substr(0, kMaxTextBytes));
      header.payload_bytes = text.size();
      reports_.push_back({peer, header, std::move(text)});
      control_.NotifyAll();
    }
    std::erase_if(kept_, [&](const auto& entry) { return entry.first.second.peer == peer && !entry.second->is_sent; });
    for (const auto& [key, record] : records_) {
      if (!record->registered || !record->Includes(peer)) continue;
      absl::Status status(lost.code(), absl::StrCat(record->Doing(), ": ", lost.message()));
      if (Callback call = FailLocked(key, *record, std::move(status), true, peer)) calls.push_back(std::move(call));
    }
  }
  for (const Callback& call : calls) call();
}

void MessageMesh::State::QueuePlainFrame(int32_t peer, FrameKind kind, uint64_t number) {
  FrameHeader header;
  header.kind = kind;
  header.sequence = number;
  header.process = static_cast<uint16_t>(self_);
  reports_.push_back({peer, header, ""});
  control_.NotifyAll();
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
    for (const Report& report : reports) SendUnawaited(report);
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
  for (int32_t peer = 0; peer < count_; ++peer) {
    if (HasRings(peer)) shared_->EndAwaiting(peer);
  }
}

}  // namespace backplane
