#include "sdk/engine/kernels/simd_level.h"

#include <algorithm>
#include <cstdlib>

namespace backplane::engine {
namespace {

SimdLevel Detect() {
  int cap = 64;
  if (const char* text = std::getenv("BACKPLANE_CPU_MAX_VECTOR_BYTES")) {
    const int value = std::atoi(text);
    if (value == 16 || value == 32) cap = value;
  }
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (cap == 64 && avx512) {
    return __builtin_cpu_supports("avx512bf16") ? SimdLevel::kAvx512Bf16 : SimdLevel::kAvx512;
  }
  return cap >= 32 && avx2 ? SimdLevel::kAvx2 : SimdLevel::kBase;
}

SimdLevel& Level() {
  static SimdLevel level = Detect();
  return level;
}

}  // namespace

SimdLevel HostSimdLevel() { return Level(); }
void CapSimdLevelForTest(SimdLevel level) { Level() = std::min(Detect(), level); }

}  // namespace backplane::engine
