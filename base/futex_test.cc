#include "base/futex.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <new>
#include <thread>
#include <vector>

namespace backplane {
namespace {

using std::chrono::milliseconds;

// Waits until the word is 1, and adds 1 to `woken`.
void AwaitOne(const std::atomic<uint32_t>& word, FutexScope scope, std::atomic<uint32_t>& woken) {
  while (word.load() != 1) WaitOnFutex(word, 0, scope);
  woken.fetch_add(1);
}

TEST(Futex, DoesNotSleepIfTheWordDiffers) {
  std::atomic<uint32_t> word{5};
  for (FutexScope scope : {FutexScope::kPrivate, FutexScope::kShared}) {
    EXPECT_EQ(WaitOnFutex(word, 4, scope), FutexResult::kChanged);
    EXPECT_EQ(WaitOnFutex(word, 4, scope, milliseconds(10000)), FutexResult::kChanged);
  }
}

TEST(Futex, EndsAtTheTimeLimit) {
  std::atomic<uint32_t> word{5};
  for (FutexScope scope : {FutexScope::kPrivate, FutexScope::kShared}) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(WaitOnFutex(word, 5, scope, milliseconds(20)), FutexResult::kTimedOut);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(20));
    EXPECT_EQ(WaitOnFutex(word, 5, scope, milliseconds(0)), FutexResult::kTimedOut);
    EXPECT_EQ(WaitOnFutex(word, 5, scope, milliseconds(-1)), FutexResult::kTimedOut);
  }
}

TEST(Futex, RefusesMemoryThatIsNotMapped) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* none = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(none, MAP_FAILED);
  const auto& word = *static_cast<const std::atomic<uint32_t>*>(none);
  EXPECT_EQ(WaitOnFutex(word, 0, FutexScope::kShared, milliseconds(0)), FutexResult::kRefused);
  munmap(none, page);
}

TEST(Futex, WakesThreads) {
  std::atomic<uint32_t> word{0}, woken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { AwaitOne(word, FutexScope::kPrivate, woken); });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(woken.load(), 0u);
  word.store(1);
  WakeFutex(word, FutexScope::kPrivate);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(woken.load(), 3u);
}

TEST(Futex, WakesOtherProcesses) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* words = new (memory) std::atomic<uint32_t>[2] {};
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AwaitOne(words[0], FutexScope::kShared, words[1]);
    _exit(0);
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(words[1].load(), 0u);
  words[0].store(1);
  WakeFutex(words[0], FutexScope::kShared, 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(words[1].load(), 1u);
  munmap(memory, page);
}

}  // namespace
}  // namespace backplane
