// Tests the pool against a model: the blocks that are in use, as a map.
#include "plugins/hip/backend/memory_pool.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/backend/device_stream.h"

namespace {

thread_local int64_t allocations_of_thread = 0;  // of the host's memory

}  // namespace

void* operator new(size_t bytes) {
  ++allocations_of_thread;
  if (void* address = std::malloc(bytes)) return address;
  throw std::bad_alloc();
}
void operator delete(void* address) noexcept { std::free(address); }
void operator delete(void* address, size_t) noexcept { std::free(address); }

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;

// A runtime with `capacity` bytes that aligns addresses to 256 bytes. Thread-safe.
class FakeRuntime {
 public:
  explicit FakeRuntime(size_t capacity) : capacity_(capacity) {}
  ~FakeRuntime() { EXPECT_TRUE(blocks_.empty()) << blocks_.size() << " allocations are left"; }

  MemoryPool::Source source() {
    return {[this](size_t bytes) -> absl::StatusOr<void*> {
              MutexLock lock(mu_);
              ++calls_;
              if (bytes > capacity_ - used_) return absl::ResourceExhaustedError("the runtime has no memory");
              void* address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
              blocks_[reinterpret_cast<uintptr_t>(address)] = bytes;
              used_ += bytes;
              return address;
            },
            [this](void* address) {
              MutexLock lock(mu_);
              const auto block = blocks_.find(reinterpret_cast<uintptr_t>(address));
              ASSERT_NE(block, blocks_.end());
              used_ -= block->second;
              blocks_.erase(block);
              std::free(address);
            }};
  }
  int calls() {
    MutexLock lock(mu_);
    return calls_;
  }
  size_t used() {
    MutexLock lock(mu_);
    return used_;
  }
  // Whether the range is within one allocation.
  bool Has(uintptr_t address, size_t bytes) {
    MutexLock lock(mu_);
    const auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    return address + bytes <= begin + size;
  }

 private:
  const size_t capacity_;
  Mutex mu_;
  std::map<uintptr_t, size_t> blocks_ ABSL_GUARDED_BY(mu_);
  size_t used_ ABSL_GUARDED_BY(mu_) = 0;
  int calls_ ABSL_GUARDED_BY(mu_) = 0;
};

size_t RandomSize(std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      return 1 + random() % 300;
    case 1:
      return 1 + random() % 5000;
    case 2:
      return 1 + random() % 100000;
    default:
      return 1 + random() % 3000000;
  }
}

TEST(MemoryPoolTest, RandomBlocksDoNotOverlapAndAllMemoryComesBack) {
  for (const size_t slab_bytes : {size_t{0}, size_t{1} << 16, size_t{1} << 20}) {
    FakeRuntime runtime(size_t{1} << 30);
    MemoryPool pool(runtime.source(), {"device 0", slab_bytes, 0});
    std::mt19937 random(static_cast<unsigned>(slab_bytes) + 1);
    std::map<uintptr_t, size_t> model;
    int64_t most = 0;
    for (int step = 0; step < 20000; ++step) {
      const bool grows = step / 2000 % 2 == 0;  // fills up and empties in turn
      if (model.empty() || random() % 10 < (grows ? 6u : 4u)) {
        const size_t bytes = RandomSize(random);
        const absl::StatusOr<void*> block = pool.Allocate(bytes);
        ASSERT_TRUE(block.ok()) << block.status();
        const uintptr_t address = reinterpret_cast<uintptr_t>(*block);
        ASSERT_EQ(address % MemoryPool::kAlignment, 0u);
        ASSERT_TRUE(runtime.Has(address, bytes));
        ASSERT_TRUE(pool.Contains(*block, bytes));
        const auto next = model.lower_bound(address);
        if (next != model.end()) {
          ASSERT_LE(address + bytes, next->first);
        }
        if (next != model.begin()) {
          ASSERT_LE(std::prev(next)->first + std::prev(next)->second, address);
        }
        model[address] = bytes;
        ASSERT_LE(pool.Stats().bytes_in_use, *pool.Stats().pool_bytes);
      } else {
        auto at = model.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random() % std::min<size_t>(model.size(), 50)));
        pool.Free(reinterpret_cast<void*>(at->first), at->second);
        model.erase(at);
      }
      int64_t in_use = 0;
      if (step % 100 == 0) {
        for (const auto& [address, bytes] : model) in_use += static_cast<int64_t>(bytes);
        ASSERT_GE(pool.Stats().bytes_in_use, in_use);
        ASSERT_LE(pool.Stats().bytes_in_use, 2 * in_use + 256 * static_cast<int64_t>(model.size()));
      }
      most = std::max(most, pool.Stats().bytes_in_use);
    }
    EXPECT_EQ(pool.Stats().peak_bytes_in_use, most);
    for (const auto& [address, bytes] : model) pool.Free(reinterpret_cast<void*>(address), bytes);
    EXPECT_EQ(pool.Stats().bytes_in_use, 0);
    // Everything is merged again, or no slab would be empty.
    pool.ReleaseEmptySlabs();
    EXPECT_EQ(runtime.used(), 0u);
    EXPECT_EQ(pool.Stats().pool_bytes, 0);
    EXPECT_EQ(pool.Stats().largest_free_block_bytes, 0);
  }
}

