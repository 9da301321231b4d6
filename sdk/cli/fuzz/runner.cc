#include "sdk/cli/fuzz/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/eval/evaluator.h"
#include "core/import/export/export.h"
#include "core/import/proto/hlo_proto.h"
#include "core/types/status_macros.h"
#include "sdk/cli/arrays.h"
#include "sdk/cli/execution.h"

namespace backplane::cli::fuzz {
namespace {

// ---- The wire between the tool and a plugin's process: both ends are this program, so numbers travel as they are.

class Writer {
 public:
  void Number(int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof(n)); }
  void Bytes(absl::string_view s) {
    Number(static_cast<int64_t>(s.size()));
    bytes_.append(s.data(), s.size());
  }
  void Array(const Literal& l) {
    Number(static_cast<int64_t>(l.shape().element_type()));
    Number(l.shape().rank());
    for (const int64_t d : l.shape().dimensions()) Number(d);
    Bytes(absl::string_view(reinterpret_cast<const char*>(l.bytes()), static_cast<size_t>(l.byte_size())));
  }
  void Order(const HostOrder& order) {
    Number(static_cast<int64_t>(order.minor_to_major.size()));
    for (const int64_t d : order.minor_to_major) Number(d);
    Number(order.gap);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  int64_t Number() {
    int64_t n = 0;
    if (bytes_.size() < sizeof(n)) return Fail();
    std::memcpy(&n, bytes_.data(), sizeof(n));
    bytes_.remove_prefix(sizeof(n));
    return n;
  }
  std::string Bytes() {
    const int64_t n = Number();
    if (!ok_ || n < 0 || static_cast<uint64_t>(n) > bytes_.size()) {
      Fail();
      return "";
    }
    std::string s(bytes_.substr(0, static_cast<size_t>(n)));
    bytes_.remove_prefix(static_cast<size_t>(n));
    return s;
  }
  Literal Array() {
    const auto type = static_cast<PrimitiveType>(Number());
    const int64_t rank = Number();
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < rank && ok_; ++d) dims.push_back(Number());
    const std::string data = Bytes();
    absl::StatusOr<Literal> l = Literal::FromBytes(
        Shape(type, dims), absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data.data()), data.size()));
    if (!ok_ || !l.ok()) {
      Fail();
      return Literal();
    }
    return *std::move(l);
  }

  HostOrder Order() {
    HostOrder order;
    const int64_t rank = Number();
    for (int64_t d = 0; d < rank && ok_; ++d) order.minor_to_major.push_back(Number());
    order.gap = Number();
    return order;
  }

 private:
  int64_t Fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }
  absl::string_view bytes_;
  bool ok_ = true;
};

// Elements narrower than a byte as the core keeps them, extended to the byte. What a plugin leaves in the bits above an
// element's own is not part of its value.
void ExtendNarrow(Literal& l) {
  const PrimitiveType type = l.shape().element_type();
  if (!IsIntegral(type) || !IsSubByte(type)) return;
  const int above = 8 - BitWidth(type);
  std::byte* at = l.mutable_bytes();
  for (int64_t i = 0; i < l.num_elements(); ++i) {
    const auto bits = static_cast<uint8_t>(std::to_integer<uint8_t>(at[i]) << above);
    at[i] = static_cast<std::byte>(IsSigned(type) ? static_cast<uint8_t>(static_cast<int8_t>(bits) >> above)
                                                  : static_cast<uint8_t>(bits >> above));
  }
}

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool WriteMessage(int fd, const std::string& message) {
  const int64_t size = static_cast<int64_t>(message.size());
  return WriteAll(fd, absl::string_view(reinterpret_cast<const char*>(&size), sizeof(size))) && WriteAll(fd, message);
}

enum class Read { kDone, kEnded, kLate };

