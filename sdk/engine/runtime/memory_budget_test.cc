#include "sdk/engine/runtime/memory_budget.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace backplane::engine {
namespace {

TEST(MemoryBudget, TheLimitIsEnforcedAndNamed) {
  MemoryPool pool;
  MemoryBudget budget(1000, &pool, nullptr);
  auto first = budget.Allocate(600, "x");
  ASSERT_TRUE(first.ok());
  auto second = budget.Allocate(500, "x");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(second.status().message(), "x: no memory for 500 bytes: 600 are in use, the client's limit is 1000");
  EXPECT_EQ(pool.GetStatistics().bytes_in_use, 600);
  EXPECT_EQ(budget.Reserve(401, "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(budget.Reserve(400, "x").ok());
  EXPECT_EQ(budget.GetStatistics().bytes_in_use, 1000);
  budget.Release(400);
  budget.Free(*first);
  EXPECT_EQ(budget.GetStatistics().bytes_in_use, 0);
  EXPECT_EQ(budget.GetStatistics().peak_bytes_in_use, 1000);
  EXPECT_EQ(budget.GetStatistics().largest_alloc_bytes, 600);
  EXPECT_EQ(pool.GetStatistics().num_live, 0);
}

TEST(MemoryBudget, AbsurdSizesAllocateNothing) {
  MemoryPool pool;
  MemoryBudget limited(1 << 20, &pool, nullptr), unlimited(0, &pool, nullptr);
  for (size_t bytes : {size_t{1} << 21, size_t{1} << 50, size_t{1} << 63, SIZE_MAX - 63, SIZE_MAX}) {
    EXPECT_EQ(limited.Allocate(bytes, "x").status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(limited.GetStatistics().bytes_in_use, 0);
  }
  for (size_t bytes : {size_t{1} << 50, size_t{1} << 62, size_t{1} << 63, SIZE_MAX - 63, SIZE_MAX}) {
    EXPECT_EQ(unlimited.Allocate(bytes, "x").status().code(), absl::StatusCode::kResourceExhausted) << bytes;
    EXPECT_EQ(unlimited.GetStatistics().bytes_in_use, 0);
  }
  EXPECT_EQ(limited.Reserve(INT64_MAX, "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.GetStatistics().bytes_reserved, 0);
}

// A program that runs gives its memory back: whoever asks meanwhile waits for it.
TEST(MemoryBudget, WaitsForRunningPrograms) {
  MemoryPool pool;
  Workers workers;
  MemoryBudget budget(1000, &pool, &workers);
  std::atomic<bool> begun{false};
  workers.Schedule([&] {
    void* block = *budget.Allocate(800, "program");
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    budget.Free(block);
  });
  while (!begun) std::this_thread::yield();
  auto mine = budget.Allocate(800, "x");
  ASSERT_TRUE(mine.ok()) << mine.status();
  budget.Free(*mine);
}

// Programs that take most of the memory each, all at once: they run one after another.
TEST(MemoryBudget, LargeProgramsRunOneAfterAnother) {
  MemoryPool pool;
  Workers::Options options;
  options.computing = 4;
  Workers workers(options);
  MemoryBudget budget(1000, &pool, &workers);
  std::atomic<int> failed{0}, ran{0};
  for (int i = 0; i < 200; ++i) {
    workers.Schedule([&] {
      auto block = budget.Allocate(700, "program");
      if (!block.ok()) {
        ++failed;
        return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      budget.Free(*block);
      ++ran;
    });
  }
  ASSERT_TRUE(workers.WaitUntilIdle(std::chrono::seconds(60)));
  EXPECT_EQ(ran, 200);
  EXPECT_EQ(failed, 0);
}

// Results of programs that wait leave room for the temporary memory of those that run.
TEST(MemoryBudget, WhatIsHeldLeavesRoomForWhatIsExpected) {
  MemoryPool pool;
  Workers::Options options;
  options.computing = 4;
  Workers workers(options);
  auto budget = std::make_shared<MemoryBudget>(1000, &pool, &workers);
  std::atomic<int> failed{0}, ran{0};
  for (int i = 0; i < 300; ++i) {
    auto expected = std::make_shared<MemoryBudget::Expected>(budget, 400);
    auto result = budget->Allocate(100, "result");
    ASSERT_TRUE(result.ok()) << i << ": " << result.status();
    workers.Schedule([&, expected, result = *result] {
      auto block = budget->Allocate(400, "program", MemoryBudget::Use::kTemporary);
      if (block.ok()) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        budget->Free(*block, MemoryBudget::Use::kTemporary);
        ++ran;
      } else {
        ++failed;
      }
      budget->Free(result);
    });
  }
  ASSERT_TRUE(workers.WaitUntilIdle(std::chrono::seconds(60)));
  EXPECT_EQ(ran, 300);
  EXPECT_EQ(failed, 0);
  // With nobody in flight all of it can be had.
  auto all = budget->Allocate(1000, "all");
  ASSERT_TRUE(all.ok()) << all.status();
  budget->Free(*all);
}

// What waits in the host gives nothing back by itself.
TEST(MemoryBudget, DoesNotWaitForCallbacks) {
  MemoryPool pool;
  Workers workers;
  MemoryBudget budget(1000, &pool, &workers);
  std::atomic<bool> begun{false}, end{false};
  workers.Schedule([&] {
    void* block = *budget.Allocate(800, "program");
    {
      const Workers::Waiting waiting(Workers::Waiting::For::kHost);
      begun = true;
      while (!end) std::this_thread::yield();
    }
    budget.Free(block);
  });
  while (!begun) std::this_thread::yield();
  EXPECT_EQ(budget.Allocate(800, "x").status().code(), absl::StatusCode::kResourceExhausted);
  end = true;
  ASSERT_TRUE(workers.WaitUntilIdle(std::chrono::seconds(60)));
}

}  // namespace
}  // namespace backplane::engine
