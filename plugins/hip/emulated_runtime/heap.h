// The memory of an emulated device: a range of addresses of its own with a limit of bytes.
//
// Allocation is best fit with coalescing, in units of 256 bytes. Before and after each block lies a guard zone; what is
// fresh or freed is filled with poison (all ones: a NaN in every floating-point type), up to a number of bytes. A freed
// block is not given out again for a while, so that its use is found.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HEAP_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace backplane::hip::emulated {

// A half-open range of addresses.
struct AddressRange {
  uint64_t begin = 0, end = 0;
  bool Contains(uint64_t address, uint64_t bytes) const {
    return address >= begin && address <= end && bytes <= end - address;
  }
};

// Thread-safe.
class DeviceHeap {
 public:
  static constexpr uint64_t kAlignment = 256;
  static constexpr uint64_t kGuardBytes = 256;
  static constexpr unsigned char kPoison = 0xff, kGuard = 0xc5, kFreed = 0xfd;

  // Reserves the addresses. `capacity` bytes can be allocated; guard zones do not count. Returns ResourceExhausted if
  // the system has no room.
  static absl::StatusOr<std::unique_ptr<DeviceHeap>> Create(size_t capacity, size_t poison_bytes);
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  // Returns the address of a new block, or nullopt if there is no room.
  std::optional<uint64_t> Allocate(size_t bytes);

  struct FreeResult {
    bool known = false;   // whether `address` was the beginning of a block in use
    AddressRange block;   // that was freed
    std::string problem;  // a sentence: double free, a damaged guard zone; or empty
  };
  FreeResult Free(uint64_t address);

  // Returns the block in use that contains the range.
  std::optional<AddressRange> Find(uint64_t address, uint64_t bytes) const;
  // Describes memory that is in no block in use: "lies in a block of 64 bytes that was freed", or its distance from
  // one.
  std::string Explain(uint64_t address, uint64_t bytes) const;
  // Whether the address is one of this device, in use or not.
  bool Owns(uint64_t address) const { return address >= begin_ && address < end_; }

  std::vector<AddressRange> Blocks() const;  // in use, by address
  std::vector<std::string> CheckGuards();    // a sentence for each damaged zone, once
  size_t capacity() const { return capacity_; }
  size_t used() const;

 private:
  struct Block {
    uint64_t bytes;    // as asked for
    uint64_t charged;  // rounded up to units
    uint64_t serial;   // of the allocation
    bool reported = false;
  };
  struct FreedBlock {
    uint64_t begin, bytes, charged, serial;
  };

  DeviceHeap(uint64_t begin, uint64_t end, size_t capacity, size_t poison_bytes);
  uint64_t PoisonBytes(uint64_t bytes) const { return bytes < poison_ ? bytes : poison_; }
  std::string GuardProblem(uint64_t begin, const Block& block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddFree(uint64_t begin, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the oldest freed block available again.
  void ReleaseOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<uint64_t> TakeBestFit(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t begin_, end_;
  const size_t capacity_, poison_;
  mutable Mutex mu_;
  std::map<uint64_t, Block> blocks_ ABSL_GUARDED_BY(mu_);                      // in use, by beginning
  std::map<uint64_t, uint64_t> free_ ABSL_GUARDED_BY(mu_);                     // beginning to bytes
  std::set<std::pair<uint64_t, uint64_t>> free_by_size_ ABSL_GUARDED_BY(mu_);  // bytes and beginning
  std::deque<FreedBlock> held_back_ ABSL_GUARDED_BY(mu_);                      // freed, oldest first
  std::vector<std::string> found_ ABSL_GUARDED_BY(mu_);  // what ReleaseOldest found; CheckGuards returns it
  uint64_t used_ ABSL_GUARDED_BY(mu_) = 0, next_serial_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_HEAP_H_
