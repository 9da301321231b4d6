#include "sdk/backend/collectives/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <thread>

namespace backplane {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

LaunchOptions MakeOptions(int64_t replicas, milliseconds limit = milliseconds(60000)) {
  LaunchOptions o;
  o.replicas = replicas;
  o.time_limit = limit;
  for (int64_t r = 0; r < replicas; ++r) o.devices.push_back(static_cast<int32_t>(10 + r));
  return o;
}

// Runs `body` once per process of a launch, each on its own thread. Returns the statuses by process.
std::vector<absl::Status> RunMembers(const std::shared_ptr<Launch>& launch,
                                     const std::function<absl::Status(LaunchMember&)>& body) {
  std::vector<absl::Status> statuses(static_cast<size_t>(launch->process_count()));
  std::vector<std::thread> threads;
  for (int64_t p = 0; p < launch->process_count(); ++p) {
    threads.emplace_back([&, p] {
      LaunchMember member(launch, p, 0);
      statuses[static_cast<size_t>(p)] = body(member);
      member.End(statuses[static_cast<size_t>(p)]);
    });
  }
  for (std::thread& t : threads) t.join();
  return statuses;
}

absl::Status AllReduceSum(LaunchMember& m, int64_t op, std::vector<int64_t> group, int64_t* value) {
  const size_t me = static_cast<size_t>(std::find(group.begin(), group.end(), m.process()) - group.begin());
  return m.launch().EnterRendezvous({op, m.NextIteration(op), group.front()}, "sum", group, me, value,
                                    [](absl::Span<void* const> all) {
                                      int64_t sum = 0;
                                      for (void* v : all) sum += *static_cast<int64_t*>(v);
                                      for (void* v : all) *static_cast<int64_t*>(v) = sum;
                                      return absl::OkStatus();
                                    });
}

TEST(Launch, MatchesIterationsAndKeepsNothing) {
  auto launch = std::make_shared<Launch>(MakeOptions(4));
  const auto statuses = RunMembers(launch, [](LaunchMember& m) -> absl::Status {
    for (int64_t iteration = 0; iteration < 200; ++iteration) {
      int64_t value = m.process() + iteration;
      const std::vector<int64_t> group = m.process() % 2 == 0 ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{3, 1};
      absl::Status s = AllReduceSum(m, 7, group, &value);
      if (!s.ok()) return s;
      if (value != (m.process() % 2 == 0 ? 2 : 4) + 2 * iteration) return absl::InternalError("wrong sum");
    }
    return absl::OkStatus();
  });
  for (const absl::Status& s : statuses) EXPECT_TRUE(s.ok()) << s;
  EXPECT_EQ(launch->CountPending(), 0u);
}

TEST(Launch, FailsAllMembersIfOneFails) {
  auto launch = std::make_shared<Launch>(MakeOptions(3));
  const auto statuses = RunMembers(launch, [](LaunchMember& m) -> absl::Status {
    if (m.process() == 1) return absl::OutOfRangeError("device lost");
    int64_t value = 1;
    return AllReduceSum(m, 1, {0, 1, 2}, &value);
  });
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kOutOfRange);
  for (int p : {0, 2}) {
    EXPECT_EQ(statuses[static_cast<size_t>(p)].code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(statuses[static_cast<size_t>(p)].message()),
                HasSubstr("replica 1 (device 11) failed: device lost"));
  }
  EXPECT_EQ(launch->CountPending(), 0u);
}

TEST(Launch, NamesMemberThatEndsEarly) {
  auto launch = std::make_shared<Launch>(MakeOptions(3));
  const auto statuses = RunMembers(launch, [](LaunchMember& m) -> absl::Status {
    if (m.process() == 2) return absl::OkStatus();
    int64_t value = 1;
    return AllReduceSum(m, 1, {0, 1, 2}, &value);
  });
  for (int p : {0, 1}) {
    EXPECT_EQ(statuses[static_cast<size_t>(p)].code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(statuses[static_cast<size_t>(p)].message()),
                HasSubstr("sum: replica 2 (device 12) has ended"));
  }
}

