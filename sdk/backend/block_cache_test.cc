#include "sdk/backend/block_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace backplane {
namespace {

TEST(BlockCacheTest, BlocksAreReusedUpToALimit) {
  using Cache = BlockCache<40>;
  std::vector<void*> blocks;
  for (int i = 0; i < Cache::kMostKept + 10; ++i) blocks.push_back(Cache::Allocate());
  void* const last_kept = blocks[Cache::kMostKept - 1];
  for (void* b : blocks) Cache::Free(b);
  if (!kCacheBlocks) return;
  EXPECT_EQ(Cache::CountKept(), Cache::kMostKept);
  void* const block = Cache::Allocate();
  EXPECT_EQ(block, last_kept);
  EXPECT_EQ(Cache::CountKept(), Cache::kMostKept - 1);
  Cache::Free(block);
}

TEST(BlockCacheTest, AThreadKeepsWhatAnotherHasAllocated) {
  using Cache = BlockCache<48>;
  void* const block = Cache::Allocate();
  const int before = Cache::CountKept();
  int kept = -1;
  std::thread([&] {
    Cache::Free(block);
    kept = Cache::CountKept();
  }).join();
  EXPECT_EQ(kept, kCacheBlocks ? 1 : 0);
  EXPECT_EQ(Cache::CountKept(), before);
}

// An object of the thread that ends after the cache does, and frees a block then.
struct FreesLate {
  void* block = nullptr;
  int* kept = nullptr;
  ~FreesLate() {
    if (kept == nullptr) return;
    *kept = BlockCache<56>::CountKept();
    BlockCache<56>::Free(block);
    EXPECT_EQ(BlockCache<56>::CountKept(), *kept);
    BlockCache<56>::Free(BlockCache<56>::Allocate());
  }
};

TEST(BlockCacheTest, AThreadThatEndsKeepsNothing) {
  int kept = -1;
  std::thread([&] {
    static thread_local FreesLate late;
    late.kept = &kept;
    late.block = BlockCache<56>::Allocate();
    BlockCache<56>::Free(BlockCache<56>::Allocate());
  }).join();
  EXPECT_TRUE(!kCacheBlocks || kept == BlockCache<56>::kMostKept) << kept;
}

TEST(BlockCacheTest, SharedObjectsUseIt) {
  struct Object {
    char bytes[300];
  };
  const Object* address;
  {
    auto object = std::allocate_shared<Object>(CachedAllocator<Object>());
    address = object.get();
  }
  auto object = std::allocate_shared<Object>(CachedAllocator<Object>());
  EXPECT_TRUE(!kCacheBlocks || object.get() == address);
}

}  // namespace
}  // namespace backplane
