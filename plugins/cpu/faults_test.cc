// Runs a training step of a transformer, a step on two devices and a compilation repeatedly. Each time another
// allocation, copy, kernel, launch or thread start fails. Each time there must be an error, no leak and no waiting
// thread, and the next step must give the right values.
//
// The fault points are those of sdk/backend/faults.h. The test tries a few dozen of each kind at regular intervals;
// BACKPLANE_FAULTS=all (./dev faults) tries all of them.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plugins/cpu/faults_testing.h"
#include "sdk/backend/faults.h"

// Intercepts every thread start in this process.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* arg) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (!backplane::Fault(backplane::FaultSite::kThread).ok()) return EAGAIN;
  return real(thread, attributes, body, arg);
}

namespace backplane::testing {
namespace {

bool TryAll() {
  const char* value = std::getenv("BACKPLANE_FAULTS");
  return value != nullptr && std::string(value) == "all";
}

// Runs `step` once for each of up to `most` fault points of one kind, which fails. `after` must succeed each time.
void FailOneByOne(absl::string_view name, FaultSite site, int most, const std::function<absl::Status()>& step,
                  const std::function<absl::Status()>& after) {
  faults::Fail(FaultSite::kCount, 0);
  const absl::Status sound = step();
  faults::Stop();
  ASSERT_TRUE(sound.ok()) << name << ": " << sound;
  const int64_t points = faults::CountPassed(site);
  const int64_t stride = TryAll() ? 1 : std::max<int64_t>(1, (points + most - 1) / most);
  int64_t tried = 0;
  for (int64_t nth = 1; nth <= points; nth += stride) {
    const std::string round = absl::StrCat(name, ", ", FaultSiteName(site), " ", nth, " of ", points);
    Watchdog watchdog(round);
    const Live before = CountLive();
    faults::Fail(site, nth);
    const absl::Status status = step();
    faults::Stop();
    if (faults::Failed()) {
      ++tried;
      EXPECT_FALSE(status.ok()) << round;
      EXPECT_NE(status.code(), absl::StatusCode::kDataLoss) << round << ": " << status;
    } else {
      EXPECT_TRUE(status.ok()) << round << ": " << status;  // the number of fault points differs this time
    }
    EXPECT_EQ(SettledLive(before), before) << round;
    const absl::Status again = after();
    EXPECT_TRUE(again.ok()) << round << ", the step after it: " << again;
    EXPECT_EQ(SettledLive(before), before) << round << ", the step after it";
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("%s: %lld fault points of kind %s, %lld made to fail\n", std::string(name).c_str(),
              static_cast<long long>(points), FaultSiteName(site), static_cast<long long>(tried));
}

constexpr FaultSite kSites[] = {FaultSite::kStorage, FaultSite::kTemporary, FaultSite::kCopy, FaultSite::kKernel,
                                FaultSite::kLaunch};

// Threads are started once per process, so each round runs in its own process. This test runs before all others, while
// this process has no threads.
TEST(AFaultsOfThreads, TheStartOfAThread) {
  const Job job = TwoDeviceStep();
  const int most = TryAll() ? 1000 : 12;
  int tried = 0;
  for (int nth = 1; nth <= most; ++nth) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // 0: failed and went on; 1: not reached; else what went wrong.
      alarm(kTimeLimitSeconds);
      OwnedClient client;
      Loaded program;
      auto all = [&] {
        absl::Status s = client == nullptr ? OpenClient(&client) : absl::OkStatus();
        if (s.ok() && program == nullptr) s = Build(client.get(), job, &program);
        return s.ok() ? RunStep(client.get(), program.get(), job) : s;
      };
      faults::Fail(FaultSite::kThread, nth);
      const absl::Status first = all();
      faults::Stop();
      if (first.code() == absl::StatusCode::kDataLoss) _exit(3);
      if (!faults::Failed()) _exit(first.ok() ? 1 : 4);
      const absl::Status second = all();
      if (!second.ok()) std::fprintf(stderr, "thread %d: then %s\n", nth, second.ToString().c_str());
      _exit(second.ok() ? 0 : 5);
    }
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
    ASSERT_TRUE(WIFEXITED(end)) << "thread " << nth << ": signal " << WTERMSIG(end);
    ASSERT_LE(WEXITSTATUS(end), 1) << "thread " << nth;
    if (WEXITSTATUS(end) == 1) break;
    ++tried;
  }
  EXPECT_GT(tried, 0);
  std::printf("open, compile and step on two devices: %d thread starts made to fail\n", tried);
}

class FaultsTest : public ::testing::Test {
 protected:
  static PJRT_Client* client() {
    static PJRT_Client* const client = [] {
      OwnedClient made;
      EXPECT_TRUE(OpenClient(&made).ok());
      return made.release();
    }();
    return client;
  }

  void Try(absl::string_view name, const Job& job, int most) {
    ASSERT_NE(client(), nullptr);
    Loaded program;
    absl::Status s = Build(client(), job, &program);
    ASSERT_TRUE(s.ok()) << s;
    auto step = [&] { return RunStep(client(), program.get(), job); };
    ASSERT_TRUE(step().ok());  // threads and pools are there
    for (FaultSite site : kSites) {
      FailOneByOne(name, site, most, step, step);
      if (HasFailure()) return;
    }
  }
};

TEST_F(FaultsTest, ATrainingStepOfATransformer) { Try("transformer step", TransformerStep(), 40); }

TEST_F(FaultsTest, AStepOnTwoDevices) { Try("two devices", TwoDeviceStep(), 40); }

TEST_F(FaultsTest, ACompilation) {
  ASSERT_NE(client(), nullptr);
  for (const auto& [name, job, most] : {std::tuple<const char*, Job, int>("compilation", TransformerStep(), 10),
                                        {"compilation with constants", ConstantStep(), 10}}) {
    auto compile = [&] {
      Loaded program;
      return Build(client(), job, &program);
    };
    auto use = [&] {
      Loaded program;
      absl::Status s = Build(client(), job, &program);
      return s.ok() ? RunStep(client(), program.get(), job) : s;
    };
    const absl::Status sound = use();
    ASSERT_TRUE(sound.ok()) << name << ": " << sound;
    for (FaultSite site : {FaultSite::kCode, FaultSite::kTemporary}) {
      FailOneByOne(name, site, most, compile, use);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace backplane::testing
