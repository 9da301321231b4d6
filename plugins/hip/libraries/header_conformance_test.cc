// Compares cublas.h, nccl.h and rocblas.h with the headers of the makers, where these are installed: numbers, and the
// shape of each function. Opens the library of NVIDIA if it is there, which needs no GPU.
#include <cstddef>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "plugins/hip/libraries/collective_library.h"
#include "plugins/hip/libraries/cublas.h"
#include "plugins/hip/libraries/cuda_data_type.h"
#include "plugins/hip/libraries/lt_library.h"
#include "plugins/hip/libraries/nccl.h"
#include "plugins/hip/libraries/product_library.h"
#include "plugins/hip/libraries/rocblas.h"
#include "plugins/hip/runtime/testing/same_shape.h"

#if BACKPLANE_HAS_CUBLAS
#include <cublasLt.h>
#include <cublas_v2.h>
#endif
#if BACKPLANE_HAS_NCCL
#include <nccl.h>
#endif
#if BACKPLANE_HAS_ROCBLAS
#define __HIP_PLATFORM_AMD__ 1
#include <rocblas/rocblas.h>
#endif

namespace {

namespace ours = backplane::hip;
using ours::SameShape;

#if BACKPLANE_HAS_CUBLAS
TEST(LibraryHeaders, Cublas) {
  static_assert(SameShape<decltype(&::cublasCreate_v2), decltype(ours::cublas::Functions::create)>::value);
  static_assert(SameShape<decltype(&::cublasDestroy_v2), decltype(ours::cublas::Functions::destroy)>::value);
  static_assert(SameShape<decltype(&::cublasSetStream_v2), decltype(ours::cublas::Functions::set_stream)>::value);
  static_assert(SameShape<decltype(&::cublasSetMathMode), decltype(ours::cublas::Functions::set_math_mode)>::value);
  static_assert(
      SameShape<decltype(&::cublasSetAtomicsMode), decltype(ours::cublas::Functions::set_atomics_mode)>::value);
  static_assert(SameShape<decltype(&::cublasGetProperty), decltype(ours::cublas::Functions::get_property)>::value);
  using Gemm =
      cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
                         cudaDataType, int, long long int, const void*, cudaDataType, int, long long int, const void*,
                         void*, cudaDataType, int, long long int, int, cublasComputeType_t, cublasGemmAlgo_t);
  [[maybe_unused]] const Gemm gemm = &::cublasGemmStridedBatchedEx;  // of several, this one is the exported function
  static_assert(SameShape<Gemm, decltype(ours::cublas::Functions::gemm_strided_batched_ex)>::value);
  const std::pair<int, int> numbers[] = {
      {CUBLAS_STATUS_SUCCESS, 0},
      {CUBLAS_STATUS_ALLOC_FAILED, 3},
      {CUBLAS_STATUS_NOT_SUPPORTED, 15},
      {CUBLAS_OP_N, ours::cublas::kOperationN},
      {CUBLAS_OP_T, ours::cublas::kOperationT},
      {CUDA_R_16F, ours::cuda_type::kR16F},
      {CUDA_R_16BF, ours::cuda_type::kR16BF},
      {CUDA_R_32F, ours::cuda_type::kR32F},
      {CUDA_R_64F, ours::cuda_type::kR64F},
      {CUDA_R_8I, ours::cuda_type::kR8I},
      {CUDA_R_32I, ours::cuda_type::kR32I},
      {CUBLAS_DEFAULT_MATH, ours::cublas::kDefaultMath},
      {CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, ours::cublas::kDisallowReducedPrecisionReduction},
      {CUBLAS_ATOMICS_NOT_ALLOWED, ours::cublas::kAtomicsNotAllowed},
      {CUBLAS_COMPUTE_32F, ours::cublas::kCompute32F},
      {CUBLAS_COMPUTE_32F_PEDANTIC, ours::cublas::kCompute32FPedantic},
      {CUBLAS_COMPUTE_32F_FAST_TF32, ours::cublas::kCompute32FFastTf32},
      {CUBLAS_COMPUTE_64F_PEDANTIC, ours::cublas::kCompute64FPedantic},
      {CUBLAS_COMPUTE_32I, ours::cublas::kCompute32I},
      {CUBLAS_GEMM_DEFAULT, ours::cublas::kGemmDefault},
      {MAJOR_VERSION, ours::cublas::kMajorVersion},
      {MINOR_VERSION, ours::cublas::kMinorVersion},
      {PATCH_LEVEL, ours::cublas::kPatchLevel},
  };
  for (const auto& [theirs, own] : numbers) EXPECT_EQ(theirs, own);
}

