// rocBLAS: the functions that the plugin calls, with the signatures and numbers of AMD's headers.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_ROCBLAS_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_ROCBLAS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/hip/libraries/product_library.h"
#include "plugins/hip/libraries/vendor_library.h"

namespace backplane::hip::rocblas {

using Handle = struct RocblasHandle*;
using Enum = int32_t;  // all enumerations of the interface

// X(member, name, (parameters)); each returns a status, which is 0 for success.
#define BACKPLANE_ROCBLAS_FUNCTIONS(X)                                                                               \
  X(create_handle, "rocblas_create_handle", (Handle * handle))                                                       \
  X(destroy_handle, "rocblas_destroy_handle", (Handle handle))                                                       \
  X(set_stream, "rocblas_set_stream", (Handle handle, hipStream_t stream))                                           \
  X(set_atomics_mode, "rocblas_set_atomics_mode", (Handle handle, Enum mode))                                        \
  X(get_version_string, "rocblas_get_version_string", (char* text, size_t bytes))                                    \
  X(gemm_strided_batched_ex, "rocblas_gemm_strided_batched_ex",                                                      \
    (Handle handle, Enum operation_a, Enum operation_b, int32_t m, int32_t n, int32_t k, const void* alpha,          \
     const void* a, Enum a_type, int32_t leading_a, int64_t stride_a, const void* b, Enum b_type, int32_t leading_b, \
     int64_t stride_b, const void* beta, const void* c, Enum c_type, int32_t leading_c, int64_t stride_c, void* d,   \
     Enum d_type, int32_t leading_d, int64_t stride_d, int32_t batch, Enum compute_type, Enum algorithm,             \
     int32_t solution, uint32_t flags))

struct Functions {
#define BACKPLANE_ROCBLAS_MEMBER(member, name, parameters) Enum(*member) parameters = nullptr;
  BACKPLANE_ROCBLAS_FUNCTIONS(BACKPLANE_ROCBLAS_MEMBER)
#undef BACKPLANE_ROCBLAS_MEMBER
};

inline constexpr Enum kOperationNone = 111, kOperationTranspose = 112;
inline constexpr Enum kF16 = 150, kF32 = 151, kF64 = 152, kS8 = 160, kS32 = 162, kBF16 = 168;
inline constexpr Enum kAtomicsNotAllowed = 0, kAlgorithmStandard = 0;

// Returns NotFound if the library has another interface.
absl::StatusOr<std::shared_ptr<const ProductLibrary>> Open(const HipApi& api, const VendorLibrary& library,
                                                           const std::string& architecture);

}  // namespace backplane::hip::rocblas

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_ROCBLAS_H_
