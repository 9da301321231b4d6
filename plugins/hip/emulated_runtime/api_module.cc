// Exported functions: modules, kernels, occupancy.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/hip/emulated_runtime/api.h"

namespace backplane::hip::emulated {
namespace {

constexpr uint32_t kSharedBytesOfUnit = 65536, kThreadsOfUnit = 2048;

hipError_t CodeOfLoad(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return hipSuccess;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
      return hipErrorNoBinaryForGpu;
    case absl::StatusCode::kResourceExhausted:
      return hipErrorOutOfMemory;
    default:
      return hipErrorInvalidImage;
  }
}

absl::StatusOr<std::unique_ptr<KernelImage>> LoadImage(const Runtime& runtime, const void* bytes) {
  absl::StatusOr<absl::string_view> elf = MeasureElf(bytes);
  if (!elf.ok()) return elf.status();
  if (IsAmdCodeObject(*elf)) return LoadAmdImage(*elf, runtime.settings().architecture);
  return LoadHostImage(*elf);
}

// How many blocks of a kernel a compute unit holds at once.
int BlocksOfUnit(const KernelFacts& kernel, int threads, size_t dynamic_shared_bytes) {
  const uint64_t shared = kernel.shared_bytes + dynamic_shared_bytes;
  if (threads <= 0 || static_cast<uint32_t>(threads) > kernel.max_threads || shared > kSharedBytesOfUnit) return 0;
  uint64_t blocks = kThreadsOfUnit / static_cast<uint32_t>(threads);
  if (shared > 0) blocks = std::min<uint64_t>(blocks, kSharedBytesOfUnit / shared);
  return static_cast<int>(std::min<uint64_t>(blocks, 32));
}

}  // namespace
}  // namespace backplane::hip::emulated

