#include "sdk/engine/kernels/bf16_products.h"

#include <algorithm>
#include <chrono>

#include "sdk/engine/kernels/simd_level.h"

namespace backplane::engine {
namespace {

// The bf16 instructions may take at most this much longer. Far from what processors need: as long, or four times.
constexpr double kMostRatio = 2.2;
constexpr int64_t kProducts = 8192;
constexpr int kRuns = 8;  // the shortest counts, so a thread that is interrupted does not
// A processor that has not used its widest registers for a while runs slowly until they have power.
constexpr std::chrono::microseconds kWarmUp{60};

bool assume_fast = false;  // by a test

using Clock = std::chrono::steady_clock;

double TimeRun(float (*run)(int64_t)) {
  const auto start = Clock::now();
  volatile float result = run(kProducts);
  (void)result;
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool MeasureBf16Products() {
  const auto start = Clock::now();
  while (Clock::now() - start < kWarmUp) TimeRun(avx512bf16::RunBf16Products);
  double f32 = 1e30, bf16 = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    f32 = std::min(f32, TimeRun(avx512bf16::RunF32Products));
    bf16 = std::min(bf16, TimeRun(avx512bf16::RunBf16Products));
  }
  return bf16 < kMostRatio * f32;
}

}  // namespace

bool HasFastBf16Products() {
  if (!__builtin_cpu_supports("avx512bf16") || HostSimdLevel() != SimdLevel::kAvx512Bf16) return false;
  static const bool fast = MeasureBf16Products();
  return fast || assume_fast;
}

void AssumeFastBf16ProductsForTest(bool assume) { assume_fast = assume; }

}  // namespace backplane::engine