// Destructors free blocks and return handles. They must succeed when the host has no memory left.
TEST(MemoryPoolTest, ReleasingAllocatesNothing) {
  std::mt19937 random(20261124);
  for (const size_t slab_bytes : {size_t{0}, size_t{1} << 20}) {
    FakeRuntime runtime(size_t{64} << 20);
    MemoryPool pool(runtime.source(), {"device 0", slab_bytes, 0});
    std::vector<std::pair<void*, size_t>> blocks;
    int64_t released = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (blocks.empty() || random() % 100 < (blocks.size() < 200 ? 60 : 40)) {
        const size_t bytes = random() % 3 == 0 ? 1 + random() % 200'000 : 1 + random() % 6000;
        const absl::StatusOr<void*> block = pool.Allocate(bytes);
        ASSERT_TRUE(block.ok()) << block.status();
        blocks.push_back({*block, bytes});
        continue;
      }
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const int64_t before = allocations_of_thread;
      pool.Free(blocks.back().first, blocks.back().second);
      ASSERT_EQ(allocations_of_thread, before) << "block " << i << " of " << blocks.back().second << " bytes";
      blocks.pop_back();
      ++released;
    }
    for (const auto& [block, bytes] : blocks) pool.Free(block, bytes);
    EXPECT_GT(released, 5000);
    EXPECT_EQ(pool.Stats().bytes_in_use, 0);
  }
}

TEST(HandlePoolTest, ReturningAllocatesNothing) {
  static int made;
  made = 0;
  HipApi api = {};
  api.hipGetDevice = [](int* device) { return *device = 0, hipSuccess; };
  api.hipSetDevice = [](int) { return hipSuccess; };
  EventPool pool(
      api, 0,
      [](const HipApi&, hipEvent_t* event) {
        *event = reinterpret_cast<hipEvent_t>(static_cast<uintptr_t>(++made));
        return made == 40 ? hipErrorOutOfMemory : hipSuccess;
      },
      [](const HipApi&, hipEvent_t) { return hipSuccess; });
  std::vector<hipEvent_t> events;
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<hipEvent_t> event = pool.Take();
    EXPECT_EQ(event.ok(), i != 39) << i;
    if (event.ok()) events.push_back(*event);
  }
  const int64_t before = allocations_of_thread;
  for (hipEvent_t event : events) pool.Return(event);
  EXPECT_EQ(allocations_of_thread, before);
}

TEST(MemoryPoolTest, BlocksComeFromSlabsThatGrow) {
  FakeRuntime runtime(size_t{1} << 30);
  MemoryPool pool(runtime.source(), {"device 0", size_t{1} << 20, 0});
  std::vector<void*> blocks;
  for (int i = 0; i < 64 * 1024; ++i) blocks.push_back(*pool.Allocate(2000));
  // 128 MiB: about 8 slabs of 1 MiB, and then each an eighth of the rest.
  EXPECT_LT(runtime.calls(), 50);
  for (void* block : blocks) pool.Free(block, 2000);
  EXPECT_EQ(pool.Stats().bytes_in_use, 0);
  EXPECT_GT(runtime.used(), size_t{128} << 20);
  const int calls = runtime.calls();
  pool.Free(*pool.Allocate(100 << 10), 100 << 10);
  EXPECT_EQ(runtime.calls(), calls);
}

TEST(MemoryPoolTest, NeighboursAreMergedWithinASlab) {
  FakeRuntime runtime(size_t{1} << 30);
  MemoryPool pool(runtime.source(), {"device 0", size_t{1} << 20, 0});
  void* a = *pool.Allocate(100 << 10);
  void* b = *pool.Allocate(100 << 10);
  void* c = *pool.Allocate(100 << 10);
  EXPECT_EQ(pool.Stats().largest_free_block_bytes, (1 << 20) - 3 * (100 << 10));
  pool.Free(b, 100 << 10);
  EXPECT_EQ(*pool.Allocate(90 << 10), b);  // the best fit
  pool.Free(b, 90 << 10);
  pool.Free(a, 100 << 10);
  EXPECT_EQ(*pool.Allocate(200 << 10), a);
  pool.Free(a, 200 << 10);
  pool.Free(c, 100 << 10);
  EXPECT_EQ(pool.Stats().largest_free_block_bytes, 1 << 20);
}

