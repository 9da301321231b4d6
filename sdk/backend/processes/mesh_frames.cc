// What a MessageMesh does with the messages that arrive.
#include <cstring>

#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {

namespace {

// Releases a chunk of a process, unless somebody has taken it over.
struct ChunkReleaser {
  SharedMemory* memory;
  const int32_t peer;
  const SharedChunk chunk;
  void Release() {
    if (memory != nullptr) std::exchange(memory, nullptr)->Release(peer, chunk);
  }
  ~ChunkReleaser() { Release(); }
};

}  // namespace

absl::Status MessageMesh::State::CheckClaim(const Record& record, const Claim& claim) const {
  if (claim.program.digest == record.program.digest) return absl::OkStatus();
  return DifferentProgramsError(self_, record.program, claim.peer, claim.program);
}

absl::StatusOr<PartState*> MessageMesh::State::HandleChunkLocked(const LaunchKey& launch, Record& record,
                                                                 const PartKey& key, const FrameHeader& header,
                                                                 bool* keep, Callback* then) {
  const SharedChunk& chunk = header.chunk;
  const auto total = static_cast<int64_t>(header.total_bytes);
  PartState* const part = record.receives.Find(key);
  if (part == nullptr) {
    Arrived* arrived = record.arrived.Find(key);
    if (arrived == nullptr ? chunk.position != 0
                           : arrived->chunks.empty() || arrived->bytes != total || chunk.position != arrived->announced)
      return absl::InvalidArgumentError("it sent an unexpected chunk");
    int64_t& queued = queued_chunks_[static_cast<size_t>(key.peer)];
    if (queued >= kMaxSharedBlocks) return absl::ResourceExhaustedError("it sent too many chunks");
    if (arrived == nullptr) {
      auto first = std::make_unique<Arrived>();
      first->key = key;
      first->bytes = total;
      first->chunks.push_back(chunk);
      arrived = first.release();
      record.arrived.Add(arrived);
    } else {
      arrived->chunks.push_back(chunk);
    }
    arrived->announced += chunk.bytes;
    ++queued;
    *keep = true;
    return nullptr;
  }
  if (part->bytes != total) {
    record.receives.Remove(key);
    part->step = PartState::Step::kDone;
    *then = FailLocked(launch, record, SizeError(record.FormatOperation(), key.peer, total, part->bytes), true);
    return nullptr;
  }
  if (part->step != PartState::Step::kWaiting || chunk.position != part->announced)
    return absl::InvalidArgumentError("it sent an unexpected chunk");
  part->announced += chunk.bytes;
  return part;
}

void MessageMesh::State::FinishChunkLocked(Record& record, PartState& part, int64_t bytes) {
  --part.copies;
  part.copied += bytes;
  if (part.copied == part.bytes) {
    part.step = PartState::Step::kDone;
    record.receives.Remove(part.key);
  }
  if (part.copied == part.bytes || !record.failure.ok()) record.changed.NotifyAll();
}

void MessageMesh::State::DropArrivedLocked(const LaunchKey& launch, const Arrived& arrived) {
  const PartKey& key = arrived.key;
  const auto p = static_cast<size_t>(key.peer);
  queued_bytes_[p] -= arrived.cost;
  queued_chunks_[p] -= static_cast<int64_t>(arrived.chunks.size());
  for (const SharedChunk& chunk : arrived.chunks) shared_->Release(key.peer, chunk);
  (void)CatchExceptions([&] {
    mu_.AssertHeld();
    AddUsedBytesLocked(key.peer, arrived.cost);
    if (arrived.is_kept) QueueTakenLocked(launch, key);
  });
}

absl::Status MessageMesh::State::SizeError(absl::string_view doing, int32_t peer, int64_t sent,
                                           int64_t expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat(doing, ": process ", peer, " sends ", sent, " bytes, process ", self_, " expects ", expected));
}

