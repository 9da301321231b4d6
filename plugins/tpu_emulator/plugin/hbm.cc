#include "plugins/tpu_emulator/plugin/hbm.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace backplane::tpu {
namespace {

constexpr size_t kAlignment = 512;  // the size of the smallest array
constexpr size_t kTail = 64;        // vector code may read and write this far past the end of a block

std::string FormatGibibytes(int64_t bytes) { return absl::StrFormat("%.2fG", static_cast<double>(bytes) / (1 << 30)); }

void FillWithPoison(Poison poison, uint64_t seed, void* to, size_t bytes) {
  switch (poison) {
    case Poison::kNone:
      return;
    case Poison::kZero:
      std::memset(to, 0, bytes);
      return;
    case Poison::kNan:
      std::memset(to, 0xff, bytes);
      return;
    case Poison::kRandom: {
      std::mt19937_64 random(seed);
      auto* out = static_cast<std::byte*>(to);
      for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        const uint64_t word = random();
        std::memcpy(out + at, &word, std::min(sizeof(word), bytes - at));
      }
    }
  }
}

// The bytes allocated for all emulated devices of this process. They are limited to the host's memory, because the host
// would otherwise kill the process when it writes to them.
std::atomic<int64_t> host_bytes_in_use{0};

int64_t HostBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  int64_t bytes = pages > 0 && page > 0 ? pages * page : INT64_MAX;
  int64_t allowed = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> allowed && allowed > 0) bytes = std::min(bytes, allowed);
  return bytes;
}

// Counts an allocation if the host's memory suffices for it.
bool AddHostBytes(int64_t size) {
  static const int64_t host_bytes = HostBytes();
  int64_t before = host_bytes_in_use.load();
  do {
    if (before > host_bytes - size) return false;
  } while (!host_bytes_in_use.compare_exchange_weak(before, before + size));
  return true;
}

// Returns the bytes that are available on the host now, or INT64_MAX if unknown.
int64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (int64_t kilobytes = 0; file >> name >> kilobytes;) {
    if (name == "MemAvailable:") return kilobytes << 10;
    std::getline(file, unit);
  }
  return INT64_MAX;
}

// Only blocks of this size check the available memory. The check takes longer than a small allocation.
constexpr int64_t kLargeBlock = int64_t{64} << 20;

}  // namespace

Hbm::Hbm(int64_t devices, int64_t capacity, Poison poison)
    : capacity_(capacity), poison_(poison), in_use_(static_cast<size_t>(devices)) {}

absl::StatusOr<void*> Hbm::Allocate(int32_t device, size_t bytes) {
  const int64_t size = static_cast<int64_t>(bytes);
  // A request is counted once it has passed all checks, so that one that fails takes nothing away from other threads.
  bool fits_host = size < kLargeBlock || size <= AvailableBytes();
  {
    MutexLock lock(mu_);
    int64_t& in_use = in_use_[static_cast<size_t>(device)];
    if (in_use > capacity_ - size) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "Error allocating device buffer: Attempting to allocate ", FormatGibibytes(size),
          ". That was not possible. There are ", FormatGibibytes(std::max<int64_t>(capacity_ - in_use, 0)), " free."));
    }
    fits_host = fits_host && AddHostBytes(size);
    if (fits_host) in_use += size;
  }
  void* address =
      !fits_host ? nullptr : std::aligned_alloc(kAlignment, (bytes + kTail + kAlignment - 1) / kAlignment * kAlignment);
  if (address == nullptr) {
    if (fits_host) Uncount(device, size);
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", FormatGibibytes(size), " for memory of the emulated device ", device));
  }
  FillWithPoison(poison_, seed_.fetch_add(1), address, bytes);
  return address;
}

void Hbm::Uncount(int32_t device, int64_t size) {
  host_bytes_in_use.fetch_sub(size);
  MutexLock lock(mu_);
  in_use_[static_cast<size_t>(device)] -= size;
}

void Hbm::Free(int32_t device, void* address, size_t bytes) {
  std::free(address);
  Uncount(device, static_cast<int64_t>(bytes));
}

absl::Status Hbm::CopyIn(int32_t, const void* host, void* address, size_t bytes) {
  std::memcpy(address, host, bytes);
  return absl::OkStatus();
}

absl::Status Hbm::CopyOut(int32_t, const void* address, void* host, size_t bytes) {
  std::memcpy(host, address, bytes);
  return absl::OkStatus();
}

absl::Status Hbm::CopyWithin(int32_t, const void* from, void* to, size_t bytes) {
  std::memmove(to, from, bytes);
  return absl::OkStatus();
}

}  // namespace backplane::tpu
