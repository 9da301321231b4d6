// Failures of launches and processes, and time limits.
#include <thread>

#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {
namespace {

// What a receiver needs for a report of a failure, with the launch that it may be the first to speak of.
int64_t AbortCost(const FrameHeader& header) {
  return FrameCost(header) + (header.opens_launch ? kQueuedLaunchBytes : 0);
}

}  // namespace

MessageMesh::State::Callback MessageMesh::State::FailLocked(const LaunchKey& key, Record& record, absl::Status why,
                                                            bool report, int32_t except) {
  if (!record.failure.ok()) return {};
  record.failure = std::move(why);
  record.failed_at = Clock::now();
  for_close_.NotifyAll();
  record.changed.NotifyAll();
  record.owes_reports = report;
  record.not_reported_to = except;
  QueueReportsLocked(key, record);
  return {std::exchange(record.on_failure, nullptr), record.failure};
}

void MessageMesh::State::QueueReportsLocked(const LaunchKey& key, Record& record) {
  if (!record.owes_reports) return;
  // After an exception those that were queued are queued again, which does no harm.
  const absl::Status queued = CatchExceptions([&] {
    mu_.AssertHeld();
    for (size_t i = 0; i < record.processes.size(); ++i) {
      const int32_t peer = record.processes[i];
      if (peer == self_ || peer == record.not_reported_to || !lost_[static_cast<size_t>(peer)].ok()) continue;
      FrameHeader header = MakeHeader(key, record, FrameKind::kAbort, {}, 0);
      header.status_code = static_cast<uint8_t>(record.failure.code());
      std::string text(record.failure.message().substr(0, kMaxTextBytes));
      header.payload_bytes = text.size();
      Record::Opening& opening = record.openings[i];
      header.opens_launch = opening != Record::Opening::kTold;
      int64_t& ahead = ahead_bytes_[static_cast<size_t>(peer)];
      const int64_t counted = opening == Record::Opening::kCounted ? kQueuedLaunchBytes : 0;
      const int64_t cost = AbortCost(header);
      if (ahead - counted + cost > MaxAbortBytes(max_ahead_bytes_)) {
        deferred_[static_cast<size_t>(peer)].push_back({peer, header, std::move(text)});
        ++queued_reports_[static_cast<size_t>(peer)];
        ahead -= counted;
      } else {
        QueueReportLocked({peer, header, std::move(text)});
        record.last_report = reports_queued_;
        ahead += cost - counted;
      }
      opening = Record::Opening::kTold;
    }
  });
  record.owes_reports = !queued.ok();
  has_untold_failures_ |= !queued.ok();
  control_.NotifyAll();
}

void MessageMesh::State::AddCallLocked(Callback call, Record& record, std::vector<Callback>* calls) {
  if (!call || CatchExceptions([&] { calls->push_back(std::move(call)); }).ok()) return;
  record.on_failure = std::move(call.call);
  record.owes_call = true;
  has_untold_failures_ = true;
}

void MessageMesh::State::FailFromHere(const LaunchKey& key, const std::shared_ptr<Record>& record,
                                      const absl::Status& why) {
  MutexLock lock(mu_);
  (void)FailLocked(key, *record, why, true);  // the caller knows
}

void MessageMesh::State::LosePeer(int32_t peer, absl::string_view why, bool tells) {
  std::vector<Callback> calls;
  {
    MutexLock lock(mu_);
    absl::Status& lost = lost_[static_cast<size_t>(peer)];
    if (!lost.ok()) return;
    const bool is_leaving = leaving_[static_cast<size_t>(peer)];
    lost = absl::Status(absl::StatusCode::kUnavailable, "");  // without memory for more
    (void)CatchExceptions([&] {
      mu_.AssertHeld();
      lost = absl::UnavailableError(is_leaving ? absl::StrCat("process ", peer, " has closed its client")
                                               : absl::StrCat("process ", peer, " is lost: ", why));
      if (!tells || is_leaving) return;
      FrameHeader header;
      header.kind = FrameKind::kGoodbye;
      header.process = static_cast<uint16_t>(self_);
      std::string text(lost.message().substr(0, kMaxTextBytes));
      header.payload_bytes = text.size();
      QueueReportLocked({peer, header, std::move(text)});
    });
    queued_reports_[static_cast<size_t>(peer)] -= deferred_[static_cast<size_t>(peer)].size();
    deferred_[static_cast<size_t>(peer)].clear();
    // The rest is in use until its connection has ended or it is taken.
    for (auto at = kept_.begin(); at != kept_.end();) {
      const auto next = std::next(at);
      if (at->first.second.peer == peer && !at->second->is_sent) (void)TakeKeptLocked(at);
      at = next;
    }
    for (const auto& [key, record] : records_) {
      if (!record->registered || !record->Includes(peer)) continue;
      // A process may be done with a launch before others are. What it owed them has arrived.
      if (is_leaving && !record->AwaitsLocked(peer)) continue;
      absl::Status status = lost;
      (void)CatchExceptions(
          [&] { status = absl::Status(lost.code(), absl::StrCat(record->FormatOperation(), ": ", lost.message())); });
      AddCallLocked(FailLocked(key, *record, std::move(status), true, peer), *record, &calls);
    }
  }
  for (const Callback& call : calls) call();
}

