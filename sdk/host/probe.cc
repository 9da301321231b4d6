#include "sdk/host/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "sdk/host/status.h"

extern char** environ;

namespace backplane::host {
namespace {

constexpr size_t kMaxOutput = 4096;                      // bytes of the plugin's output that are kept
constexpr absl::Duration kDrainTime = absl::Seconds(1);  // for the rest of the output
constexpr size_t kMaxReport = 16 << 20;                  // a report larger than this is truncated
constexpr int kReportFd = 3;                             // in the child

std::vector<std::string> DefaultHelper() {
  namespace fs = std::filesystem;
  if (const char* path = secure_getenv("BACKPLANE_PROBE"); path != nullptr && *path != '\0') return {path};
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder / "backplane-probe", folder / "../libexec/backplane/backplane-probe"}) {
    if (access(place.c_str(), X_OK) == 0) return {place.string()};
  }
  return {};
}

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  absl::Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "probe: no pipe");
    // The child's ends are moved to the numbers 0 to 3, which the pipes themselves must not have.
    for (int& end : ends) {
      if (end > 9) continue;
      const int high = fcntl(end, F_DUPFD_CLOEXEC, 10);
      close(end);
      end = high;
    }
    read = ends[0], write = ends[1];
    return absl::OkStatus();
  }
  void CloseRead() {
    if (read >= 0) close(std::exchange(read, -1));
  }
  void CloseWrite() {
    if (write >= 0) close(std::exchange(write, -1));
  }
};

// Reads the available data. Returns false at the end.
bool Drain(int fd, std::string* text, size_t keep_last, size_t cap) {
  char block[4096];
  const ssize_t n = read(fd, block, sizeof(block));
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n == 0) return false;
  if (text->size() < cap) text->append(block, static_cast<size_t>(n));
  if (keep_last > 0 && text->size() > 2 * keep_last) text->erase(0, text->size() - keep_last);
  return true;
}

// Describes what the plugin was doing in this stage, for a message.
std::string Doing(const std::string& stage) {
  if (stage == "open") return "while it was opened";
  if (stage == "initialize") return "in PJRT_Plugin_Initialize";
  if (stage == "attributes") return "in PJRT_Plugin_Attributes";
  if (stage == "client") return "in PJRT_Client_Create";
  if (stage == "devices") return "while its devices were asked for";
  if (stage == "done") return "after everything was asked";
  return "before it was opened";
}

// Reads the records. Returns true if the child has reported its status.
bool ReadRecords(const std::string& report, ProbeResult* result) {
  bool told = false;
  result->facts = Json::MakeObject();
  for (absl::string_view line : absl::StrSplit(report, '\n', absl::SkipEmpty())) {
    absl::StatusOr<Json> record = Json::Parse(line);
    if (!record.ok()) continue;  // truncated
    if (const Json* stage = record->Find("stage"); stage != nullptr && stage->string() != nullptr) {
      result->stage = *stage->string();
    }
    if (const Json* facts = record->Find("facts"); facts != nullptr && facts->object() != nullptr) {
      for (const auto& [name, value] : *facts->object()) result->facts.Set(name, value);
    }
    if (const Json* status = record->Find("status"); status != nullptr) {
      const Json *code = status->Find("code"), *message = status->Find("message");
      if (code == nullptr || code->integer() == nullptr || message == nullptr || message->string() == nullptr) continue;
      // Only the first sentence. The rest, such as traces of the plugin's source, is added to the output.
      absl::string_view text = *message->string();
      const absl::string_view first = text.substr(0, text.find('\n'));
      result->status = absl::Status(static_cast<absl::StatusCode>(*code->integer()), first);
      if (first.size() < text.size()) absl::StrAppend(&result->output, text.substr(first.size()));
      told = true;
    }
  }
  return told;
}

}  // namespace

std::string ExplainHang(const std::string& library) {
  const std::string file = std::filesystem::path(library).filename().string();
  if (file == "libtpu.so" && secure_getenv("TPU_SKIP_MDS_QUERY") == nullptr) {
    return "; it asks the metadata server of a cloud machine again and again, which TPU_SKIP_MDS_QUERY=1 stops";
  }
  return "";
}