TEST(LibraryHeaders, CublasLt) {
  static_assert(SameShape<decltype(&::cublasLtCreate), decltype(ours::lt::Functions::create)>::value);
  static_assert(SameShape<decltype(&::cublasLtDestroy), decltype(ours::lt::Functions::destroy)>::value);
#define COMPARE(suffix, member) \
  static_assert(SameShape<decltype(&::cublasLt##suffix), decltype(ours::lt::Functions::member)>::value);
  COMPARE(MatmulDescCreate, descriptor_create)
  COMPARE(MatmulDescDestroy, descriptor_destroy)
  COMPARE(MatmulDescSetAttribute, descriptor_set)
  COMPARE(MatrixLayoutCreate, layout_create)
  COMPARE(MatrixLayoutDestroy, layout_destroy)
  COMPARE(MatrixLayoutSetAttribute, layout_set)
  COMPARE(MatmulPreferenceCreate, preference_create)
  COMPARE(MatmulPreferenceDestroy, preference_destroy)
  COMPARE(MatmulPreferenceSetAttribute, preference_set)
  COMPARE(MatmulAlgoGetHeuristic, get_heuristic)
  COMPARE(Matmul, matmul)
#undef COMPARE
  constexpr ours::lt::Dialect d = ours::lt::kCublasLt;
  EXPECT_EQ(sizeof(cublasLtMatmulAlgo_t), d.algorithm_bytes);
  EXPECT_EQ(sizeof(cublasLtMatmulHeuristicResult_t), ours::lt::ResultBytes(d));
  EXPECT_EQ(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), d.algorithm_bytes);
  EXPECT_EQ(offsetof(cublasLtMatmulHeuristicResult_t, state), d.algorithm_bytes + 8);
  const std::pair<int, int> numbers[] = {
      {CUBLAS_OP_N, d.operation_n},
      {CUBLAS_OP_T, d.operation_t},
      {CUBLAS_COMPUTE_32F_PEDANTIC, d.compute_f32_exact},
      {CUBLAS_COMPUTE_32F, d.compute_f32},
      {CUBLAS_COMPUTE_32F_FAST_TF32, d.compute_f32_by_tf32},
      {CUBLAS_COMPUTE_64F_PEDANTIC, d.compute_f64},
      {CUBLAS_COMPUTE_32I, d.compute_s32},
      {CUBLASLT_MATMUL_DESC_TRANSA, d.descriptor_transpose_a},
      {CUBLASLT_MATMUL_DESC_TRANSB, d.descriptor_transpose_b},
      {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, d.layout_batch_count},
      {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, d.layout_batch_stride},
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, d.preference_workspace_bytes},
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, d.preference_reductions},
      {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, d.reductions_in_compute_type},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, d.preference_alignment_a},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, d.preference_alignment_a + 1},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d.preference_alignment_a + 2},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d.preference_alignment_a + 3},
  };
  for (const auto& [theirs, own] : numbers) EXPECT_EQ(theirs, own);
}
#endif

#if BACKPLANE_HAS_NCCL
TEST(LibraryHeaders, Nccl) {
  using Functions = ours::nccl::Functions;
  static_assert(SameShape<decltype(&::ncclGetVersion), decltype(Functions::get_version)>::value);
  static_assert(SameShape<decltype(&::ncclCommInitAll), decltype(Functions::comm_init_all)>::value);
  static_assert(SameShape<decltype(&::ncclCommDestroy), decltype(Functions::comm_destroy)>::value);
  static_assert(SameShape<decltype(&::ncclCommAbort), decltype(Functions::comm_abort)>::value);
  static_assert(SameShape<decltype(&::ncclCommGetAsyncError), decltype(Functions::comm_get_async_error)>::value);
  static_assert(SameShape<decltype(&::ncclGroupStart), decltype(Functions::group_start)>::value);
  static_assert(SameShape<decltype(&::ncclGroupEnd), decltype(Functions::group_end)>::value);
  static_assert(SameShape<decltype(&::ncclAllReduce), decltype(Functions::all_reduce)>::value);
  static_assert(SameShape<decltype(&::ncclReduceScatter), decltype(Functions::reduce_scatter)>::value);
  static_assert(SameShape<decltype(&::ncclAllGather), decltype(Functions::all_gather)>::value);
  static_assert(SameShape<decltype(&::ncclSend), decltype(Functions::send)>::value);
  static_assert(SameShape<decltype(&::ncclRecv), decltype(Functions::receive)>::value);
  const std::pair<int, int> numbers[] = {
      {ncclSuccess, 0},
      {ncclSum, ours::nccl::kSum},
      {ncclProd, ours::nccl::kProduct},
      {ncclMax, ours::nccl::kMaximum},
      {ncclMin, ours::nccl::kMinimum},
      {ncclInt8, ours::nccl::kInt8},
      {ncclUint8, ours::nccl::kUint8},
      {ncclInt32, ours::nccl::kInt32},
      {ncclUint32, ours::nccl::kUint32},
      {ncclInt64, ours::nccl::kInt64},
      {ncclUint64, ours::nccl::kUint64},
      {ncclFloat16, ours::nccl::kFloat16},
      {ncclFloat32, ours::nccl::kFloat32},
      {ncclFloat64, ours::nccl::kFloat64},
      {ncclBfloat16, ours::nccl::kBfloat16},
  };
  for (const auto& [theirs, own] : numbers) EXPECT_EQ(theirs, own);
}
#endif

