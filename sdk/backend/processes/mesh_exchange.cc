// The exchanges of a MessageMesh's launches.
#include <cstring>

#include "absl/strings/str_join.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {

// Arrays that go to several processes are written once.
void MessageMesh::State::PlanSends(absl::Span<const OutgoingPart> sends, bool at_once, RunningExchange* run) {
  std::vector<SharedSend>& shared = run->shared;
  for (const OutgoingPart& s : sends) {
    if (s.bytes < (HasRings(s.process) ? kMinSharedBytesWithRings : kMinSharedBytes) || !SharesMemoryWith(s.process)) {
      if (s.bytes > 0) run->messages.push_back(s);
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
    if (at_once && s.blocks.size() < blocks) {
      shared_->ReturnBlocks(s.blocks);
      s.blocks.clear();
    }
    // An array that gets no block goes in messages. To wait for a first block could be to wait for ever: its readers
    // may release it only after another exchange, which waits for this one. An array that has a block can wait for its
    // next one: the readers of that block are here in this very exchange.
    if (!s.blocks.empty()) continue;
    for (const SharedSend::Reader& reader : s.readers)
      run->messages.push_back({reader.process, reader.part, s.data, s.bytes});
  }
  shared.erase(std::remove_if(shared.begin(), shared.end(), [](const SharedSend& s) { return s.blocks.empty(); }),
               shared.end());
}

absl::StatusOr<bool> MessageMesh::State::AdvanceSharedSends(const FrameHeader& like, RunningExchange& run) {
  absl::Status status;
  bool advanced = false;
  for (bool again = true; again && status.ok();) {
    again = false;
    for (SharedSend& s : run.shared) {
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
        absl::Status started = SendMessage(run, reader.process, header, nullptr, &s.uses_rings);
        if (!started.ok()) shared_->RemoveReader(block, reader.process);  // it never hears of the block
        if (status.ok()) status = std::move(started);
      }
      s.position += header.chunk.bytes;
      s.next = (s.next + 1) % s.blocks.size();
      again = advanced = true;
      if (!status.ok()) break;
    }
  }
  absl::Status sent = WaitFor(run.frames, run.watch);
  if (status.ok()) status = std::move(sent);
  if (!status.ok()) return status;
  return advanced;
}

absl::Status MessageMesh::State::Exchange(const LaunchKey& launch, const std::shared_ptr<Record>& record,
                                          const ExchangeKey& key, absl::string_view what,
                                          absl::Span<const OutgoingPart> sends,
                                          absl::Span<const IncomingPart> receives) {
  RunningExchange run(this, launch, record, key, what);
  run.watch.deadline = Clock::now() + record->limit;
  run.in.reserve(receives.size());
  for (const IncomingPart& r : receives) {
    if (r.bytes <= 0) continue;
    PartState& part = run.in.emplace_back();
    part.key = {key, r.part, r.process};
    part.bytes = r.bytes;
    part.to = r.data;
  }
  PlanSends(sends, /*at_once=*/false, &run);
  return RunExchange(run);
}

absl::Status MessageMesh::State::SendMessage(RunningExchange& run, int32_t peer, FrameHeader header,
                                             const void* payload, bool* uses_rings) {
  header.opens_launch = run.opens_launch && TellLaunch(run.record(), peer);
  *uses_rings = *uses_rings && PostInRing(peer, header, payload);
  if (*uses_rings) return absl::OkStatus();
  absl::Status started = CatchExceptions([&] { return StartFrame(peer, header, payload, &run.frames); });
  if (!started.ok() && header.opens_launch) UntellLaunch(run.record(), peer);
  return started;
}

// Sends what goes in messages. They are counted already.
void MessageMesh::State::StartMessages(RunningExchange& run) {
  for (const OutgoingPart& s : run.messages) {
    FrameHeader header = MakeHeader(run.launch, run.record(), FrameKind::kData, run.key, s.part);
    header.payload_bytes = static_cast<uint64_t>(s.bytes);
    bool uses_rings = true;
    run.Note(SendMessage(run, s.process, header, s.data, &uses_rings));
    if (!run.error.ok()) return;
    ++run.messages_started;
  }
  for (const PartState& s : run.out) {
    FrameHeader header = MakeHeader(run.launch, run.record(), FrameKind::kOffer, run.key, s.key.part);
    header.total_bytes = static_cast<uint64_t>(s.bytes);
    bool uses_rings = false;
    run.Note(SendMessage(run, s.key.peer, header, nullptr, &uses_rings));
    if (!run.error.ok()) return;
    ++run.messages_started;
  }
  run.Note(WaitFor(run.frames, run.watch));
}

