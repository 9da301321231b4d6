#include "sdk/cli/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/cli/clock.h"
#include "sdk/cli/command.h"
#include "sdk/host/call_observer.h"
#include "sdk/host/loader.h"
#include "sdk/host/probe.h"

namespace backplane::cli {
namespace {

constexpr double kLeaveSeconds = 10;  // the time for a process to end after its work
constexpr double kTick = 0.1;
constexpr int kMaxLibraries = 16;  // the largest number of libraries of one command that are distinguished
constexpr size_t kMaxPath = 512;

// The memory that both processes share. Texts are written before the number that publishes them. `call` points to a
// constant of the program, which has the same address in a fork.
struct Shared {
  std::atomic<const char*> call;  // the last call that began
  std::atomic<int> inside;        // calls in progress, in all threads
  std::atomic<uint64_t> count;    // calls that began and ended
  std::atomic<int> library;       // index of the library of that call, or of the one that is being opened
  std::atomic<bool> starting_up;
  std::atomic<int> libraries;  // number of libraries with a name
  std::atomic<bool> done;
  std::atomic<int> exit_code;
  char names[kMaxLibraries][kMaxPath];
};
Shared* shared = nullptr;  // only set in a child

int IndexOf(const std::string& name) {
  const int known = shared->libraries.load();
  for (int i = 0; i < known; ++i) {
    if (name.compare(0, kMaxPath - 1, shared->names[i]) == 0) return i;
  }
  if (known == kMaxLibraries) return kMaxLibraries - 1;
  std::strncpy(shared->names[known], name.c_str(), kMaxPath - 1);
  shared->libraries.store(known + 1);
  return known;
}

// The plugin of the last call, so that its name is written only when it changes.
std::atomic<const host::Plugin*> last_plugin{nullptr};

void Enter(const host::Plugin& plugin, const char* call) {
  if (last_plugin.load(std::memory_order_relaxed) != &plugin) {
    shared->library.store(IndexOf(plugin.name()));
    last_plugin.store(&plugin, std::memory_order_relaxed);
  }
  shared->call.store(call, std::memory_order_relaxed);
  shared->count.fetch_add(1, std::memory_order_relaxed);
  shared->inside.fetch_add(1, std::memory_order_release);
}

void Leave(const host::Plugin&) {
  shared->count.fetch_add(1, std::memory_order_relaxed);
  shared->inside.fetch_sub(1, std::memory_order_release);
}

constexpr host::CallObserver kObserver = {Enter, Leave};

std::string SecondsText(double seconds) { return absl::StrFormat("%g s", seconds); }

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

// Signals from outside: from the terminal, from the reader of our output, from the administrator of the machine.
bool IsExternalSignal(int signal) {
  for (int outside : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU}) {
    if (signal == outside) return true;
  }
  return false;
}

// Returns the plugin, or "" before any, and what it was doing.
std::string Library(const Shared& s) { return s.libraries.load() == 0 ? "" : s.names[s.library.load()]; }
std::string DescribeActivity(const Shared& s) {
  const char* call = s.call.load();
  if (s.inside.load() > 0) return absl::StrCat("in ", call);
  if (s.starting_up.load())
    return call == nullptr ? "while it was opened" : absl::StrCat("while it came up, after ", call);
  return call == nullptr ? "before any call" : absl::StrCat("after ", call);
}

absl::Status MakeCrashError(const Shared& s, int signal) {
  const std::string library = Library(s);
  // The system sends this signal when memory runs out; a plugin does not send it to itself.
  const char* hint = signal == SIGKILL ? " (somebody killed it; the system does when memory runs out)" : "";
  if (library.empty())
    return absl::InternalError(absl::StrCat("the command itself crashed with ", SignalName(signal), hint));
  return FromPlugin(
      absl::AbortedError(absl::StrCat(library, ": crashed with ", SignalName(signal), " ", DescribeActivity(s), hint)));
}

// Waits for the child, whose end closes `pipe`.
absl::Status Watch(const PluginLimits& limits, const Shared& s, pid_t child, int pipe, int* wait_status) {
  double last = Now(), starting = 0, in_call = 0, leaving = 0;
  uint64_t count = 0;
  for (;;) {
    pollfd fd = {pipe, POLLIN, 0};
    poll(&fd, 1, static_cast<int>(kTick * 1000));
    const pid_t ended = waitpid(child, wait_status, WNOHANG);
    if (ended == child) return absl::OkStatus();
    if (ended < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "the child process cannot be waited for");
    if (fd.revents != 0) {  // the child has closed its end of the pipe and is ending
      const timespec moment = {0, 1000000};
      nanosleep(&moment, nullptr);
    }
    // Time during which both processes were stopped does not count: no tick counts for more than its normal duration.
    const double now = Now(), passed = std::min(now - last, 2 * kTick);
    last = now;
    const bool same = count == s.count.load();
    count = s.count.load();
    starting = s.starting_up.load() ? starting + passed : 0;
    in_call = same && s.inside.load() > 0 && !s.starting_up.load() ? in_call + passed : 0;
    leaving = s.done.load() ? leaving + passed : 0;

    std::string late;
    if (leaving > kLeaveSeconds) {
      late = "does not let the process end after the work was done";
    } else if (starting > limits.start) {
      late = absl::StrCat("did not come up within ", SecondsText(limits.start), ", ", DescribeActivity(s),
                          host::ExplainHang(Library(s)));
    } else if (limits.call > 0 && in_call > limits.call) {
      late = absl::StrCat("did not come back within ", SecondsText(limits.call), " ", DescribeActivity(s));
    }
    if (late.empty()) continue;
    kill(child, SIGKILL);
    while (waitpid(child, wait_status, 0) < 0 && errno == EINTR) {
    }
    return FromPlugin(absl::DeadlineExceededError(absl::StrCat(Library(s), ": ", late)));
  }
}

}  // namespace