#if BACKPLANE_HAS_ROCBLAS
TEST(LibraryHeaders, Rocblas) {
#define COMPARE(member, name, parameters) \
  static_assert(SameShape<decltype(&::rocblas_##member), decltype(ours::rocblas::Functions::member)>::value);
  BACKPLANE_ROCBLAS_FUNCTIONS(COMPARE)
#undef COMPARE
  const std::pair<int, int> numbers[] = {
      {rocblas_status_success, 0},
      {rocblas_status_not_implemented, 2},
      {rocblas_status_memory_error, 5},
      {rocblas_operation_none, ours::rocblas::kOperationNone},
      {rocblas_operation_transpose, ours::rocblas::kOperationTranspose},
      {rocblas_datatype_f16_r, ours::rocblas::kF16},
      {rocblas_datatype_bf16_r, ours::rocblas::kBF16},
      {rocblas_datatype_f32_r, ours::rocblas::kF32},
      {rocblas_datatype_f64_r, ours::rocblas::kF64},
      {rocblas_datatype_i8_r, ours::rocblas::kS8},
      {rocblas_datatype_i32_r, ours::rocblas::kS32},
      {rocblas_atomics_not_allowed, ours::rocblas::kAtomicsNotAllowed},
      {rocblas_gemm_algo_standard, ours::rocblas::kAlgorithmStandard},
  };
  for (const auto& [theirs, own] : numbers) EXPECT_EQ(theirs, own);
}
#endif

TEST(LibraryHeaders, TheCollectiveLibraryOfNvidiaOpens) {
  ours::HipApi api;
  api.platform = ours::Platform::kNvidia;
  const ours::OpenedCollectiveLibrary found = ours::OpenCollectiveLibrary(api, "");
  if (found.note.empty()) GTEST_SKIP() << "NCCL is not installed";
  if (found.note.find("cannot be loaded") != std::string::npos) GTEST_SKIP() << found.note;
  ASSERT_NE(found.library, nullptr) << found.note;
  EXPECT_EQ(found.library->name().find("libnccl.so.2 (2."), 0u) << found.library->name();
}

// The newest library that the driver permits, or no sentence at all where there is none.
TEST(LibraryHeaders, TheLibraryOfNvidiaOpens) {
  ours::HipApi api;
  api.platform = ours::Platform::kNvidia;
  api.library = "libcuda.so.1";
  api.runtime_version = 13000;
  const ours::ProductLibraries found = ours::OpenProductLibraries(api, "", "sm_90");
  if (found.notes.empty()) GTEST_SKIP() << "cuBLAS is not installed";
  if (found.notes[0].find("cannot be loaded") != std::string::npos) GTEST_SKIP() << found.notes[0];
  ASSERT_EQ(found.libraries.size(), 2u) << found.notes[0];
  EXPECT_EQ(found.libraries[0]->name().find("libcublas.so.1"), 0u) << found.libraries[0]->name();
  EXPECT_EQ(found.libraries[1]->name().find("libcublasLt.so.1"), 0u) << found.libraries[1]->name();
  api.runtime_version = 10020;  // a driver for which there is none
  EXPECT_TRUE(ours::OpenProductLibraries(api, "", "sm_90").notes.empty());
}

}  // namespace
