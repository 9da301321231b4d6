#include "conformance/kit/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "conformance/kit/facts.h"
#include "conformance/kit/runner.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

constexpr char kInputVariable[] = "BACKPLANE_CONFORM_INPUT_FD";

std::string ReadAll(int fd) {
  std::string text;
  char block[65536];
  for (;;) {
    const ssize_t n = read(fd, block, sizeof(block));
    if (n <= 0) return text;
    text.append(block, static_cast<size_t>(n));
  }
}

std::string OptionText(const host::NamedValue& option) {
  const bool text = std::holds_alternative<std::string>(option.value);
  return absl::StrCat(option.name, "=", text ? "\"" : "", option.FormatValue(), text ? "\"" : "");
}

}  // namespace

int RunChild(Kit::Setup setup, const std::vector<std::string>& ids) {
  Kit k(std::move(setup));
  std::vector<const Check*> checks = CollectChecks();
  checks.push_back(&SerializationReceiver());
  for (const Check& check : ProcessesSuite()) checks.push_back(&check);
  for (const std::string& id : ids) {
    const auto check = std::find_if(checks.begin(), checks.end(), [&](const Check* c) { return id == c->id; });
    if (check != checks.end()) {
      k.Run(**check);
    } else if (id == kFactsId) {
      k.Run(
          id, "", [](Kit& kit, const void*) { ReportFacts(kit); }, nullptr);
    } else if (absl::StartsWith(id, "operations.")) {
      k.Run(
          id, "", [](Kit& kit, const void* name) { RunOperation(kit, *static_cast<const std::string*>(name)); }, &id);
    } else {
      k.Run(
          id, "",
          [](Kit& kit, const void* name) { kit.Fail("no such check: ", *static_cast<const std::string*>(name)); }, &id);
    }
  }
  // Skips the destructors of the plugin's objects: a separate check tests those.
  _exit(0);
}

CheckOutcome RunInNewProcess(Kit& k, const std::string& id, const std::string& input) {
  return JoinProcess(StartProcess(k, id, input), id);
}

NewProcess StartProcess(Kit& k, const std::string& id, const std::string& input) {
  int result[2];
  const int input_fd = memfd_create("conformance input", 0);
  if (input_fd < 0 || pipe2(result, 0) != 0) k.Fail("the kit could not start a process");
  for (size_t at = 0; at < input.size();) {
    const ssize_t n = write(input_fd, input.data() + at, input.size() - at);
    if (n <= 0) k.Fail("the kit could not hand over ", input.size(), " bytes");
    at += static_cast<size_t>(n);
  }
  lseek(input_fd, 0, SEEK_SET);
  const Kit::Setup& setup = k.setup();
  std::vector<std::string> words = {"conform", kChildFlag, absl::StrCat(result[1]), "-1", setup.plugin,
                                    "--data",  setup.data};
  const auto pass_on = [&](const char* name, const std::vector<host::NamedValue>& values) {
    for (const host::NamedValue& value : values) words.insert(words.end(), {name, OptionText(value)});
  };
  pass_on("--option", setup.options);
  pass_on("--compile-option", setup.compile_options);
  if (setup.processes > 0) words.push_back(absl::StrCat("--processes=", setup.processes));
  words.push_back("--run");
  words.push_back(id);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  setenv(kInputVariable, absl::StrCat(input_fd).c_str(), 1);
  // The plugin's threads may hold locks, so the child only calls exec.
  const pid_t pid = fork();
  if (pid < 0) k.Fail("the kit could not start a process");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(result[0]);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  unsetenv(kInputVariable);
  close(result[1]);
  close(input_fd);
  fcntl(result[0], F_SETFD, FD_CLOEXEC);
  return {pid, result[0]};
}

CheckOutcome JoinProcess(const NewProcess& process, const std::string& id) {
  CheckOutcome outcome;
  outcome.id = id;
  const std::string told = ReadAll(process.result_fd);
  close(process.result_fd);
  int status = 0;
  waitpid(process.pid, &status, 0);
  for (absl::string_view line : absl::StrSplit(told, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits('\t', 4));
    if (parts.size() == 5 && parts[0] == "end" && parts[1] == id && ResultFromName(parts[2], &outcome.result)) {
      outcome.detail = parts[4];
      return outcome;
    }
  }
  outcome.detail = WIFSIGNALED(status)
                       ? absl::StrCat("the other process died of SIG", sigabbrev_np(WTERMSIG(status)))
                       : absl::StrCat("the other process ended with status ", WEXITSTATUS(status), " and told nothing");
  return outcome;
}

std::string ReadChildInput() {
  const char* fd = getenv(kInputVariable);
  return fd == nullptr ? "" : ReadAll(atoi(fd));
}

}  // namespace backplane::conformance
