// Host images: loaded from memory as shared libraries and run by one or two threads.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/kernel_image.h"
#include "plugins/hip/lowering/host_image.h"

namespace backplane::hip::emulated {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
#else
#error "host images need the ELF number of this machine"
#endif

constexpr size_t kMaxKernels = 65536;
constexpr size_t kBlockAlignment = 64;
// Fewer blocks than this are not worth a second thread.
constexpr uint32_t kMinBlocksForThreads = 8;

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using BlockMemory = std::unique_ptr<void, FreeMemory>;

BlockMemory AllocateForBlock(uint64_t bytes) {
  const size_t rounded = (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  return BlockMemory(std::aligned_alloc(kBlockAlignment, rounded == 0 ? kBlockAlignment : rounded));
}

class HostImage : public KernelImage {
 public:
  HostImage(std::string elf, int file, void* library, const HostKernel* table)
      : elf_(std::move(elf)), file_(file), library_(library) {
    for (const HostKernel* kernel = table; kernel->name != nullptr; ++kernel) {
      Entry entry;
      entry.kernel = kernel;
      entry.facts.name = kernel->name;
      entry.facts.threads = kernel->threads;
      entry.facts.argument_bytes = kernel->kernarg_bytes;
      entry.facts.shared_bytes = kernel->shared_bytes;
      kernels_.emplace(kernel->name, std::move(entry));
    }
  }
  ~HostImage() override {
    dlclose(library_);
    close(file_);
  }

  const KernelFacts* Find(absl::string_view name) const override {
    const auto found = kernels_.find(std::string(name));
    return found == kernels_.end() ? nullptr : &found->second.facts;
  }

  absl::Status Run(const KernelFacts& facts, const KernelLaunch& launch) const override {
    const HostKernel& kernel = *kernels_.find(facts.name)->second.kernel;
    const uint32_t blocks = launch.blocks.x * launch.blocks.y * launch.blocks.z;
    // The arguments at their alignment, whatever that of the caller's buffer is.
    const BlockMemory arguments = AllocateForBlock(launch.arguments.size());
    if (arguments == nullptr) return absl::ResourceExhaustedError("no memory for the arguments of a launch");
    std::memcpy(arguments.get(), launch.arguments.data(), launch.arguments.size());
    const auto run = [&](uint32_t begin, uint32_t end) -> absl::Status {
      const BlockMemory shared = AllocateForBlock(uint64_t{kernel.shared_bytes} + launch.dynamic_shared_bytes);
      const BlockMemory frames = AllocateForBlock(kernel.frame_bytes);
      if (shared == nullptr || frames == nullptr)
        return absl::ResourceExhaustedError("no memory for the blocks of a launch");
      for (uint32_t block = begin; block < end; ++block) {
        if (kernel.run(arguments.get(), block, blocks, shared.get(), frames.get()) != 0)
          return absl::FailedPreconditionError(
              absl::StrCat(kernel.name, ": the threads of block ", block, " disagree about a barrier"));
      }
      return absl::OkStatus();
    };
    // The split depends on the number of blocks alone. Where another launch has the second thread, this one runs both
    // halves.
    const uint32_t half = blocks / 2;
    absl::Status rest;
    if (launch.second == nullptr || blocks < kMinBlocksForThreads ||
        !launch.second->TryStart([&] { rest = run(half, blocks); }))
      return run(0, blocks);
    const absl::Status first = run(0, half);
    launch.second->Await();
    return first.ok() ? rest : first;
  }

  std::optional<AddressRange> FindVariable(absl::string_view name) const override {
    const std::optional<ElfSymbol> symbol = FindElfSymbol(elf_, name);
    void* address = dlsym(library_, std::string(name).c_str());
    if (!symbol.has_value() || address == nullptr) return std::nullopt;
    const uint64_t begin = reinterpret_cast<uint64_t>(address);
    return AddressRange{begin, begin + symbol->bytes};
  }

  bool traces_accesses() const override { return false; }

 private:
  struct Entry {
    KernelFacts facts;
    const HostKernel* kernel;
  };
  const std::string elf_;
  // Stays open: the loader knows a library by its path, which is the number of the descriptor here.
  const int file_;
  void* const library_;
  std::map<std::string, Entry> kernels_;
};

// Writes the bytes into a file that only this process sees and returns its descriptor, or -1.
int WriteToMemoryFile(absl::string_view bytes) {
  const int file = memfd_create("host image", MFD_CLOEXEC);
  if (file < 0) return -1;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      close(file);
      return -1;
    }
    done += static_cast<size_t>(written);
  }
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelImage>> LoadHostImage(absl::string_view elf) {
  Elf64_Ehdr header;
  if (elf.size() < sizeof header) return absl::InvalidArgumentError("the image is shorter than an ELF header");
  std::memcpy(&header, elf.data(), sizeof header);
  if (header.e_machine != kHostMachine) {
    return absl::NotFoundError(
        absl::StrCat("the image is for machine ", header.e_machine, " of ELF and this host is machine ", kHostMachine));
  }
  if (header.e_type != ET_DYN || !FindElfSymbol(elf, kHostKernelTable).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the image is for this host but is no shared library that exports ", kHostKernelTable));
  }
  const int file = WriteToMemoryFile(elf);
  if (file < 0) return absl::ResourceExhaustedError("no memory file could be made for the image");
  void* library = dlopen(absl::StrCat("/proc/self/fd/", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* problem = library == nullptr ? dlerror() : nullptr;
  const std::string reason = problem == nullptr ? "" : problem;
  if (library == nullptr) {
    close(file);
    return absl::InvalidArgumentError(absl::StrCat("the image cannot be loaded: ", reason));
  }
  const auto* table = static_cast<const HostKernel*>(dlsym(library, kHostKernelTable));
  size_t kernels = 0;
  while (table != nullptr && kernels < kMaxKernels && table[kernels].name != nullptr) {
    if (table[kernels].run == nullptr || table[kernels].threads == 0) break;
    ++kernels;
  }
  if (table == nullptr || kernels == kMaxKernels || table[kernels].name != nullptr) {
    dlclose(library);
    close(file);
    return absl::InvalidArgumentError(
        absl::StrCat("the table of the image is wrong from kernel ", kernels, " on: it has no function or no threads"));
  }
  return std::unique_ptr<KernelImage>(std::make_unique<HostImage>(std::string(elf), file, library, table));
}

}  // namespace backplane::hip::emulated
