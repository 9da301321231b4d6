#include "sdk/engine/library/random.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "sdk/engine/kernels/simd_level.h"

namespace backplane::engine {
namespace {

std::array<uint32_t, 2> ThreeFry(uint64_t key, uint64_t counter) {
  const uint32_t k[3] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32),
                         static_cast<uint32_t>(key) ^ static_cast<uint32_t>(key >> 32) ^ 0x1bd11bdau};
  const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t x = static_cast<uint32_t>(counter) + k[0], y = static_cast<uint32_t>(counter >> 32) + k[1];
  for (int round = 0; round < 20; ++round) {
    x += y;
    y = std::rotl(y, rotations[round % 8]) ^ x;
    if (round % 4 == 3) {
      const uint32_t s = static_cast<uint32_t>(round / 4 + 1);
      x += k[s % 3];
      y += k[(s + 1) % 3] + s;
    }
  }
  return {x, y};
}

std::array<uint32_t, 4> Philox(uint64_t key, unsigned __int128 counter) {
  uint32_t c[4], k[2] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  for (int i = 0; i < 4; ++i) c[i] = static_cast<uint32_t>(counter >> (32 * i));
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xd2511f53} * c[0], q = uint64_t{0xcd9e8d57} * c[2];
    const uint32_t n0 = static_cast<uint32_t>(q >> 32) ^ c[1] ^ k[0], n2 = static_cast<uint32_t>(p >> 32) ^ c[3] ^ k[1];
    c[0] = n0, c[1] = static_cast<uint32_t>(q), c[2] = n2, c[3] = static_cast<uint32_t>(p);
    k[0] += 0x9e3779b9;
    k[1] += 0xbb67ae85;
  }
  return {c[0], c[1], c[2], c[3]};
}

