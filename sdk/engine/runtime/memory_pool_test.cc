#include "sdk/engine/runtime/memory_pool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace backplane::engine {
namespace {

TEST(MemoryPool, AlignedPaddedAndDistinct) {
  MemoryPool pool;
  std::set<void*> seen;
  std::vector<void*> blocks;
  for (size_t bytes :
       {0, 1, 4, 63, 64, 65, 80, 81, 100, 128, 129, 4096, 65536, 65537, 1 << 20, (2 << 20) - 1, 2 << 20, 5000001}) {
    void* p = pool.Allocate(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % MemoryPool::kAlignment, 0u);
    EXPECT_TRUE(seen.insert(p).second);
    EXPECT_EQ(MemoryPool::RequestedBytes(p), bytes);
    EXPECT_GE(MemoryPool::UsableBytes(p), bytes);
    EXPECT_LE(MemoryPool::UsableBytes(p), std::max<size_t>(64, bytes + bytes / 4 + 64));
    std::memset(p, 0xab, MemoryPool::UsableBytes(p) + MemoryPool::kTailPadding);
    blocks.push_back(p);
  }
  EXPECT_EQ(pool.GetStatistics().num_live, static_cast<int64_t>(blocks.size()));
  for (void* p : blocks) pool.Free(p);
  EXPECT_EQ(pool.GetStatistics().num_live, 0);
  EXPECT_EQ(pool.GetStatistics().bytes_in_use, 0);
}

TEST(MemoryPool, EverySizeIsCoveredByItsClass) {
  MemoryPool pool;
  std::vector<size_t> sizes;
  for (size_t s = 0; s < 5000; ++s) sizes.push_back(s);
  for (int k = 12; k < 27; ++k)
    for (int64_t d : {-65, -64, -1, 0, 1, 63, 64, 65}) sizes.push_back((size_t{1} << k) + d);
  for (size_t s : sizes) {
    void* p = pool.Allocate(s);
    ASSERT_NE(p, nullptr);
    ASSERT_GE(MemoryPool::UsableBytes(p), s) << s;
    pool.Free(p);
  }
}

TEST(MemoryPool, ReusesBlocks) {
  MemoryPool pool;
  void* a = pool.Allocate(16 << 20);
  std::memset(a, 1, 16 << 20);
  pool.Free(a);
  EXPECT_EQ(pool.GetStatistics().largest_free_block_bytes, 16 << 20);
  EXPECT_EQ(pool.Allocate(16 << 20), a);
  pool.Free(a);
  EXPECT_EQ(pool.Allocate(12 << 20), a);  // a little larger than needed is better than fresh pages
  pool.Free(a);
  void* tiny = pool.Allocate(4);
  pool.Free(tiny);
  EXPECT_EQ(pool.Allocate(8), tiny);
  pool.Free(tiny);
}

TEST(MemoryPool, Statistics) {
  MemoryPool pool;
  void* a = pool.Allocate(1000);
  void* b = pool.Allocate(3 << 20);
  auto s = pool.GetStatistics();
  EXPECT_EQ(s.bytes_in_use, 1000 + (3 << 20));
  EXPECT_EQ(s.peak_bytes_in_use, s.bytes_in_use);
  EXPECT_GE(s.bytes_reserved, s.bytes_in_use);
  EXPECT_EQ(s.largest_alloc_bytes, 3 << 20);
  EXPECT_EQ(s.num_allocations, 2);
  EXPECT_EQ(s.bytes_kept, 0);
  pool.Free(b);
  pool.Free(a);
  s = pool.GetStatistics();
  EXPECT_EQ(s.bytes_in_use, 0);
  EXPECT_EQ(s.peak_bytes_in_use, 1000 + (3 << 20));
  EXPECT_GE(s.bytes_kept, 3 << 20);
  const int64_t reserved = s.bytes_reserved;
  pool.Trim();
  s = pool.GetStatistics();
  EXPECT_LE(s.bytes_reserved, reserved - (3 << 20));
  EXPECT_LT(s.bytes_kept, 2048);
}

TEST(MemoryPool, KeepsAtMostTheBound) {
  MemoryPool::Options options;
  options.max_kept_bytes = 10 << 20;
  MemoryPool pool(options);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool.Allocate(4 << 20));
  for (void* p : blocks) pool.Free(p);
  EXPECT_LE(pool.GetStatistics().bytes_kept, 10 << 20);
  EXPECT_GE(pool.GetStatistics().bytes_kept, 4 << 20);
}

TEST(MemoryPool, LimitAndAbsurdSizesAreRefused) {
  MemoryPool::Options options;
  options.limit_bytes = 1 << 20;
  MemoryPool pool(options);
  void* a = pool.Allocate(1 << 19);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(pool.Allocate((1 << 19) + 1), nullptr);
  EXPECT_EQ(pool.Allocate(~size_t{0}), nullptr);
  EXPECT_EQ(pool.GetStatistics().bytes_in_use, 1 << 19);
  pool.Free(a);
  MemoryPool unlimited;
  EXPECT_EQ(unlimited.Allocate(size_t{1} << 47), nullptr);
  EXPECT_EQ(unlimited.GetStatistics().bytes_in_use, 0);
}

TEST(MemoryPool, GivingBackTwiceDoesNotHandOutTwice) {
  MemoryPool pool;
  void* a = pool.Allocate(100);
  pool.Free(a);
  pool.Free(a);
  void* b = pool.Allocate(100);
  void* c = pool.Allocate(100);
  EXPECT_NE(b, c);
  pool.Free(b);
  pool.Free(c);
}

TEST(MemoryPool, ThreadsDoNotShareBlocks) {
  MemoryPool pool;
  std::vector<std::thread> threads;
  std::atomic<int> errors{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 rng(t);
      std::vector<std::pair<unsigned char*, size_t>> mine;
      for (int i = 0; i < 4000; ++i) {
        if (mine.size() < 20 || rng() % 2) {
          const size_t bytes = rng() % 10 == 0 ? rng() % 300000 : rng() % 2000;
          auto* p = static_cast<unsigned char*>(pool.Allocate(bytes));
          std::memset(p, t + 1, bytes);
          mine.push_back({p, bytes});
        } else {
          const size_t k = rng() % mine.size();
          auto [p, bytes] = mine[k];
          for (size_t j = 0; j < bytes; ++j)
            if (p[j] != t + 1) errors.fetch_add(1);
          pool.Free(p);
          mine[k] = mine.back();
          mine.pop_back();
        }
      }
      for (auto [p, bytes] : mine) pool.Free(p);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors.load(), 0);
  EXPECT_EQ(pool.GetStatistics().bytes_in_use, 0);
  EXPECT_EQ(pool.GetStatistics().num_live, 0);
}

}  // namespace
}  // namespace backplane::engine
