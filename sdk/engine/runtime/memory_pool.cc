#include "sdk/engine/runtime/memory_pool.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "absl/base/optimization.h"
#include "base/mutex.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace backplane::engine {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSlabBytes = size_t{1} << 20;
// Blocks up to this size are cut from slabs, which stay with the pool; larger ones are mappings of their own.
constexpr size_t kLargestSlabPayload = size_t{64} << 10;
constexpr size_t kSmallestPayload = 64;
// Four sizes to a power of two: at most a quarter of a block is slack.
constexpr int kStepsPerDoubling = 4;
constexpr int kNumClasses = 40 * kStepsPerDoubling;
// A free block this many classes above the wanted one is still used (up to twice the size): fresh pages cost more.
constexpr int kClassesToSearch = 4;

// Stands right before each block.
struct alignas(64) Header {
  Header* next;   // while free
  void* mapping;  // nullptr: part of a slab
  size_t mapping_bytes;
  size_t requested;
  uint32_t size_class;
  uint32_t live;  // guards against a block given back twice
};
static_assert(sizeof(Header) == 64);

size_t ClassPayload(int size_class) {
  const int doubling = size_class / kStepsPerDoubling, step = size_class % kStepsPerDoubling;
  const size_t base = kSmallestPayload << doubling;
  const size_t payload = base + (base / kStepsPerDoubling) * step;
  return (payload + 63) & ~size_t{63};
}

int ClassFor(size_t bytes) {
  if (bytes <= kSmallestPayload) return 0;
  const int doubling = std::bit_width(bytes - 1) - std::bit_width(kSmallestPayload - 1);
  // bytes is in (base/2, base] for base = 64 << doubling
  const size_t lower = (kSmallestPayload << doubling) / 2;
  const size_t step_bytes = lower / kStepsPerDoubling;
  const int step = static_cast<int>((bytes - lower + step_bytes - 1) / step_bytes);  // 1..4
  return (doubling - 1) * kStepsPerDoubling + step;
}

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; flag_.exchange(true, std::memory_order_acquire); ++spins) {
      while (flag_.load(std::memory_order_relaxed)) {
#if defined(__x86_64__)
        _mm_pause();
#endif
        if (++spins > 200) {
          sched_yield();
          spins = 0;
        }
      }
    }
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

void UpdateMaximum(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// `bytes` of fresh memory; with huge pages and their alignment when large enough.
void* Map(size_t bytes) {
  const size_t extra = bytes >= kHugePage ? kHugePage : 0;
  char* start =
      static_cast<char*>(mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (start == MAP_FAILED) return nullptr;
  if (extra == 0) return start;
  char* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(start) + kHugePage - 1) & ~(kHugePage - 1));
  if (aligned != start) munmap(start, aligned - start);
  char* end = start + bytes + extra;
  if (aligned + bytes != end) munmap(aligned + bytes, end - (aligned + bytes));
  madvise(aligned, bytes, MADV_HUGEPAGE);  // advice: without it the memory is as good, only slower
  return aligned;
}

}  // namespace

struct MemoryPool::Impl {
  // The counters are written under the lock, so they need no atomic additions, which cost as much as the rest.
  struct alignas(64) SizeClass {
    SpinLock lock;
    Header* free = nullptr;
    std::atomic<int64_t> count{0};        // of the blocks in `free`
    std::atomic<int64_t> allocations{0};  // ever
    std::atomic<int64_t> live{0};

    // Requires the lock.
    static void Add(std::atomic<int64_t>& counter, int64_t n) {
      counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
  };

  static bool IsFromSlab(int size_class) { return ClassPayload(size_class) <= kLargestSlabPayload; }

  explicit Impl(const Options& options) : options(options) {}

  ~Impl() {
    Trim(0);
    while (slabs != nullptr) {
      Slab* next = slabs->next;
      munmap(slabs, slabs->bytes);
      slabs = next;
    }
  }

