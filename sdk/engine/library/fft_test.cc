#include "sdk/engine/library/fft.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sdk/engine/kernels/simd_level.h"

namespace backplane::engine {
namespace {

using C = std::complex<double>;

// Along one axis of [outer, n, inner], by the definition.
std::vector<C> Naive(const std::vector<C>& x, int64_t outer, int64_t n, int64_t inner, bool backward) {
  std::vector<C> w(static_cast<size_t>(n)), y(x.size());
  for (int64_t k = 0; k < n; ++k)
    w[static_cast<size_t>(k)] =
        std::polar(1.0, (backward ? 2 : -2) * M_PI * static_cast<double>(k) / static_cast<double>(n));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t k = 0; k < n; ++k) {
        C sum = 0;
        for (int64_t j = 0; j < n; ++j)
          sum += x[static_cast<size_t>((o * n + j) * inner + i)] * w[static_cast<size_t>(j * k % n)];
        y[static_cast<size_t>((o * n + k) * inner + i)] = sum / (backward ? static_cast<double>(n) : 1.0);
      }
    }
  }
  return y;
}

std::vector<C> NaiveAll(std::vector<C> x, int64_t batch, const std::vector<int64_t>& lengths, bool backward) {
  int64_t total = batch, inner = 1;
  for (int64_t n : lengths) total *= n;
  for (size_t d = lengths.size(); d-- > 0;) {
    x = Naive(x, total / (lengths[d] * inner), lengths[d], inner, backward);
    inner *= lengths[d];
  }
  return x;
}

constexpr FftKind kKinds[] = {FftKind::kForward, FftKind::kInverse, FftKind::kRealForward, FftKind::kRealInverse};

template <typename T>
class FftTest : public ::testing::Test {
 protected:
  FftTest()
      : pool_([] {
          ThreadPool::Options o;
          o.num_threads = 3;
          return o;
        }()) {}

  void Execute(const FftProblem& p, const void* in, void* out, ThreadPool* pool) {
    const auto plan = FftPlan::Create(p);
    const int64_t bytes = plan->workspace_bytes(pool == nullptr ? 1 : pool->num_threads());
    std::unique_ptr<std::byte, void (*)(void*)> workspace(
        static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bytes + 63) / 64 * 64)), std::free);
    std::fill(workspace.get(), workspace.get() + bytes, std::byte{0xff});  // NaNs: what is not written must not matter
    plan->Run(in, out, workspace.get(), pool);
  }

  // Compares with the definition; the error is relative to the largest value.
  void Check(FftKind kind, int64_t batch, const std::vector<int64_t>& lengths, ThreadPool* pool) {
    FftProblem p{kind, sizeof(T) == 8, batch, lengths};
    int64_t rows = batch;
    for (size_t d = 0; d + 1 < lengths.size(); ++d) rows *= lengths[d];
    const int64_t last = lengths.back(), bins = last / 2 + 1;
    auto number = [&] { return std::uniform_real_distribution<double>(-1, 1)(rng_); };
    std::vector<C> want;
    std::vector<T> in, out;
    auto flat = [](const std::vector<C>& x, std::vector<T>& to) {
      for (const C& c : x) to.push_back(static_cast<T>(c.real())), to.push_back(static_cast<T>(c.imag()));
    };
    std::vector<T> expected;
    if (kind == FftKind::kForward || kind == FftKind::kInverse) {
      std::vector<C> x;
      for (int64_t i = 0; i < rows * last; ++i) x.emplace_back(static_cast<T>(number()), static_cast<T>(number()));
      flat(x, in);
      flat(NaiveAll(x, batch, lengths, kind == FftKind::kInverse), expected);
    } else {
      std::vector<C> x;
      for (int64_t i = 0; i < rows * last; ++i) x.emplace_back(static_cast<T>(number()), 0);
      std::vector<T> reals, half;
      for (const C& c : x) reals.push_back(static_cast<T>(c.real()));
      const std::vector<C> y = NaiveAll(x, batch, lengths, false);
      std::vector<C> kept;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < bins; ++k) kept.push_back(y[static_cast<size_t>(r * last + k)]);
      }
      flat(kept, half);
      in = kind == FftKind::kRealForward ? reals : half;
      expected = kind == FftKind::kRealForward ? half : reals;
    }
    out.assign(expected.size(), T(7));
    Execute(p, in.data(), out.data(), pool);
    double worst = 0, largest = 1e-30;
    for (size_t i = 0; i < out.size(); ++i) {
      const double e = std::abs(static_cast<double>(out[i]) - static_cast<double>(expected[i]));
      worst = e <= worst ? worst : e;  // NaN is worse than anything
      largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    }
    ASSERT_LE(worst / largest, sizeof(T) == 8 ? 4e-15 : 1.2e-6)
        << "kind " << static_cast<int>(kind) << " batch " << batch << " rank " << lengths.size() << " last " << last;
  }

  std::mt19937_64 rng_{11};
  ThreadPool pool_;
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FftTest, Types);

