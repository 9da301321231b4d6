// Tests that rules are parsed, apply to the right calls, and give the host valid errors.
#include "sdk/layers/fault/fault.h"

#include <atomic>
#include <thread>

#include "sdk/layers/calls_test.h"

namespace backplane::layers {
namespace {

using ::testing::HasSubstr;
using FaultTest = LayersTest;

std::vector<int> HitsOf(const std::string& spec, int calls) {
  absl::StatusOr<std::vector<FaultRule>> rules = ParseFaultSpec(spec);
  EXPECT_TRUE(rules.ok()) << rules.status();
  std::vector<int> hits;
  for (int n = 1; n <= calls; ++n) {
    if (rules->at(0).Hits(n, 0)) hits.push_back(n);
  }
  return hits;
}

TEST(FaultSpecTest, WhichCalls) {
  EXPECT_THAT(HitsOf("compile:2", 6), ::testing::ElementsAre(2));
  EXPECT_THAT(HitsOf("compile:2-4=INTERNAL", 6), ::testing::ElementsAre(2, 3, 4));
  EXPECT_THAT(HitsOf("compile:5+", 6), ::testing::ElementsAre(5, 6));
  EXPECT_THAT(HitsOf("compile:*/3", 6), ::testing::ElementsAre(3, 6));
  EXPECT_THAT(HitsOf("compile:*", 2), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(HitsOf("compile", 2), ::testing::ElementsAre(1, 2));
}

TEST(FaultSpecTest, ActionsAndMessages) {
  ASSERT_OK_AND_ASSIGN(std::vector<FaultRule> rules,
                       ParseFaultSpec("compile:2=RESOURCE_EXHAUSTED:no room, copy:*:0.25 ,execute=INTERNAL:\"a, b\","
                                      "Buffer_ToHostBuffer=delay:20ms,event=late:1.5ms"));
  ASSERT_EQ(rules.size(), 5);
  EXPECT_EQ(rules[0].code, PJRT_Error_Code_RESOURCE_EXHAUSTED);
  EXPECT_EQ(rules[0].message, "no room");
  EXPECT_TRUE(rules[0].functions[Index(Fn::PJRT_Client_Compile)]);
  EXPECT_FALSE(rules[0].functions[Index(Fn::PJRT_Client_Create)]);
  EXPECT_EQ(rules[1].probability, 0.25);
  EXPECT_FALSE(rules[1].Hits(1, 0.3));
  EXPECT_TRUE(rules[1].Hits(1, 0.2));
  EXPECT_EQ(rules[2].message, "a, b");
  EXPECT_EQ(rules[3].action, FaultRule::Action::kDelay);
  EXPECT_EQ(rules[3].delay_ns, 20000000);
  EXPECT_TRUE(rules[3].functions[Index(Fn::PJRT_Buffer_ToHostBuffer)]);
  EXPECT_EQ(rules[4].delay_ns, 1500000);
}

TEST(FaultSpecTest, WhatCannotBeUnderstoodIsQuoted) {
  for (const auto& [spec, part] : std::vector<std::pair<std::string, std::string>>{
           {"compil:2", "'compil' is no function"},
           {"compile:0", "'0' does not say which calls"},
           {"compile:5-2", "'5-2'"},
           {"compile:*/0", "'*/0'"},
           {"compile:2:2", "'2' is not a probability"},
           {"compile:1:0.5:9", "more than WHAT:WHICH:PROBABILITY"},
           {"compile=OK", "'OK' is no action"},
           {"compile=SOMETIMES", "'SOMETIMES' is no action"},
           {"compile=delay:soon", "'soon' is no duration"},
           {"compile=delay:-1s", "'-1s' is no duration"},
           {"compile=late:1s", "only events can be late"},
           {"Buffer_Destroy", "PJRT_Buffer_Destroy cannot be made to fail"},
           {"PJRT_Error_Message", "cannot be made to fail"},
           {"compile,,copy", "rule ''"}}) {
    const absl::Status status = ParseFaultSpec(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << spec;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part)) << spec;
  }
}

TEST_F(FaultTest, TheSecondCompileFailsAndTheThirdWorks) {
  Open("fault", {{"spec", "compile:2=RESOURCE_EXHAUSTED:no room"}});
  PJRT_Client* client = NewClient();
  PJRT_LoadedExecutable *a = nullptr, *b = nullptr, *c = nullptr;
  EXPECT_OK(Compile(client, testing::kAdd, &a));
  EXPECT_EQ(Compile(client, testing::kAdd, &b), absl::ResourceExhaustedError("no room"));
  EXPECT_EQ(b, nullptr);
  EXPECT_OK(Compile(client, testing::kAdd, &c));
  Destroy(a);
  Destroy(c);
  Destroy(client);
}

TEST_F(FaultTest, WithoutAMessageTheErrorSaysWhereItIsFrom) {
  Open("fault", {{"spec", "alloc:1"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = nullptr;
  const absl::Status status = NewBuffer(client, {1}, &buffer);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "PJRT_Client_BufferFromHostBuffer: failed by the fault layer, rule 'alloc:1'");
  Destroy(client);
  RunAll();
}

TEST_F(FaultTest, CopiesAndExecutionsFail) {
  Open("fault", {{"spec", "Buffer_ToHostBuffer:1=DATA_LOSS:lost,execute:2=ABORTED:stop"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer *x = NewBuffer(client), *y = NewBuffer(client), *z = nullptr, *none = nullptr;
  PJRT_LoadedExecutable* add = Compile(client, testing::kAdd);
  EXPECT_OK(Execute(add, {x, y}, &z));
  EXPECT_EQ(Execute(add, {x, y}, &none), absl::AbortedError("stop"));
  EXPECT_EQ(none, nullptr);
  std::vector<float> values;
  EXPECT_EQ(Read(z, &values), absl::DataLossError("lost"));
  EXPECT_OK(Read(z, &values));
  EXPECT_THAT(values, ::testing::ElementsAre(2, 4, 6, 8));
  for (PJRT_Buffer* b : {x, y, z}) EXPECT_OK(Destroy(b));
  Destroy(add);
  Destroy(client);
}

TEST_F(FaultTest, TheOutcomeOfEventsIsReplaced) {
  Open("fault", {{"spec", "PJRT_Event_Await:1=UNAVAILABLE:gone,PJRT_Event_OnReady:1=CANCELLED:never mind"}});
  PJRT_Client* client = NewClient();
  PJRT_Buffer* buffer = nullptr;
  EXPECT_EQ(NewBuffer(client, {1, 2}, &buffer), absl::UnavailableError("gone"));
  BP_ARGS(r, PJRT_Buffer_ReadyEvent);
  r.buffer = buffer;
  EXPECT_OK(CALL(PJRT_Buffer_ReadyEvent, r));
  PJRT_Error* got = nullptr;
  BP_ARGS(o, PJRT_Event_OnReady);
  o.event = r.event;
  o.user_arg = &got;
  o.callback = [](PJRT_Error* error, void* arg) { *static_cast<PJRT_Error**>(arg) = error; };
  EXPECT_OK(CALL(PJRT_Event_OnReady, o));
  EXPECT_OK(Await(r.event));
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(Take(got), absl::CancelledError("never mind"));
  EXPECT_OK(Destroy(buffer));
  Destroy(client);
}

TEST_F(FaultTest, SlowCallsAndLateEvents) {
  Open("fault", {{"spec", "PJRT_Client_PlatformName=delay:30ms,event=late:40ms"}});
  PJRT_Client* client = NewClient();
  const int64_t before = ReadMonotonicNanos();
  BP_ARGS(p, PJRT_Client_PlatformName);
  p.client = client;
  EXPECT_OK(CALL(PJRT_Client_PlatformName, p));
  EXPECT_GE(ReadMonotonicNanos() - before, 30000000);
  PJRT_Buffer* buffer = NewBuffer(client);
  BP_ARGS(r, PJRT_Buffer_ReadyEvent);
  r.buffer = buffer;
  EXPECT_OK(CALL(PJRT_Buffer_ReadyEvent, r));
  struct Seen {
    std::atomic<int64_t> at{0};
    std::thread::id thread;
  } seen;
  const int64_t registered = ReadMonotonicNanos();
  BP_ARGS(o, PJRT_Event_OnReady);
  o.event = r.event;
  o.user_arg = &seen;
  o.callback = [](PJRT_Error* error, void* arg) {
    auto* s = static_cast<Seen*>(arg);
    s->thread = std::this_thread::get_id();
    s->at = ReadMonotonicNanos();
  };
  EXPECT_OK(CALL(PJRT_Event_OnReady, o));
  EXPECT_EQ(seen.at, 0) << "the callback waits, the caller does not";
  while (seen.at == 0) std::this_thread::yield();
  EXPECT_GE(seen.at - registered, 40000000);
  EXPECT_NE(seen.thread, std::this_thread::get_id());
  EXPECT_OK(Await(r.event));
  EXPECT_OK(Destroy(buffer));
  Destroy(client);
}

TEST_F(FaultTest, ProbabilitiesAreRepeatable) {
  auto faults = [&](const std::string& seed) {
    Open("fault", {{"spec", "PJRT_Client_PlatformName:*:0.3"}, {"seed", seed}});
    PJRT_Client* client = NewClient();
    std::string hits;
    for (int i = 0; i < 200; ++i) {
      BP_ARGS(p, PJRT_Client_PlatformName);
      p.client = client;
      hits += CALL(PJRT_Client_PlatformName, p).ok() ? '.' : 'x';
    }
    Destroy(client);
    return hits;
  };
  const std::string a = faults("1"), again = faults("1"), b = faults("2");
  EXPECT_EQ(a, again);
  EXPECT_NE(a, b);
  const auto count = std::count(a.begin(), a.end(), 'x');
  EXPECT_GT(count, 30);
  EXPECT_LT(count, 90);
}

TEST(FaultLayerTest, NeedsASpec) {
  EXPECT_THAT(std::string(MakeFaultLayer(Options("fault", {})).status().message()), HasSubstr("BACKPLANE_FAULT"));
  EXPECT_FALSE(MakeFaultLayer(Options("fault", {{"spec", "x"}})).ok());
}

}  // namespace
}  // namespace backplane::layers
