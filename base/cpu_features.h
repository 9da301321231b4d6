// Detects the vector registers of the CPU, for choosing between builds of one kernel.
#ifndef BACKPLANE_BASE_CPU_FEATURES_H_
#define BACKPLANE_BASE_CPU_FEATURES_H_

#include <cstdlib>

namespace backplane {

// Returns the width in bytes of the vector registers that kernels may use: 64 with AVX-512 F, BW, DQ and VL, 32 with
// AVX2, FMA and F16C, otherwise 16. Queries the CPU at each call: cache the result.
inline int DetectCpuVectorBytes() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return 16;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 64 : 32;
#else
  return 16;
#endif
}

// Returns the limit that the environment variable BACKPLANE_CPU_MAX_VECTOR_BYTES (16 or 32) sets for the width of
// vector registers, 64 without it or with another value.
inline int ReadMaxVectorBytesFromEnvironment() {
  const char* text = std::getenv("BACKPLANE_CPU_MAX_VECTOR_BYTES");
  const int bytes = text == nullptr ? 0 : std::atoi(text);
  return bytes == 16 || bytes == 32 ? bytes : 64;
}

}  // namespace backplane

#endif  // BACKPLANE_BASE_CPU_FEATURES_H_