absl::Status Supervise(const PluginLimits& limits, const std::function<int()>& work, int* exit_code) {
  if (limits.in_process) return *exit_code = work(), absl::OkStatus();
  void* page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2];
  if (page == MAP_FAILED || pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "no child process");
  const Shared& s = *new (page) Shared();
  std::fflush(stdout);
  std::fflush(stderr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "no child process");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kPluginFailed);
    close(ends[0]);
    shared = static_cast<Shared*>(page);
    host::SetCallObserver(&kObserver);
    const int code = work();
    std::fflush(stdout);
    std::fflush(stderr);
    shared->exit_code.store(code);
    shared->done.store(true);
    std::exit(code);
  }
  close(ends[1]);
  // The terminal sends these signals to both processes; the child decides how to react.
  struct sigaction ignore = {}, old_int, old_quit;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &old_int);
  sigaction(SIGQUIT, &ignore, &old_quit);
  int wait_status = 0;
  const absl::Status watched = Watch(limits, s, child, ends[0], &wait_status);
  close(ends[0]);
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGQUIT, &old_quit, nullptr);
  if (!watched.ok()) return watched;
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    if (IsExternalSignal(number)) {
      signal(number, SIG_DFL);
      raise(number);
    }
    if (!s.done.load()) return MakeCrashError(s, number);
    return FromPlugin(absl::AbortedError(
        absl::StrCat(Library(s), ": crashed with ", SignalName(number), " at the end of the process, its work done")));
  }
  if (!s.done.load()) {
    const std::string library = Library(s);
    return FromPlugin(
        absl::AbortedError(absl::StrCat(library.empty() ? "something" : library, ": ended the process with status ",
                                        WEXITSTATUS(wait_status), " ", DescribeActivity(s))));
  }
  *exit_code = s.exit_code.load();
  return absl::OkStatus();
}

PluginStartup::PluginStartup(const std::string& library) {
  if (shared == nullptr) return;
  shared->library.store(IndexOf(library));
  last_plugin.store(nullptr);
  shared->call.store(nullptr);
  shared->starting_up.store(true);
}

PluginStartup::~PluginStartup() {
  if (shared != nullptr) shared->starting_up.store(false);
}

}  // namespace backplane::cli
