#include "sdk/backend/event.h"

#include <atomic>
#include <functional>
#include <new>
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

struct CountedSignal : Signal {
  static constexpr char kKind = 0;
  explicit CountedSignal(int* count) : Signal(&kKind), alive(count) { ++*alive; }
  ~CountedSignal() override { --*alive; }
  int* const alive;
};

TEST(EventTest, ASignalIsThereUntilTheEventIsSet) {
  int alive = 0;
  auto signal = std::make_shared<CountedSignal>(&alive);
  const Signal* const raw = signal.get();
  Event e = Event::Create(signal);
  Promise lost("work", std::move(signal));
  EXPECT_EQ(e.signal().get(), raw);
  EXPECT_EQ(Event::All({Event(), e}).signal().get(), raw);  // waits for one alone
  EXPECT_EQ(Event::All({Event::Ready(absl::InternalError("x")), e}).signal(), nullptr);
  EXPECT_EQ(Event::All({e, Event::Create()}).signal(), nullptr);
  EXPECT_EQ(Event().signal(), nullptr);
  EXPECT_EQ(Event::Create().signal(), nullptr);
  EXPECT_EQ(lost.event().signal().get(), raw);
  e.Set();
  EXPECT_EQ(e.signal(), nullptr);
  EXPECT_EQ(alive, 1);
  lost = Promise();
  EXPECT_EQ(alive, 0);
}

struct OtherSignal : Signal {
  static constexpr char kKind = 0;
  OtherSignal() : Signal(&kKind) {}
};

TEST(EventTest, FindsSignalsOfOneClass) {
  int alive = 0;
  auto signal = std::make_shared<CountedSignal>(&alive);
  const Event counted = Event::Create(signal), other = Event::Create(std::make_shared<OtherSignal>());
  EXPECT_EQ(FindSignal<CountedSignal>(counted), signal);
  EXPECT_EQ(FindSignal<OtherSignal>(counted), nullptr);
  EXPECT_EQ(FindSignal<CountedSignal>(other), nullptr);
  EXPECT_NE(FindSignal<OtherSignal>(other), nullptr);
  EXPECT_EQ(FindSignal<CountedSignal>(Event()), nullptr);
}

TEST(EventTest, AllHearsOfEventsThatAreDropped) {
  Event all;
  {
    Event a = Event::Create(), b = Event::Create();
    all = Event::All({a, b});
    b.Set(absl::NotFoundError("x"));
    EXPECT_FALSE(all.IsReady());
  }
  ASSERT_TRUE(all.IsReady());
  EXPECT_EQ(all.status().code(), absl::StatusCode::kAborted);
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

// Each event's callback sets the next event. With recursion this would take some hundred bytes of stack per event.
TEST(EventTest, ChainsOfAnyLengthFitOnTheStack) {
  constexpr int kLinks = 100000;
  std::vector<Event> events;
  for (int i = 0; i <= kLinks; ++i) events.push_back(Event::Create());
  for (int i = 0; i < kLinks; ++i) {
    events[i].OnReady([next = events[i + 1]](const absl::Status& s) { next.Set(s); });
  }
  events[0].Set(absl::DataLossError("first"));
  ASSERT_TRUE(events[kLinks].IsReady());
  EXPECT_EQ(events[kLinks].status().code(), absl::StatusCode::kDataLoss);

  // The same with events that are ready: each callback registers the next one.
  int calls = 0;
  std::function<void(const absl::Status&)> next = [&](const absl::Status&) {
    if (++calls < kLinks) Event().OnReady(next);
  };
  Event().OnReady(next);
  EXPECT_EQ(calls, kLinks);
}

TEST(EventTest, ChainsThatAreDroppedEndInAnError) {
  constexpr int kLinks = 100000;
  absl::Status end;
  {
    Promise first("first");
    Event event = first.event();
    for (int i = 0; i < kLinks; ++i) {
      Promise next("next");
      Event following = next.event();
      event.OnReady([next](const absl::Status& s) { next.Set(s); });
      event = std::move(following);
    }
    event.OnReady([&](const absl::Status& s) { end = s; });
  }
  EXPECT_EQ(end, absl::AbortedError("first: it was dropped before it was done"));
  // Without a promise the callbacks still run.
  absl::Status told;
  Event::Create().OnReady([&](const absl::Status& s) { told = s; });
  EXPECT_EQ(told.code(), absl::StatusCode::kAborted);
}

TEST(EventTest, WaitersHearOfABrokenPromise) {
  auto promise = std::make_unique<Promise>("work");
  Event event = promise->event();
  std::thread waiter([&] { EXPECT_EQ(event.Await().code(), absl::StatusCode::kAborted); });
  Promise copy = *promise;
  promise.reset();
  EXPECT_FALSE(event.IsReady());
  copy = Promise();
  waiter.join();
  Promise kept("work");
  kept.Set();
  event = kept.event();
  kept = Promise();
  EXPECT_TRUE(event.status().ok());
}

TEST(EventTest, WhatACallbackThrowsBreaksItsPromisesAndNothingElse) {
  Event event = Event::Create();
  Promise promise("thrower");
  Event broken = promise.event();
  int calls = 0;
  event.OnReady([promise = std::move(promise)](const absl::Status&) { throw std::bad_alloc(); });
  event.OnReady([&](const absl::Status&) { ++calls; });
  event.Set();
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(broken.IsReady());
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kAborted);
}

// A callback waits for something that a queued callback does, so the wait must run the queue.
TEST(EventTest, WaitingInADeepCallbackRunsWhatIsQueued) {
  constexpr int kLinks = 40;  // more than may nest
  std::vector<Event> events;
  for (int i = 0; i <= kLinks; ++i) events.push_back(Event::Create());
  for (int i = 0; i < kLinks; ++i) {
    events[i].OnReady([&, i](const absl::Status&) {
      events[i + 1].Set();
      if (i % 10 == 9) {
        EXPECT_TRUE(events[kLinks].Await().ok());
      }
    });
  }
  events[0].Set();
  EXPECT_TRUE(events[kLinks].IsReady());
}

}  // namespace
}  // namespace backplane
