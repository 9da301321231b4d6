#include "sdk/engine/library/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "sdk/engine/kernels/simd_level.h"

namespace backplane::engine {
namespace {

// Returns the rank of an element in the order, from its bits, by arithmetic on signed numbers.
__int128 RankOf(const KeyFormat& f, const std::byte* p) {
  uint64_t u = 0;
  std::memcpy(&u, p, static_cast<size_t>(f.bytes));
  const __int128 sign = __int128{1} << (8 * f.bytes - 1), v = u;
  if (f.kind == KeyKind::kUnsigned || v < sign) return v;
  return f.kind == KeyKind::kSigned ? v - 2 * sign : sign - 1 - v;
}

std::unique_ptr<std::byte, void (*)(void*)> Workspace(int64_t bytes) {
  return {static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bytes + 64) / 64 * 64)), std::free};
}

void Check(const TopKProblem& p, const std::vector<std::byte>& x, ThreadPool* pool) {
  const int bytes = p.format.bytes;
  std::vector<std::byte> values(static_cast<size_t>(p.rows * p.k * bytes));
  std::vector<int32_t> indices(static_cast<size_t>(p.rows * p.k), -1);
  const auto workspace = Workspace(ComputeTopKWorkspaceBytes(p, pool == nullptr ? 1 : pool->num_threads()));
  TopK(p, x.data(), values.data(), indices.data(), workspace.get(), pool);
  std::vector<int32_t> order(static_cast<size_t>(p.n));
  for (int64_t r = 0; r < p.rows; ++r) {
    const std::byte* row = x.data() + r * p.n * bytes;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const __int128 l = RankOf(p.format, row + a * bytes), m = RankOf(p.format, row + b * bytes);
      return p.format.descending ? l > m : l < m;
    });
    for (int64_t i = 0; i < p.k; ++i) {
      const int32_t want = order[static_cast<size_t>(i)];
      ASSERT_EQ(indices[static_cast<size_t>(r * p.k + i)], want)
          << "n " << p.n << " k " << p.k << " row " << r << " place " << i;
      ASSERT_EQ(std::memcmp(&values[static_cast<size_t>((r * p.k + i) * bytes)], row + want * bytes,
                            static_cast<size_t>(bytes)),
                0);
    }
  }
}

TEST(TopK, EveryFormatAndSize) {
  std::mt19937_64 rng(3);
  ThreadPool::Options options;
  options.num_threads = 3;
  ThreadPool pool(options);
  for (KeyKind kind : {KeyKind::kUnsigned, KeyKind::kSigned, KeyKind::kFloatTotal}) {
    for (int bytes : {1, 2, 4, 8}) {
      if (bytes == 1 && kind == KeyKind::kFloatTotal) continue;
      for (bool largest : {true, false}) {
        for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1},
                            {5, 5},
                            {5, 0},
                            {63, 3},
                            {64, 64},
                            {600, 1},
                            {600, 7},
                            {1000, 1000},
                            {5003, 50},
                            {5003, 2000},
                            {20000, 700}}) {
          for (int pattern = 0; pattern < 4; ++pattern) {
            TopKProblem p{n < 700 ? 5 : 2, n, k, {kind, bytes, largest, 0}};
            std::vector<std::byte> x(static_cast<size_t>(p.rows * n * bytes));
            for (int64_t i = 0; i < p.rows * n; ++i) {
              uint64_t v = rng();
              if (pattern == 1) v = (v & 3) << (8 * bytes - 2);             // many equal
              if (pattern == 2) v = static_cast<uint64_t>(i);               // rising
              if (pattern == 3) v = static_cast<uint64_t>(p.rows * n - i);  // falling
              std::memcpy(x.data() + i * bytes, &v, static_cast<size_t>(bytes));
            }
            Check(p, x, pattern % 2 ? &pool : nullptr);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(TopK, NarrowMachinesAgree) {
  std::mt19937_64 rng(5);
  for (SimdLevel level : {SimdLevel::kBase, SimdLevel::kAvx2, SimdLevel::kAvx512Bf16}) {
    CapSimdLevelForTest(level);
    for (int bytes : {2, 4, 8}) {
      TopKProblem p{1, 9001, 20, {KeyKind::kFloatTotal, bytes, true, 0}};
      std::vector<std::byte> x(static_cast<size_t>(p.n * bytes));
      for (auto& b : x) b = static_cast<std::byte>(rng());
      Check(p, x, nullptr);
    }
  }
}

TEST(TopK, DISABLED_Speed) {
  std::mt19937_64 rng(5);
  std::normal_distribution<float> normal;
  for (auto [n, k] : {std::pair<int64_t, int64_t>{50257, 50}, {50257, 1}, {1000, 5}, {1 << 20, 1000}, {50257, 20000}}) {
    TopKProblem p{1, n, k, {KeyKind::kFloatTotal, 4, true, 0x7f800000}};
    std::vector<float> x(static_cast<size_t>(n)), v(static_cast<size_t>(k));
    std::vector<int32_t> at(static_cast<size_t>(k));
    for (float& f : x) f = normal(rng);
    const auto workspace = Workspace(ComputeTopKWorkspaceBytes(p, 1));
    double best = 1e30;
    for (int i = 0; i < 200; ++i) {
      const auto start = std::chrono::steady_clock::now();
      TopK(p, x.data(), v.data(), at.data(), workspace.get(), nullptr);
      best =
          std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("top %lld of %lld: %.2f us\n", static_cast<long long>(k), static_cast<long long>(n), best);
  }
}

}  // namespace
}  // namespace backplane::engine
