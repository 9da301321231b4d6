#include "plugins/hip/libraries/testing/emulated_blas.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"

namespace backplane::hip {

// Of libhipemu, with which this library is linked as its model is with libamdhip64.
extern "C" hipError_t hipModuleLoadData(hipModule_t* module, const void* image) noexcept;
extern "C" hipError_t hipModuleUnload(hipModule_t module) noexcept;
extern "C" hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) noexcept;
extern "C" hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned blocks_x, unsigned blocks_y,
                                            unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                                            unsigned threads_z, unsigned dynamic_shared_bytes, hipStream_t stream,
                                            void** parameters, void** extra) noexcept;

namespace emulated_blas {
namespace {

struct State {
  Mutex mu;
  Mode mode ABSL_GUARDED_BY(mu) = Mode::kRight;
  int64_t calls_to_fault ABSL_GUARDED_BY(mu) = 0, all_calls ABSL_GUARDED_BY(mu) = 0;
  std::map<std::string, int64_t> calls ABSL_GUARDED_BY(mu);
  std::atomic<int32_t> products{0};
};
State& GetState() {
  static State* const state = new State;
  return *state;
}

}  // namespace

struct BlasHandle {
  hipModule_t module = nullptr;
  hipFunction_t gemm = nullptr;
  hipStream_t stream = nullptr;
};

Result CountCall(const char* function) {
  State& state = GetState();
  MutexLock lock(state.mu);
  ++state.calls[function];
  ++state.all_calls;
  return state.calls_to_fault > 0 && --state.calls_to_fault == 0 ? Result::kFault : Result::kOk;
}

Result CreateHandle(BlasHandle** handle) {
  if (handle == nullptr) return Result::kWrongArgument;
  std::ifstream file(EMULATED_GEMM_KERNEL, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(file), {});
  auto made = std::make_unique<BlasHandle>();
  if (hipModuleLoadData(&made->module, image.data()) != hipSuccess) return Result::kNoMemory;
  if (hipModuleGetFunction(&made->gemm, made->module, "gemm") != hipSuccess) {
    (void)hipModuleUnload(made->module);
    return Result::kRuntimeFailed;
  }
  *handle = made.release();
  return Result::kOk;
}

Result DestroyHandle(BlasHandle* handle) {
  if (handle == nullptr) return Result::kWrongArgument;
  const hipError_t error = hipModuleUnload(handle->module);
  delete handle;
  return error == hipSuccess ? Result::kOk : Result::kRuntimeFailed;
}

Result SetStreamOfHandle(BlasHandle* handle, hipStream_t stream) {
  if (handle == nullptr) return Result::kWrongArgument;
  handle->stream = stream;
  return Result::kOk;
}

Result EnqueueGemm(BlasHandle* handle, GemmArguments g, std::optional<Mode> mode) {
  const int64_t rows_a = g.transposed_a != 0 ? g.k : g.m, rows_b = g.transposed_b != 0 ? g.n : g.k;
  if (handle == nullptr || handle->stream == nullptr || g.a == nullptr || g.b == nullptr || g.d == nullptr ||
      std::min({g.m, g.n, g.k, g.batch}) < 1 || g.leading_a < rows_a || g.leading_b < rows_b || g.leading_d < g.m ||
      g.type == Type::kNone || g.out_type == Type::kNone)
    return Result::kWrongArgument;
  State& state = GetState();
  {
    MutexLock lock(state.mu);
    g.mode = mode.value_or(state.mode);
  }
  g.reversed = g.mode == Mode::kUnordered ? state.products++ % 2 : 0;
  size_t bytes = sizeof g;
  void* extra[] = {kLaunchParamBufferPointer, &g, kLaunchParamBufferSize, &bytes, kLaunchParamEnd};
  return hipModuleLaunchKernel(handle->gemm, 1, 1, 1, 1, 1, 1, 0, handle->stream, nullptr, extra) == hipSuccess
             ? Result::kOk
             : Result::kRuntimeFailed;
}

}  // namespace emulated_blas

using emulated_blas::GetState;
using emulated_blas::State;

EMULATED_BLAS_EXPORT void emulatedBlasSetMode(emulated_blas::Mode mode) {
  State& state = GetState();
  MutexLock lock(state.mu);
  state.mode = mode;
}

EMULATED_BLAS_EXPORT void emulatedBlasSetFault(int64_t n) {
  State& state = GetState();
  MutexLock lock(state.mu);
  state.calls_to_fault = n;
}

EMULATED_BLAS_EXPORT int64_t emulatedBlasCallCount(const char* function) {
  State& state = GetState();
  MutexLock lock(state.mu);
  if (function == nullptr) return state.all_calls;
  const auto found = state.calls.find(function);
  return found == state.calls.end() ? 0 : found->second;
}

}  // namespace backplane::hip
