// The functions of rocBLAS that the plugin calls, on the emulated runtime.
#include <cstring>

#include "plugins/hip/libraries/rocblas.h"
#include "plugins/hip/libraries/testing/emulated_blas.h"

namespace backplane::hip {
namespace {

using emulated_blas::BlasHandle;
using emulated_blas::Result;
using emulated_blas::Type;
using rocblas::Enum;

Enum StatusOf(Result result) {
  switch (result) {
    case Result::kOk:
      return 0;
    case Result::kWrongArgument:
      return 11;
    case Result::kNoMemory:
      return 5;
    default:
      return 6;
  }
}

Type TypeOf(Enum type) {
  switch (type) {
    case rocblas::kF16:
      return Type::kF16;
    case rocblas::kBF16:
      return Type::kBF16;
    case rocblas::kF32:
      return Type::kF32;
    case rocblas::kF64:
      return Type::kF64;
    case rocblas::kS8:
      return Type::kS8;
    case rocblas::kS32:
      return Type::kS32;
    default:
      return Type::kNone;
  }
}

// Whether the scalar, of the type in which the library computes, has the value.
bool IsScalar(const void* scalar, Enum type, double value) {
  const double found = type == rocblas::kF64   ? *static_cast<const double*>(scalar)
                       : type == rocblas::kS32 ? *static_cast<const int32_t*>(scalar)
                                               : static_cast<double>(*static_cast<const float*>(scalar));
  return found == value;
}

Enum SumTypeOf(Enum type) {
  return type == rocblas::kF64 ? rocblas::kF64 : type == rocblas::kS8 ? rocblas::kS32 : rocblas::kF32;
}

BlasHandle* AsBlas(rocblas::Handle handle) { return reinterpret_cast<BlasHandle*>(handle); }

}  // namespace

EMULATED_BLAS_EXPORT Enum rocblas_create_handle(rocblas::Handle* handle) {
  if (const Result fault = emulated_blas::CountCall("rocblas_create_handle"); fault != Result::kOk)
    return StatusOf(fault);
  return StatusOf(emulated_blas::CreateHandle(reinterpret_cast<BlasHandle**>(handle)));
}

EMULATED_BLAS_EXPORT Enum rocblas_destroy_handle(rocblas::Handle handle) {
  return StatusOf(emulated_blas::DestroyHandle(AsBlas(handle)));
}

EMULATED_BLAS_EXPORT Enum rocblas_set_stream(rocblas::Handle handle, hipStream_t stream) {
  if (const Result fault = emulated_blas::CountCall("rocblas_set_stream"); fault != Result::kOk) return StatusOf(fault);
  return StatusOf(emulated_blas::SetStreamOfHandle(AsBlas(handle), stream));
}

EMULATED_BLAS_EXPORT Enum rocblas_set_atomics_mode(rocblas::Handle handle, Enum mode) {
  if (const Result fault = emulated_blas::CountCall("rocblas_set_atomics_mode"); fault != Result::kOk)
    return StatusOf(fault);
  return handle == nullptr || mode != rocblas::kAtomicsNotAllowed ? 11 : 0;
}

EMULATED_BLAS_EXPORT Enum rocblas_get_version_string(char* text, size_t bytes) {
  constexpr char kVersion[] = "5.0.emulated";
  if (bytes < sizeof kVersion) return 4;
  std::memcpy(text, kVersion, sizeof kVersion);
  return 0;
}

EMULATED_BLAS_EXPORT Enum rocblas_gemm_strided_batched_ex(
    rocblas::Handle handle, Enum operation_a, Enum operation_b, int32_t m, int32_t n, int32_t k, const void* alpha,
    const void* a, Enum a_type, int32_t leading_a, int64_t stride_a, const void* b, Enum b_type, int32_t leading_b,
    int64_t stride_b, const void* beta, const void* c, Enum c_type, int32_t leading_c, int64_t stride_c, void* d,
    Enum d_type, int32_t leading_d, int64_t stride_d, int32_t batch, Enum compute_type, Enum algorithm,
    int32_t solution, uint32_t flags) {
  if (const Result fault = emulated_blas::CountCall("rocblas_gemm_strided_batched_ex"); fault != Result::kOk)
    return StatusOf(fault);
  const bool operations = (operation_a == rocblas::kOperationNone || operation_a == rocblas::kOperationTranspose) &&
                          (operation_b == rocblas::kOperationNone || operation_b == rocblas::kOperationTranspose);
  if (!operations || a_type != b_type || c != d || c_type != d_type || leading_c != leading_d || stride_c != stride_d ||
      compute_type != SumTypeOf(a_type) || !IsScalar(alpha, compute_type, 1) || !IsScalar(beta, compute_type, 0) ||
      algorithm != rocblas::kAlgorithmStandard || solution != 0 || flags != 0)
    return 11;
  return StatusOf(emulated_blas::EnqueueGemm(
      AsBlas(handle),
      {a, b, d, m, n, k, batch, leading_a, leading_b, leading_d, stride_a, stride_b, stride_d,
       operation_a == rocblas::kOperationTranspose ? 1 : 0, operation_b == rocblas::kOperationTranspose ? 1 : 0,
       TypeOf(a_type), TypeOf(d_type), emulated_blas::Mode::kRight, 0}));
}

}  // namespace backplane::hip