TYPED_TEST(FftTest, EveryShortLength) {
  for (int64_t n = 1; n <= 140; ++n) {
    for (FftKind kind : kKinds) {
      for (int64_t batch : {1, 19}) this->Check(kind, batch, {n}, nullptr);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(FftTest, LongerLengths) {
  for (int64_t n : {243, 256, 343, 360, 512, 529, 625, 1000, 1001, 1009, 1024, 1331, 2048, 2310, 2311}) {
    for (FftKind kind : kKinds) {
      this->Check(kind, 2, {n}, &this->pool_);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(FftTest, TwoAndThreeAxes) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 1},     {2, 3},     {5, 4},    {16, 16},  {37, 8},   {8, 37},
                                                    {3, 64},    {64, 3},    {20, 100}, {29, 31},  {1, 2, 3}, {4, 5, 6},
                                                    {7, 3, 17}, {2, 2, 70}, {9, 8, 7}, {70, 2, 2}};
  for (const auto& lengths : shapes) {
    for (FftKind kind : kKinds) {
      for (int64_t batch : {0, 1, 3}) this->Check(kind, batch, lengths, &this->pool_);
      if (this->HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(FftTest, NarrowMachines) {
  for (SimdLevel level : {SimdLevel::kBase, SimdLevel::kAvx2}) {
    CapSimdLevelForTest(level);
    for (int64_t n : {1, 8, 15, 64, 77, 97, 128, 480}) {
      for (FftKind kind : kKinds) this->Check(kind, 3, {n}, nullptr);
      this->Check(FftKind::kForward, 2, {n, 6}, nullptr);
    }
  }
  CapSimdLevelForTest(SimdLevel::kAvx512Bf16);
}

// One long line is shared by the threads. A sum of three pure tones has three bins.
TYPED_TEST(FftTest, LongLinesByAllThreads) {
  using T = TypeParam;
  for (int64_t n : {65536, 98304, 100000, 131072, 65537}) {
    std::vector<T> x(static_cast<size_t>(2 * n)), y(x.size()), z(x.size());
    const int64_t tones[] = {0, 17, n - 1001};
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t f : tones) {
        const double a = 2 * M_PI * static_cast<double>(j * f % n) / static_cast<double>(n);
        x[static_cast<size_t>(2 * j)] += static_cast<T>(std::cos(a)),
            x[static_cast<size_t>(2 * j + 1)] += static_cast<T>(std::sin(a));
      }
    }
    this->Execute({FftKind::kForward, sizeof(T) == 8, 1, {n}}, x.data(), y.data(), &this->pool_);
    const double tolerance = (sizeof(T) == 8 ? 1e-14 : 2e-6) * static_cast<double>(n);
    for (int64_t k = 0; k < n; ++k) {
      const bool tone = k == tones[0] || k == tones[1] || k == tones[2];
      ASSERT_NEAR(y[static_cast<size_t>(2 * k)], tone ? static_cast<double>(n) : 0.0, tolerance) << n << " bin " << k;
      ASSERT_NEAR(y[static_cast<size_t>(2 * k + 1)], 0, tolerance) << n << " bin " << k;
    }
    this->Execute({FftKind::kInverse, sizeof(T) == 8, 1, {n}}, y.data(), z.data(), &this->pool_);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], z[i], sizeof(T) == 8 ? 1e-13 : 1e-5);
  }
}

TYPED_TEST(FftTest, WhatARealSequenceCannotHaveIsIgnored) {
  using T = TypeParam;
  for (int64_t n : {4, 5}) {
    std::vector<T> bins = {10, 99, -2, 2, -2, n == 4 ? T(77) : T(1)}, clean = bins, a(static_cast<size_t>(n)), b(a);
    clean[1] = 0;
    if (n == 4) clean[5] = 0;
    this->Execute({FftKind::kRealInverse, sizeof(T) == 8, 1, {n}}, bins.data(), a.data(), nullptr);
    this->Execute({FftKind::kRealInverse, sizeof(T) == 8, 1, {n}}, clean.data(), b.data(), nullptr);
    EXPECT_EQ(a, b);
  }
}

TYPED_TEST(FftTest, DISABLED_Speed) {
  using T = TypeParam;
  auto time = [&](FftKind kind, int64_t batch, std::vector<int64_t> lengths) {
    int64_t points = batch;
    for (int64_t n : lengths) points *= n;
    std::vector<T> x(static_cast<size_t>(2 * points), T(1)),
        y(x.size() + 64 * static_cast<size_t>(points / lengths.back()));
    const auto plan = FftPlan::Create({kind, sizeof(T) == 8, batch, lengths});
    std::byte* workspace =
        static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(plan->workspace_bytes(1) + 63) / 64 * 64));
    double best = 1e30;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      plan->Run(x.data(), y.data(), workspace, nullptr);
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::free(workspace);
    std::printf("kind %d batch %lld last %lld rank %zu: %.3f ms (estimate %.3f)\n", static_cast<int>(kind),
                static_cast<long long>(batch), static_cast<long long>(lengths.back()), lengths.size(), best,
                plan->estimated_us() / 1e3);
  };
  time(FftKind::kForward, 4096, {16});
  time(FftKind::kForward, 1024, {256});
  time(FftKind::kForward, 256, {1024});
  time(FftKind::kForward, 256, {1000});
  time(FftKind::kForward, 256, {1009});
  time(FftKind::kForward, 16, {16384});
  time(FftKind::kForward, 1, {1 << 20});
  time(FftKind::kRealForward, 256, {1024});
  time(FftKind::kRealInverse, 256, {1024});
  time(FftKind::kForward, 1, {512, 512});
  time(FftKind::kForward, 1, {64, 64, 64});
}

}  // namespace
}  // namespace backplane::engine
