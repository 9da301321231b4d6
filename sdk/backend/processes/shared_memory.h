// Memory that processes of one machine share, through which they pass the data of collectives.
//
// Each process creates a segment: a file in memory without a name (memfd), which ends with the last process that maps
// it, however that process ends. It consists of blocks of kSharedBlockBytes. A process writes to its own segment only;
// the kernel lets others map it for reading only, and never changes its size. The others open it under /proc.
//
// A block is used as follows. Its owner writes data into it, and tells the readers in a message which block it is, and
// the number of this use. Each reader copies the data and then writes the number of the use into its own segment, where
// the owner of the block reads it. So nothing needs to be sent back. If a reader is lost the block is never used again,
// because that process may still read it.
//
// Nothing is taken on trust: the description of a segment has a random number, which must also stand in the memory that
// is found there. So processes that do not see the same memory (other machines, containers) notice it when they meet.
//
// A segment also has a ring of small messages (message_ring.h) for each other process, unless there are many processes.
// Processes of one network use them.
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_SHARED_MEMORY_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_SHARED_MEMORY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "sdk/backend/processes/message_ring.h"
#include "sdk/backend/processes/network_address.h"

namespace backplane {

inline constexpr int64_t kSharedBlockBytes = int64_t{1} << 20;
inline constexpr int64_t kMaxSharedBlocks = 256;
// With more processes than this there are no rings: they would need too much memory.
inline constexpr int32_t kMaxRingProcesses = 64;

// A part of an array in a block of another process, as a message describes it.
struct SharedChunk {
  uint32_t block = 0, use = 0;
  int64_t position = 0, bytes = 0;  // in the array
};

// Thread-safe, except that Open and Close must not be called while others use the object, and that one thread at a time
// reads the messages of a process.
class SharedMemory {
 public:
  // Creates the segment of this process with `blocks` blocks, 1 to kMaxSharedBlocks.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(int32_t process, int32_t num_processes, int64_t blocks);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // By which other processes find the segment. It is of use on this machine only.
  std::string Describe() const;
  // Maps the segment of `peer`. Returns an error if it cannot be reached or is not what the description says.
  absl::Status Open(int32_t peer, absl::string_view description);
  // Forgets the segment of `peer`, for example because `peer` cannot reach the one of this process.
  void Close(int32_t peer);
  bool Reaches(int32_t peer) const { return peers_[static_cast<size_t>(peer)].memory != nullptr; }

  // ---- Messages; only with processes for which HasRings is true ----
  // It is not true for a process of another network (namespace): when that is cut, the two must notice, although they
  // still reach each other's memory.
  bool HasRings(int32_t peer) const {
    return num_processes_ <= kMaxRingProcesses && Reaches(peer) && peers_[static_cast<size_t>(peer)].is_in_our_network;
  }
  // Sends a message that consists of `first` and `second`. Returns false if it is too large, or if `peer` has not yet
  // read as much as there is room for. `peer` reads its messages in the order in which they were written.
  bool WriteMessage(int32_t peer, absl::Span<const std::byte> first, absl::Span<const std::byte> second);
  // Copies the next message of `peer` to `to`, which has room for MessageRing::kMaxRecordBytes. Returns its size, or 0
  // if there is none, or an error if `peer` has written something invalid.
  absl::StatusOr<size_t> ReadMessage(int32_t peer, std::byte* to);
  // Sleeps until there may be a message of `peer`, or EndAwaiting is called, at most for `limit`.
  void AwaitMessage(int32_t peer, std::chrono::milliseconds limit);
  void EndAwaiting(int32_t peer);

  // ---- The owner of blocks ----
  // Takes up to `most` blocks that nobody reads; there may be none. They are the caller's until it returns them.
  std::vector<uint32_t> TakeBlocks(size_t most);
  void ReturnBlocks(absl::Span<const uint32_t> blocks);  // readers may still read them
  std::byte* data(uint32_t block) const { return own_.memory + own_.first_block + block * kSharedBlockBytes; }
  // Starts another use of a block of the caller, after all readers have released the one before; returns its number.
  uint32_t StartUse(uint32_t block, std::vector<int32_t> readers);
  // A reader of this use has not been told of it.
  void RemoveReader(uint32_t block, int32_t reader);
  // The readers that have not released the block.
  std::vector<int32_t> FindReaders(uint32_t block) const;

  // ---- A reader ----
  // Returns the memory of a chunk in a block of `peer`; null if the chunk is invalid.
  const std::byte* Find(int32_t peer, const SharedChunk& chunk) const;
  void Release(int32_t peer, const SharedChunk& chunk);

 private:
  struct Segment {
    std::byte* memory = nullptr;
    int64_t bytes = 0, blocks = 0, first_block = 0;
    bool is_in_our_network = true;
  };
  struct BlockUse {
    uint32_t number = 0;
    std::vector<int32_t> readers;
  };
  SharedMemory(int32_t process, int32_t num_processes)
      : process_(process),
        num_processes_(num_processes),
        network_(NetworkId()),
        peers_(static_cast<size_t>(num_processes)),
        write_mus_(new Mutex[static_cast<size_t>(num_processes)]) {}
  // Where the parts of a segment begin.
  int64_t FirstRing() const;
  int64_t FirstRingReader() const;
  int64_t FirstBlock() const;
  // Return the ring in `segment` for what its owner sends to `reader`, and what its owner has read of `writer`'s.
  MessageRing& GetRing(const Segment& segment, int32_t reader) const;
  MessageRingReader& GetRingReader(const Segment& segment, int32_t writer) const;
  bool IsReleased(uint32_t block, int32_t reader) const;
  bool IsFree(uint32_t block) const;

  const int32_t process_, num_processes_;
  const std::string network_;  // determined once: two processes must find the same answer to HasRings
  int file_ = -1;
  std::string nonce_;
  Segment own_;
  std::vector<Segment> peers_;                // by process
  const std::unique_ptr<Mutex[]> write_mus_;  // by process: guards the writer's side of the ring
  std::vector<BlockUse> uses_;                // by block; changed by whoever has taken the block
  Mutex mu_;
  std::vector<uint32_t> returned_ ABSL_GUARDED_BY(mu_);  // the blocks that nobody has taken
  enum class Backing { kNone, kComplete, kRefused } backing_ ABSL_GUARDED_BY(mu_) = Backing::kNone;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_PROCESSES_SHARED_MEMORY_H_
