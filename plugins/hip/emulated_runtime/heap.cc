#include "plugins/hip/emulated_runtime/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace backplane::hip::emulated {
namespace {

constexpr size_t kHeldBackBlocks = 32;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }
unsigned char* CountHeapBytes(uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

// The first byte of the range that is not `value`, or nothing.
std::optional<uint64_t> FindFirstOther(uint64_t begin, uint64_t bytes, unsigned char value) {
  const unsigned char* first = CountHeapBytes(begin);
  const unsigned char* found = std::find_if(first, first + bytes, [&](unsigned char byte) { return byte != value; });
  if (found == first + bytes) return std::nullopt;
  return begin + static_cast<uint64_t>(found - first);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceHeap>> DeviceHeap::Create(size_t capacity, size_t poison_bytes) {
  // Twice the addresses: guard zones and freed blocks take some, as fragmentation of addresses is not a GPU's limit.
  const size_t reserved = RoundUp(2 * capacity + (size_t{64} << 20), size_t{1} << 21);
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system has no ", reserved, " bytes of addresses for a device with ", capacity, " bytes"));
  }
  const uint64_t begin = reinterpret_cast<uint64_t>(memory);
  return std::unique_ptr<DeviceHeap>(new DeviceHeap(begin, begin + reserved, capacity, poison_bytes));
}

DeviceHeap::DeviceHeap(uint64_t begin, uint64_t end, size_t capacity, size_t poison_bytes)
    : begin_(begin), end_(end), capacity_(capacity), poison_(poison_bytes) {
  MutexLock lock(mu_);
  AddFree(begin, end - begin);
}

DeviceHeap::~DeviceHeap() { munmap(CountHeapBytes(begin_), end_ - begin_); }

void DeviceHeap::AddFree(uint64_t begin, uint64_t bytes) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + bytes) {
    bytes += next->second;
    free_by_size_.erase({next->second, next->first});
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      free_by_size_.erase({before->second, before->first});
      free_.erase(before);
    }
  }
  free_.emplace(begin, bytes);
  free_by_size_.emplace(bytes, begin);
}

std::optional<uint64_t> DeviceHeap::TakeBestFit(uint64_t bytes) {
  const auto found = free_by_size_.lower_bound({bytes, 0});
  if (found == free_by_size_.end()) return std::nullopt;
  const auto [size, begin] = *found;
  free_by_size_.erase(found);
  free_.erase(begin);
  if (size > bytes) {
    free_.emplace(begin + bytes, size - bytes);
    free_by_size_.emplace(size - bytes, begin + bytes);
  }
  return begin;
}

void DeviceHeap::ReleaseOldest() {
  const FreedBlock block = held_back_.front();
  held_back_.pop_front();
  if (const auto written = FindFirstOther(block.begin, PoisonBytes(block.bytes), kFreed); written.has_value()) {
    found_.push_back(absl::StrCat("use after free: byte ", *written - block.begin, " of allocation ", block.serial,
                                  " (", block.bytes, " bytes at 0x", absl::Hex(block.begin),
                                  ") was written after it was freed"));
  }
  AddFree(block.begin - kGuardBytes, block.charged + 2 * kGuardBytes);
}

std::optional<uint64_t> DeviceHeap::Allocate(size_t bytes) {
  if (bytes > capacity_) return std::nullopt;
  const uint64_t charged = RoundUp(std::max<uint64_t>(bytes, 1), kAlignment);
  MutexLock lock(mu_);
  if (charged > capacity_ - used_) return std::nullopt;
  std::optional<uint64_t> place = TakeBestFit(charged + 2 * kGuardBytes);
  while (!place.has_value() && !held_back_.empty()) {
    ReleaseOldest();
    place = TakeBestFit(charged + 2 * kGuardBytes);
  }
  if (!place.has_value()) return std::nullopt;
  const uint64_t address = *place + kGuardBytes;
  used_ += charged;
  blocks_.emplace(address, Block{bytes, charged, next_serial_++});
  std::memset(CountHeapBytes(address - kGuardBytes), kGuard, kGuardBytes);
  std::memset(CountHeapBytes(address + bytes), kGuard, charged - bytes + kGuardBytes);
  std::memset(CountHeapBytes(address), kPoison, PoisonBytes(bytes));
  return address;
}