TEST(Launch, NamesMissingMembersAfterTimeLimit) {
  auto launch = std::make_shared<Launch>(MakeOptions(4, milliseconds(50)));
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<LaunchMember>> members;
  for (int64_t p = 0; p < 2; ++p) members.push_back(std::make_unique<LaunchMember>(launch, p, 0));
  for (size_t p = 0; p < 2; ++p) {
    threads.emplace_back([&, p] {
      int64_t value = 1;
      statuses[p] = AllReduceSum(*members[p], 1, {0, 1, 2, 3}, &value);
    });
  }
  for (std::thread& t : threads) t.join();
  for (const absl::Status& s : statuses) {
    EXPECT_EQ(s.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("sum: 2 of 4 arrived within 0.05 s; missing: replica 2 (device 12), replica 3 (device 13)"));
  }
  // A late member gets the same error without waiting.
  LaunchMember late(launch, 2, 0);
  int64_t value = 1;
  EXPECT_EQ(AllReduceSum(late, 1, {0, 1, 2, 3}, &value).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(launch->CountPending(), 0u);
}

TEST(Launch, ReturnsOperationErrorToAllMembers) {
  auto launch = std::make_shared<Launch>(MakeOptions(2));
  const auto statuses = RunMembers(launch, [](LaunchMember& m) {
    return m.launch().EnterRendezvous({1, m.NextIteration(1), 0}, "x", {0, 1}, static_cast<size_t>(m.process()),
                                      nullptr,
                                      [](absl::Span<void* const>) { return absl::InvalidArgumentError("no"); });
  });
  for (const absl::Status& s : statuses) EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
}

TEST(Launch, ConvertsExceptionOfOperation) {
  auto launch = std::make_shared<Launch>(MakeOptions(3));
  const auto statuses = RunMembers(launch, [](LaunchMember& m) {
    return m.launch().EnterRendezvous({1, m.NextIteration(1), 0}, "x", {0, 1, 2}, static_cast<size_t>(m.process()),
                                      nullptr, [](absl::Span<void* const>) -> absl::Status { throw std::bad_alloc(); });
  });
  for (const absl::Status& s : statuses) EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted) << s;
  EXPECT_EQ(launch->CountPending(), 0u);
}

TEST(Launch, DeliversMessagesAndDetectsMissingOnes) {
  auto launch = std::make_shared<Launch>(MakeOptions(2));
  const auto statuses = RunMembers(launch, [](LaunchMember& m) -> absl::Status {
    if (m.process() == 0) return m.launch().PostMessage(5, 0, 0, 1, "hello");
    absl::StatusOr<std::string> first = m.launch().FetchMessage(5, 0, 0, 1, 0, "recv");
    if (!first.ok() || *first != "hello") return absl::InternalError("no message");
    return m.launch().FetchMessage(5, 1, 0, 1, 0, "recv").status();
  });
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_THAT(std::string(statuses[1].message()), HasSubstr("recv: replica 0 (device 10) has ended without sending"));
  EXPECT_EQ(launch->CountPending(), 0u);
}

TEST(LaunchRegistry, KeepsLaunchUntilAllHaveJoined) {
  LaunchRegistry registry;
  auto a = registry.Join(1, MakeOptions(3)), b = registry.Join(1, MakeOptions(3));
  EXPECT_EQ(a, b);
  EXPECT_EQ(registry.size(), 1u);
  EXPECT_NE(registry.Join(2, MakeOptions(3)), a);
  EXPECT_EQ(registry.size(), 2u);
  auto c = registry.Join(1, MakeOptions(3));
  EXPECT_EQ(c, a);
  EXPECT_EQ(registry.size(), 1u);
  std::shared_ptr<Launch> alone = registry.Join(4, MakeOptions(1));
  EXPECT_EQ(registry.size(), 1u);
}

TEST(LaunchRegistry, KeepsStateForLateMembers) {
  LaunchRegistry registry;
  {
    LaunchMember first(registry.Join(1, MakeOptions(2)), 0, 0);
    ASSERT_TRUE(first.launch().PostMessage(5, 0, 0, 1, "message").ok());
    first.End(absl::OkStatus());
  }
  LaunchMember second(registry.Join(1, MakeOptions(2)), 1, 0);
  EXPECT_EQ(second.launch().FetchMessage(5, 0, 0, 1, 0, "recv").value_or(""), "message");
  EXPECT_EQ(second.launch().FetchMessage(5, 1, 0, 1, 0, "recv").status().code(), absl::StatusCode::kInternal);
  second.End(absl::OkStatus());
  EXPECT_EQ(registry.size(), 0u);
}

TEST(LaunchRegistry, DropsExpiredLaunches) {
  LaunchRegistry registry;
  LaunchOptions soon = MakeOptions(2);
  soon.time_limit = std::chrono::milliseconds(0);
  std::weak_ptr<Launch> left = registry.Join(1, soon);
  EXPECT_FALSE(left.expired());
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  registry.Join(2, MakeOptions(2));
  EXPECT_TRUE(left.expired());
}

TEST(LaunchMember, FailsLaunchIfDestroyedWithoutEnd) {
  auto launch = std::make_shared<Launch>(MakeOptions(2));
  { LaunchMember dropped(launch, 1, 0); }
  LaunchMember m(launch, 0, 0);
  int64_t value = 1;
  EXPECT_EQ(AllReduceSum(m, 1, {0, 1}, &value).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace backplane
