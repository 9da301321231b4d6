#include "plugins/hip/lowering/linker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace backplane::hip {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { Close(); }
  int get() const { return fd_; }
  std::string Path() const { return absl::StrCat("/proc/self/fd/", fd_); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat("lowering: ", what, ": ", std::strerror(errno)));
}

absl::StatusOr<Descriptor> WriteToMemory(absl::string_view bytes) {
  Descriptor file(memfd_create("kernels.o", MFD_CLOEXEC));
  if (file.get() < 0) return SystemError("cannot make a file in memory");
  while (!bytes.empty()) {
    const ssize_t n = write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("cannot write an object to memory");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return file;
}

void ReadAll(int fd, std::string* bytes) {
  char part[65536];
  while (true) {
    const ssize_t n = read(fd, part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    bytes->append(part, static_cast<size_t>(n));
  }
}

// The linker's state is global.
class Linker {
 public:
  absl::Status Link(const std::string& input, const std::string& output) {
    MutexLock lock(mu_);
    if (broken_) return absl::InternalError("lowering: the linker failed before and cannot be used again");
    const char* arguments[] = {
        "ld.lld",          input.c_str(),       "-o", output.c_str(), "-shared", "--no-undefined", "--threads=1",
        "--build-id=none", "--hash-style=both", "-z", "noexecstack"};
    std::string text;
    llvm::raw_string_ostream stream(text);
    const lld::Result result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
    broken_ = !result.canRunAgain;
    if (result.retCode != 0) return absl::InternalError(absl::StrCat("lowering: the linker failed: ", text));
    return absl::OkStatus();
  }

 private:
  Mutex mu_;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
};

Linker& TheLinker() {
  static Linker* const linker = new Linker;
  return *linker;
}

}  // namespace

absl::StatusOr<std::string> LinkShared(absl::string_view object) {
  ASSIGN_OR_RETURN(Descriptor input, WriteToMemory(object));
  // The output is a pipe. For a file that can be renamed, the linker would make a temporary file and install handlers
  // of signals that remove it.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError("cannot make a pipe");
  Descriptor out(ends[0]), in(ends[1]);
  std::string image;
  std::thread reader([&] { ReadAll(out.get(), &image); });
  const absl::Status status = TheLinker().Link(input.Path(), in.Path());
  in.Close();
  reader.join();
  RETURN_IF_ERROR(status);
  return image;
}

}  // namespace backplane::hip
