// Times products on the emulated matrix unit and with the engine's library: tpu_array_bench
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "plugins/tpu_emulator/array/array_product.h"
#include "sdk/engine/kernels/matmul.h"

namespace backplane::tpu {
namespace {

template <typename Body>
double Best(const Body& body) {
  double best = 1e9;
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void Compare(int64_t m, int64_t n, int64_t k, engine::ThreadPool& pool) {
  std::vector<float> a(static_cast<size_t>(m * k), 0.5f), b(static_cast<size_t>(k * n), 0.25f),
      c(static_cast<size_t>(m * n + 16));
  Offsets none, rows, left_k, columns, right_k, out_rows, out_columns;
  rows.Add(m, k);
  left_k.Add(k, 1);
  columns.Add(n, 1);
  right_k.Add(k, n);
  out_rows.Add(m, n);
  out_columns.Add(n, 1);
  const double work = 2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  std::printf("%5ld x %5ld x %5ld:", static_cast<long>(m), static_cast<long>(k), static_cast<long>(n));
  for (int passes : {1, 3, 6}) {
    const ArrayProductShape s{1, m, n, k, 128, passes};
    std::vector<float> workspace(static_cast<size_t>(ComputeArrayProductWorkspaceBytes(s, pool.num_threads()) / 4 + 1));
    const double t = Best([&] {
      ComputeArrayProduct(s, {a.data(), PrimitiveType::kF32, &none, &rows, &left_k},
                          {b.data(), PrimitiveType::kF32, &none, &columns, &right_k},
                          {c.data(), PrimitiveType::kF32, &none, &out_rows, &out_columns}, workspace.data(), &pool);
    });
    std::printf("  %d: %6.1f", passes, work / t);
  }
  engine::MatmulOptions options;
  options.num_threads = pool.num_threads();
  auto plan = engine::PlanMatmul(engine::MatmulProblem::Dense(engine::ElementType::kF32, m, n, k), options);
  if (plan.ok()) {
    std::vector<float> scratch((*plan)->scratch_bytes() / 4 + 32);
    void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    const double t = Best([&] { (void)(*plan)->Execute(a.data(), b.data(), c.data(), aligned, &pool); });
    std::printf("  %s: %6.1f", std::string((*plan)->name()).c_str(), work / t);
  }
  std::printf("  GFLOP/s of the product\n");
}

}  // namespace
}  // namespace backplane::tpu

int main() {
  backplane::engine::ThreadPool pool;
  for (auto [m, n, k] : {std::array<int64_t, 3>{512, 256, 256},
                         {512, 768, 256},
                         {512, 1024, 256},
                         {512, 256, 1024},
                         {128, 128, 32},
                         {1, 768, 256},
                         {1, 1024, 4096},
                         {3136, 64, 576},
                         {49, 512, 4608},
                         {1024, 1024, 1024},
                         {2048, 2048, 2048}})
    backplane::tpu::Compare(m, n, k, pool);
}
