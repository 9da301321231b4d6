#include "tests/supervisor/supervisor.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"

namespace backplane::supervisor {
namespace {

constexpr int kProcessorSeconds = 10;  // wall-clock time means little on a busy machine
constexpr int kClockSeconds = 120;
constexpr int kWrongStatus = 77;  // exit status of a child that reports an error
[[maybe_unused]] constexpr rlim_t kAddressSpace = rlim_t{4} << 30;

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t ProcessorMs(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

// Whether `child` has worked on one item for too long.
bool Hangs(pid_t child, const Shared& shared) {
  if (NowMs() - shared.begun_ms > kClockSeconds * 1000) return true;
  clockid_t clock;
  return clock_getcpuclockid(child, &clock) == 0 &&
         ProcessorMs(clock) - shared.begun_processor_ms > kProcessorSeconds * 1000;
}

[[noreturn]] void WorkInChild(const Job& job, uint64_t first, uint64_t end, int64_t until_ms, Shared& shared) {
#ifndef BACKPLANE_SANITIZED  // the shadow memory of a sanitizer exceeds any limit
  const rlimit limit = {kAddressSpace, kAddressSpace};
  setrlimit(RLIMIT_AS, &limit);
#endif
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (uint64_t i = first; i < end && NowMs() < until_ms; ++i) {
    shared.index = i;
    shared.log_size = 0;
    shared.begun_processor_ms = ProcessorMs(CLOCK_PROCESS_CPUTIME_ID);
    shared.begun_ms = NowMs();
    const std::string wrong = job.one(i, shared);
    if (wrong.empty()) continue;
    const size_t size = std::min(wrong.size(), Shared::kWrongBytes - 1);
    std::memcpy(shared.wrong, wrong.data(), size);
    shared.wrong[size] = 0;
    _exit(kWrongStatus);
  }
  _exit(0);
}

std::string HowItEnded(int status, bool hung, const Shared& shared) {
  if (hung) return "took too long";
  if (WIFSIGNALED(status)) return absl::StrCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  if (WEXITSTATUS(status) == kWrongStatus && shared.wrong[0] != 0) return shared.wrong;
  return absl::StrCat("exit status ", WEXITSTATUS(status));
}

}  // namespace

void Shared::Note(absl::string_view text) {
  const size_t at = log_size.fetch_add(text.size());
  if (at >= kLogBytes) return;
  std::memcpy(log + at, text.data(), std::min(text.size(), kLogBytes - at));
}

Totals RunJob(const Job& job) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  auto* shared = new (memory) Shared();
  const int64_t begin_ms = NowMs();
  const int64_t until_ms =
      job.seconds > 0 ? begin_ms + static_cast<int64_t>(job.seconds * 1000) : std::numeric_limits<int64_t>::max();
  const uint64_t end = job.first + job.count;
  Totals totals;
  uint64_t next = job.first;
  while (next < end && NowMs() < until_ms && totals.findings < job.max_findings) {
    shared->index = next;
    shared->begun_ms = NowMs();
    shared->begun_processor_ms = 0;
    shared->wrong[0] = 0;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) WorkInChild(job, next, end, until_ms, *shared);
    if (child < 0) break;
    int status = 0;
    bool hung = false;
    for (int wait_ms = 1; waitpid(child, &status, WNOHANG) == 0; wait_ms = std::min(20, wait_ms + 1)) {
      if (!hung && Hangs(child, *shared)) {
        hung = true;
        kill(child, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    }
    next = shared->index + 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++totals.findings;
    job.found({shared->index, HowItEnded(status, hung, *shared),
               std::string(shared->log, std::min(shared->log_size.load(), Shared::kLogBytes))});
  }
  totals.done = next - job.first;
  for (size_t i = 0; i < std::size(totals.counts); ++i) totals.counts[i] = shared->counts[i];
  totals.seconds = static_cast<double>(NowMs() - begin_ms) / 1000;
  munmap(memory, sizeof(Shared));
  return totals;
}

}  // namespace backplane::supervisor
