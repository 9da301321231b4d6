#include "sdk/backend/processes/message_ring.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/futex.h"

namespace backplane {
namespace {

constexpr uint32_t kNumSlots = MessageRing::kSlots;

uint32_t CountSlots(size_t record_bytes) {
  return static_cast<uint32_t>((sizeof(uint32_t) + record_bytes + MessageRing::kSlotBytes - 1) /
                               MessageRing::kSlotBytes);
}

// The other process may change the size between a check and its use, so it is read exactly once.
uint32_t ReadSizeOnce(const std::byte* at) {
  return *reinterpret_cast<const volatile uint32_t*>(at);  // slots are aligned
}

}  // namespace

bool WriteRecord(MessageRing& ring, const MessageRingReader& reader, absl::Span<const std::byte> first,
                 absl::Span<const std::byte> second) {
  const auto bytes = static_cast<uint32_t>(first.size() + second.size());
  const uint32_t needed = CountSlots(bytes);
  uint32_t head = ring.head.load(std::memory_order_relaxed);  // written by this process only
  // A reader that has written nonsense gets no more records.
  const uint32_t used = head - reader.tail.load(std::memory_order_acquire);
  if (used > kNumSlots) return false;
  const uint32_t position = head % kNumSlots, to_end = kNumSlots - position;
  const uint32_t skipped = needed > to_end ? to_end : 0;
  if (needed + skipped > kNumSlots - used) return false;
  std::byte* at = ring.slots + position * MessageRing::kSlotBytes;
  if (skipped > 0) {
    std::memcpy(at, &MessageRing::kSkip, sizeof(uint32_t));
    at = ring.slots;
  }
  std::memcpy(at, &bytes, sizeof bytes);
  at += sizeof bytes;
  if (!first.empty()) std::memcpy(at, first.data(), first.size());
  if (!second.empty()) std::memcpy(at + first.size(), second.data(), second.size());
  // The order of this store and the load decides, together with that in AwaitRecord, that one of the two sees the
  // other.
  ring.head.store(head + skipped + needed, std::memory_order_seq_cst);
  if (reader.sleeps.load(std::memory_order_seq_cst) != 0) WakeReader(ring);
  return true;
}

absl::StatusOr<size_t> ReadRecord(const MessageRing& ring, MessageRingReader& reader, std::byte* to) {
  uint32_t tail = reader.tail.load(std::memory_order_relaxed);  // written by this process only
  uint32_t left = ring.head.load(std::memory_order_acquire) - tail;
  if (left == 0) return 0;
  if (left > kNumSlots) return absl::InvalidArgumentError("it wrote an invalid number of messages");
  const std::byte* at = ring.slots + tail % kNumSlots * MessageRing::kSlotBytes;
  uint32_t bytes = ReadSizeOnce(at);
  if (bytes == MessageRing::kSkip) {
    const uint32_t to_end = kNumSlots - tail % kNumSlots;
    if (to_end >= left) return absl::InvalidArgumentError("it wrote an invalid message");
    tail += to_end;
    left -= to_end;
    at = ring.slots;
    bytes = ReadSizeOnce(at);
  }
  if (bytes == 0 || bytes > MessageRing::kMaxRecordBytes || CountSlots(bytes) > left ||
      CountSlots(bytes) > kNumSlots - tail % kNumSlots)
    return absl::InvalidArgumentError(absl::StrCat("it wrote a message of ", bytes, " bytes"));
  std::memcpy(to, at + sizeof bytes, bytes);
  reader.tail.store(tail + CountSlots(bytes), std::memory_order_release);
  return bytes;
}

void AwaitRecord(const MessageRing& ring, MessageRingReader& reader, std::chrono::milliseconds limit) {
  const uint32_t tail = reader.tail.load(std::memory_order_relaxed);
  reader.sleeps.store(1, std::memory_order_seq_cst);
  if (ring.head.load(std::memory_order_seq_cst) == tail) WaitOnFutex(ring.head, tail, FutexScope::kShared, limit);
  reader.sleeps.store(0, std::memory_order_relaxed);
}

void WakeReader(const MessageRing& ring) { WakeFutex(ring.head, FutexScope::kShared); }

bool CanAwaitRecords(const MessageRing& ring) {
  const uint32_t head = ring.head.load(std::memory_order_relaxed);
  return WaitOnFutex(ring.head, head, FutexScope::kShared, std::chrono::nanoseconds(0)) != FutexResult::kRefused;
}

}  // namespace backplane
