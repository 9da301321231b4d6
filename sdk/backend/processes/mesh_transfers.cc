// How a MessageMesh sends and receives messages and large parts.
#include <array>
#include <cstring>

#include "core/types/status_macros.h"
#include "sdk/backend/exceptions.h"
#include "sdk/backend/processes/mesh_state.h"

namespace backplane {

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
  if (buffer == nullptr) return;
  MutexLock lock(buffers_mu_);
  if (buffers_.size() < kKeptBuffers) buffers_.push_back(std::move(buffer));
}

FrameHeader MessageMesh::State::MakeHeader(const LaunchKey& launch, const Record& record, FrameKind kind,
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
  return StartFrameIn(TakeBuffer(), peer, header, payload, pending);
}

absl::Status MessageMesh::State::StartFrameIn(FrameBuffer buffer, int32_t peer, const FrameHeader& header,
                                              const void* payload, std::vector<Pending>* pending) {
  std::memcpy(buffer.get(), &header, sizeof header);
  if (header.payload_bytes > 0) std::memcpy(buffer.get() + sizeof header, payload, header.payload_bytes);
  BackplaneTransfer* transfer = nullptr;
  ErrorText error;
  ReserveMore(pending, 1);
  const int code = transport_->start_send(mesh_, peer, kFrameSlot, buffer.get(), sizeof header + header.payload_bytes,
                                          &transfer, error.get());
  if (code != BACKPLANE_TRANSPORT_OK) return TransportError(code, error, peer);
  pending->push_back({transfer, peer, std::move(buffer)});
  return absl::OkStatus();
}

bool MessageMesh::State::PostInRing(int32_t peer, const FrameHeader& header, const void* payload) {
  return HasRings(peer) &&
         shared_->WriteMessage(peer, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&header), sizeof header),
                               absl::MakeConstSpan(static_cast<const std::byte*>(payload), header.payload_bytes));
}

absl::Status MessageMesh::State::DrainRing(int32_t peer) {
  if (!HasRings(peer)) return absl::OkStatus();
  Ring& ring = rings_[static_cast<size_t>(peer)];
  MutexLock lock(ring.mu);
  if (ring.is_invalid) return absl::OkStatus();
  ring.is_invalid = true;  // unless this ends well
  while (true) {
    ASSIGN_OR_RETURN(const size_t bytes, shared_->ReadMessage(peer, reinterpret_cast<std::byte*>(ring.record.get())));
    if (bytes == 0) break;
    FrameHeader header;
    if (bytes >= sizeof header) std::memcpy(&header, ring.record.get(), sizeof header);
    if (bytes < sizeof header || !header.IsValid() || header.process != peer ||
        (header.kind != FrameKind::kData && header.kind != FrameKind::kChunk && header.kind != FrameKind::kKept) ||
        header.payload_bytes != bytes - sizeof header)
      return absl::InvalidArgumentError("it sent an invalid message");
    RETURN_IF_ERROR(HandleFrame(peer, header, ring.record.get() + sizeof header));
  }
  ring.is_invalid = false;
  return absl::OkStatus();
}

void MessageMesh::State::ReceiveFromRing(int32_t peer) {
  while (!closing_) {
    const absl::Status status = CatchExceptions([&] { return DrainRing(peer); });
    if (!status.ok() && !closing_) LosePeer(peer, status.message(), /*tells=*/true);
    {
      MutexLock lock(mu_);
      if (!lost_[static_cast<size_t>(peer)].ok()) return;
    }
    shared_->AwaitMessage(peer, kWatchInterval);
  }
}

int MessageMesh::State::StartPieces(int32_t peer, uint64_t slot, const void* from, void* to, int64_t bytes,
                                    std::vector<Pending>* pending, ErrorText* error) {
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const auto size = static_cast<size_t>(std::min(kPieceBytes, bytes - at));
    BackplaneTransfer* transfer = nullptr;
    const int code = to != nullptr ? transport_->start_receive(mesh_, peer, slot, static_cast<char*>(to) + at, size,
                                                               &transfer, error->get())
                                   : transport_->start_send(mesh_, peer, slot, static_cast<const char*>(from) + at,
                                                            size, &transfer, error->get());
    if (code != BACKPLANE_TRANSPORT_OK) return code;
    pending->push_back({transfer, peer, nullptr});
  }
  return BACKPLANE_TRANSPORT_OK;
}