void MessageMesh::State::QueueDeferredLocked(int32_t peer) {
  std::deque<Report>& deferred = deferred_[static_cast<size_t>(peer)];
  int64_t& ahead = ahead_bytes_[static_cast<size_t>(peer)];
  while (!deferred.empty()) {
    const FrameHeader& header = deferred.front().header;
    const int64_t cost = AbortCost(header);
    if (ahead + cost > MaxAbortBytes(max_ahead_bytes_)) return;
    QueueReportLocked(std::move(deferred.front()));
    deferred.pop_front();
    --queued_reports_[static_cast<size_t>(peer)];  // it was counted before
    ahead += cost;
  }
}

void MessageMesh::State::QueueReportLocked(Report&& report) {
  const auto p = static_cast<size_t>(report.peer);
  reports_.push_back(std::move(report));
  ++reports_queued_;
  ++queued_reports_[p];
  control_.NotifyAll();
}

void MessageMesh::State::QueuePlainFrame(int32_t peer, FrameKind kind, uint64_t number) {
  FrameHeader header;
  header.kind = kind;
  header.sequence = number;
  header.process = static_cast<uint16_t>(self_);
  QueueReportLocked({peer, header, ""});
}

// Waits until the reports of a failure are on their way. After an error the host may end the process, and the others
// should learn the reason and not only that the process is gone.
void MessageMesh::State::FlushReports(Record& record) {
  {
    const auto flushed = Clock::now() + kReportFlush;
    MutexLock lock(mu_);
    if (record.last_report == 0 || record.has_flushed) return;
    while (reports_done_ < record.last_report && !stopped_ && Clock::now() < flushed)
      reports_sent_.WaitUntil(mu_, flushed);
  }
  std::this_thread::sleep_for(kPartingTime);  // until the network has them
  MutexLock lock(mu_);
  record.has_flushed = true;
}

bool MessageMesh::State::LeaveCallLocked(Record& record) {
  if (record.last_report == 0 || record.on_failure == nullptr) return false;
  record.owes_call = true;
  has_untold_failures_ = true;
  control_.NotifyAll();
  return true;
}

bool MessageMesh::State::MayCallLocked(Record& record) {
  const auto now = Clock::now();
  if (record.call_at == Clock::time_point{} && reports_done_ >= record.last_report) record.call_at = now + kPartingTime;
  const bool is_sent = record.call_at != Clock::time_point{} && now >= record.call_at;
  return is_sent || now >= record.failed_at + kReportFlush;
}

// A transfer has the time limit for each piece, from its start on, or from the last progress with this process on. Then
// the process is asked. Its answer may have to wait behind what it sends, but not behind what it does not send.
bool MessageMesh::State::IsStuckLocked(Watch& watch, int32_t peer) {
  const auto now = Clock::now();
  const auto p = static_cast<size_t>(peer);
  if (now <= std::max(watch.since.load(), moved_[p].load()) + watch.record->limit) {
    watch.asked = {};
    return false;
  }
  if (watch.asked == Clock::time_point{}) {
    if (CatchExceptions([&] {
          mu_.AssertHeld();
          QueuePlainFrame(peer, FrameKind::kPing);
        }).ok())
      watch.asked = now;
    return false;
  }
  if (heard_[p] >= watch.asked && watch.extensions < kMaxExtensions) {
    ++watch.extensions;
    watch.since = now;
    return false;
  }
  return now > watch.asked + kPingTime;
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
      } else if (const int32_t peer = watch->peer; peer >= 0 && IsStuckLocked(*watch, peer)) {
        for (const auto& [key, at] : records_) {
          if (at.get() != &record) continue;
          absl::Status why(absl::StatusCode::kDeadlineExceeded, "");  // without memory for more
          (void)CatchExceptions([&] {
            why = absl::DeadlineExceededError(absl::StrCat(watch->what, " of ", record.program.name, ": process ", peer,
                                                           " did not answer within ", Seconds(record.limit)));
          });
          AddCallLocked(FailLocked(key, record, std::move(why), true, peer), record, &calls);
        }
      }
    }
    if (std::exchange(has_untold_failures_, false)) {
      for (const auto& [key, record] : records_) {
        QueueReportsLocked(key, *record);
        if (!record->owes_call) continue;
        if (!MayCallLocked(*record)) {
          has_untold_failures_ = true;
          continue;
        }
        record->owes_call = false;
        AddCallLocked({std::exchange(record->on_failure, nullptr), record->failure}, *record, &calls);
      }
    }
  }
  for (const Callback& call : calls) call();
  if (shut_down) transport_->shut_down(mesh_);
}

