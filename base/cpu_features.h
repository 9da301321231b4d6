// Detects the vector registers of the CPU, for choosing between builds of one kernel.
#ifndef BACKPLANE_BASE_CPU_FEATURES_H_
#define BACKPLANE_BASE_CPU_FEATURES_H_

namespace backplane {

// Returns the width in bytes of the vector registers that kernels may use: 64 with AVX-512 F, BW, DQ and VL, 32 with
// AVX2, FMA and F16C, otherwise 16. Queries the CPU at each call: cache the result.
inline int CpuVectorBytes() {
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

}  // namespace backplane

#endif  // BACKPLANE_BASE_CPU_FEATURES_H_