absl::Status MessageMesh::State::StartReceive(int32_t peer, const PartState& part, const FrameHeader& ready,
                                              std::vector<Pending>* pending) {
  // What may throw comes first: a receive that has started ends only when the sender knows of it.
  ReserveMore(pending, CountPieces(part.bytes) + 1);
  FrameBuffer buffer = TakeBuffer();
  ErrorText error;
  const int code = StartPieces(peer, ready.slot, nullptr, part.to, part.bytes, pending, &error);
  if (code != BACKPLANE_TRANSPORT_OK) return TransportError(code, error, peer);
  return StartFrameIn(std::move(buffer), peer, ready, nullptr, pending);
}

// Waits for all transfers, also after an error, because they use the memory of the caller. Does not throw.
absl::Status MessageMesh::State::WaitFor(std::vector<Pending>& pending, Watch& watch) {
  absl::Status result;
  for (Pending& p : pending) {
    watch.since = Clock::now();
    watch.peer = p.peer;
    ErrorText error;
    const int code = transport_->wait(p.transfer, -1, error.get());
    if (code == BACKPLANE_TRANSPORT_OK) moved_[static_cast<size_t>(p.peer)] = Clock::now();
    if (code != BACKPLANE_TRANSPORT_OK && result.ok())
      result = CatchExceptions([&] { return TransportError(code, error, p.peer); });
    ReturnBuffer(std::move(p.buffer));
  }
  pending.clear();
  watch.peer = -1;
  return result;
}

// After an error that the process has made, what it still sends is read and ignored, so that it does not wait.
void MessageMesh::State::Receive(int32_t peer) {
  // Several receives are posted, so that the other process rarely waits for one.
  std::array<FrameBuffer, kPostedFrames> buffers;
  std::array<BackplaneTransfer*, kPostedFrames> transfers{};
  size_t posted = 0;  // receives from `next` on, in the order of the ring
  bool is_connected = true;
  for (size_t next = 0; is_connected; next = (next + 1) % kPostedFrames) {
    ErrorText error;
    int code = BACKPLANE_TRANSPORT_OK;
    while (posted < kPostedFrames && code == BACKPLANE_TRANSPORT_OK) {
      const size_t at = (next + posted) % kPostedFrames;
      if (buffers[at] == nullptr) buffers[at].reset(new char[kFrameBytes]());
      // A frame may be shorter than it says. It must not be completed from the one before.
      std::memset(buffers[at].get(), 0, sizeof(FrameHeader));
      code = transport_->start_receive(mesh_, peer, kFrameSlot, buffers[at].get(), kFrameBytes, &transfers[at],
                                       error.get());
      if (code == BACKPLANE_TRANSPORT_OK) ++posted;
    }
    if (posted > 0) {
      code = transport_->wait(transfers[next], -1, error.get());
      --posted;
    }
    is_connected = code == BACKPLANE_TRANSPORT_OK;
    absl::Status status = CatchExceptions([&] { return DrainRing(peer); });
    if (status.ok() && !is_connected) {
      status = absl::UnavailableError(error.text);
    } else if (status.ok()) {
      FrameHeader header;
      std::memcpy(&header, buffers[next].get(), sizeof header);
      status = !header.IsValid() || header.process != peer
                   ? absl::InvalidArgumentError("it sent an invalid message")
                   : CatchExceptions([&] { return HandleFrame(peer, header, buffers[next].get() + sizeof header); });
    }
    if (!status.ok() && !closing_) LosePeer(peer, status.message(), /*tells=*/is_connected);
    // What is still posted ends when the connections are closed; until then its memory is in use.
    for (; !is_connected && posted > 0; --posted) {
      next = (next + 1) % kPostedFrames;
      (void)transport_->wait(transfers[next], -1, error.get());
    }
  }
  FreeKept(peer);
}

}  // namespace backplane
