#include "sdk/cli/fuzz/runner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/import/export/export.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"
#include "sdk/cli/clock.h"
#include "sdk/cli/fuzz/compare.h"
#include "sdk/cli/fuzz/wire.h"

namespace backplane::cli::fuzz {
namespace {

// Returns the end of the output of a process, preceded by the failed check if it names one, because there may be a
// stack trace in between.
std::string GetOutputTail(absl::string_view said) {
  constexpr size_t kMaxBytes = 600;
  said = absl::StripAsciiWhitespace(said);
  const absl::string_view tail = said.substr(said.size() - std::min(said.size(), kMaxBytes));
  const size_t check = said.rfind("Check failed");
  if (check == absl::string_view::npos || check >= said.size() - tail.size()) return std::string(tail);
  return absl::StrCat(said.substr(check, std::min(said.find('\n', check) - check, kMaxBytes)), "\n", tail);
}

class PluginRunner : public Runner {
 public:
  PluginRunner(std::string plugin, PluginRunnerOptions options)
      : plugin_(std::move(plugin)), options_(std::move(options)) {}
  ~PluginRunner() override { Stop(); }

  const std::string& name() const override { return plugin_; }

  void Send(const FuzzProgram& program, Form form) override {
    pending_ = Outcome();
    sent_ = false;
    std::unique_ptr<Module> changed;
    const Module* to_send = program.module.get();
    if (options_.mutation) {
      changed = program.module->Clone();
      options_.mutation(*changed);
      to_send = changed.get();
    }
    const absl::StatusOr<std::string> code = form == Form::kHlo          ? SerializeHloModule(*to_send)
                                             : program.quantized.empty() ? ExportPortableArtifact(*to_send)
                                                                         : ExportQuantized(*to_send, program.quantized);
    if (!code.ok()) {
      pending_.kind = Outcome::Kind::kNotExpressible;
      pending_.message = std::string(code.status().message());
      return;
    }
    std::vector<std::string> helpers;
    for (const std::unique_ptr<Module>& helper : program.helpers) {
      absl::StatusOr<std::string> text =
          form == Form::kHlo ? SerializeHloModule(*helper) : ExportPortableArtifact(*helper);
      if (!text.ok()) {
        pending_.kind = Outcome::Kind::kNotExpressible;
        pending_.message = std::string(text.status().message());
        return;
      }
      helpers.push_back(*std::move(text));
    }
    const std::string request = FormatRequest(program, form == Form::kStablehlo ? "mlir" : "hlo", *code, helpers);
    if (served_ >= options_.programs) Stop();
    if (pid_ <= 0 && !Start()) {
      pending_.kind = Outcome::Kind::kCrashed;
      pending_.message = absl::StrCat("no process: ", std::strerror(errno));
      return;
    }
    ++served_;
    sent_ = true;
    if (!WriteMessage(fd_, request)) pending_.kind = Outcome::Kind::kCrashed;
  }

  void ReplaceProcess() override { Stop(); }

  Outcome Receive() override {
    if (!sent_) return std::move(pending_);
    sent_ = false;
    std::string message;
    const Read read = ReadMessage(fd_, &message, Now() + options_.seconds);
    Outcome outcome;
    if (read != Read::kDone) {
      outcome.kind = read == Read::kLate ? Outcome::Kind::kTimedOut : Outcome::Kind::kCrashed;
      outcome.message = read == Read::kLate ? absl::StrCat("no answer for ", options_.seconds, " s") : "";
      absl::StrAppend(&outcome.message, Stop());
      return outcome;
    }
    Reader answer(message);
    if (answer.Number() == 0) {
      outcome.kind = Outcome::Kind::kRefused;
      outcome.message = answer.Bytes();
      return outcome;
    }
    const int64_t count = answer.Number();
    for (int64_t i = 0; i < count && answer.ok(); ++i) {
      outcome.results.push_back(answer.Array());
      ExtendNarrow(outcome.results.back());
    }
    return outcome;
  }

 private:
  bool Start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    log_ = memfd_create("plugin-stderr", MFD_CLOEXEC);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) {
      close(ends[0]);
      close(ends[1]);
      return false;
    }
    if (pid_ == 0) {
      close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      if (log_ >= 0) dup2(log_, STDERR_FILENO);
      const int null = open("/dev/null", O_WRONLY);
      if (null >= 0) dup2(null, STDOUT_FILENO);
      ServePlugin(ends[1], plugin_, options_.plugin);
    }
    close(ends[1]);
    fd_ = ends[0];
    served_ = 0;
    return true;
  }