// `deadline` in seconds of the steady clock; negative: none.
double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Read ReadAll(int fd, char* to, size_t n, double deadline) {
  while (n > 0) {
    if (deadline >= 0) {
      const double left = deadline - Now();
      pollfd p{fd, POLLIN, 0};
      const int ready = left <= 0 ? 0 : poll(&p, 1, static_cast<int>(left * 1000) + 1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return Read::kLate;
    }
    const ssize_t got = recv(fd, to, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Read::kEnded;
    to += got;
    n -= static_cast<size_t>(got);
  }
  return Read::kDone;
}

Read ReadMessage(int fd, std::string* message, double deadline = -1) {
  int64_t size = 0;
  if (const Read r = ReadAll(fd, reinterpret_cast<char*>(&size), sizeof(size), deadline); r != Read::kDone) return r;
  if (size < 0 || size > (int64_t{1} << 32)) return Read::kEnded;
  message->resize(static_cast<size_t>(size));
  return ReadAll(fd, message->data(), message->size(), deadline);
}

// ---- The plugin's process.

absl::StatusOr<host::Buffer> HandOver(const Session& session, const host::HostArray& array, const HostOrder& order) {
  int64_t elements = 1;
  for (const int64_t d : array.dims) elements *= d;
  const int64_t size = static_cast<int64_t>(array.data.size());
  // Elements narrower than a byte have no strides in bytes.
  if (order.minor_to_major.size() != array.dims.size() || elements == 0 || size % elements != 0) {
    return session.client.ToDevice(array);
  }
  const StridedMemory memory = LayOut(array.data, array.dims, size / elements, order);
  return session.client.ToDevice(host::HostView{memory.bytes.data(), array.type, array.dims, memory.byte_strides});
}

absl::StatusOr<std::vector<Literal>> Serve(const Session& session, Reader& request) {
  host::Program program;
  program.format = request.Bytes();
  program.code = request.Bytes();
  const int64_t count = request.Number();
  std::vector<host::HostArray> inputs;
  std::vector<HostOrder> orders;
  for (int64_t i = 0; i < count && request.ok(); ++i) {
    ASSIGN_OR_RETURN(host::HostArray array, FromLiteral(request.Array()));
    inputs.push_back(std::move(array));
    orders.push_back(request.Order());
  }
  if (!request.ok()) return absl::InternalError("the request is cut off");
  ASSIGN_OR_RETURN(const host::LoadedExecutable executable, CompileOn(session, program));
  std::vector<host::Buffer> buffers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSIGN_OR_RETURN(host::Buffer buffer, HandOver(session, inputs[i], orders[i]));
    buffers.push_back(std::move(buffer));
  }
  ASSIGN_OR_RETURN(const std::vector<host::HostArray> results, RunOnBuffers(session, executable, buffers));
  std::vector<Literal> literals;
  for (const host::HostArray& array : results) {
    ASSIGN_OR_RETURN(Literal l, ToLiteral(array));
    literals.push_back(std::move(l));
  }
  return literals;
}

[[noreturn]] void ServePlugin(int fd, const std::string& plugin, const PluginOptions& options) {
  const absl::StatusOr<Session> session = OpenSession(plugin, options);
  std::string message;
  while (ReadMessage(fd, &message) == Read::kDone) {
    Reader request(message);
    absl::StatusOr<std::vector<Literal>> results =
        session.ok() ? Serve(*session, request) : absl::StatusOr<std::vector<Literal>>(session.status());
    Writer answer;
    answer.Number(results.ok() ? 1 : 0);
    if (results.ok()) {
      answer.Number(static_cast<int64_t>(results->size()));
      for (const Literal& l : *results) answer.Array(l);
    } else {
      answer.Bytes(absl::StrCat(absl::StatusCodeToString(results.status().code()), ": ",
                                absl::string_view(results.status().message())));
    }
    if (!WriteMessage(fd, answer.bytes())) break;
  }
  _exit(0);  // without the destructors of a plugin that may be in any state
}

// The end of what a process wrote, and before it the check that failed, if it named one: a stack trace may stand
// between.
std::string LastWords(absl::string_view said) {
  constexpr size_t kMost = 600;
  said = absl::StripAsciiWhitespace(said);
  const absl::string_view tail = said.substr(said.size() - std::min(said.size(), kMost));
  const size_t check = said.rfind("Check failed");
  if (check == absl::string_view::npos || check >= said.size() - tail.size()) return std::string(tail);
  return absl::StrCat(said.substr(check, std::min(said.find('\n', check) - check, kMost)), "\n", tail);
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
    const absl::StatusOr<std::string> code =
        form == Form::kStablehlo ? ExportPortableArtifact(*to_send) : SerializeHloModule(*to_send);
    if (!code.ok()) {
      pending_.kind = Outcome::Kind::kNoForm;
      pending_.message = std::string(code.status().message());
      return;
    }
    Writer request;
    request.Bytes(form == Form::kStablehlo ? "mlir" : "hlo");
    request.Bytes(*code);
    request.Number(static_cast<int64_t>(program.arguments.size()));
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      request.Array(program.arguments[i]);
      // Of another rank when a step of the shrinking has changed the array: dense then.
      const bool has =
          i < program.host_orders.size() &&
          static_cast<int64_t>(program.host_orders[i].minor_to_major.size()) == program.arguments[i].shape().rank();
      request.Order(has ? program.host_orders[i] : HostOrder());
    }
    if (served_ >= options_.programs) Stop();
    if (pid_ <= 0 && !Start()) {
      pending_.kind = Outcome::Kind::kCrashed;
      pending_.message = absl::StrCat("no process: ", std::strerror(errno));
      return;
    }
    ++served_;
    sent_ = true;
    if (!WriteMessage(fd_, request.bytes())) pending_.kind = Outcome::Kind::kCrashed;
  }

  void Renew() override { Stop(); }

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

  // Ends the process; what it ended with, and the last of what it had to say.
  std::string Stop() {
    if (pid_ <= 0) return "";
    close(fd_);
    int status = 0;
    // A process that has crashed is ending by itself; give it a moment to say by which signal.
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
        absl::StrAppend(&how, ": ", LastWords(said));
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
    absl::StatusOr<Literal> result = Evaluate(*changed, program.arguments);
    if (!result.ok()) {
      outcome_.kind = Outcome::Kind::kRefused;
      outcome_.message = std::string(result.status().message());
      return;
    }
    Flatten(*result);
  }
  Outcome Receive() override { return std::move(outcome_); }

 private:
  void Flatten(const Literal& l) {
    if (!l.shape().IsTuple()) return outcome_.results.push_back(l);
    for (const Literal& e : l.elements()) Flatten(e);
  }
  std::string name_;
  Mutation mutation_;
  Outcome outcome_;
};

}  // namespace

const char* Text(Form form) { return form == Form::kStablehlo ? "stablehlo" : "hlo"; }

absl::StatusOr<std::unique_ptr<Runner>> MakePluginRunner(const std::string& plugin,
                                                         const PluginRunnerOptions& options) {
  ASSIGN_OR_RETURN(const host::FoundPlugin found, Locate(plugin, options.plugin));
  return std::unique_ptr<Runner>(std::make_unique<PluginRunner>(plugin, options));
}

std::unique_ptr<Runner> MakeEvaluatorRunner(std::string name, Mutation mutation) {
  return std::make_unique<EvaluatorRunner>(std::move(name), std::move(mutation));
}

}  // namespace backplane::cli::fuzz