std::string DeviceHeap::GuardProblem(uint64_t begin, const Block& block) const {
  const auto before = FindFirstOther(begin - kGuardBytes, kGuardBytes, kGuard);
  if (before.has_value()) {
    return absl::StrCat("out of bounds: ", begin - *before, " bytes before allocation ", block.serial, " (",
                        block.bytes, " bytes at 0x", absl::Hex(begin), ") were written");
  }
  const uint64_t end = begin + block.bytes;
  const auto after = FindFirstOther(end, block.charged - block.bytes + kGuardBytes, kGuard);
  if (after.has_value()) {
    return absl::StrCat("out of bounds: byte ", *after - begin, " of allocation ", block.serial, ", which has ",
                        block.bytes, " bytes at 0x", absl::Hex(begin), ", was written");
  }
  return "";
}

DeviceHeap::FreeResult DeviceHeap::Free(uint64_t address) {
  FreeResult result;
  MutexLock lock(mu_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) {
    const auto freed = std::find_if(held_back_.begin(), held_back_.end(),
                                    [&](const FreedBlock& block) { return block.begin == address; });
    if (freed != held_back_.end()) {
      result.problem = absl::StrCat("double free: allocation ", freed->serial, " (", freed->bytes, " bytes at 0x",
                                    absl::Hex(address), ") was freed before");
    } else {
      result.problem = absl::StrCat("0x", absl::Hex(address), " was freed and is not the beginning of an allocation");
    }
    return result;
  }
  const Block block = found->second;
  blocks_.erase(found);
  if (!block.reported) result.problem = GuardProblem(address, block);
  result.known = true;
  result.block = {address, address + block.bytes};
  used_ -= block.charged;
  // The pages behind the poison go back to the system.
  const uint64_t poisoned = PoisonBytes(block.bytes);
  constexpr uint64_t kPage = 4096;
  const uint64_t first_page = RoundUp(address + poisoned, kPage), last_page = (address + block.charged) / kPage * kPage;
  if (first_page < last_page) madvise(CountHeapBytes(first_page), last_page - first_page, MADV_DONTNEED);
  std::memset(CountHeapBytes(address), kFreed, poisoned);
  held_back_.push_back({address, block.bytes, block.charged, block.serial});
  if (held_back_.size() > kHeldBackBlocks) ReleaseOldest();
  return result;
}

std::optional<AddressRange> DeviceHeap::Find(uint64_t address, uint64_t bytes) const {
  MutexLock lock(mu_);
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  const auto& [begin, block] = *std::prev(after);
  const AddressRange range{begin, begin + block.bytes};
  if (!range.Contains(address, bytes)) return std::nullopt;
  return range;
}

std::string DeviceHeap::Explain(uint64_t address, uint64_t bytes) const {
  MutexLock lock(mu_);
  for (const FreedBlock& block : held_back_) {
    if (address >= block.begin && address < block.begin + std::max<uint64_t>(block.bytes, 1)) {
      return absl::StrCat("lies in allocation ", block.serial, " of ", block.bytes, " bytes, which was freed");
    }
  }
  auto after = blocks_.upper_bound(address);
  if (after != blocks_.begin()) {
    const auto& [begin, block] = *std::prev(after);
    if (address <= begin + block.charged + kGuardBytes) {
      return absl::StrCat("ends ", address + bytes - begin - block.bytes, " bytes behind allocation ", block.serial,
                          " of ", block.bytes, " bytes");
    }
  }
  return "is in no allocation";
}

std::vector<AddressRange> DeviceHeap::Blocks() const {
  MutexLock lock(mu_);
  std::vector<AddressRange> ranges;
  ranges.reserve(blocks_.size());
  for (const auto& [begin, block] : blocks_) ranges.push_back({begin, begin + block.bytes});
  return ranges;
}

std::vector<std::string> DeviceHeap::CheckGuards() {
  MutexLock lock(mu_);
  std::vector<std::string> problems = std::move(found_);
  found_.clear();
  for (auto& [begin, block] : blocks_) {
    if (block.reported) continue;
    std::string problem = GuardProblem(begin, block);
    if (problem.empty()) continue;
    block.reported = true;
    problems.push_back(std::move(problem));
  }
  return problems;
}

size_t DeviceHeap::used() const {
  MutexLock lock(mu_);
  return used_;
}

}  // namespace backplane::hip::emulated