// Published vectors of the two generators' own test suite.
TEST(Random, KnownAnswersOfTheReferencesHere) {
  EXPECT_EQ(ThreeFry(0, 0), (std::array<uint32_t, 2>{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(ThreeFry(~uint64_t{0}, ~uint64_t{0}), (std::array<uint32_t, 2>{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(Philox(0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Random, SpecifiedVector) {
  RandomState s{1, 2, 0};
  uint64_t out[4];
  GenerateThreeFryBits(s, {2, 2}, 8, out, nullptr);
  EXPECT_EQ(out[0], 9236835810183407956u);
  EXPECT_EQ(out[1], 16087790271692313299u);
  EXPECT_EQ(out[2], 18212823393184779219u);
  EXPECT_EQ(out[3], 2658481902456610144u);
  EXPECT_EQ(s, (RandomState{1, 6, 0}));
}

class RandomLevels : public ::testing::TestWithParam<SimdLevel> {
 protected:
  RandomLevels()
      : pool_([] {
          ThreadPool::Options o;
          o.num_threads = 3;
          return o;
        }()) {
    CapSimdLevelForTest(GetParam());
  }
  ~RandomLevels() override { CapSimdLevelForTest(SimdLevel::kAvx512Bf16); }
  ThreadPool pool_;
};

TEST_P(RandomLevels, ThreeFryInEveryShape) {
  const std::vector<std::vector<int64_t>> shapes = {
      {},          {1},   {2},       {7},     {0, 4},     {4, 3},     {3, 4},     {3, 5},      {5, 3, 7},
      {3, 130, 5}, {130}, {1000, 3}, {70000}, {3, 33333}, {33333, 3}, {3, 20000}, {5, 2, 9000}};
  for (const auto& dims : shapes) {
    for (int width : {1, 2, 4, 8}) {
      const int64_t n = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
      RandomState s{0x123456789abcdef0, ~uint64_t{0} - 100, 5};
      std::vector<uint8_t> out(static_cast<size_t>(n * width)), want(out.size());
      GenerateThreeFryBits(s, dims, width, out.data(), &pool_);
      uint64_t used = 0, start = ~uint64_t{0} - 100;
      auto put = [&](int64_t i, uint64_t v) { std::memcpy(want.data() + i * width, &v, static_cast<size_t>(width)); };
      if (width == 8) {
        for (; used < static_cast<uint64_t>(n); ++used) {
          const auto w = ThreeFry(s.key, start + used);
          put(static_cast<int64_t>(used), w[0] | uint64_t{w[1]} << 32);
        }
      } else if (n > 0) {
        int split = -1;
        for (size_t d = 0; d < dims.size() && split < 0; ++d) split = dims[d] % 2 == 0 ? static_cast<int>(d) : -1;
        if (split < 0)
          for (size_t d = 0; d < dims.size(); ++d)
            if (split < 0 || dims[d] > dims[static_cast<size_t>(split)]) split = static_cast<int>(d);
        int64_t size = split < 0 ? 1 : dims[static_cast<size_t>(split)], inner = 1, outer = 1;
        for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
          if (d < split) outer *= dims[static_cast<size_t>(d)];
          if (d > split) inner *= dims[static_cast<size_t>(d)];
        }
        for (int64_t o = 0; o < outer; ++o) {
          for (int64_t pair = 0; pair < (size + 1) / 2; ++pair) {
            for (int64_t i = 0; i < inner; ++i) {
              const auto w = ThreeFry(s.key, start + used++);
              put((o * size + 2 * pair) * inner + i, w[0]);
              if (2 * pair + 1 < size) put((o * size + 2 * pair + 1) * inner + i, w[1]);
            }
          }
        }
      }
      EXPECT_EQ(s, (RandomState{0x123456789abcdef0, start + used, 5}));
      ASSERT_EQ(out, want) << "width " << width << " elements " << n << " rank " << dims.size();
    }
  }
}

TEST_P(RandomLevels, PhiloxOfEveryLengthAcrossTheCarry) {
  for (int64_t n : {0, 1, 3, 4, 5, 255, 256, 257, 1023, 5000, 100001}) {
    for (int width : {1, 2, 4, 8}) {
      const RandomState start{0xfedcba9876543210, ~uint64_t{0} - 70, 0xffffffff};
      RandomState s = start;
      std::vector<uint8_t> out(static_cast<size_t>(n * width)), want(out.size());
      GeneratePhiloxBits(s, n, width, out.data(), &pool_);
      const int64_t per = width == 8 ? 2 : 4, blocks = (n + per - 1) / per;
      unsigned __int128 counter = static_cast<unsigned __int128>(start.high) << 64 | start.low;
      for (int64_t b = 0; b < blocks; ++b, ++counter) {
        const auto w = Philox(start.key, counter);
        for (int64_t k = 0; k < per && b * per + k < n; ++k) {
          const size_t j = static_cast<size_t>(k);
          const uint64_t v = width == 8 ? w[2 * j] | uint64_t{w[2 * j + 1]} << 32 : w[j];
          std::memcpy(want.data() + (b * per + k) * width, &v, static_cast<size_t>(width));
        }
      }
      EXPECT_EQ(s.low, static_cast<uint64_t>(counter));
      EXPECT_EQ(s.high, static_cast<uint64_t>(counter >> 64));
      ASSERT_EQ(out, want) << "width " << width << " elements " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, RandomLevels,
                         ::testing::Values(SimdLevel::kBase, SimdLevel::kAvx2, SimdLevel::kAvx512Bf16));

TEST(Random, UniformStaysInsideAndIsFlat) {
  RandomState s = DrawRandomState();
  const float low = -2, high = 6;
  std::vector<float> x(100000);
  DrawUniformNumbers(s, RandomNumber::kF32, &low, &high, 100000, x.data(), nullptr);
  int count[8] = {};
  for (float v : x) {
    ASSERT_GE(v, low);
    ASSERT_LT(v, high);
    ++count[static_cast<int>(v + 2)];
  }
  for (int c : count) EXPECT_NEAR(c, 12500, 500);
  const int32_t a = -5, b = 5;
  std::vector<int32_t> y(100000);
  DrawUniformNumbers(s, RandomNumber::kS32, &a, &b, 100000, y.data(), nullptr);
  int hits[10] = {};
  for (int32_t v : y) {
    ASSERT_GE(v, a);
    ASSERT_LT(v, b);
    ++hits[v + 5];
  }
  for (int h : hits) EXPECT_NEAR(h, 10000, 500);
  const uint16_t one = 0x3c00, next = 0x3c01;  // f16: 1 and the number after it
  std::vector<uint16_t> z(1000);
  DrawUniformNumbers(s, RandomNumber::kF16, &one, &next, 1000, z.data(), nullptr);
  for (uint16_t v : z) ASSERT_EQ(v, one);
  const uint8_t no = 0, yes = 1;
  std::vector<uint8_t> preds(100, 7);
  DrawUniformNumbers(s, RandomNumber::kPred, &no, &yes, 100, preds.data(), nullptr);
  for (uint8_t v : preds) ASSERT_EQ(v, 0);
}

TEST(Random, NormalHasItsMoments) {
  RandomState s = DrawRandomState(), other = DrawRandomState();
  EXPECT_NE(s, other);
  const double mean = 3, deviation = 2;
  std::vector<double> x(200000), y(200000);
  DrawNormalNumbers(s, RandomNumber::kF64, &mean, &deviation, 200000, x.data(), nullptr);
  DrawNormalNumbers(other, RandomNumber::kF64, &mean, &deviation, 200000, y.data(), nullptr);
  EXPECT_NE(x, y);
  double sum = 0, squares = 0, fourth = 0;
  for (double v : x) {
    const double d = (v - 3) / 2;
    sum += d, squares += d * d, fourth += d * d * d * d;
  }
  EXPECT_NEAR(sum / 200000, 0, 0.02);
  EXPECT_NEAR(squares / 200000, 1, 0.03);
  EXPECT_NEAR(fourth / 200000, 3, 0.2);
}

TEST(Random, DISABLED_Speed) {
  std::vector<uint32_t> x(1 << 22);
  auto time = [&](const char* name, auto&& fn) {
    double best = 1e30;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      fn();
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    std::printf("%s: %.3f ms\n", name, best);
  };
  RandomState s;
  time("threefry 4M words", [&] { GenerateThreeFryBits(s, {1 << 22}, 4, x.data(), nullptr); });
  time("threefry 2M u64", [&] { GenerateThreeFryBits(s, {1 << 21}, 8, x.data(), nullptr); });
  time("philox 4M words", [&] { GeneratePhiloxBits(s, 1 << 22, 4, x.data(), nullptr); });
  const float a = 0, b = 1;
  time("uniform 4M f32", [&] { DrawUniformNumbers(s, RandomNumber::kF32, &a, &b, 1 << 22, x.data(), nullptr); });
}

}  // namespace
}  // namespace backplane::engine