TEST(MemoryPoolTest, TheLimitIsThatOfTheSlabsAndTheMessageHasTheSizes) {
  FakeRuntime runtime(size_t{1} << 30);
  MemoryPool pool(runtime.source(), {"device 3", size_t{1} << 16, 1 << 20});
  void* half = *pool.Allocate(512 << 10);
  void* small = *pool.Allocate(1000);
  const absl::Status status = pool.Allocate(512 << 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), absl::StrCat("device 3: no memory for 524288 bytes: ", (512 << 10) + 1024,
                                           " are in use of ", (512 << 10) + (64 << 10),
                                           " that are taken, the limit is 1048576, the largest free block has 0"
                                           ": the limit is reached"));
  EXPECT_EQ(*pool.Stats().bytes_limit, 1 << 20);
  // Without the small block its slab is empty. It makes room for a larger one.
  pool.Free(small, 1000);
  const absl::StatusOr<void*> other = pool.Allocate(512 << 10);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(*pool.Stats().pool_bytes, 1 << 20);
  pool.Free(half, 512 << 10);
  pool.Free(*other, 512 << 10);
  EXPECT_EQ(pool.Allocate(size_t{1} << 62).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.Allocate(SIZE_MAX).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(MemoryPoolTest, EmptySlabsAreReleasedIfTheRuntimeHasNoMemory) {
  FakeRuntime runtime(10 << 20);
  MemoryPool pool(runtime.source(), {"device 0", size_t{1} << 20, 0});
  std::vector<void*> blocks;
  for (int i = 0; i < 9; ++i) blocks.push_back(*pool.Allocate(1 << 20));
  for (void* block : blocks) pool.Free(block, 1 << 20);
  EXPECT_EQ(runtime.used(), size_t{9} << 20);
  const absl::StatusOr<void*> large = pool.Allocate(10 << 20);
  ASSERT_TRUE(large.ok()) << large.status();
  const absl::Status status = pool.Allocate(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("the runtime has no memory"));
  pool.Free(*large, 10 << 20);
}

TEST(MemoryPoolTest, ASmallMemoryHoldsSmallBlocksWithoutARun) {
  FakeRuntime runtime(4096);
  MemoryPool pool(runtime.source(), {"device 0", 256, 4096});
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) {
    const absl::StatusOr<void*> block = pool.Allocate(200);
    ASSERT_TRUE(block.ok()) << block.status();
    blocks.push_back(*block);
  }
  EXPECT_FALSE(pool.Allocate(1).ok());
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 16u);
  for (void* block : blocks) pool.Free(block, 200);
  EXPECT_EQ(pool.Stats().bytes_in_use, 0);
}

TEST(MemoryPoolTest, OtherErrorsOfTheRuntimeKeepTheirCode) {
  MemoryPool pool({[](size_t) -> absl::StatusOr<void*> { return absl::InternalError("the device is lost"); },
                   [](void*) { FAIL(); }},
                  {"device 0", size_t{1} << 20, 0});
  const absl::Status status = pool.Allocate(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("the device is lost"));
  EXPECT_EQ(*pool.Stats().pool_bytes, 0);
}

TEST(MemoryPoolTest, ThreadsKeepTheirBlocksApart) {
  for (const size_t slab_bytes : {size_t{0}, size_t{1} << 18}) {
    FakeRuntime runtime(size_t{1} << 28);
    MemoryPool pool(runtime.source(), {"device 0", slab_bytes, 64 << 20});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&pool, t] {
        std::mt19937 random(static_cast<unsigned>(t));
        std::vector<std::pair<unsigned char*, size_t>> mine;
        for (int step = 0; step < 3000; ++step) {
          if (mine.empty() || (mine.size() < 50 && random() % 2 == 0)) {
            const size_t bytes = 1 + random() % (step % 50 == 0 ? 1000000 : 6000);
            const absl::StatusOr<void*> block = pool.Allocate(bytes);
            if (!block.ok()) {
              ASSERT_TRUE(absl::IsResourceExhausted(block.status())) << block.status();
              continue;
            }
            std::memset(*block, t + 1, bytes);
            mine.push_back({static_cast<unsigned char*>(*block), bytes});
          } else {
            std::swap(mine[random() % mine.size()], mine.back());
            const auto [block, bytes] = mine.back();
            mine.pop_back();
            for (size_t i = 0; i < bytes; i += 97) ASSERT_EQ(block[i], t + 1);
            pool.Free(block, bytes);
          }
          if (step % 500 == 0) pool.ReleaseEmptySlabs();
        }
        for (const auto& [block, bytes] : mine) pool.Free(block, bytes);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool.Stats().bytes_in_use, 0);
    pool.ReleaseEmptySlabs();
    EXPECT_EQ(runtime.used(), 0u);
  }
}

}  // namespace
}  // namespace backplane::hip
