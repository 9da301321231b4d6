// The time that lowering takes, for modules of one kernel and of a hundred, for each kind of target; and that blocks
// take as host images.
#include "absl/strings/str_replace.h"
#include "benchmark/benchmark.h"
#include "plugins/hip/lowering/host_testing.h"
#include "plugins/hip/lowering/lowering_testing.h"

namespace backplane::hip {
namespace {

constexpr const char* kTargets[] = {"gfx942", "gfx1100", "gfx1201", "sm_90", "host"};

struct BenchKernel {
  const char* label;
  const char* name;
  const char* text;
};
constexpr BenchKernel kKernels[] = {{"elementwise", "@elementwise(", kElementwise}, {"matmul", "@matmul(", kMatmul}};

// Arguments: a number of a target, of a kernel, and how many copies of it a module has.
void BM_Lower(benchmark::State& state) {
  const GpuTarget target = *FindGpuTarget(kTargets[state.range(0)]);
  const BenchKernel& kernel = kKernels[state.range(1)];
  std::string text;
  for (int64_t i = 0; i < state.range(2); ++i) {
    absl::StrAppend(&text, absl::StrReplaceAll(kernel.text, {{"@tile.", absl::StrCat("@tile", i, ".")},
                                                             {kernel.name, absl::StrCat("@k", i, "(")}}));
  }
  for (auto _ : state) {
    state.PauseTiming();
    llvm::LLVMContext context;
    auto module = ParseKernels(context, target, text);
    state.ResumeTiming();
    auto image = Lower(**module, target);
    if (!image.ok()) return state.SkipWithError(image.status().ToString().c_str());
    benchmark::DoNotOptimize(image->bytes.data());
  }
  state.SetLabel(absl::StrCat(target.name, ", ", kernel.label));
  state.counters["kernels"] =
      benchmark::Counter(static_cast<double>(state.range(2)) * state.iterations(), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Lower)->ArgsProduct({{0, 1, 2, 3, 4}, {0, 1}, {1, 100}})->Unit(benchmark::kMillisecond);

void BM_HostElementwise(benchmark::State& state) {
  auto image = LowerKernels(*FindGpuTarget("host"), kElementwise);
  if (!image.ok()) return state.SkipWithError(image.status().ToString().c_str());
  auto loaded = LoadedImage::Load(image->bytes);
  std::vector<float> a(1 << 16), b(1 << 16), y(1 << 16);
  struct {
    float *a, *b, *y;
    uint32_t n;
  } arguments{a.data(), b.data(), y.data(), 1 << 16};
  for (auto _ : state) RunBlocks(*loaded->Find("elementwise"), arguments, 256);
  state.SetItemsProcessed(state.iterations() * (1 << 16));
}
BENCHMARK(BM_HostElementwise);

// 64 x 64 times 64 x 64, with 8 barriers.
void BM_HostMatmul(benchmark::State& state) {
  auto image = LowerKernels(*FindGpuTarget("host"), kMatmul);
  if (!image.ok()) return state.SkipWithError(image.status().ToString().c_str());
  auto loaded = LoadedImage::Load(image->bytes);
  std::vector<float> a(4096), b(4096), c(4096);
  struct {
    float *a, *b, *c;
  } arguments{a.data(), b.data(), c.data()};
  for (auto _ : state) RunBlocks(*loaded->Find("matmul"), arguments, 16);
  state.SetItemsProcessed(state.iterations() * 2 * 64 * 64 * 64);
}
BENCHMARK(BM_HostMatmul);

// Sums of 256 numbers by 10 shuffles and a barrier; items are threads.
void BM_HostBlockSum(benchmark::State& state) {
  auto image = LowerKernels(*FindGpuTarget("host"), kBlockSum);
  if (!image.ok()) return state.SkipWithError(image.status().ToString().c_str());
  auto loaded = LoadedImage::Load(image->bytes);
  std::vector<uint32_t> x(64 * 256), y(64);
  struct {
    uint32_t *x, *y;
  } arguments{x.data(), y.data()};
  for (auto _ : state) RunBlocks(*loaded->Find("block_sum"), arguments, 64);
  state.SetItemsProcessed(state.iterations() * 64 * 256);
}
BENCHMARK(BM_HostBlockSum);

}  // namespace
}  // namespace backplane::hip

BENCHMARK_MAIN();
