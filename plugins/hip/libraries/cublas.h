// cuBLAS: the functions that the plugin calls, with the signatures and numbers of NVIDIA's headers.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_CUBLAS_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_CUBLAS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/hip/libraries/product_library.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip::cublas {

using Handle = struct CublasHandle*;
using Enum = int32_t;  // all enumerations of the interface

// X(member, name, (parameters)); each returns a status, which is 0 for success. A stream of the driver is one of the
// runtime on which cuBLAS is built.
#define BACKPLANE_CUBLAS_FUNCTIONS(X)                                                                               \
  X(create, "cublasCreate_v2", (Handle * handle))                                                                   \
  X(destroy, "cublasDestroy_v2", (Handle handle))                                                                   \
  X(set_stream, "cublasSetStream_v2", (Handle handle, hipStream_t stream))                                          \
  X(set_math_mode, "cublasSetMathMode", (Handle handle, Enum mode))                                                 \
  X(set_atomics_mode, "cublasSetAtomicsMode", (Handle handle, Enum mode))                                           \
  X(get_property, "cublasGetProperty", (Enum property, int* value))                                                 \
  X(gemm_strided_batched_ex, "cublasGemmStridedBatchedEx",                                                          \
    (Handle handle, Enum operation_a, Enum operation_b, int m, int n, int k, const void* alpha, const void* a,      \
     Enum a_type, int leading_a, long long stride_a, const void* b, Enum b_type, int leading_b, long long stride_b, \
     const void* beta, void* c, Enum c_type, int leading_c, long long stride_c, int batch, Enum compute_type,       \
     Enum algorithm))

struct Functions {
#define BACKPLANE_CUBLAS_MEMBER(member, name, parameters) Enum(*member) parameters = nullptr;
  BACKPLANE_CUBLAS_FUNCTIONS(BACKPLANE_CUBLAS_MEMBER)
#undef BACKPLANE_CUBLAS_MEMBER
};

inline constexpr Enum kOperationN = 0, kOperationT = 1;
// With the flag, partial sums are never added in a type narrower than that of the sums.
inline constexpr Enum kDefaultMath = 0, kDisallowReducedPrecisionReduction = 16;
inline constexpr Enum kAtomicsNotAllowed = 0;
// The pedantic types do not round operands to a narrower type, whatever environment variables say.
inline constexpr Enum kCompute32F = 68, kCompute32FPedantic = 69, kCompute64FPedantic = 71, kCompute32I = 72,
                      kCompute32FFastTf32 = 77;
inline constexpr Enum kGemmDefault = -1;
inline constexpr Enum kMajorVersion = 0, kMinorVersion = 1, kPatchLevel = 2;

// Returns NotFound if the library has another interface, FailedPrecondition if it is older than 11.4.
absl::StatusOr<std::shared_ptr<const ProductLibrary>> Open(const HipApi& api, const VendorLibrary& library);

}  // namespace backplane::hip::cublas

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_CUBLAS_H_