  // Ends the process. Returns its status and the end of its output.
  std::string Stop() {
    if (pid_ <= 0) return "";
    close(fd_);
    int status = 0;
    // A process that has crashed is ending; waits a moment to learn the signal.
    pid_t done = 0;
    for (int k = 0; k < 40 && done == 0; ++k) {
      done = waitpid(pid_, &status, WNOHANG);
      if (done == 0) usleep(5000);
    }
    if (done == 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
    }
    std::string how = WIFSIGNALED(status)
                          ? absl::StrCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")
                          : absl::StrCat("exit ", WEXITSTATUS(status));
    if (log_ >= 0) {
      const off_t size = lseek(log_, 0, SEEK_END), from = std::max<off_t>(0, size - 65536);
      std::string said(static_cast<size_t>(size - from), '\0');
      if (pread(log_, said.data(), said.size(), from) > 0) {
        absl::StrAppend(&how, ": ", GetOutputTail(said));
      }
      close(log_);
      log_ = -1;
    }
    pid_ = -1;
    fd_ = -1;
    return how;
  }

  std::string plugin_;
  PluginRunnerOptions options_;
  pid_t pid_ = -1;
  int fd_ = -1, log_ = -1, served_ = 0;
  bool sent_ = false;
  Outcome pending_;
};

class EvaluatorRunner : public Runner {
 public:
  EvaluatorRunner(std::string name, Mutation mutation) : name_(std::move(name)), mutation_(std::move(mutation)) {}
  const std::string& name() const override { return name_; }
  void Send(const FuzzProgram& program, Form) override {
    outcome_ = Outcome();
    const std::unique_ptr<Module> changed = program.module->Clone();
    if (mutation_) mutation_(*changed);
    if (!program.schedule.empty()) {
      std::vector<Overwrite> overwrites;
      const std::vector<Handling> handling = CollectHandling(program);
      for (const InputOutputAlias& a : changed->config().input_output_aliases) {
        if (handling[static_cast<size_t>(a.parameter)].donated) continue;
        overwrites.push_back({a.parameter, a.output_index.empty() ? 0 : a.output_index[0]});
      }
      const absl::StatusOr<BoundedValue> read = BoundSchedule(program, *changed, overwrites);
      if (!read.ok()) return Refuse(read.status().message());
      return Flatten(*read);
    }
    // The host passes arguments as the original program requests; the changed program reads them in its way.
    std::vector<Literal> arguments;
    for (size_t k = 0; k < program.arguments.size(); ++k) {
      const Literal& a = program.arguments[k];
      const std::vector<int64_t> from = ParameterOrder(*program.module, k, a.shape()),
                                 to = ParameterOrder(*changed, k, a.shape());
      if (from == to || a.num_elements() == 0) {
        arguments.push_back(a);
        continue;
      }
      const std::vector<std::byte> read =
          ReadInOrder(absl::MakeConstSpan(a.bytes(), static_cast<size_t>(a.byte_size())), a.shape().dimensions(),
                      ByteWidth(a.shape().element_type()), from, to);
      arguments.push_back(*Literal::FromBytes(a.shape(), read));
    }
    absl::StatusOr<BoundedValue> result = BoundEntry(*changed, arguments);
    if (!result.ok()) return Refuse(result.status().message());
    Flatten(*result);
    // Writes results over the arguments that the changed program consumes.
    const std::vector<Handling> handling = CollectHandling(program);
    const int64_t devices = GetDevices(*changed).count();
    const size_t results = outcome_.results.size() / static_cast<size_t>(devices);
    for (const InputOutputAlias& a : changed->config().input_output_aliases) {
      const size_t k = static_cast<size_t>(a.parameter), r = a.output_index.empty() ? 0 : a.output_index[0];
      if (handling[k].donated || r >= results) continue;
      if (!(outcome_.results[r] == program.arguments[k])) {
        return Refuse(absl::StrCat("argument ", k, " has changed though it was not given away"));
      }
    }
  }
  Outcome Receive() override { return std::move(outcome_); }

 private:
  static std::vector<int64_t> ParameterOrder(const Module& module, size_t k, const Shape& shape) {
    const std::vector<Shape>& asked = module.config().parameter_layouts;
    if (k < asked.size() && asked[k].has_layout()) return GetMinorToMajor(asked[k]);
    return RowMajorOrder(static_cast<size_t>(shape.rank()));
  }
  void Refuse(absl::string_view why) {
    outcome_ = Outcome();
    outcome_.kind = Outcome::Kind::kRefused;
    outcome_.message = std::string(why);
  }
  void Flatten(const BoundedValue& j) {
    for (const BoundedValue* leaf : Leaves(j)) outcome_.results.push_back(leaf->value);
  }
  std::string name_;
  Mutation mutation_;
  Outcome outcome_;
};

}  // namespace

const char* FormatForm(Form form) { return form == Form::kStablehlo ? "stablehlo" : "hlo"; }

absl::StatusOr<std::unique_ptr<Runner>> MakePluginRunner(const std::string& plugin,
                                                         const PluginRunnerOptions& options) {
  ASSIGN_OR_RETURN(const host::FoundPlugin found, Locate(plugin, options.plugin));
  return std::unique_ptr<Runner>(std::make_unique<PluginRunner>(plugin, options));
}

std::unique_ptr<Runner> MakeEvaluatorRunner(std::string name, Mutation mutation) {
  return std::make_unique<EvaluatorRunner>(std::move(name), std::move(mutation));
}

}  // namespace backplane::cli::fuzz