  // Takes a free block of this class. `allocated`: it is now live.
  Header* PopFree(int size_class, bool allocated) {
    SizeClass& c = classes[size_class];
    if (c.count.load(std::memory_order_relaxed) == 0) return nullptr;
    std::lock_guard<SpinLock> lock(c.lock);
    Header* header = c.free;
    if (header == nullptr) return nullptr;
    c.free = header->next;
    SizeClass::Add(c.count, -1);
    if (allocated) {
      SizeClass::Add(c.allocations, 1);
      SizeClass::Add(c.live, 1);
    }
    if (!IsFromSlab(size_class)) kept.fetch_sub(ClassPayload(size_class), std::memory_order_relaxed);
    return header;
  }

  Header* NewFromSlab(int size_class) {
    const size_t block = sizeof(Header) + ClassPayload(size_class) + kTailPadding;
    MutexLock lock(slab_mutex);
    if (slab_left < block) {
      Slab* slab = static_cast<Slab*>(Map(kSlabBytes));
      if (slab == nullptr) return nullptr;
      slab->next = slabs;
      slab->bytes = kSlabBytes;
      slabs = slab;
      slab_cursor = reinterpret_cast<char*>(slab) + sizeof(Slab);
      slab_left = kSlabBytes - sizeof(Slab);
      AddReserved(kSlabBytes);
    }
    Header* header = new (slab_cursor) Header{};
    slab_cursor += block;
    slab_left -= block;
    return header;
  }

  Header* NewMapping(int size_class) {
    size_t bytes = sizeof(Header) + ClassPayload(size_class) + kTailPadding;
    bytes = (bytes + kPage - 1) & ~(kPage - 1);
    const size_t bound = options.trim_above_bytes;
    if (bound != 0 && static_cast<size_t>(reserved.load(std::memory_order_relaxed)) + bytes > bound) Trim(0);
    void* mapping = Map(bytes);
    if (mapping == nullptr) {
      Trim(0);
      mapping = Map(bytes);
      if (mapping == nullptr) return nullptr;
    }
    AddReserved(bytes);
    Header* header = new (mapping) Header{};
    header->mapping = mapping;
    header->mapping_bytes = bytes;
    return header;
  }

  void AddReserved(size_t bytes) {
    UpdateMaximum(peak_reserved, reserved.fetch_add(bytes, std::memory_order_relaxed) + static_cast<int64_t>(bytes));
  }

  void* Allocate(size_t bytes) {
    if (bytes > ClassPayload(kNumClasses - 1)) return nullptr;
    const int64_t now = in_use.fetch_add(bytes, std::memory_order_relaxed) + static_cast<int64_t>(bytes);
    if (options.limit_bytes != 0 && now > static_cast<int64_t>(options.limit_bytes)) {
      in_use.fetch_sub(bytes, std::memory_order_relaxed);
      return nullptr;
    }
    const int wanted = ClassFor(bytes);
    Header* header = PopFree(wanted, true);
    if (ABSL_PREDICT_FALSE(header == nullptr)) {
      const bool slab = IsFromSlab(wanted);
      for (int i = 1; i <= kClassesToSearch && !slab && header == nullptr && wanted + i < kNumClasses; ++i) {
        header = PopFree(wanted + i, true);
      }
      if (header == nullptr) {
        header = slab ? NewFromSlab(wanted) : NewMapping(wanted);
        if (header == nullptr) {
          in_use.fetch_sub(bytes, std::memory_order_relaxed);
          return nullptr;
        }
        header->size_class = wanted;
        SizeClass& c = classes[wanted];
        std::lock_guard<SpinLock> lock(c.lock);
        SizeClass::Add(c.allocations, 1);
        SizeClass::Add(c.live, 1);
      }
    }
    header->requested = bytes;
    header->live = 1;
    UpdateMaximum(peak, now);
    UpdateMaximum(largest, static_cast<int64_t>(bytes));
    return header + 1;
  }

