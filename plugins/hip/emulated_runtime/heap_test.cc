#include "plugins/hip/emulated_runtime/heap.h"

#include <cstring>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::hip::emulated {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

unsigned char* At(uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

std::unique_ptr<DeviceHeap> NewHeap(size_t capacity) { return *DeviceHeap::Create(capacity, size_t{1} << 20); }

TEST(DeviceHeap, HasALimitOfBytes) {
  const auto heap = NewHeap(8192);
  const auto first = heap->Allocate(4096), second = heap->Allocate(4096);
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(heap->used(), 8192u);
  EXPECT_FALSE(heap->Allocate(1).has_value());
  EXPECT_TRUE(heap->Free(*first).known);
  EXPECT_TRUE(heap->Allocate(4096).has_value());
  EXPECT_FALSE(heap->Allocate(SIZE_MAX).has_value());
}

TEST(DeviceHeap, AlignsAndPoisons) {
  const auto heap = NewHeap(1 << 20);
  const uint64_t block = *heap->Allocate(100);
  EXPECT_EQ(block % 256, 0u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(At(block)[i], DeviceHeap::kPoison);
  std::memset(At(block), 1, 100);
  EXPECT_EQ(heap->Free(block).problem, "");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(At(block)[i], DeviceHeap::kFreed);
}

TEST(DeviceHeap, FindsDamageOnBothSides) {
  const auto heap = NewHeap(1 << 20);
  const uint64_t block = *heap->Allocate(100);
  At(block)[100] = 7;
  EXPECT_THAT(heap->CheckGuards(), ElementsAre(HasSubstr("byte 100 of allocation 1, which has 100 bytes")));
  EXPECT_THAT(heap->CheckGuards(), IsEmpty());  // is told once
  const uint64_t other = *heap->Allocate(64);
  At(other)[-4] = 7;
  EXPECT_THAT(heap->Free(other).problem, HasSubstr("4 bytes before allocation 2"));
}

TEST(DeviceHeap, FindsDoubleFreeAndUseAfterFree) {
  const auto heap = NewHeap(1 << 20);
  const uint64_t block = *heap->Allocate(64);
  EXPECT_TRUE(heap->Free(block).known);
  const DeviceHeap::FreeResult again = heap->Free(block);
  EXPECT_FALSE(again.known);
  EXPECT_THAT(again.problem, HasSubstr("double free: allocation 1"));
  EXPECT_THAT(heap->Free(block + 64).problem, HasSubstr("is not the beginning"));
  EXPECT_FALSE(heap->Find(block, 1).has_value());
  EXPECT_THAT(heap->Explain(block + 8, 4), HasSubstr("allocation 1 of 64 bytes, which was freed"));
  At(block)[3] = 0;
  for (int i = 0; i < 40; ++i) heap->Free(*heap->Allocate(64));  // until the block is available again
  EXPECT_THAT(heap->CheckGuards(), ElementsAre(HasSubstr("byte 3 of allocation 1")));
}

TEST(DeviceHeap, FindsBlocksByRange) {
  const auto heap = NewHeap(1 << 20);
  const uint64_t block = *heap->Allocate(1000);
  EXPECT_EQ(heap->Find(block + 10, 990)->begin, block);
  EXPECT_FALSE(heap->Find(block + 10, 991).has_value());
  EXPECT_THAT(heap->Explain(block + 10, 991), HasSubstr("ends 1 bytes behind allocation 1"));
  EXPECT_TRUE(heap->Owns(block));
  EXPECT_FALSE(heap->Owns(reinterpret_cast<uint64_t>(&block)));
}

TEST(DeviceHeap, BlocksNeverOverlap) {
  const auto heap = NewHeap(size_t{4} << 20);
  std::mt19937 random(7);
  std::map<uint64_t, uint64_t> blocks;
  int refused = 0;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 3 != 0) {
      const uint64_t bytes = 1 + random() % 60000;
      const auto block = heap->Allocate(bytes);
      if (!block.has_value()) {
        ++refused;
        continue;
      }
      const auto after = blocks.lower_bound(*block);
      if (after != blocks.end()) {
        EXPECT_LE(*block + bytes, after->first);
      }
      if (after != blocks.begin()) {
        EXPECT_LE(std::prev(after)->first + std::prev(after)->second, *block);
      }
      blocks[*block] = bytes;
      std::memset(At(*block), 1, bytes);
    } else if (!blocks.empty()) {
      const auto block = std::next(blocks.begin(), static_cast<int>(random() % blocks.size()));
      const DeviceHeap::FreeResult result = heap->Free(block->first);
      EXPECT_TRUE(result.known);
      EXPECT_EQ(result.problem, "");
      blocks.erase(block);
    }
  }
  EXPECT_GT(refused, 0);
  for (const auto& [block, bytes] : blocks) heap->Free(block);
  EXPECT_EQ(heap->used(), 0u);
  EXPECT_TRUE(heap->Allocate(size_t{4} << 20).has_value());  // what was freed is one piece again
}

}  // namespace
}  // namespace backplane::hip::emulated
