#include "sdk/backend/event.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace backplane {
namespace {

TEST(EventTest, DefaultIsReadyAndOk) {
  Event e;
  EXPECT_TRUE(e.IsReady());
  EXPECT_TRUE(e.Await().ok());
  int calls = 0;
  e.OnReady([&](const absl::Status& s) { calls += s.ok(); });
  EXPECT_EQ(calls, 1);
  e.Set(absl::InternalError("late"));
  EXPECT_TRUE(e.status().ok());
}

TEST(EventTest, CopiesShareTheStateAndTheFirstSetWins) {
  Event a = Event::Create();
  Event b = a;
  std::vector<absl::StatusCode> seen;
  b.OnReady([&](const absl::Status& s) { seen.push_back(s.code()); });
  EXPECT_FALSE(a.IsReady());
  a.Set(absl::NotFoundError("x"));
  b.Set();
  EXPECT_EQ(b.Await().code(), absl::StatusCode::kNotFound);
  b.OnReady([&](const absl::Status& s) { seen.push_back(s.code()); });
  EXPECT_EQ(seen, (std::vector<absl::StatusCode>{absl::StatusCode::kNotFound, absl::StatusCode::kNotFound}));
}

TEST(EventTest, CallbackMayUseTheEventAndDropTheLastReference) {
  auto e = std::make_unique<Event>(Event::Create());
  Event* raw = e.get();
  bool nested = false;
  raw->OnReady([&](const absl::Status&) {
    raw->OnReady([&](const absl::Status&) { nested = true; });
    e.reset();
  });
  raw->Set();
  EXPECT_TRUE(nested);
  EXPECT_EQ(e, nullptr);
}

TEST(EventTest, AllTakesTheFirstErrorInListOrder) {
  std::vector<Event> events = {Event::Create(), Event(), Event::Create(), Event::Create()};
  Event all = Event::All(events);
  events[3].Set(absl::AbortedError("third"));
  events[2].Set(absl::CancelledError("second"));
  EXPECT_FALSE(all.IsReady());
  events[0].Set();
  ASSERT_TRUE(all.IsReady());
  EXPECT_EQ(all.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Event::All({}).IsReady());
  EXPECT_EQ(Event::All({Event(), Event::Ready(absl::DataLossError("d"))}).status().code(), absl::StatusCode::kDataLoss);
}

TEST(EventTest, ManyThreads) {
  for (int round = 0; round < 50; ++round) {
    Event e = Event::Create();
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        e.OnReady([&](const absl::Status&) { ++calls; });
        EXPECT_TRUE(e.Await().ok());
      });
    }
    threads.emplace_back([&] { e.Set(); });
    for (auto& t : threads) t.join();
    EXPECT_EQ(calls, 4);
  }
}

}  // namespace
}  // namespace backplane
