// Which build of the *_simd.cc files this machine can run.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_SIMD_LEVEL_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_SIMD_LEVEL_H_

namespace backplane::engine {

enum class SimdLevel { kBase = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3 };

// Detected once; lowered by the environment variable BACKPLANE_CPU_MAX_VECTOR_BYTES (16 or 32).
SimdLevel HostSimdLevel();

// For tests: every later decision uses at most `level`. Not thread-safe.
void CapSimdLevelForTest(SimdLevel level);

// The table of the widest level that runs here.
template <typename Table>
const Table& PickSimd(const Table& base, const Table& avx2, const Table& avx512) {
  const SimdLevel level = HostSimdLevel();
  return level >= SimdLevel::kAvx512 ? avx512 : level == SimdLevel::kAvx2 ? avx2 : base;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_SIMD_LEVEL_H_
