#include "plugins/hip/emulated_runtime/launch_guard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/copies.h"
#include "plugins/hip/emulated_runtime/report.h"
#include "plugins/hip/emulated_runtime/runtime.h"

namespace backplane::hip::emulated {
namespace {

// Recorded accesses are merged when there are this many.
constexpr size_t kMaxRecorded = size_t{1} << 16;

template <typename Access>
void MergeAccesses(std::vector<Access>& accesses) {
  std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    return std::make_pair(a.write, a.begin) < std::make_pair(b.write, b.begin);
  });
  size_t kept = 0;
  for (size_t i = 1; i < accesses.size(); ++i) {
    if (accesses[i].write == accesses[kept].write && accesses[i].begin <= accesses[kept].end) {
      accesses[kept].end = std::max(accesses[kept].end, accesses[i].end);
    } else {
      accesses[++kept] = accesses[i];
    }
  }
  if (!accesses.empty()) accesses.resize(kept + 1);
}

}  // namespace

LaunchGuard::LaunchGuard(Device& device, bool records) : device_(device), records_(records) {
  Runtime& runtime = device.runtime();
  for (int ordinal = 0; ordinal < runtime.device_count(); ++ordinal) {
    if (ordinal != device.ordinal() && !device.HasPeer(ordinal)) continue;
    const std::vector<AddressRange> blocks = runtime.device(ordinal)->heap().Blocks();
    blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  }
  std::sort(blocks_.begin(), blocks_.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
}

const AddressRange* LaunchGuard::FindBlock(uint64_t address, uint64_t bytes) const {
  if (last_block_ != nullptr && last_block_->Contains(address, bytes)) return last_block_;
  auto after = std::upper_bound(blocks_.begin(), blocks_.end(), address,
                                [](uint64_t value, const AddressRange& block) { return value < block.begin; });
  if (after == blocks_.begin()) return nullptr;
  const AddressRange& block = *std::prev(after);
  if (!block.Contains(address, bytes)) return nullptr;
  last_block_ = &block;
  return last_block_;
}

bool LaunchGuard::IsAccessible(uint64_t address, uint64_t bytes, bool write) const {
  if (FindBlock(address, bytes) != nullptr) {
    if (records_) Record(address, bytes, write);
    return true;
  }
  Runtime& runtime = device_.runtime();
  if (runtime.IsPinned(address, bytes) || device_.FindGlobal(address, bytes)) return true;
  const MemoryPlace place = runtime.Locate(address);
  if (place.device != nullptr) {
    problem_ = absl::StrCat(
        "memory of ", bytes, " bytes at 0x", absl::Hex(address), " of device ", place.device->ordinal(), " ",
        place.device->heap().Find(address, bytes).has_value() ? "belongs to a device without peer access"
                                                              : place.device->heap().Explain(address, bytes));
  }
  return false;
}

void LaunchGuard::Record(uint64_t address, uint64_t bytes, bool write) const {
  size_t& last = write ? last_write_ : last_read_;
  if (last != 0) {  // lanes access neighbours
    Access& access = accesses_[last - 1];
    if (address >= access.begin && address <= access.end) {
      access.end = std::max(access.end, address + bytes);
      return;
    }
  }
  if (accesses_.size() >= kMaxRecorded) {
    MergeAccesses(accesses_);
    last_read_ = last_write_ = 0;
    // Scattered accesses that do not merge: the rest of the launch is not checked for order.
    if (accesses_.size() >= kMaxRecorded / 2) return;
  }
  accesses_.push_back({address, address + bytes, write});
  (write ? last_write_ : last_read_) = accesses_.size();
}

hipError_t LaunchGuard::BeginByArguments(const OperationPtr& operation, absl::Span<const uint8_t> arguments) {
  Runtime& runtime = device_.runtime();
  for (size_t offset = 0; offset + sizeof(uint64_t) <= arguments.size(); offset += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, arguments.data() + offset, sizeof word);
    const MemoryPlace place = runtime.Locate(word);
    if (place.kind != MemoryPlace::kDevice) continue;
    const AddressRange* block = FindBlock(word, 0);
    if (block == nullptr) {
      const bool exists = place.device->heap().Find(word, 0).has_value();
      Report().Add(absl::StrCat(operation->text, ": the pointer 0x", absl::Hex(word), " at byte ", offset,
                                " of its arguments ",
                                exists ? absl::StrCat("belongs to device ", place.device->ordinal(),
                                                      ", to which device ", device_.ordinal(), " has no access")
                                       : place.device->heap().Explain(word, 0)));
      return hipErrorIllegalAddress;
    }
    const uint64_t end = std::min(block->end, (word / kLineBytes + 1) * kLineBytes);
    if (word >= end) continue;  // the end of a block: of an empty array
    if (hipError_t error = CheckAccess(device_, operation, word, end - word, false); error != hipSuccess) return error;
    const unsigned char* first = reinterpret_cast<const unsigned char*>(word);
    lines_.push_back({word, end, std::vector<unsigned char>(first, first + (end - word))});
  }
  return hipSuccess;
}

hipError_t LaunchGuard::End(const OperationPtr& operation) {
  for (const Line& line : lines_) {
    if (std::memcmp(reinterpret_cast<const void*>(line.begin), line.before.data(), line.before.size()) == 0) continue;
    const hipError_t error = CheckAccess(device_, operation, line.begin, line.end - line.begin, true);
    if (error != hipSuccess) return error;
  }
  MergeAccesses(accesses_);
  for (const Access& access : accesses_) {
    const hipError_t error = CheckAccess(device_, operation, access.begin, access.end - access.begin, access.write);
    if (error != hipSuccess) return error;
  }
  return hipSuccess;
}

}  // namespace backplane::hip::emulated
