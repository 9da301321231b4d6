// The CPU plugin: StableHLO compiled with LLVM, matrix products and convolutions by oneDNN.
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/host_topology.h"
#include "sdk/backend/processes/process_group.h"
#include "sdk/engine/backend/client.h"
#include "sdk/engine/backend/executable.h"
#include "sdk/engine/backend/pipeline.h"
#include "sdk/engine/jit/jit.h"
#include "sdk/engine/kernels/matmul.h"
#include "sdk/engine/kernels/onednn_use.h"

namespace backplane {
namespace cpu {

using namespace engine;  // this plugin only adds a name to the engine
namespace {

// Create options besides the number of devices.
constexpr absl::string_view kOptions[] = {kCollectiveTimeoutOption, kMemoryLimitOption, kDenormalsOption,
                                          kProcessOptionNames};

// Part of JAX's compile-cache key: what is compiled for one host and build must not be loaded on another.
std::string PlatformVersion() { return absl::StrCat("backplane cpu 0.1.0; ", jit::ComputeHostFingerprint()); }

// Whether a host has given the process a program.
std::atomic<bool> has_program{false};

constexpr std::chrono::milliseconds kWarmUpDelay{4};

// oneDNN generates code for the first product of a process; that costs 9 ms.
void WarmUpLibrary() {
  constexpr int64_t kSide = 128;
  absl::StatusOr<std::unique_ptr<MatmulPlan>> plan =
      PlanMatmul(MatmulProblem::Dense(ElementType::kF32, kSide, kSide, kSide));
  if (!plan.ok()) return;  // the program that needs it will say so
  std::vector<float> a(kSide * kSide), b(a), c(a);
  std::vector<std::byte> scratch((*plan)->scratch_bytes() + 64);
  void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  (void)(*plan)->Execute(a.data(), b.data(), c.data(), aligned, nullptr);
}

// First uses of LLVM and oneDNN cost milliseconds each, and most hosts take longer than that to make their first
// program. A program that comes at once does by itself what warming up would do, and should have the processors for
// itself.
void WarmUp(void (*use)()) {
  std::this_thread::sleep_for(kWarmUpDelay);
  if (has_program.load(std::memory_order_relaxed)) return;
  use();
  Runtime::WaitAtExit();
}

void WarmUpCompiler() {
  (void)jit::WarmUp();
  (void)jit::CompileExactMath();
}

// After the first program: its libraries have made their static objects now, or make them here.
void FinishWarmUp() {
  static const bool finishing = [] {
    Runtime::Get().Schedule([] {
      if (HasUseForOneDnn()) WarmUpLibrary();
      Runtime::WaitAtExit();
    });
    return true;
  }();
  (void)finishing;
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(BackendServices services) : services_(std::move(services)) {}

  std::string platform_name() const override { return "cpu"; }

  absl::StatusOr<std::unique_ptr<Client>> CreateClient(const NamedValues& given,
                                                       const HostServices& services) override {
    NamedValues options = given;
    ASSIGN_OR_RETURN(ProcessOptions processes, TakeProcessOptions(&options));
    std::chrono::milliseconds time_limit{};
    int64_t limit_bytes = 0;
    Subnormals subnormals{};
    absl::StatusOr<Topology> local = [&]() -> absl::StatusOr<Topology> {
      ASSIGN_OR_RETURN(int devices, ReadDeviceCountOption(options, kOptions));
      ASSIGN_OR_RETURN(time_limit, ReadCollectiveTimeLimitOption(options));
      ASSIGN_OR_RETURN(limit_bytes, ReadMemoryLimitOption(options));
      ASSIGN_OR_RETURN(subnormals, ReadSubnormalsOption(options));
      return HostTopology(PlatformVersion(), devices);
    }();
    static const bool warming = [] {
      Runtime::Get().Schedule([] { WarmUp(&WarmUpCompiler); });
      Runtime::Get().Schedule([] { WarmUp(&WarmUpLibrary); });
      return true;
    }();
    (void)warming;
    ASSIGN_OR_RETURN(JoinedTopology joined, JoinProcesses(processes, services, platform_name(), std::move(local)));
    return std::make_unique<EngineClient>(std::move(joined.topology), time_limit, limit_bytes, subnormals,
                                          std::move(joined.group));
  }

  absl::StatusOr<Topology> DescribeTopology(const std::string&, const NamedValues& options) override {
    ASSIGN_OR_RETURN(int devices, ReadDeviceCountOption(options, kOptions));
    return HostTopology(PlatformVersion(), devices);
  }

  absl::StatusOr<std::shared_ptr<Executable>> Compile(std::unique_ptr<Module> module, const CompileOptions& options,
                                                      const Topology&) override {
    has_program.store(true, std::memory_order_relaxed);
    absl::StatusOr<std::shared_ptr<Executable>> executable =
        CompileOnEngine(std::move(module), options, services_.custom_calls.get());
    FinishWarmUp();
    return executable;
  }

  absl::StatusOr<std::shared_ptr<Executable>> Deserialize(absl::string_view bytes, const Topology&) override {
    has_program.store(true, std::memory_order_relaxed);
    absl::StatusOr<std::shared_ptr<Executable>> executable =
        DeserializeEngineExecutable(bytes, services_.custom_calls.get());
    FinishWarmUp();
    return executable;
  }

 private:
  BackendServices services_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> CreateBackend(BackendServices services) {
  return std::make_unique<cpu::CpuBackend>(std::move(services));
}

}  // namespace backplane
