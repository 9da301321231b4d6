#include "conformance/kit/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "conformance/kit/last_call.h"
#include "conformance/kit/steps.h"

namespace backplane::conformance {
namespace {

constexpr size_t kBatch = 40;              // operations per process
constexpr size_t kKeptOutputBytes = 2000;  // bytes kept of a process's output

struct Pipe {
  int fd = -1;
  std::string text;
};

// A process and its remaining jobs.
struct Child {
  pid_t pid = -1;
  std::deque<size_t> jobs;  // the first one is running, or about to
  bool running = false;     // whether the first one has reported its start
  bool finished_some = false;
  bool leaving = false;  // passes if the process ends normally
  std::string leaving_note;
  double deadline = 0, began = 0;
  Pipe result, out, err;
  LastCall* last_call = nullptr;
  int last_call_fd = -1;
};

std::string Unescape(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      plain.push_back(text[++i] == 'n' ? '\n' : text[i]);
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// Returns the last lines of a text without unprintable characters.
std::string GetOutputTail(absl::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const size_t keep = 300;
  if (text.size() > keep) text.remove_prefix(text.size() - keep);
  std::string words;
  for (char c : text) words.push_back((c >= ' ' && c != 127) || c == '\n' ? c : '?');
  return words;
}

class Runner {
 public:
  Runner(const RunnerOptions& options, const std::vector<Job>& jobs,
         const std::function<void(const CheckOutcome&, size_t, size_t)>& progress)
      : options_(options), jobs_(jobs), progress_(progress) {
    report_.outcomes.resize(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      report_.outcomes[i].id = jobs[i].id;
      report_.outcomes[i].meaning = jobs[i].meaning;
      report_.outcomes[i].advice = jobs[i].advice;
      waiting_.push_back(i);
    }
  }

  RunnerReport Run() {
    const double begin = GetSeconds();
    while (!waiting_.empty() || !children_.empty()) {
      while (!waiting_.empty() && children_.size() < static_cast<size_t>(std::max(1, options_.jobs))) StartNext();
      Poll();
    }
    report_.seconds = GetSeconds() - begin;
    return std::move(report_);
  }

 private:
  void StartNext() {
    std::deque<size_t> batch = {waiting_.front()};
    waiting_.pop_front();
    // Leaves enough for the other processes.
    const size_t most =
        std::max<size_t>(1, std::min(kBatch, waiting_.size() / static_cast<size_t>(std::max(1, options_.jobs)) + 1));
    while (jobs_[batch.front()].shares_process && !waiting_.empty() && jobs_[waiting_.front()].shares_process &&
           batch.size() < most) {
      batch.push_back(waiting_.front());
      waiting_.pop_front();
    }
    auto child = std::make_unique<Child>();
    child->jobs = std::move(batch);
    std::string problem = Start(child.get());
    if (!problem.empty()) {
      for (size_t job : child->jobs)
        SetOutcome(job, Result::kFail, absl::StrCat("the kit could not start a process: ", problem), 0);
      return;
    }
    children_.push_back(std::move(child));
  }

  std::string Start(Child* child) {
    int result[2], out[2], err[2];
    if (pipe2(result, 0) != 0 || pipe2(out, 0) != 0 || pipe2(err, 0) != 0) return strerror(errno);
    child->last_call = LastCall::Create(&child->last_call_fd);
    if (child->last_call == nullptr) return strerror(errno);
    for (int fd : {result[0], out[0], err[0]}) {
      fcntl(fd, F_SETFD, FD_CLOEXEC);
      fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    std::vector<std::string> words = {options_.program, kChildFlag, absl::StrCat(result[1]),
                                      absl::StrCat(child->last_call_fd)};
    words.insert(words.end(), options_.child_arguments.begin(), options_.child_arguments.end());
    words.push_back("--run");
    for (size_t job : child->jobs) words.push_back(jobs_[job].id);
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    child->pid = fork();
    if (child->pid < 0) return strerror(errno);
    if (child->pid == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      const rlimit no_core = {0, 0};
      setrlimit(RLIMIT_CORE, &no_core);
      dup2(out[1], 1);
      dup2(err[1], 2);
      const int null = open("/dev/null", O_RDONLY);
      dup2(null, 0);
      for (int fd : {out[1], err[1], null}) close(fd);
      execv(argv[0], argv.data());
      _exit(127);
    }
    setpgid(child->pid, child->pid);
    for (int fd : {result[1], out[1], err[1]}) close(fd);
    child->result.fd = result[0];
    child->out.fd = out[0];
    child->err.fd = err[0];
    child->began = GetSeconds();
    child->deadline = child->began + GetTimeLimit(*child);
    return "";
  }

  double GetTimeLimit(const Child& child) const {
    const Job& job = jobs_[child.jobs.front()];
    return options_.limit_factor * (job.limit_s > 0 ? job.limit_s : options_.limit_s);
  }

  void Poll() {
    std::vector<pollfd> fds;
    std::vector<std::pair<Child*, Pipe*>> owners;
    double soonest = GetSeconds() + 1;
    for (auto& child : children_) {
      soonest = std::min(soonest, child->deadline);
      for (Pipe* pipe : {&child->result, &child->out, &child->err}) {
        if (pipe->fd < 0) continue;
        fds.push_back({pipe->fd, POLLIN, 0});
        owners.push_back({child.get(), pipe});
      }
    }
    poll(fds.data(), fds.size(), static_cast<int>(std::max(0.0, soonest - GetSeconds()) * 1000) + 1);
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents != 0) Read(owners[i].first, owners[i].second);
    }
    for (size_t i = 0; i < children_.size();) {
      if (Finished(children_[i].get())) {
        children_.erase(children_.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  void Read(Child* child, Pipe* pipe) {
    char block[4096];
    for (;;) {
      const ssize_t n = read(pipe->fd, block, sizeof(block));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n <= 0) {
        close(pipe->fd);
        pipe->fd = -1;
        break;
      }
      pipe->text.append(block, static_cast<size_t>(n));
      if (pipe != &child->result && pipe->text.size() > 2 * kKeptOutputBytes)
        pipe->text.erase(0, pipe->text.size() - kKeptOutputBytes);
    }
    if (pipe == &child->result) ReadLines(child);
  }

  void ReadLines(Child* child) {
    size_t end;
    while ((end = child->result.text.find('\n')) != std::string::npos) {
      const std::string line = child->result.text.substr(0, end);
      child->result.text.erase(0, end + 1);
      const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits('\t', 4));
      if (parts.size() != 5 || child->jobs.empty() || parts[1] != jobs_[child->jobs.front()].id) continue;
      if (parts[0] == "start") {
        child->running = true;
        child->began = GetSeconds();
        child->deadline = child->began + GetTimeLimit(*child);
      } else if (parts[0] == "leaving") {
        child->leaving = true;
        child->leaving_note = Unescape(parts[4]);
      } else if (parts[0] == "end") {
        Result result = Result::kFail;
        double seconds = 0;
        if (!ResultFromName(parts[2], &result) || !absl::SimpleAtod(parts[3], &seconds)) continue;
        FinishFirst(child, result, Unescape(parts[4]), seconds);
      }
    }
  }

  void FinishFirst(Child* child, Result result, std::string detail, double seconds) {
    const size_t job = child->jobs.front();
    if (child->out.fd >= 0) Read(child, &child->out);
    child->jobs.pop_front();
    child->running = false;
    child->finished_some = true;
    if (!child->out.text.empty()) {
      report_.printed.push_back(absl::StrCat(jobs_[job].id, ": ", GetOutputTail(child->out.text)));
      child->out.text.clear();
    }
    SetOutcome(job, result, std::move(detail), seconds);
    child->deadline =
        GetSeconds() + (child->jobs.empty() ? options_.limit_factor * options_.limit_s : GetTimeLimit(*child));
  }

  // Whether the process has ended and its output has been read.
  bool Finished(Child* child) {
    int status = 0;
    const pid_t gone = waitpid(child->pid, &status, WNOHANG);
    const bool late = gone == 0 && GetSeconds() > child->deadline;
    if (gone == 0 && !late) return false;
    if (late) {
      kill(-child->pid, SIGKILL);
      waitpid(child->pid, &status, 0);
    } else {
      kill(-child->pid, SIGKILL);  // kills what it started and left behind
    }
    for (Pipe* pipe : {&child->result, &child->out, &child->err}) {
      if (pipe->fd >= 0) Read(child, pipe);
      if (pipe->fd >= 0) close(pipe->fd);
    }
    // A process that ends between two checks is attributed to neither.
    if (!child->jobs.empty() && (child->running || !child->finished_some)) {
      const std::string where = child->last_call->Describe();
      const std::string words = GetOutputTail(child->err.text);
      const double seconds = GetSeconds() - child->began;
      std::string detail;
      if (late) {
        detail = absl::StrCat("hung: no result within ", static_cast<int>(GetTimeLimit(*child)), " s, ",
                              where.empty() ? "before any call" : where);
      } else if (WIFSIGNALED(status)) {
        detail = absl::StrCat("the process died of SIG", sigabbrev_np(WTERMSIG(status)),
                              child->leaving ? " at its end" : "", where.empty() ? "" : " ", where);
      } else if (child->leaving && WEXITSTATUS(status) == 0) {
        FinishFirst(child, Result::kPass, child->leaving_note, seconds);
      } else {
        detail = absl::StrCat("the process ended with status ", WEXITSTATUS(status),
                              child->leaving ? "" : " in the middle of the check", where.empty() ? "" : " ", where);
      }
      if (!detail.empty()) {
        if (!words.empty()) absl::StrAppend(&detail, "\nits last words: ", words);
        FinishFirst(child, Result::kFail, std::move(detail), seconds);
      }
    }
    // Jobs that had not started continue in a new process.
    for (auto job = child->jobs.rbegin(); job != child->jobs.rend(); ++job) waiting_.push_front(*job);
    close(child->last_call_fd);
    child->last_call->Close();
    return true;
  }

  void SetOutcome(size_t job, Result result, std::string detail, double seconds) {
    CheckOutcome& outcome = report_.outcomes[job];
    outcome.result = result;
    outcome.detail = std::move(detail);
    outcome.seconds = seconds;
    progress_(outcome, ++done_, jobs_.size());
  }

  const RunnerOptions& options_;
  const std::vector<Job>& jobs_;
  const std::function<void(const CheckOutcome&, size_t, size_t)>& progress_;
  RunnerReport report_;
  std::deque<size_t> waiting_;
  std::vector<std::unique_ptr<Child>> children_;
  size_t done_ = 0;
};

}  // namespace

RunnerReport RunJobs(const RunnerOptions& options, const std::vector<Job>& jobs,
                     const std::function<void(const CheckOutcome&, size_t, size_t)>& progress) {
  return Runner(options, jobs, progress).Run();
}

}  // namespace backplane::conformance