void MessageMesh::State::Control() {
  std::deque<Report> reports;
  while (true) {
    bool is_last_try = false;
    {
      MutexLock lock(mu_);
      // What there was no memory for is tried again after a while.
      const bool is_short = !reports.empty();
      if ((reports_.empty() || is_short) && !closing_)
        control_.WaitFor(mu_, has_untold_failures_ ? kPartingTime : kWatchInterval);
      if (closing_) return;
      if (!is_short) reports.swap(reports_);
      is_last_try = stopped_;
    }
    while (!reports.empty() && !closing_) {
      const auto peer = static_cast<size_t>(reports.front().peer);
      bool is_wanted = reports.front().header.kind == FrameKind::kGoodbye;
      if (!is_wanted) {
        MutexLock lock(mu_);
        is_wanted = lost_[peer].ok();
      }
      if (is_wanted && absl::IsResourceExhausted(SendUnawaited(reports.front())) && !is_last_try) break;
      reports.pop_front();
      MutexLock lock(mu_);
      ++reports_done_;
      --queued_reports_[peer];
      reports_sent_.NotifyAll();
    }
    (void)CatchExceptions([&] { CheckWatches(); });
  }
}

bool MessageMesh::State::HasHandledAll(int32_t peer) {
  {
    MutexLock lock(mu_);
    if (!lost_[static_cast<size_t>(peer)].ok() || leaving_[static_cast<size_t>(peer)]) return true;
  }
  MutexLock lock(unawaited_mu_);
  const Unawaited& to = unawaited_[static_cast<size_t>(peer)];
  return to.last_pong >= to.last_ping;
}

bool MessageMesh::State::IsNeededLocked() const {
  const bool has_launch = std::any_of(records_.begin(), records_.end(), [](const auto& entry) {
    return entry.second->registered && entry.second->failure.ok();
  });
  return has_launch || std::any_of(kept_.begin(), kept_.end(), [&](const auto& entry) {
           mu_.AssertHeld();
           return !leaving_[static_cast<size_t>(entry.first.second.peer)];
         });
}

void MessageMesh::State::Close() {
  std::vector<Callback> calls;
  uint64_t last_report = 0;
  {
    MutexLock lock(mu_);
    // The host may have the results of a launch that has yet to send its last parts.
    const auto ended = Clock::now() + kCloseLaunches;
    while (IsNeededLocked() && Clock::now() < ended) for_close_.WaitUntil(mu_, ended);
    // The goodbye ends the launches of other processes that still need this one, and no others.
    for (const auto& [key, record] : records_) {
      if (!record->registered) continue;
      if (std::exchange(record->owes_call, false))
        AddCallLocked({std::exchange(record->on_failure, nullptr), record->failure}, *record, &calls);
      AddCallLocked(FailLocked(key, *record, absl::CancelledError("the client is being closed"), /*report=*/false),
                    *record, &calls);
    }
    for (int32_t peer = 0; peer < count_; ++peer) {
      if (peer == self_ || !lost_[static_cast<size_t>(peer)].ok()) continue;
      // Without memory the end of the connection is the goodbye.
      (void)CatchExceptions([&] {
        mu_.AssertHeld();
        QueuePlainFrame(peer, FrameKind::kGoodbye);
        QueuePlainFrame(peer, FrameKind::kPing);
      });
    }
    last_report = reports_queued_;
    stopped_ = true;
  }
  for (const Callback& call : calls) call();
  const auto flushed = Clock::now() + kCloseFlush;
  {
    MutexLock lock(mu_);
    while (reports_done_ < last_report && Clock::now() < flushed) reports_sent_.WaitUntil(mu_, flushed);
  }
  // A message leaves this process only when the other one is ready for it. Connections that end before take it along.
  for (int32_t peer = 0; peer < count_; ++peer) {
    while (peer != self_ && !HasHandledAll(peer) && Clock::now() < flushed) std::this_thread::sleep_for(kClosePause);
  }
  {
    MutexLock lock(mu_);
    closing_ = true;
    control_.NotifyAll();
  }
  transport_->shut_down(mesh_);
  for (int32_t peer = 0; peer < count_; ++peer) {
    if (HasRings(peer)) shared_->EndAwaiting(peer);
  }
}

}  // namespace backplane
