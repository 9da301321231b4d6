// Tests that the files contain the calls with their threads, sizes and spans, and that writing the files while other
// threads record loses nothing.
#include "sdk/layers/trace/trace.h"

#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <tuple>

#include "sdk/host/json.h"
#include "sdk/layers/calls_test.h"
#include "sdk/layers/trace/events.h"
#include "sdk/layers/trace/write.h"

namespace backplane::layers {
namespace {

using host::Json;
using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class TraceTest : public LayersTest {
 protected:
  void SetUp() override { base_ = absl::StrCat(::testing::TempDir(), "trace_test.", getpid()); }
  void TearDown() override {
    stack_.reset();
    unlink((base_ + ".json").c_str());
    unlink((base_ + ".html").c_str());
  }
  // Returns the events of the file by name.
  std::multimap<std::string, Json> Events() {
    absl::StatusOr<Json> json = Json::Parse(ReadFile(base_ + ".json"));
    EXPECT_TRUE(json.ok()) << json.status();
    std::multimap<std::string, Json> events;
    for (const Json& e : *json->Find("traceEvents")->array()) events.emplace(*e.Find("name")->string(), e);
    return events;
  }
  std::string base_;
};

TEST_F(TraceTest, CallsSizesSpansAndNames) {
  Open("trace", {{"file", base_ + ".json"}});
  RunAll();
  layer_->Flush();
  const auto events = Events();
  ASSERT_EQ(events.count("Client_BufferFromHostBuffer"), 2);
  const Json& copy = events.find("Client_BufferFromHostBuffer")->second;
  EXPECT_EQ(*copy.Find("ph")->string(), "X");
  EXPECT_EQ(*copy.Find("args")->Find("bytes")->integer(), 16);
  EXPECT_EQ(*copy.Find("pid")->integer(), getpid());
  ASSERT_EQ(events.count("LoadedExecutable_Execute"), 1);
  const Json& execute = events.find("LoadedExecutable_Execute")->second;
  EXPECT_EQ(*execute.Find("args")->Find("arguments")->integer(), 2);
  EXPECT_EQ(*execute.Find("args")->Find("program")->string(), "add");
  ASSERT_EQ(events.count("add"), 2) << "the execution's span: its begin and its end";
  const Json *begin = nullptr, *end = nullptr;
  for (auto [it, last] = events.equal_range("add"); it != last; ++it) {
    (*it->second.Find("ph")->string() == "b" ? begin : end) = &it->second;
  }
  ASSERT_TRUE(begin != nullptr && end != nullptr);
  EXPECT_EQ(*begin->Find("cat")->string(), "execution");
  EXPECT_EQ(*begin->Find("id")->integer(), *end->Find("id")->integer());
  EXPECT_EQ(*begin->Find("args")->Find("device")->integer(), 0);
  const auto real = [](const Json* j) {
    return j->real() != nullptr ? *j->real() : static_cast<double>(*j->integer());
  };
  EXPECT_LE(real(begin->Find("ts")), real(end->Find("ts")));
  EXPECT_EQ(events.count("copy to device"), 4);
  EXPECT_EQ(events.count("copy to host"), 2);
  EXPECT_EQ(events.count("thread_name"), 1);
  // The page contains the same data and has no external references.
  const std::string page = ReadFile(base_ + ".html");
  EXPECT_THAT(page, HasSubstr("LoadedExecutable_Execute"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("/*DATA*/")));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("http")));
  EXPECT_THAT(page, HasSubstr("\"add\""));
}

TEST_F(TraceTest, ErrorsAreNamed) {
  Open("trace", {{"file", base_ + ".json"}, {"html", "none"}});
  PJRT_Client* client = NewClient();
  BP_ARGS(a, PJRT_Client_LookupDevice);
  a.client = client;
  a.id = 77;
  EXPECT_FALSE(CALL(PJRT_Client_LookupDevice, a).ok());
  Destroy(client);
  layer_->Flush();
  const auto events = Events();
  EXPECT_EQ(*events.find("Client_LookupDevice")->second.Find("args")->Find("error")->string(), "INVALID_ARGUMENT");
  EXPECT_NE(access((base_ + ".html").c_str(), F_OK), 0);
}

TEST_F(TraceTest, WithoutSpansTheLayerCallsNothing) {
  static int calls = 0;
  PJRT_Api& target = TargetCopy();
  target.PJRT_Event_OnReady = [](PJRT_Event_OnReady_Args* args) {
    ++calls;
    return GetPjrtApi()->PJRT_Event_OnReady(args);
  };
  Open("trace", {{"file", "none"}, {"html", "none"}, {"spans", "0"}}, &target);
  RunAll();
  EXPECT_EQ(calls, 0);
  Open("trace", {{"file", "none"}, {"html", "none"}}, &target);
  RunAll();
  EXPECT_GT(calls, 0);
}

