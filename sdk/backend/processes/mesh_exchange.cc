// The launches of a MessageMesh and their exchanges.
#include <cstring>

#include "absl/strings/str_join.h"
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
  return key;
}

void MessageMesh::State::Unregister(const LaunchKey& key) {
  MutexLock lock(mu_);
  const auto at = records_.find(key);
  if (at == records_.end()) return;
  for (const auto& [part, arrived] : at->second->arrived) DropArrivedLocked(part.peer, arrived);
  records_.erase(at);
  queue_drained_.NotifyAll();
}

// Arrays that go to several processes are written once.
std::vector<SharedSend> MessageMesh::State::PlanSharedSends(absl::Span<const OutgoingPart> sends,
                                                            std::vector<OutgoingPart>* others) {
  std::vector<SharedSend> shared;
  for (const OutgoingPart& s : sends) {
    if (s.bytes < (HasRings(s.process) ? kMinSharedBytesWithRings : kMinSharedBytes) || !SharesMemoryWith(s.process)) {
      if (s.bytes > 0) others->push_back(s);
      continue;
    }
    // A process releases a block once, so it reads an array once.
    auto same = std::find_if(shared.begin(), shared.end(), [&](const SharedSend& x) {
      return x.data == s.data && x.bytes == s.bytes &&
             std::none_of(x.readers.begin(), x.readers.end(), [&](const auto& r) { return r.process == s.process; });
    });
    if (same == shared.end()) {
      same = shared.emplace(shared.end());
      same->data = static_cast<const std::byte*>(s.data);
      same->bytes = s.bytes;
    }
    same->readers.push_back({s.process, s.part});
  }
  const bool has_one_peer = std::all_of(shared.begin(), shared.end(), [&](const SharedSend& s) {
    return s.readers.size() == 1 && s.readers.front().process == shared.front().readers.front().process;
  });
  for (SharedSend& s : shared) {
    // One connection alone is as fast for large arrays, and needs less processor time.
    const bool is_large = s.bytes > static_cast<int64_t>(kBlocksOfSend) * kSharedBlockBytes;
    const auto blocks = static_cast<size_t>((s.bytes + kSharedBlockBytes - 1) / kSharedBlockBytes);
    if (!has_one_peer || !is_large) s.blocks = shared_->TakeBlocks(std::min(blocks, kBlocksOfSend));
    // To wait for blocks could be to wait for ever: a process may release them only after another exchange, which waits
    // for this one. One that has a block waits only for processes that come to this very exchange.
    if (!s.blocks.empty()) continue;
    for (const SharedSend::Reader& reader : s.readers)
      others->push_back({reader.process, reader.part, s.data, s.bytes});
  }
  shared.erase(std::remove_if(shared.begin(), shared.end(), [](const SharedSend& s) { return s.blocks.empty(); }),
               shared.end());
  return shared;
}

void MessageMesh::State::ReturnBlocks(absl::Span<const SharedSend> sends) {
  for (const SharedSend& s : sends) shared_->ReturnBlocks(s.blocks);
}