absl::Status MessageMesh::State::HandleFrame(int32_t peer, const FrameHeader& header, const char* payload) {
  bool is_handled = false;
  const absl::Status status = CatchExceptions([&] {
    absl::Status handled = HandleFrameOrThrow(peer, header, payload);
    is_handled = true;
    return handled;
  });
  const bool is_of_launch = header.kind == FrameKind::kData || header.kind == FrameKind::kOffer ||
                            header.kind == FrameKind::kKept || header.kind == FrameKind::kChunk ||
                            header.kind == FrameKind::kAbort || header.kind == FrameKind::kReady;
  if (is_handled) return status;
  if (!is_of_launch) return header.kind == FrameKind::kGoodbye ? status : absl::OkStatus();
  Callback then;
  std::shared_ptr<Record> record;
  {
    MutexLock lock(mu_);
    const LaunchKey launch(header.set, header.sequence);
    CountUsedFrameLocked(peer, header);
    if (header.kind == FrameKind::kKept) QueueTakenLocked(launch, {header.key, header.part, peer});
    // Without memory to note even this, nothing better is left than to give up the peer.
    ASSIGN_OR_RETURN(record, FindRecordLocked(launch, peer, header));
    if (record == nullptr) return absl::OkStatus();
    absl::Status named = status;
    (void)CatchExceptions([&] {
      named = absl::Status(status.code(), absl::StrCat("a message of process ", peer, ": ", status.message()));
    });
    if (record->registered) {
      then = FailLocked(launch, *record, named, true);
    } else if (record->own_failure.ok()) {
      record->own_failure = named;
    }
  }
  FlushReports(*record);
  if (then) then();
  return absl::OkStatus();
}

