#include "sdk/engine/kernels/simd_level.h"

#include <algorithm>

#include "base/cpu_features.h"

namespace backplane::engine {
namespace {

SimdLevel Detect() {
  const int bytes = std::min(ReadMaxVectorBytesFromEnvironment(), DetectCpuVectorBytes());
  if (bytes == 64) return __builtin_cpu_supports("avx512bf16") ? SimdLevel::kAvx512Bf16 : SimdLevel::kAvx512;
  return bytes == 32 ? SimdLevel::kAvx2 : SimdLevel::kBase;
}

SimdLevel& Level() {
  static SimdLevel level = Detect();
  return level;
}

}  // namespace

SimdLevel HostSimdLevel() { return Level(); }
void CapSimdLevelForTest(SimdLevel level) { Level() = std::min(Detect(), level); }

}  // namespace backplane::engine
