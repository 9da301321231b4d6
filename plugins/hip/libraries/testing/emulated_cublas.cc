// The functions of cuBLAS that the plugin calls, on the emulated runtime.
#include <cstdlib>

#include "plugins/hip/libraries/cublas.h"
#include "plugins/hip/libraries/cuda_data_type.h"
#include "plugins/hip/libraries/testing/emulated_blas.h"

namespace backplane::hip {
namespace {

using cublas::Enum;
using emulated_blas::BlasHandle;
using emulated_blas::Result;
using emulated_blas::Type;

Enum StatusOf(Result result) {
  switch (result) {
    case Result::kOk:
      return 0;
    case Result::kWrongArgument:
      return 7;
    case Result::kNoMemory:
      return 3;
    default:
      return 14;
  }
}

Type TypeOf(Enum type) {
  switch (type) {
    case cuda_type::kR16F:
      return Type::kF16;
    case cuda_type::kR16BF:
      return Type::kBF16;
    case cuda_type::kR32F:
      return Type::kF32;
    case cuda_type::kR64F:
      return Type::kF64;
    case cuda_type::kR8I:
      return Type::kS8;
    case cuda_type::kR32I:
      return Type::kS32;
    default:
      return Type::kNone;
  }
}

// Whether products of the type are exact with this type of the computation, and alpha and beta are 1 and 0.
bool IsExact(Enum type, Enum compute_type, const void* alpha, const void* beta) {
  switch (type) {
    case cuda_type::kR64F:
      return compute_type == cublas::kCompute64FPedantic && *static_cast<const double*>(alpha) == 1 &&
             *static_cast<const double*>(beta) == 0;
    case cuda_type::kR8I:
      return compute_type == cublas::kCompute32I && *static_cast<const int32_t*>(alpha) == 1 &&
             *static_cast<const int32_t*>(beta) == 0;
    default:
      return compute_type == (type == cuda_type::kR32F ? cublas::kCompute32FPedantic : cublas::kCompute32F) &&
             *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
  }
}

BlasHandle* AsBlas(cublas::Handle handle) { return reinterpret_cast<BlasHandle*>(handle); }

}  // namespace

EMULATED_BLAS_EXPORT Enum cublasCreate_v2(cublas::Handle* handle) {
  if (const Result fault = emulated_blas::CountCall("cublasCreate_v2"); fault != Result::kOk) return StatusOf(fault);
  return StatusOf(emulated_blas::CreateHandle(reinterpret_cast<BlasHandle**>(handle)));
}

EMULATED_BLAS_EXPORT Enum cublasDestroy_v2(cublas::Handle handle) {
  return StatusOf(emulated_blas::DestroyHandle(AsBlas(handle)));
}

EMULATED_BLAS_EXPORT Enum cublasSetStream_v2(cublas::Handle handle, hipStream_t stream) {
  if (const Result fault = emulated_blas::CountCall("cublasSetStream_v2"); fault != Result::kOk) return StatusOf(fault);
  return StatusOf(emulated_blas::SetStreamOfHandle(AsBlas(handle), stream));
}

EMULATED_BLAS_EXPORT Enum cublasSetMathMode(cublas::Handle handle, Enum mode) {
  if (const Result fault = emulated_blas::CountCall("cublasSetMathMode"); fault != Result::kOk) return StatusOf(fault);
  return handle == nullptr || mode != cublas::kDisallowReducedPrecisionReduction ? 7 : 0;
}

EMULATED_BLAS_EXPORT Enum cublasSetAtomicsMode(cublas::Handle handle, Enum mode) {
  if (const Result fault = emulated_blas::CountCall("cublasSetAtomicsMode"); fault != Result::kOk)
    return StatusOf(fault);
  return handle == nullptr || mode != cublas::kAtomicsNotAllowed ? 7 : 0;
}

// The variable EMULATED_CUBLAS_MAJOR sets the major version.
EMULATED_BLAS_EXPORT Enum cublasGetProperty(Enum property, int* value) {
  const char* major = std::getenv("EMULATED_CUBLAS_MAJOR");
  *value = property == cublas::kMajorVersion ? (major != nullptr ? std::atoi(major) : 13) : 0;
  return 0;
}

EMULATED_BLAS_EXPORT Enum cublasGemmStridedBatchedEx(cublas::Handle handle, Enum operation_a, Enum operation_b, int m,
                                                     int n, int k, const void* alpha, const void* a, Enum a_type,
                                                     int leading_a, long long stride_a, const void* b, Enum b_type,
                                                     int leading_b, long long stride_b, const void* beta, void* c,
                                                     Enum c_type, int leading_c, long long stride_c, int batch,
                                                     Enum compute_type, Enum algorithm) {
  if (const Result fault = emulated_blas::CountCall("cublasGemmStridedBatchedEx"); fault != Result::kOk)
    return StatusOf(fault);
  const bool operations = (operation_a == cublas::kOperationN || operation_a == cublas::kOperationT) &&
                          (operation_b == cublas::kOperationN || operation_b == cublas::kOperationT);
  if (!operations || a_type != b_type || !IsExact(a_type, compute_type, alpha, beta) ||
      algorithm != cublas::kGemmDefault)
    return 7;
  return StatusOf(emulated_blas::EnqueueGemm(
      AsBlas(handle), {a, b, c, m, n, k, batch, leading_a, leading_b, leading_c, stride_a, stride_b, stride_c,
                       operation_a, operation_b, TypeOf(a_type), TypeOf(c_type), emulated_blas::Mode::kRight, 0}));
}

}  // namespace backplane::hip