absl::Status MessageMesh::State::HandleFrameOrThrow(int32_t peer, const FrameHeader& header, const char* payload) {
  const size_t p = static_cast<size_t>(peer);
  const LaunchKey launch(header.set, header.sequence);
  const PartKey key{header.key, header.part, peer};
  const std::byte* chunk = nullptr;
  if (header.kind == FrameKind::kChunk) {
    chunk = shared_ == nullptr ? nullptr : shared_->Find(peer, header.chunk);
    const auto total = static_cast<int64_t>(header.total_bytes);
    if (chunk == nullptr || header.chunk.position < 0 || header.chunk.bytes > total ||
        header.chunk.position > total - header.chunk.bytes)
      return absl::InvalidArgumentError("it sent an invalid chunk");
  }
  ChunkReleaser releaser{chunk == nullptr ? nullptr : shared_.get(), peer, header.chunk};
  const absl::string_view text(payload, std::min<size_t>(header.payload_bytes, kMaxTextBytes));
  Callback then;
  MutexLock lock(mu_);
  heard_[p] = Clock::now();
  if (!lost_[p].ok()) {
    // Its answers still free what it was sent.
    lock.Unlock();
    if (header.kind == FrameKind::kTaken) HandleTaken(KeptKey(launch, key));
    if (header.kind == FrameKind::kPong) FreeUnawaited(peer, header.sequence);
    return absl::OkStatus();
  }
  // Most reports answer what a process sends.
  if (queued_reports_[p] >= max_unawaited_frames_) return absl::ResourceExhaustedError("it does not read its messages");
  switch (header.kind) {
    case FrameKind::kGoodbye:
      leaving_[p] = text.empty();
      for_close_.NotifyAll();
      lock.Unlock();
      if (!text.empty()) LosePeer(peer, absl::StrCat("it reports: ", text), /*tells=*/false);
      return absl::OkStatus();
    case FrameKind::kPing: {
      // A pong that is still queued answers this ping, too.
      const auto queued = std::find_if(reports_.begin(), reports_.end(), [&](const Report& r) {
        return r.peer == peer && r.header.kind == FrameKind::kPong;
      });
      if (queued == reports_.end())
        QueuePlainFrame(peer, FrameKind::kPong, header.sequence);
      else
        queued->header.sequence = header.sequence;
      return absl::OkStatus();
    }
    case FrameKind::kPong:
      lock.Unlock();
      FreeUnawaited(peer, header.sequence);
      return absl::OkStatus();
    case FrameKind::kRoom:
      ahead_bytes_[p] -= std::min(ahead_bytes_[p], static_cast<int64_t>(header.total_bytes));
      QueueDeferredLocked(peer);
      return absl::OkStatus();
    case FrameKind::kTaken:
      lock.Unlock();
      HandleTaken(KeptKey(launch, key));
      return absl::OkStatus();
    case FrameKind::kReady: {
      bool is_kept = false;
      lock.Unlock();
      absl::Status sent = HandleReady(header, KeptKey(launch, key), &is_kept);
      if (is_kept) return sent;
      lock.Lock();
      break;
    }
    default:
      break;
  }
  const bool is_offer = header.kind == FrameKind::kOffer || header.kind == FrameKind::kKept;
  const bool is_kept = header.kind == FrameKind::kKept;
  ASSIGN_OR_RETURN(const std::shared_ptr<Record> record, FindRecordLocked(launch, peer, header));
  const bool is_known = record == nullptr || record->registered;
  if (is_known && header.opens_launch) AddUsedBytesLocked(peer, kQueuedLaunchBytes);
  if (record == nullptr || !record->failure.ok() || !record->own_failure.ok()) {
    CountUsedFrameLocked(peer, header);
    if (is_kept) QueueTakenLocked(launch, key);
    return absl::OkStatus();
  }
  if (header.kind == FrameKind::kAbort) {
    const auto code = header.status_code == 0 || header.status_code > 16
                          ? absl::StatusCode::kAborted
                          : static_cast<absl::StatusCode>(header.status_code);
    then = FailLocked(launch, *record, absl::Status(code, absl::StrCat("process ", peer, " reports: ", text)), false);
    if (is_known) {
      CountUsedFrameLocked(peer, header);
    } else {
      Speaker& speaker = *std::find_if(record->speakers.begin(), record->speakers.end(),
                                       [&](const Speaker& s) { return s.peer == peer; });
      speaker.text_bytes = FrameCost(header);
      speaker.cost += speaker.text_bytes;
      queued_bytes_[p] += speaker.text_bytes;
    }
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
    CountUsedFrameLocked(peer, header);
    if (is_kept) QueueTakenLocked(launch, key);
    lock.Unlock();
    FlushReports(*record);
    if (then) then();
    return absl::OkStatus();
  }
  if (header.kind == FrameKind::kReady) {
    if (header.slot == kFrameSlot) return absl::InvalidArgumentError("it sent an invalid slot");
    PartState* const send = record->sends.Remove(key);
    if (send == nullptr) return absl::OkStatus();  // the sender has given up
    send->slot = header.slot;
    send->step = PartState::Step::kAnswered;
    record->changed.NotifyAll();
    return absl::OkStatus();
  }
  if (header.kind == FrameKind::kChunk) {
    bool keep = false;
    const absl::StatusOr<PartState*> part = HandleChunkLocked(launch, *record, key, header, &keep, &then);
    if (!part.ok()) return part.status();
    if (keep) releaser.memory = nullptr;
    if (*part != nullptr) {
      ++(*part)->copies;
      lock.Unlock();
      std::memcpy(static_cast<std::byte*>((*part)->to) + header.chunk.position, chunk,
                  static_cast<size_t>(header.chunk.bytes));
      releaser.Release();
      lock.Lock();
      FinishChunkLocked(*record, **part, header.chunk.bytes);
    }
    lock.Unlock();
    if (then) {
      FlushReports(*record);
      then();
    }
    return absl::OkStatus();
  }
  if (header.kind != FrameKind::kData && !is_offer) return absl::InvalidArgumentError("it sent an unexpected message");
  const int64_t bytes = static_cast<int64_t>(is_offer ? header.total_bytes : header.payload_bytes);
  PartState* const part = record->receives.Find(key);
  if (part == nullptr) {
    const int64_t cost = QueueCost(is_offer ? 0 : bytes);
    if (queued_bytes_[p] + cost > kQueueLimits * max_ahead_bytes_)
      return absl::ResourceExhaustedError("it sent too much ahead");
    if (record->arrived.Find(key) != nullptr) return absl::InvalidArgumentError("it sent a message twice");
    auto arrived = std::make_unique<Arrived>();
    arrived->key = key;
    arrived->is_offer = is_offer;
    arrived->is_kept = is_kept;
    arrived->bytes = bytes;
    arrived->cost = cost;
    if (!is_offer) arrived->data.assign(payload, static_cast<size_t>(bytes));
    record->arrived.Add(arrived.release());
    queued_bytes_[p] += cost;
    return absl::OkStatus();
  }
  if (part->announced > 0) return absl::InvalidArgumentError("it sent an unexpected message");
  part->is_kept = is_kept;
  record->receives.Remove(key);
  if (part->bytes != bytes) {
    part->step = PartState::Step::kDone;
    then = FailLocked(launch, *record, SizeError(record->FormatOperation(), peer, bytes, part->bytes), true);
    CountUsedFrameLocked(peer, header);
    lock.Unlock();
    FlushReports(*record);
    if (then) then();
    return absl::OkStatus();
  }
  CountUsedFrameLocked(peer, header);
  if (is_offer) {
    part->step = PartState::Step::kAnswered;
  } else {
    ++part->copies;
    lock.Unlock();
    std::memcpy(part->to, payload, static_cast<size_t>(bytes));
    lock.Lock();
    --part->copies;
    part->step = PartState::Step::kDone;
  }
  record->changed.NotifyAll();
  return absl::OkStatus();
}

}  // namespace backplane