namespace backplane::hip {
using namespace emulated;  // NOLINT: the exported functions are thin

HIPEMU_EXPORT hipError_t hipModuleLoadData(hipModule_t* module, const void* image) noexcept {
  return Call("hipModuleLoadData", kUnsafeInCapture, [&](Runtime& runtime) {
    if (module == nullptr || image == nullptr) return hipErrorInvalidValue;
    *module = nullptr;
    absl::StatusOr<std::unique_ptr<KernelImage>> loaded = LoadImage(runtime, image);
    if (!loaded.ok()) {
      Report().Add(absl::StrCat("hipModuleLoadData: ", std::string(loaded.status().message())));
      return CodeOfLoad(loaded.status());
    }
    *module = runtime.modules().Add(std::make_shared<Module>(GetCurrentDevice(runtime), *std::move(loaded)));
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipModuleUnload(hipModule_t module) noexcept {
  return Call("hipModuleUnload", kUnsafeInCapture | kRunsOnFailedDevice, [&](Runtime& runtime) {
    const std::shared_ptr<Module> found = runtime.modules().Remove(module);
    if (found == nullptr) return hipErrorInvalidHandle;
    MutexLock lock(found->mu);
    for (const auto& [name, function] : found->functions) runtime.functions().Remove(function);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) noexcept {
  return Call("hipModuleGetFunction", kPlain, [&](Runtime& runtime) {
    if (function == nullptr || name == nullptr) return hipErrorInvalidValue;
    *function = nullptr;
    const std::shared_ptr<Module> found = runtime.modules().Find(module);
    if (found == nullptr) return hipErrorInvalidHandle;
    MutexLock lock(found->mu);
    if (const auto known = found->functions.find(std::string(name)); known != found->functions.end()) {
      *function = known->second;
      return hipSuccess;
    }
    const KernelFacts* kernel = found->image()->Find(name);
    if (kernel == nullptr) return hipErrorNotFound;
    auto made = std::make_shared<Function>();
    made->device = &found->device();
    made->image = found->image();
    made->kernel = kernel;
    *function = runtime.functions().Add(std::move(made));
    found->functions.emplace(name, *function);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipModuleGetGlobal(hipDeviceptr_t* address, size_t* bytes, hipModule_t module,
                                            const char* name) noexcept {
  return Call("hipModuleGetGlobal", kPlain, [&](Runtime& runtime) {
    if (name == nullptr) return hipErrorInvalidValue;
    const std::shared_ptr<Module> found = runtime.modules().Find(module);
    if (found == nullptr) return hipErrorInvalidHandle;
    const std::optional<AddressRange> variable = found->image()->FindVariable(name);
    if (!variable.has_value()) return hipErrorNotFound;
    {
      MutexLock lock(found->mu);
      found->variables.push_back(*variable);
    }
    found->device().AddGlobal(*variable);
    if (address != nullptr) *address = reinterpret_cast<void*>(variable->begin);
    if (bytes != nullptr) *bytes = variable->end - variable->begin;
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned blocks_x, unsigned blocks_y,
                                               unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                                               unsigned threads_z, unsigned dynamic_shared_bytes, hipStream_t stream,
                                               void** parameters, void** extra) noexcept {
  return Call("hipModuleLaunchKernel", kDefersSickness, [&](Runtime& runtime) {
    const std::shared_ptr<Function> found = runtime.functions().Find(function);
    if (found == nullptr) return hipErrorInvalidHandle;
    std::shared_ptr<Stream> on;
    if (hipError_t error = FindStream(runtime, stream, &on); error != hipSuccess) return error;
    if (found->device != &on->device()) {
      Report().Add(absl::StrCat("launch of ", found->kernel->name, ": the module was loaded on device ",
                                found->device->ordinal(), " and the launch is on ", on->Describe()));
      return hipErrorInvalidHandle;
    }
    return Dispatch(runtime, on, NodeKind::kKernel,
                    PrepareLaunch(found, {{blocks_x, blocks_y, blocks_z},
                                          {threads_x, threads_y, threads_z},
                                          dynamic_shared_bytes,
                                          parameters,
                                          extra}));
  });
}

HIPEMU_EXPORT hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute,
                                             hipFunction_t function) noexcept {
  return Call("hipFuncGetAttribute", kPlain, [&](Runtime& runtime) {
    if (value == nullptr) return hipErrorInvalidValue;
    const std::shared_ptr<Function> found = runtime.functions().Find(function);
    if (found == nullptr) return hipErrorInvalidHandle;
    const KernelFacts& kernel = *found->kernel;
    switch (attribute) {
      case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(kernel.threads != 0 ? kernel.threads : kernel.max_threads);
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.shared_bytes);
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(kernel.scratch_bytes);
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_NUM_REGS:
        *value = static_cast<int>(kernel.registers);
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kSharedBytesOfUnit - std::min(kSharedBytesOfUnit, kernel.shared_bytes));
        return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
      case HIP_FUNC_ATTRIBUTE_BINARY_VERSION:
      case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        return hipSuccess;
    }
    return hipErrorInvalidValue;
  });
}

HIPEMU_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function,
                                                                            int threads,
                                                                            size_t dynamic_shared_bytes) noexcept {
  return Call("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", kPlain, [&](Runtime& runtime) {
    if (blocks == nullptr || threads <= 0) return hipErrorInvalidValue;
    const std::shared_ptr<Function> found = runtime.functions().Find(function);
    if (found == nullptr) return hipErrorInvalidHandle;
    *blocks = BlocksOfUnit(*found->kernel, threads, dynamic_shared_bytes);
    return hipSuccess;
  });
}

HIPEMU_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* blocks, int* threads, hipFunction_t function,
                                                                 size_t dynamic_shared_bytes,
                                                                 int max_threads) noexcept {
  return Call("hipModuleOccupancyMaxPotentialBlockSize", kPlain, [&](Runtime& runtime) {
    if (blocks == nullptr || threads == nullptr || max_threads < 0) return hipErrorInvalidValue;
    const std::shared_ptr<Function> found = runtime.functions().Find(function);
    if (found == nullptr) return hipErrorInvalidHandle;
    const KernelFacts& kernel = *found->kernel;
    uint32_t best = kernel.threads != 0 ? kernel.threads : kernel.max_threads;
    if (max_threads > 0) best = std::min(best, static_cast<uint32_t>(max_threads));
    *threads = static_cast<int>(best);
    *blocks = BlocksOfUnit(kernel, *threads, dynamic_shared_bytes) * runtime.settings().compute_units();
    return hipSuccess;
  });
}

}  // namespace backplane::hip