absl::StatusOr<bool> MessageMesh::State::AdvanceSharedSends(const FrameHeader& like, std::vector<SharedSend>& sends,
                                                            Watch& watch) {
  std::vector<Pending> frames;
  absl::Status status;
  bool advanced = false;
  for (bool again = true; again && status.ok();) {
    again = false;
    for (SharedSend& s : sends) {
      const uint32_t block = s.blocks[s.next];
      if (s.IsDone() || !shared_->FindReaders(block).empty()) continue;
      std::vector<int32_t> readers;
      for (const SharedSend::Reader& reader : s.readers) readers.push_back(reader.process);
      FrameHeader header = like;
      header.total_bytes = static_cast<uint64_t>(s.bytes);
      header.chunk.block = block;
      header.chunk.use = shared_->StartUse(block, std::move(readers));
      header.chunk.position = s.position;
      header.chunk.bytes = std::min(s.bytes - s.position, kSharedBlockBytes);
      std::memcpy(shared_->data(block), s.data + s.position, static_cast<size_t>(header.chunk.bytes));
      for (const SharedSend::Reader& reader : s.readers) {
        header.part = reader.part;
        // The chunks of an array must arrive in order, so after one over the connection none follows in the ring.
        s.uses_rings = s.uses_rings && PostInRing(reader.process, header, nullptr);
        if (s.uses_rings) continue;
        absl::Status started = StartFrame(reader.process, header, nullptr, &frames);
        if (status.ok()) status = std::move(started);
      }
      s.position += header.chunk.bytes;
      s.next = (s.next + 1) % s.blocks.size();
      again = advanced = true;
      if (!status.ok()) break;
    }
  }
  absl::Status sent = WaitFor(frames, watch);
  if (status.ok()) status = std::move(sent);
  if (!status.ok()) return status;
  return advanced;
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
  std::vector<OutgoingPart> messages;  // what does not go through shared memory
  std::vector<SharedSend> shared = PlanSharedSends(sends, &messages);
  for (const OutgoingPart& s : messages) {
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
      ReturnBlocks(shared);
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
      Arrived& arrived = at->second;
      if (arrived.bytes != in[i].bytes && error.ok())
        error = SizeError(absl::StrCat(what, " of ", record->program.name), in[i].peer, arrived.bytes, in[i].bytes);
      if (arrived.is_offer) {
        in[i].step = Step::kAnswered;
      } else {
        queued_bytes_[static_cast<size_t>(in[i].peer)] -= static_cast<int64_t>(arrived.data.size());
        queued_chunks_[static_cast<size_t>(in[i].peer)] -= static_cast<int64_t>(arrived.chunks.size());
        in[i].copies = static_cast<int>(arrived.chunks.size());
        in[i].announced = arrived.announced;
        if (arrived.chunks.empty()) in[i].step = Step::kDone;
        if (error.ok() && arrived.announced > 0 && arrived.announced < arrived.bytes) record->receives[part] = &in[i];
        early.emplace_back(i, std::move(arrived));
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
    for (const OutgoingPart& s : messages) {
      if (s.bytes <= 0) continue;
      const bool offered = s.bytes > kMaxPayloadBytes;
      FrameHeader header = HeaderFor(launch, *record, offered ? FrameKind::kOffer : FrameKind::kData, key, s.part);
      (offered ? header.total_bytes : header.payload_bytes) = static_cast<uint64_t>(s.bytes);
      if (!offered && PostInRing(s.process, header, s.data)) continue;
      note(StartFrame(s.process, header, s.data, &frames));
    }
    note(WaitFor(frames, watch));
  }
  const FrameHeader chunk_header = HeaderFor(launch, *record, FrameKind::kChunk, key, 0);
  if (error.ok()) note(AdvanceSharedSends(chunk_header, shared, watch).status());
  for (const auto& [i, arrived] : early) {
    if (error.ok()) std::memcpy(in[i].to, arrived.data.data(), arrived.data.size());
    for (const SharedChunk& chunk : arrived.chunks) {
      if (error.ok()) {
        std::memcpy(static_cast<std::byte*>(in[i].to) + chunk.position, shared_->Find(in[i].peer, chunk),
                    static_cast<size_t>(chunk.bytes));
      }
      shared_->Release(in[i].peer, chunk);
      MutexLock lock(mu_);
      FinishChunkLocked(*record, PartKey{key, in[i].part, in[i].peer}, in[i], chunk.bytes);
    }
  }
  std::chrono::microseconds pause = kFirstBlockPause;
  while (error.ok()) {
    const absl::StatusOr<bool> advanced = AdvanceSharedSends(chunk_header, shared, watch);
    if (!advanced.ok()) {
      note(advanced.status());
      break;
    }
    pause = *advanced ? kFirstBlockPause : std::min(2 * pause, kLastBlockPause);
    std::vector<PartState*> answered;
    {
      MutexLock lock(mu_);
      const bool needs_blocks =
          std::any_of(shared.begin(), shared.end(), [](const SharedSend& s) { return !s.IsDone(); });
      bool waiting = needs_blocks;
      for (PartState& s : in) {
        if (s.step == Step::kAnswered) answered.push_back(&s);
        waiting |= s.step == Step::kWaiting || s.copies > 0;
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
        const auto wake = needs_blocks ? std::min<Clock::time_point>(wait_until, Clock::now() + pause) : wait_until;
        if (!record->changed.WaitUntil(mu_, wake) && Clock::now() >= wait_until && record->failure.ok()) {
          std::vector<int32_t> missing;
          auto add = [&](int32_t peer) {
            if (std::find(missing.begin(), missing.end(), peer) == missing.end()) missing.push_back(peer);
          };
          for (const auto* parts : {&in, &out}) {
            for (const PartState& s : *parts) {
              if (s.step == Step::kWaiting) add(s.peer);
            }
          }
          for (const SharedSend& s : shared) {
            if (s.IsDone()) continue;
            for (int32_t reader : shared_->FindReaders(s.blocks[s.next])) add(reader);
          }
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
  ReturnBlocks(shared);
  MutexLock lock(mu_);
  // The receiving thread may still copy into a part.
  auto copying = [&] { return std::any_of(in.begin(), in.end(), [](const PartState& s) { return s.copies > 0; }); };
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

}  // namespace backplane