// Copies what had arrived before. After an error it only releases it.
void MessageMesh::State::TakeEarly(RunningExchange& run) {
  for (const auto& [part, arrived] : run.early) {
    if (arrived == nullptr) continue;
    const int32_t peer = part->key.peer;
    if (run.error.ok() && !arrived->data.empty()) std::memcpy(part->to, arrived->data.data(), arrived->data.size());
    for (const SharedChunk& chunk : arrived->chunks) {
      if (run.error.ok()) {
        std::memcpy(static_cast<std::byte*>(part->to) + chunk.position, shared_->Find(peer, chunk),
                    static_cast<size_t>(chunk.bytes));
      }
      shared_->Release(peer, chunk);
      MutexLock lock(mu_);
      FinishChunkLocked(run.record(), *part, chunk.bytes);
    }
  }
  run.early.clear();
}

// Does not throw.
void MessageMesh::State::EndExchange(RunningExchange& run) {
  if (std::exchange(run.has_ended, true)) return;
  run.Note(WaitFor(run.frames, run.watch));
  run.Note(WaitFor(run.pending, run.watch));
  // After an exception.
  if (!run.early.empty()) run.Note(absl::Status(absl::StatusCode::kResourceExhausted, ""));
  TakeEarly(run);
  for (const SharedSend& s : run.shared) shared_->ReturnBlocks(s.blocks);
  Record& record = run.record();
  MutexLock lock(mu_);
  // While its receives are still known: afterwards what comes for them is unexpected, unless the launch has failed.
  if (!run.error.ok() && record.failure.ok()) run.then = FailLocked(run.launch, record, run.MakeNamedError(), true);
  // The receiving thread may still copy into a part.
  auto copying = [&] {
    return std::any_of(run.in.begin(), run.in.end(), [](const PartState& s) { return s.copies > 0; });
  };
  while (copying()) record.changed.WaitFor(mu_, kWatchInterval);
  for (const PartState& s : run.in) {
    record.receives.Remove(s.key);
    if (!s.is_kept) continue;
    (void)CatchExceptions([&] {
      mu_.AssertHeld();
      QueueTakenLocked(run.launch, s.key);
    });
  }
  for (const PartState& s : run.out) record.sends.Remove(s.key);
  size_t number = 0;
  auto uncount = [&](int32_t peer, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (run.is_counted && number++ >= run.messages_started) ahead_bytes_[static_cast<size_t>(peer)] -= QueueCost(bytes);
  };
  for (const OutgoingPart& s : run.messages) uncount(s.process, s.bytes);
  for (const PartState& s : run.out) uncount(s.key.peer, 0);
  watches_.erase(std::remove(watches_.begin(), watches_.end(), &run.watch), watches_.end());
  if (run.is_active) record.active.erase(std::find(record.active.begin(), record.active.end(), run.watch.what));
}

void MessageMesh::State::AbandonExchange(RunningExchange& run) {
  run.Note(CatchExceptions([] { return absl::ResourceExhaustedError("out of host memory"); }));
  {
    MutexLock lock(mu_);
    if (run.record().failure.ok()) run.then = FailLocked(run.launch, run.record(), run.MakeNamedError(), true);
  }
  EndExchange(run);
  if (run.then) (void)CatchExceptions([&] { run.then(); });
}

void MessageMesh::State::TakeArrivedLocked(RunningExchange& run, PartState& in) {
  using Step = PartState::Step;
  Record& record = run.record();
  const int32_t peer = in.key.peer;
  if (record.arrived.Find(in.key) == nullptr) {
    record.receives.Add(&in);
    return;
  }
  run.early.emplace_back(&in, record.arrived.Remove(in.key));
  const Arrived& arrived = *run.early.back().second;
  const auto chunks = static_cast<int>(arrived.chunks.size());
  queued_chunks_[static_cast<size_t>(peer)] -= chunks;
  queued_bytes_[static_cast<size_t>(peer)] -= arrived.cost;
  in.is_kept = arrived.is_kept;
  in.copies = chunks;
  in.announced = arrived.announced;
  if (chunks == 0) in.step = arrived.is_offer ? Step::kAnswered : Step::kDone;
  AddUsedBytesLocked(peer, arrived.cost);
  if (arrived.bytes != in.bytes && run.error.ok()) {
    run.error = CatchExceptions([&] {
      return SizeError(absl::StrCat(run.watch.what, " of ", record.program.name), peer, arrived.bytes, in.bytes);
    });
  }
  if (run.error.ok() && chunks > 0 && arrived.announced < arrived.bytes) record.receives.Add(&in);
}

