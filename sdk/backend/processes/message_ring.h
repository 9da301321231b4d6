// A ring of small messages from one process to another, in memory that the two share (shared_memory.h).
//
// The writer writes a record into the ring and then moves the head, a count of all slots that were ever written, past
// it. The reader copies records out of the ring and then writes the count of those that it has read into a state of its
// own, because each process writes to its own memory only. A reader without work sleeps on the head (a futex); the
// writer makes a system call only if the reader sleeps.
//
// The reader trusts nothing that it reads: the other process may write anything there at any time.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_MESSAGE_RING_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_MESSAGE_RING_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace backplane {

// What the writer writes. `head` counts slots and wraps around. A record begins in a slot with its size in bytes as
// uint32_t, and its data follows. It does not go beyond the end of the slots; a record of size kSkip fills what is
// left.
struct MessageRing {
  static constexpr size_t kSlotBytes = 64, kSlots = 1024;
  static constexpr size_t kMaxRecordBytes = 20 * 1024;
  static constexpr uint32_t kSkip = UINT32_MAX;

  std::atomic<uint32_t> head;
  std::byte unused[kSlotBytes - sizeof(uint32_t)];
  std::byte slots[kSlots * kSlotBytes];
};
static_assert(sizeof(MessageRing) == (MessageRing::kSlots + 1) * MessageRing::kSlotBytes);

// What the reader writes.
struct MessageRingReader {
  std::atomic<uint32_t> tail;    // the slots before it are the writer's again
  std::atomic<uint32_t> sleeps;  // 1: the reader sleeps, or is about to
  std::byte unused[MessageRing::kSlotBytes - 2 * sizeof(uint32_t)];
};
static_assert(sizeof(MessageRingReader) == MessageRing::kSlotBytes);
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

// Appends a record that consists of `first` and `second`, together at most kMaxRecordBytes, and wakes the reader.
// Returns false if there is no room. One call at a time.
bool WriteRecord(MessageRing& ring, const MessageRingReader& reader, absl::Span<const std::byte> first,
                 absl::Span<const std::byte> second);

// Copies the next record to `to`, which has room for kMaxRecordBytes, and releases its slots. Returns its size, 0 if
// there is none, and an error if what stands there is invalid. One call at a time.
absl::StatusOr<size_t> ReadRecord(const MessageRing& ring, MessageRingReader& reader, std::byte* to);

// Sleeps until there may be a record that ReadRecord has not returned, at most for `limit`. WakeReader, from any
// process that maps the ring, ends the sleep.
void AwaitRecord(const MessageRing& ring, MessageRingReader& reader, std::chrono::milliseconds limit);
void WakeReader(const MessageRing& ring);

// Whether this process can sleep on memory that it may only read, as AwaitRecord does. Some sandboxes do not allow it.
bool CanAwaitRecords(const MessageRing& ring);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_MESSAGE_RING_H_