TEST_F(TraceTest, AFailedWriteLeavesTheOldFile) {
  std::ofstream(base_ + ".json") << "old";
  EXPECT_FALSE(WriteFileAtomically("/nowhere/at/all.json", "x").ok());
  EXPECT_TRUE(WriteFileAtomically(base_ + ".json", "new").ok());
  EXPECT_EQ(ReadFile(base_ + ".json"), "new");
}

TEST(EventLogTest, NothingIsLostWhileItIsRead) {
  EventLog log(1 << 20);
  constexpr int kThreads = 8, kEach = 20000;
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      size_t seen = 0;
      log.ForEachThread([](const EventLog::Thread&) {}, [&](const Event& e) { seen += e.bytes != 0; });
      ASSERT_LE(seen, kThreads * kEach);
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log] {
      Event e;
      for (int i = 1; i <= kEach; ++i) {
        e.bytes = static_cast<uint64_t>(i);
        log.Add(e);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  stop = true;
  reader.join();
  uint64_t last = 0, count = 0;
  log.ForEachThread([&](const EventLog::Thread&) { last = 0; },
                    [&](const Event& e) {
                      // The id and the buffer of a thread that ended may have been given to a later one.
                      EXPECT_TRUE(e.bytes == last + 1 || e.bytes == 1);
                      last = e.bytes;
                      ++count;
                    });
  EXPECT_EQ(count, kThreads * kEach);
  EXPECT_EQ(log.dropped(), 0);
}

TEST(EventLogTest, EveryFieldComesBack) {
  EventLog log(1000);
  std::vector<Event> events;
  // Events with one property that the short form cannot hold, and events without.
  for (int what = 0; what < 8; ++what) {
    Event e;
    e.start = 1234567890123;
    e.end = e.start + (what == 6 ? int64_t{5} << 32 : 77);
    e.fn = static_cast<Fn>(kNumFunctions - 1);
    e.kind = EventKind::kCopyOnDevice;
    e.error = 16;
    e.object = 0xfedcba9876543210;
    if (what == 1) e.bytes = ~uint64_t{0};
    if (what == 2) e.name = ~uint32_t{0};
    if (what == 3) e.count = ~uint32_t{0};
    if (what == 4) e.device = 0;
    if (what == 5) e.device = -2;
    if (what == 7) e.end = e.start - 5;  // as clocks of different processors may give it
    events.push_back(e);
    log.Add(e);
  }
  events[7].end = events[7].start;
  size_t i = 0;
  log.ForEachThread([](const EventLog::Thread&) {},
                    [&](const Event& e) {
                      ASSERT_LT(i, events.size());
                      const Event& want = events[i++];
                      EXPECT_EQ(
                          std::tie(e.start, e.end, e.bytes, e.object, e.name, e.count, e.device, e.fn, e.kind, e.error),
                          std::tie(want.start, want.end, want.bytes, want.object, want.name, want.count, want.device,
                                   want.fn, want.kind, want.error))
                          << i;
                    });
  EXPECT_EQ(i, events.size());
}

TEST(ClockTest, TicksAreNanosecondsOfTheSystem) {
  StartClock();
  const int64_t before = ReadMonotonicNanos();
  const Ticks tick = ReadTicks();
  const int64_t after = ReadMonotonicNanos();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const int64_t late_before = ReadMonotonicNanos();
  const Ticks late = ReadTicks();
  const int64_t late_after = ReadMonotonicNanos();
  const TickScale scale;
  constexpr int64_t kInexact = 20000;  // nanoseconds; the scale is measured on a machine that may be busy
  EXPECT_GE(scale.ToNanos(tick), before - kInexact);
  EXPECT_LE(scale.ToNanos(tick), after + kInexact);
  EXPECT_GE(scale.ToNanos(late), late_before - kInexact);
  EXPECT_LE(scale.ToNanos(late), late_after + kInexact);
}

TEST(EventLogTest, TheLimitHoldsAndIsTold) {
  EventLog log(100);
  for (int i = 0; i < 1000; ++i) log.Add(Event());
  uint64_t count = 0;
  log.ForEachThread([](const EventLog::Thread&) {}, [&](const Event&) { ++count; });
  EXPECT_LE(count, 100);
  EXPECT_EQ(count + log.dropped(), 1000);
  EXPECT_THAT(TraceJson(log, {"p", 0, 1}), HasSubstr(absl::StrCat("\"dropped\":\"", log.dropped(), "\"")));
}

TEST(EventLogTest, NamesThatWouldEndAScriptAreHarmless) {
  EventLog log(1000);
  Event e;
  e.kind = EventKind::kExecution;
  e.name = log.Intern("</script><b>\"\n");
  EXPECT_EQ(log.Intern("</script><b>\"\n"), e.name);
  log.Add(e);
  const std::string page = TraceHtml(log, {"<title>", 0, 1});
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_TRUE(Json::Parse(TraceJson(log, {"<title>", 0, 1})).ok());
}

}  // namespace
}  // namespace backplane::layers