bool MessageMesh::State::CountAheadLocked(const OutgoingPart& send) {
  int64_t& ahead = ahead_bytes_[static_cast<size_t>(send.process)];
  const bool is_ahead = send.bytes <= kMaxPayloadBytes && ahead + QueueCost(send.bytes) <= max_ahead_bytes_;
  ahead += QueueCost(is_ahead ? send.bytes : 0);
  return is_ahead;
}

void MessageMesh::State::DivideMessagesLocked(RunningExchange& run) {
  if (run.is_counted) return;
  size_t kept = 0;
  for (size_t i = 0; i < run.messages.size(); ++i) {
    const OutgoingPart s = run.messages[i];
    if (CountAheadLocked(s)) {
      run.messages[kept++] = s;
      continue;
    }
    PartState& part = run.out.emplace_back();
    part.key = {run.key, s.part, s.process};
    part.bytes = s.bytes;
    part.from = s.data;
  }
  run.messages.resize(kept);
  run.is_counted = true;
}

absl::Status MessageMesh::State::CheckPeerLocked(const RunningExchange& run, int32_t peer) const {
  const absl::Status& lost = lost_[static_cast<size_t>(peer)];
  if (lost.ok()) return absl::OkStatus();
  return absl::Status(lost.code(),
                      absl::StrCat(run.watch.what, " of ", run.record().program.name, ": ", lost.message()));
}

absl::Status MessageMesh::State::FindLostReaderLocked(const RunningExchange& run) const {
  for (const SharedSend& s : run.shared) {
    if (s.IsDone()) continue;
    for (const SharedSend::Reader& reader : s.readers) RETURN_IF_ERROR(CheckPeerLocked(run, reader.process));
  }
  return absl::OkStatus();
}

absl::Status MessageMesh::State::FindLostLocked(const RunningExchange& run) const {
  for (const PartState& in : run.in) {
    if (in.step == PartState::Step::kWaiting && in.announced < in.bytes)
      RETURN_IF_ERROR(CheckPeerLocked(run, in.key.peer));
  }
  for (const OutgoingPart& s : run.messages) RETURN_IF_ERROR(CheckPeerLocked(run, s.process));
  return FindLostReaderLocked(run);
}

absl::Status MessageMesh::State::EnterParts(RunningExchange& run) {
  Record& record = run.record();
  // What is taken from the tables, and what is counted, is not lost if there is no memory.
  run.early.reserve(run.in.size());
  if (!run.is_counted) run.out.reserve(run.messages.size());
  MutexLock lock(mu_);
  if (!record.failure.ok()) return record.failure;
  for (PartState& in : run.in) TakeArrivedLocked(run, in);
  if (run.error.ok()) run.error = FindLostLocked(run);
  if (run.error.ok()) {
    OpenLaunchLocked(run);
    DivideMessagesLocked(run);
  }
  for (PartState& s : run.out) record.sends.Add(&s);
  if (!run.error.ok()) run.then = FailLocked(run.launch, record, run.error, true);
  record.active.push_back(run.watch.what);
  run.is_active = true;
  watches_.push_back(&run.watch);
  return absl::OkStatus();
}

std::vector<int32_t> MessageMesh::State::FindAwaitedLocked(const RunningExchange& run) const {
  std::vector<int32_t> awaited;
  auto add = [&](int32_t peer) {
    if (std::find(awaited.begin(), awaited.end(), peer) == awaited.end()) awaited.push_back(peer);
  };
  for (const auto* parts : {&run.in, &run.out}) {
    for (const PartState& s : *parts) {
      if (s.step == PartState::Step::kWaiting) add(s.key.peer);
    }
  }
  for (const SharedSend& s : run.shared) {
    if (s.IsDone()) continue;
    for (int32_t reader : shared_->FindReaders(s.blocks[s.next])) add(reader);
  }
  return awaited;
}

