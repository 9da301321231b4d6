// The arguments of the kernel that computes the products of the emulated libraries.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_GEMM_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_GEMM_H_

#include <cstdint>

namespace backplane::hip::emulated_blas {

enum class Type : int32_t { kF16, kBF16, kF32, kF64, kS8, kS32, kNone };

// How a library computes a product wrongly or slowly.
enum class Mode : int32_t {
  kRight,
  kWrong,        // the last element of the last matrix is another
  kSlow,         // the work is done many times
  kRounded,      // operands of f32 are rounded to tf32, those of f64 to f32; sums of others are kept in bf16
  kUnordered,    // the order of the terms changes from call to call
  kBeyond,       // writes one element behind the result
  kReadsResult,  // adds what was in the result before
};

struct GemmArguments {
  const void* a;
  const void* b;
  void* d;
  int64_t m, n, k, batch, leading_a, leading_b, leading_d, stride_a, stride_b, stride_d;
  int32_t transposed_a, transposed_b;
  Type type, out_type;
  Mode mode;
  int32_t reversed;  // the terms are added from the last one on
};

}  // namespace backplane::hip::emulated_blas

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_TESTING_EMULATED_GEMM_H_
