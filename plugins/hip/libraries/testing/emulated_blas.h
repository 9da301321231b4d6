// What the emulated libraries have in common: handles, products on the streams of libhipemu, and injected faults.
//
// libemulated_rocblas.so, libemulated_cublas.so, libemulated_hipblaslt.so and libemulated_cublaslt.so have functions of
// the libraries that they are named after, with the signatures that the plugin uses. They are for tests: a product is a
// kernel on the emulated runtime, which checks its accesses and the order of the streams, and reports handles that were
// not destroyed. Wrong arguments give an error.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_BLAS_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_BLAS_H_

#include <cstdint>
#include <optional>

#include "plugins/hip/libraries/testing/emulated_gemm.h"
#include "plugins/hip/runtime/hip_types.h"

#define EMULATED_BLAS_EXPORT extern "C" __attribute__((visibility("default")))

namespace backplane::hip::emulated_blas {

// Exported besides the functions of a library; looked up by dlsym:
// void emulatedBlasSetMode(int32_t mode)
using SetMode = void (*)(Mode mode);
// void emulatedBlasSetFault(int64_t n): the n-th call of the library from now on fails, whichever function it is,
// except those that release something. 0 withdraws it.
using SetFault = void (*)(int64_t n);
// int64_t emulatedBlasCallCount(const char* function): how often the function was called; null: all that may fail.
using CallCount = int64_t (*)(const char* function);

// int64_t emulatedBlasLiveObjects(): descriptors that were not destroyed; only libraries with descriptors have it.
using LiveObjects = int64_t (*)();

enum class Result : uint8_t { kOk, kFault, kWrongArgument, kRuntimeFailed, kNoMemory };

struct BlasHandle;
// Counts a call. Returns kFault if it is to fail.
Result CountCall(const char* function);
Result CreateHandle(BlasHandle** handle);
Result DestroyHandle(BlasHandle* handle);
Result SetStreamOfHandle(BlasHandle* handle, hipStream_t stream);
// Enqueues the product. The order of the terms is filled in here, and the mode unless it is given.
Result EnqueueGemm(BlasHandle* handle, GemmArguments arguments, std::optional<Mode> mode = std::nullopt);

}  // namespace backplane::hip::emulated_blas

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_BLAS_H_