absl::StatusOr<ProbeResult> Probe(const std::string& library, const ProbeOptions& options) {
  std::vector<std::string> command = options.helper.empty() ? DefaultHelper() : options.helper;
  if (command.empty()) {
    return absl::NotFoundError("probe: backplane-probe is not beside this program; BACKPLANE_PROBE can name it");
  }
  command.push_back(absl::StrCat("--fd=", kReportFd));
  if (!options.create_client) command.push_back("--no-client");
  for (const NamedValue& option : options.create_options)
    command.push_back(absl::StrCat("--option=", option.FormatForParsing()));
  command.push_back(library);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);

  Pipe report, output;
  BP_RETURN_IF_ERROR(report.Open());
  BP_RETURN_IF_ERROR(output.Open());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.write, 1);
  posix_spawn_file_actions_adddup2(&actions, output.write, 2);
  posix_spawn_file_actions_adddup2(&actions, report.write, kReportFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP);  // its own process group, so that its children can be killed with it
  posix_spawnattr_setpgroup(&attributes, 0);
  const absl::Time begin = absl::Now(), deadline = begin + options.timeout;
  pid_t child;
  const int failed = posix_spawn(&child, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return absl::ErrnoToStatus(failed, absl::StrCat("probe: cannot start ", command[0]));
  report.CloseWrite();
  output.CloseWrite();
  for (int fd : {report.read, output.read}) fcntl(fd, F_SETFL, O_NONBLOCK);

  ProbeResult result;
  std::string records;
  bool timed_out = false, gone = false;
  absl::Time drained = absl::InfiniteFuture();
  int wait_status = 0;
  // The child may leave children behind that hold the pipes, so only its own end counts.
  while (true) {
    pollfd fds[] = {{report.read, POLLIN, 0}, {output.read, POLLIN, 0}};
    poll(fds, 2, 20);
    if (report.read >= 0 && fds[0].revents != 0 && !Drain(report.read, &records, 0, kMaxReport)) report.CloseRead();
    if (output.read >= 0 && fds[1].revents != 0 && !Drain(output.read, &result.output, kMaxOutput, SIZE_MAX))
      output.CloseRead();
    if (!gone) {
      const pid_t ended = waitpid(child, &wait_status, WNOHANG);
      gone = ended == child || (ended < 0 && errno == ECHILD);
      if (ended < 0 && errno == ECHILD) wait_status = 0;  // another thread of this process collects children
      if (!gone && absl::Now() > deadline) {
        timed_out = true;
        kill(-child, SIGKILL);
        waitpid(child, &wait_status, 0);
        gone = true;
      }
      if (gone) {
        kill(-child, SIGKILL);  // processes that it may have started, which could write for ever
        drained = absl::Now() + kDrainTime;
      }
      continue;
    }
    // The child has ended. Reads the rest, until both pipes are empty.
    const bool more = (report.read >= 0 && fds[0].revents != 0) || (output.read >= 0 && fds[1].revents != 0);
    if (!more || absl::Now() > drained) break;
  }
  if (result.output.size() > kMaxOutput) result.output.erase(0, result.output.size() - kMaxOutput);
  result.duration = absl::Now() - begin;

  const bool told = ReadRecords(records, &result);
  if (timed_out) {
    result.status = absl::DeadlineExceededError(absl::StrCat(library, ": did not come back within ",
                                                             absl::FormatDuration(options.timeout), " ",
                                                             Doing(result.stage), ExplainHang(library)));
  } else if (!told && WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = sigabbrev_np(signal);
    result.status =
        absl::AbortedError(absl::StrCat(library, ": crashed with ", name != nullptr ? "SIG" : "signal ",
                                        name != nullptr ? name : absl::StrCat(signal), " ", Doing(result.stage)));
  } else if (!told) {
    result.status = absl::AbortedError(
        absl::StrCat(library, ": ended the process with status ", WEXITSTATUS(wait_status), " ", Doing(result.stage)));
  }
  return result;
}

}  // namespace backplane::host
