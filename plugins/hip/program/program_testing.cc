#include "plugins/hip/program/program_testing.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/text/hlo_parser.h"
#include "gtest/gtest.h"
#include "plugins/hip/compiler/pipeline.h"
#include "plugins/hip/lowering/host_image.h"

namespace backplane::hip {
namespace {

// Memory of the host serves as that of the device.
class MemoryQueue : public Queue {
 public:
  absl::Status CopyWithin(const void* from, void* to, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyFrom(int, const void* from, void* to, size_t bytes) override { return CopyWithin(from, to, bytes); }
  absl::Status FillZeros(void* to, size_t bytes) override {
    std::memset(to, 0, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyIn(const void* host, void* address, size_t bytes) override {
    return CopyWithin(host, address, bytes);
  }
  absl::Status CopyOut(const void* address, void* host, size_t bytes) override {
    return CopyWithin(address, host, bytes);
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

// Runs the kernels of a host image, one block after another.
class HostQueue : public MemoryQueue {
 public:
  HostQueue(const std::string& image, const std::vector<std::string>& names) {
    if (names.empty()) return;
    file_ = memfd_create("kernels", 0);  // open as long as the library is: dlopen takes equal names for equal libraries
    EXPECT_EQ(write(file_, image.data(), image.size()), static_cast<ssize_t>(image.size()));
    library_ = dlopen(absl::StrCat("/proc/self/fd/", file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      ADD_FAILURE() << dlerror();
      return;
    }
    const auto* table = static_cast<const HostKernel*>(dlsym(library_, kHostKernelTable));
    for (const std::string& name : names) {
      const HostKernel* k = table;
      while (k->name != nullptr && name != k->name) ++k;
      EXPECT_NE(k->name, nullptr) << name;
      kernels_.push_back(k);
    }
  }
  ~HostQueue() override {
    if (library_ != nullptr) dlclose(library_);
    if (file_ >= 0) close(file_);
  }

  absl::Status Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) override {
    const HostKernel& k = *kernels_[static_cast<size_t>(function)];
    EXPECT_EQ(k.threads, threads);
    EXPECT_EQ(k.kernarg_bytes, arguments.size() * sizeof(void*));
    std::vector<std::max_align_t> shared(k.shared_bytes / sizeof(std::max_align_t) + 8);
    std::vector<std::max_align_t> frames(k.frame_bytes / sizeof(std::max_align_t) + 8);
    auto align = [](void* p) { return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(p) + 63) / 64 * 64); };
    for (uint32_t b = 0; b < blocks; ++b) {
      // What other blocks left in shared memory must not matter.
      std::memset(shared.data(), 0xAB, shared.size() * sizeof(std::max_align_t));
      if (k.run(arguments.data(), b, blocks, align(shared.data()), align(frames.data())) != 0)
        return absl::InternalError("the threads of a block disagree about a barrier");
    }
    return absl::OkStatus();
  }

 private:
  int file_ = -1;
  void* library_ = nullptr;
  std::vector<const HostKernel*> kernels_;
};

// Executes the machine code of a code object.
class MachineQueue : public MemoryQueue {
 public:
  MachineQueue(const std::string& image, const std::vector<std::string>& names, isa::Statistics* statistics)
      : names_(names), statistics_(statistics) {
    if (names.empty()) return;
    absl::StatusOr<std::unique_ptr<isa::CodeObject>> code = isa::LoadCodeObject(image);
    EXPECT_TRUE(code.ok()) << code.status();
    if (code.ok()) code_ = *std::move(code);
  }

  absl::Status Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) override {
    if (code_ == nullptr) return absl::InternalError("no code");
    isa::Launch launch;
    launch.kernel = names_[static_cast<size_t>(function)];
    launch.blocks.x = blocks;
    launch.threads.x = threads;
    launch.kernarg =
        absl::MakeSpan(reinterpret_cast<const uint8_t*>(arguments.data()), arguments.size() * sizeof(void*));
    absl::StatusOr<isa::Statistics> done = isa::Execute(*code_, launch);
    if (!done.ok()) return done.status();
    statistics_->instructions += done->instructions;
    statistics_->matrix += done->matrix;
    statistics_->lds_bank_conflicts += done->lds_bank_conflicts;
    for (const auto& [name, count] : done->by_mnemonic) statistics_->by_mnemonic[name] += count;
    return absl::OkStatus();
  }

 private:
  const std::vector<std::string> names_;
  isa::Statistics* const statistics_;
  std::unique_ptr<isa::CodeObject> code_;
};

Literal RandomLiteral(const Shape& shape, std::mt19937& random) {
  Literal value(shape.WithoutLayout());
  std::uniform_real_distribution<double> numbers(-3, 3);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const double x = numbers(random);
    value.SetFromDouble(i, IsFloat(shape.element_type()) || IsComplex(shape.element_type()) ? x
                           : shape.element_type() == PrimitiveType::kPred                   ? x > 0
                                                                                            : std::floor(std::abs(x)));
  }
  return value;
}

void ExpectClose(const Literal& got, const Literal& want, double tolerance) {
  if (want.shape().IsTuple()) {
    for (size_t k = 0; k < want.elements().size(); ++k) ExpectClose(got.elements()[k], want.elements()[k], tolerance);
    return;
  }
  int wrong = 0;
  const bool exact = IsIntegral(want.shape().element_type());
  for (int64_t i = 0; i < want.num_elements() && wrong < 5; ++i) {
    if (exact && want.GetAsInt(i) == got.GetAsInt(i)) continue;
    const double w = want.GetAsDouble(i), g = got.GetAsDouble(i);
    if (std::isnan(w) && std::isnan(g)) continue;
    if (!exact && (w == g || std::abs(w - g) <= tolerance * std::max(1.0, std::abs(w)))) continue;
    ++wrong;
    ADD_FAILURE() << "element " << i << " of " << want.shape().ToString() << ": " << g << ", expected " << w;
  }
}

// Memory between two pages that cannot be accessed. It ends at the second one, but for less than 16 bytes.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), rounded = (bytes + 15) / 16 * 16;
    size_ = ((rounded + page - 1) / page + 2) * page;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void*>(base_), MAP_FAILED);
    address_ = base_ + size_ - page - rounded;
    std::memset(base_ + page, 0x77, size_ - 2 * page);
    EXPECT_EQ(mprotect(base_, page, PROT_NONE), 0);
    EXPECT_EQ(mprotect(base_ + size_ - page, page, PROT_NONE), 0);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(base_, size_); }
  void* address() const { return address_; }