void MessageMesh::State::JudgeSilenceLocked(RunningExchange& run) {
  std::vector<int32_t> awaited = FindAwaitedLocked(run);
  if (awaited.empty()) return;
  if (run.wait_until == run.watch.deadline) {
    run.asked = Clock::now();
    for (int32_t peer : awaited) QueuePlainFrame(peer, FrameKind::kPing);
    run.wait_until = run.asked + kPingTime;
    return;
  }
  std::vector<int32_t> silent;
  for (int32_t peer : awaited) {
    if (heard_[static_cast<size_t>(peer)] < run.asked) silent.push_back(peer);
  }
  if (silent.empty() && run.wait_until < run.asked + kReportTime) {
    run.wait_until = run.asked + kReportTime;
    return;
  }
  Record& record = run.record();
  run.error = absl::DeadlineExceededError(absl::StrCat(run.watch.what, " of ", record.program.name, ": process ",
                                                       absl::StrJoin(silent.empty() ? awaited : silent, ", process "),
                                                       " did not answer within ", Seconds(record.limit)));
  run.then = FailLocked(run.launch, record, run.error, true);
}

bool MessageMesh::State::WaitForAnswers(RunningExchange& run, std::vector<PartState*>* answered) {
  using Step = PartState::Step;
  Record& record = run.record();
  MutexLock lock(mu_);
  const bool needs_blocks =
      std::any_of(run.shared.begin(), run.shared.end(), [](const SharedSend& s) { return !s.IsDone(); });
  bool waiting = needs_blocks;
  for (auto* parts : {&run.in, &run.out}) {
    for (PartState& s : *parts) {
      if (s.step == Step::kAnswered) answered->push_back(&s);
      waiting |= s.step == Step::kWaiting || s.copies > 0;
    }
  }
  if (!record.failure.ok()) {
    run.error = record.failure;
    return false;
  }
  // One that has closed its client fails no launch that may need nothing more of it. It is noticed here that this
  // exchange does: a sleep below is short as long as there are readers.
  if (absl::Status lost = FindLostReaderLocked(run); !lost.ok()) {
    run.error = std::move(lost);
    run.then = FailLocked(run.launch, record, run.error, true);
    return false;
  }
  for (PartState* s : *answered) s->step = Step::kStarted;
  if (!answered->empty()) return true;
  if (!waiting) return false;
  const Clock::time_point wait_until = run.wait_until;
  const auto wake = needs_blocks ? std::min<Clock::time_point>(wait_until, Clock::now() + run.pause) : wait_until;
  if (!record.changed.WaitUntil(mu_, wake) && Clock::now() >= wait_until && record.failure.ok())
    JudgeSilenceLocked(run);
  return true;
}

void MessageMesh::State::StartTransfer(RunningExchange& run, const PartState& part) {
  const int32_t peer = part.key.peer;
  if (part.to != nullptr) {
    FrameHeader ready = MakeHeader(run.launch, run.record(), FrameKind::kReady, run.key, part.key.part);
    ready.slot = next_slot_.fetch_add(1);
    run.Note(StartReceive(peer, part, ready, &run.pending));
    return;
  }
  ReserveMore(&run.pending, CountPieces(part.bytes));
  ErrorText error;
  const int code = StartPieces(peer, part.slot, part.from, nullptr, part.bytes, &run.pending, &error);
  if (code != BACKPLANE_TRANSPORT_OK) run.Note(TransportError(code, error, peer));
}

absl::Status MessageMesh::State::RunExchange(RunningExchange& run) {
  if (absl::Status failure = EnterParts(run); !failure.ok()) {
    EndExchange(run);
    FlushReports(run.record());
    return failure;
  }
  if (run.then) {
    FlushReports(run.record());
    std::exchange(run.then, {})();
  }
  if (run.error.ok()) StartMessages(run);
  const FrameHeader chunk_header = MakeHeader(run.launch, run.record(), FrameKind::kChunk, run.key, 0);
  if (run.error.ok()) run.Note(AdvanceSharedSends(chunk_header, run).status());
  TakeEarly(run);
  run.wait_until = run.watch.deadline;
  while (run.error.ok()) {
    const absl::StatusOr<bool> advanced = AdvanceSharedSends(chunk_header, run);
    if (!advanced.ok()) {
      run.Note(advanced.status());
      break;
    }
    run.pause = *advanced ? kFirstBlockPause : std::min(2 * run.pause, kLastBlockPause);
    std::vector<PartState*> answered;
    if (!WaitForAnswers(run, &answered)) break;
    for (const PartState* part : answered) StartTransfer(run, *part);
  }
  if (run.then) std::exchange(run.then, {})();
  EndExchange(run);
  if (run.error.ok()) return absl::OkStatus();
  absl::Status result;
  {
    MutexLock lock(mu_);
    result = run.record().failure;
  }
  FlushReports(run.record());
  if (run.then) run.then();
  return result;
}

}  // namespace backplane
