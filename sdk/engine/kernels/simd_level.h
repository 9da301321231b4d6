// Selects the build of the *_simd.cc files that this machine can run.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_SIMD_LEVEL_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_SIMD_LEVEL_H_

namespace backplane::engine {

enum class SimdLevel { kBase = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3 };

// Returns the level, which is detected once. The environment variable BACKPLANE_CPU_MAX_VECTOR_BYTES (16 or 32) lowers
// it.
SimdLevel HostSimdLevel();

// For tests: limits all later decisions to `level`. Not thread-safe.
void CapSimdLevelForTest(SimdLevel level);

// Returns the table of the widest level that this machine can run.
template <typename Table>
const Table& PickSimd(const Table& base, const Table& avx2, const Table& avx512) {
  const SimdLevel level = HostSimdLevel();
  return level >= SimdLevel::kAvx512 ? avx512 : level == SimdLevel::kAvx2 ? avx2 : base;
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_SIMD_LEVEL_H_
