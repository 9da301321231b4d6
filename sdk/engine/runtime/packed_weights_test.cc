#include "sdk/engine/runtime/packed_weights.h"

#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace backplane::engine {
namespace {

struct Kept {
  MemoryPool pool;
  std::shared_ptr<MemoryBudget> budget;
  PackedWeights weights;
  int packed = 0;

  explicit Kept(int64_t limit, int64_t budget_limit = 0)
      : budget(std::make_shared<MemoryBudget>(budget_limit, &pool, nullptr)), weights(budget, limit) {
    budget->SetReclaimer([this](int64_t bytes) { return weights.Reclaim(bytes); });
  }
  PackedWeights::Block Find(KeptForms& forms, uint64_t key, int64_t bytes) {
    return weights.Find(forms, key, bytes, [&](void* to) {
      std::memset(to, 7, static_cast<size_t>(bytes));
      ++packed;
      return absl::OkStatus();
    });
  }
};

TEST(PackedWeights, AreMadeAtTheSecondReadAndDropped) {
  Kept kept(1000);
  KeptForms forms;
  EXPECT_EQ(kept.Find(forms, 1, 100), nullptr);
  PackedWeights::Block block = kept.Find(forms, 1, 100);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(std::to_integer<int>(block.get()[99]), 7);
  EXPECT_EQ(kept.Find(forms, 1, 100), block);
  EXPECT_EQ(kept.Find(forms, 2, 100), nullptr);  // of another kernel
  EXPECT_EQ(kept.packed, 1);
  EXPECT_EQ(kept.weights.bytes(), 100);
  kept.weights.Drop(forms);
  EXPECT_EQ(kept.weights.bytes(), 0);
  EXPECT_EQ(kept.budget->GetStatistics().bytes_in_use, 100);  // by the block, which a program may be using
  EXPECT_EQ(kept.Find(forms, 1, 100), nullptr);
  block.reset();
  EXPECT_EQ(kept.budget->GetStatistics().bytes_in_use, 0);
  kept.weights.Drop(forms);
  EXPECT_FALSE(forms.registered.load());
}

TEST(PackedWeights, AreNotUsedWhileTheHostHasTheAddress) {
  Kept kept(1000);
  KeptForms forms;
  kept.Find(forms, 1, 100);
  ASSERT_NE(kept.Find(forms, 1, 100), nullptr);
  kept.weights.BeginHostAccess(forms);
  kept.weights.BeginHostAccess(forms);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(kept.Find(forms, 1, 100), nullptr);
  kept.weights.EndHostAccess(forms);
  EXPECT_EQ(kept.Find(forms, 1, 100), nullptr);
  kept.weights.EndHostAccess(forms);
  EXPECT_EQ(kept.Find(forms, 1, 100), nullptr);
  EXPECT_NE(kept.Find(forms, 1, 100), nullptr);  // packed anew
  EXPECT_EQ(kept.packed, 2);
  kept.weights.Drop(forms);
}

TEST(PackedWeights, KeepTheirLimitAndGiveWay) {
  Kept kept(250, 1000);
  KeptForms a, b, c;
  for (int i = 0; i < 2; ++i) {
    for (KeptForms* forms : {&a, &b, &c}) kept.Find(*forms, 1, 100);
  }
  EXPECT_EQ(kept.weights.bytes(), 200);
  EXPECT_EQ(kept.Find(c, 1, 100), nullptr);
  EXPECT_NE(kept.Find(a, 1, 100), nullptr);  // used last
  EXPECT_EQ(kept.weights.Reclaim(1), 100);
  EXPECT_EQ(kept.weights.bytes(), 100);
  EXPECT_NE(kept.Find(a, 1, 100), nullptr);
  absl::StatusOr<void*> large = kept.budget->Allocate(950, "x");
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(kept.weights.bytes(), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kept.Find(b, 1, 100), nullptr);  // there is no memory for it
  kept.budget->Free(*large);
  for (KeptForms* forms : {&a, &b, &c}) kept.weights.Drop(*forms);
  EXPECT_EQ(kept.budget->GetStatistics().bytes_in_use, 0);
}

TEST(PackedWeights, ThreadsShareThem) {
  Kept kept(1 << 20, 1 << 20);
  std::vector<KeptForms> forms(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000; ++i) {
        KeptForms& f = forms[static_cast<size_t>(i + t) % forms.size()];
        PackedWeights::Block block = kept.weights.Find(f, static_cast<uint64_t>(i % 3), 500, [](void* to) {
          std::memset(to, 7, 500);
          return absl::OkStatus();
        });
        if (block != nullptr) {
          EXPECT_EQ(std::to_integer<int>(block.get()[499]), 7);
        }
        if (i % 50 == t) kept.weights.Drop(f);
        if (i % 70 == t) kept.weights.Reclaim(600);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (KeptForms& f : forms) kept.weights.Drop(f);
  EXPECT_EQ(kept.weights.bytes(), 0);
  EXPECT_EQ(kept.budget->GetStatistics().bytes_in_use, 0);
}

}  // namespace
}  // namespace backplane::engine
