// The launches that a MessageMesh knows: its own, and those of which others have spoken.
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {

// The launch gets its number and its record under one lock. A message for a launch that has a number and no record
// counts as one for a launch that is over.
LaunchKey MessageMesh::State::Register(const std::shared_ptr<Record>& record, absl::Status* failure) {
  const uint64_t set = HashProcesses(record->processes);
  MutexLock lock(mu_);
  const LaunchKey key(set, next_sequence_[set]++);
  std::shared_ptr<Record>& known = records_[key];
  if (known != nullptr) {
    ForgetSpeakersLocked(*known);
    known->arrived.RemoveAll([&](Arrived* arrived) { record->arrived.Add(arrived); });
    record->claims = std::move(known->claims);
    record->failure = known->failure;
    record->own_failure = known->own_failure;
    record->failed_at = known->failed_at;
  }
  known = record;
  record->registered = true;
  if (record->failure.ok() && stopped_) record->failure = absl::CancelledError("the client is being closed");
  auto fail = [&](absl::Status why) {
    mu_.AssertHeld();
    record->on_failure = FailLocked(key, *record, std::move(why), true).call;
  };
  if (record->failure.ok() && !record->own_failure.ok()) fail(record->own_failure);
  for (int32_t peer : record->processes) {
    const absl::Status& lost = lost_[static_cast<size_t>(peer)];
    // One that has closed its client may have sent before all that this launch needs of it.
    if (lost.ok() || leaving_[static_cast<size_t>(peer)] || !record->failure.ok()) continue;
    fail(absl::Status(lost.code(), absl::StrCat(record->program.name, ": ", lost.message())));
  }
  for (const Claim& claim : record->claims) {
    absl::Status same = CheckClaim(*record, claim);
    if (!same.ok() && record->failure.ok()) fail(std::move(same));
  }
  if (record->failure.ok() || LeaveCallLocked(*record)) return key;
  record->on_failure = nullptr;  // the caller calls it
  *failure = record->failure;
  return key;
}

void MessageMesh::State::Unregister(const LaunchKey& key) {
  MutexLock lock(mu_);
  const auto at = records_.find(key);
  if (at == records_.end()) return;
  at->second->arrived.RemoveAll([&](Arrived* a) {
    mu_.AssertHeld();
    const std::unique_ptr<Arrived> arrived(a);
    DropArrivedLocked(key, *arrived);
  });
  const Record& record = *at->second;
  for (size_t i = 0; i < record.processes.size(); ++i) {
    if (record.openings[i] != Record::Opening::kCounted) continue;  // otherwise nobody has told the receiver
    ahead_bytes_[static_cast<size_t>(record.processes[i])] -= kQueuedLaunchBytes;
  }
  records_.erase(at);
  for_close_.NotifyAll();
}

absl::StatusOr<std::shared_ptr<Record>> MessageMesh::State::FindRecordLocked(const LaunchKey& launch, int32_t peer,
                                                                             const FrameHeader& header) {
  std::shared_ptr<Record> record;
  if (const auto at = records_.find(launch); at != records_.end()) {
    record = at->second;
    if (record->registered) return record;
  } else {
    const auto next = next_sequence_.find(launch.first);
    if (next != next_sequence_.end() && launch.second < next->second) return nullptr;
  }
  const auto is_peer = [&](const Speaker& s) { return s.peer == peer; };
  auto speaker = record == nullptr ? std::vector<Speaker>::iterator()
                                   : std::find_if(record->speakers.begin(), record->speakers.end(), is_peer);
  if (record == nullptr || speaker == record->speakers.end()) {
    int64_t& queued = queued_bytes_[static_cast<size_t>(peer)];
    if (queued + kQueuedLaunchBytes > kQueueLimits * max_ahead_bytes_)
      return absl::ResourceExhaustedError("it sent too much ahead");
    const bool is_new = record == nullptr;
    if (is_new) record = std::make_shared<Record>();
    record->speakers.push_back({peer, false, kQueuedLaunchBytes});
    if (is_new) records_.emplace(launch, record);
    queued += kQueuedLaunchBytes;
    speaker = record->speakers.end() - 1;
  }
  speaker->has_opened |= header.opens_launch;
  return record;
}

void MessageMesh::State::ForgetSpeakersLocked(const Record& known) {
  for (const Speaker& s : known.speakers) {
    queued_bytes_[static_cast<size_t>(s.peer)] -= s.cost;
    AddUsedBytesLocked(s.peer, s.text_bytes + (s.has_opened ? kQueuedLaunchBytes : 0));
  }
}

void MessageMesh::State::OpenLaunchLocked(RunningExchange& run) {
  auto open = [&](int32_t peer) {
    mu_.AssertHeld();
    Record::Opening& opening = run.record().OpeningFor(peer);
    if (opening == Record::Opening::kNone) {
      opening = Record::Opening::kCounted;
      ahead_bytes_[static_cast<size_t>(peer)] += kQueuedLaunchBytes;
    }
    run.opens_launch |= opening == Record::Opening::kCounted;
  };
  for (const OutgoingPart& s : run.messages) open(s.process);
  for (const SharedSend& s : run.shared) {
    for (const SharedSend::Reader& reader : s.readers) open(reader.process);
  }
}

bool MessageMesh::State::TellLaunch(Record& record, int32_t peer) {
  MutexLock lock(mu_);
  Record::Opening& opening = record.OpeningFor(peer);
  if (opening != Record::Opening::kCounted) return false;
  opening = Record::Opening::kTold;
  return true;
}

void MessageMesh::State::UntellLaunch(Record& record, int32_t peer) {
  MutexLock lock(mu_);
  record.OpeningFor(peer) = Record::Opening::kCounted;
}

}  // namespace backplane