  void Free(void* block) {
    Header* header = static_cast<Header*>(block) - 1;
    if (header->live != 1) return;  // not ours, or given back before: leaking is the only safe answer
    header->live = 0;
    in_use.fetch_sub(header->requested, std::memory_order_relaxed);
    SizeClass& c = classes[header->size_class];
    // Counted before it can be taken, so that the sum never goes below zero.
    int64_t kept_now = 0;
    if (!IsFromSlab(header->size_class)) {
      const int64_t payload = ClassPayload(header->size_class);
      kept_now = kept.fetch_add(payload, std::memory_order_relaxed) + payload;
    }
    {
      std::lock_guard<SpinLock> lock(c.lock);
      header->next = c.free;
      c.free = header;
      SizeClass::Add(c.count, 1);
      SizeClass::Add(c.live, -1);
    }
    if (ABSL_PREDICT_FALSE(kept_now > static_cast<int64_t>(options.max_kept_bytes))) Trim(options.max_kept_bytes);
  }

  // Only blocks with a mapping of their own can go.
  void Trim(size_t keep) {
    for (int i = kNumClasses - 1; i >= 0 && !IsFromSlab(i); --i) {
      while (kept.load(std::memory_order_relaxed) > static_cast<int64_t>(keep)) {
        Header* header = PopFree(i, false);
        if (header == nullptr) break;
        reserved.fetch_sub(header->mapping_bytes, std::memory_order_relaxed);
        munmap(header->mapping, header->mapping_bytes);
      }
    }
  }

  struct alignas(64) Slab {
    Slab* next;
    size_t bytes;
  };

  const Options options;
  SizeClass classes[kNumClasses];
  Mutex slab_mutex;
  Slab* slabs ABSL_GUARDED_BY(slab_mutex) = nullptr;
  char* slab_cursor ABSL_GUARDED_BY(slab_mutex) = nullptr;
  size_t slab_left ABSL_GUARDED_BY(slab_mutex) = 0;
  alignas(64) std::atomic<int64_t> in_use{0};
  std::atomic<int64_t> peak{0};
  std::atomic<int64_t> largest{0};
  std::atomic<int64_t> kept{0};  // free bytes in blocks that are mappings of their own
  std::atomic<int64_t> reserved{0};
  std::atomic<int64_t> peak_reserved{0};
};

MemoryPool::MemoryPool() : MemoryPool(Options()) {}
MemoryPool::MemoryPool(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
MemoryPool::~MemoryPool() = default;

void* MemoryPool::Allocate(size_t bytes) { return impl_->Allocate(bytes); }

void MemoryPool::Free(void* block) {
  if (block != nullptr) impl_->Free(block);
}

size_t MemoryPool::RequestedBytes(const void* block) { return (static_cast<const Header*>(block) - 1)->requested; }

size_t MemoryPool::UsableBytes(const void* block) {
  return ClassPayload((static_cast<const Header*>(block) - 1)->size_class);
}

void MemoryPool::Trim(size_t keep_bytes) { impl_->Trim(keep_bytes); }

MemoryPool::Statistics MemoryPool::GetStatistics() const {
  Statistics s;
  s.bytes_in_use = impl_->in_use.load(std::memory_order_relaxed);
  s.peak_bytes_in_use = impl_->peak.load(std::memory_order_relaxed);
  s.bytes_reserved = impl_->reserved.load(std::memory_order_relaxed);
  s.peak_bytes_reserved = impl_->peak_reserved.load(std::memory_order_relaxed);
  s.largest_alloc_bytes = impl_->largest.load(std::memory_order_relaxed);
  s.bytes_limit = impl_->options.limit_bytes;
  for (int i = 0; i < kNumClasses; ++i) {
    const Impl::SizeClass& c = impl_->classes[i];
    s.num_allocations += c.allocations.load(std::memory_order_relaxed);
    s.num_live += c.live.load(std::memory_order_relaxed);
    const int64_t free = c.count.load(std::memory_order_relaxed);
    s.bytes_kept += free * static_cast<int64_t>(ClassPayload(i));
    if (free > 0) s.largest_free_block_bytes = static_cast<int64_t>(ClassPayload(i));
  }
  return s;
}

void MemoryPool::ResetPeaks() {
  impl_->peak.store(impl_->in_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
  impl_->peak_reserved.store(impl_->reserved.load(std::memory_order_relaxed), std::memory_order_relaxed);
  impl_->largest.store(0, std::memory_order_relaxed);
}

}  // namespace backplane::engine