 private:
  size_t size_ = 0;
  char *base_ = nullptr, *address_ = nullptr;
};

}  // namespace

absl::StatusOr<GpuTarget> FindTestTarget(const std::string& name) {
  if (!absl::StartsWith(name, "mma")) return FindGpuTarget(name);
  absl::StatusOr<GpuTarget> target = FindGpuTarget("host");
  if (!target.ok()) return target;
  target->multiplies_matrices = true;
  target->shared_bytes = target->multiprocessor_shared_bytes = 228 * 1024;  // as of sm_90
  target->tf32_products = absl::StrContains(name, kTf32Suffix);
  target->async_copies = absl::StrContains(name, ":async");
  target->multiplies_in_groups = absl::StrContains(name, "groups");
  return target;
}

Compiled CompileAndCompare(const std::string& hlo, const std::string& target, double tolerance) {
  Compiled compiled;
  auto original = ParseHloModule(hlo);
  EXPECT_TRUE(original.ok()) << original.status();
  if (!original.ok()) return compiled;
  std::unique_ptr<Module> module = (*original)->Clone();
  NamedValues cost;
  absl::Status status = RunGpuPipeline(module.get(), {}, &cost, &compiled.log);
  EXPECT_TRUE(status.ok()) << status;
  const absl::StatusOr<GpuTarget> gpu = FindTestTarget(target);
  EXPECT_TRUE(gpu.ok()) << gpu.status();
  if (!status.ok() || !gpu.ok()) return compiled;
  auto built = GpuProgram::Build(std::move(module), *gpu, nullptr, &compiled.log);
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return compiled;
  compiled.program = *std::move(built);
  const GpuProgram& program = *compiled.program;

  std::mt19937 random(7);
  std::vector<Literal> arguments;
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<void*> argument_addresses, output_addresses, constants;
  auto room = [&](int64_t bytes) {
    memory.push_back(std::make_unique<GuardedMemory>(static_cast<size_t>(bytes)));
    return memory.back()->address();
  };
  for (const Instruction* p : (*original)->entry()->parameters()) {
    arguments.push_back(RandomLiteral(p->shape(), random));
    argument_addresses.push_back(room(arguments.back().byte_size()));
    std::memcpy(argument_addresses.back(), arguments.back().bytes(), static_cast<size_t>(arguments.back().byte_size()));
  }
  const Shape& shape = (*original)->entry()->root()->shape();
  std::vector<Literal> results;
  ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
    results.emplace_back(s.WithoutLayout());
    output_addresses.push_back(room(results.back().byte_size()));
  });
  for (const Instruction* c : program.assignment().constants) {
    constants.push_back(room(c->literal().byte_size()));
    std::memcpy(constants.back(), c->literal().bytes(), static_cast<size_t>(c->literal().byte_size()));
  }
  std::unique_ptr<Queue> queue;
  if (gpu->kind == ImageKind::kHost) {
    queue = std::make_unique<HostQueue>(program.image().bytes, program.kernels());
  } else {
    queue = std::make_unique<MachineQueue>(program.image().bytes, program.kernels(), &compiled.statistics);
  }
  status = program.Run(*queue, argument_addresses, output_addresses, constants, room(program.temporary_bytes()), {},
                       nullptr);
  EXPECT_TRUE(status.ok()) << status;
  for (size_t k = 0; k < results.size(); ++k)
    std::memcpy(results[k].mutable_bytes(), output_addresses[k], static_cast<size_t>(results[k].byte_size()));
  absl::StatusOr<Literal> want = Evaluate(**original, arguments);
  EXPECT_TRUE(want.ok()) << want.status();
  if (want.ok()) ExpectClose(shape.IsTuple() ? Literal::Tuple(std::move(results)) : results[0], *want, tolerance);
  return compiled;
}

void ExpectCompilesForGpus(const std::string& hlo) {
  const auto original = ParseHloModule(hlo);
  ASSERT_TRUE(original.ok()) << original.status();
  for (const char* name : {"gfx942", "gfx1100", "sm_90"}) {
    std::unique_ptr<Module> module = (*original)->Clone();
    NamedValues cost;
    ASSERT_TRUE(RunGpuPipeline(module.get(), {}, &cost, nullptr).ok());
    const absl::StatusOr<GpuTarget> target = FindGpuTarget(name);
    ASSERT_TRUE(target.ok()) << target.status();
    const auto built = GpuProgram::Build(std::move(module), *target, nullptr, nullptr);
    ASSERT_TRUE(built.ok()) << name << ": " << built.status();
    for (const KernelResources& k : (*built)->image().kernels) {
      EXPECT_LE(k.spilled_registers, 0) << name << " " << k.name;
      EXPECT_LE(k.shared_bytes, target->shared_bytes) << name << " " << k.name;
    }
  }
}

}  // namespace backplane::hip
