#include "plugins/tpu_emulator/array/array_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace backplane::tpu {
namespace {

// The definition in the header, written once more, element by element.
float Slow(const ArrayProductShape& s, const std::vector<float>& lhs, const std::vector<float>& rhs, int64_t b,
           int64_t m, int64_t n) {
  auto part = [&](float x, int p) {
    float piece = RoundToBf16(x);
    for (; p > 0; --p) {
      x = std::isfinite(piece) && std::isfinite(x) ? x - piece : 0.0f;
      piece = RoundToBf16(x);
    }
    return piece;
  };
  std::vector<std::pair<int, int>> pairs = {{0, 0}};
  if (s.passes == 3) pairs = {{1, 0}, {0, 1}, {0, 0}};
  if (s.passes == 6) pairs = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
  float all = 0;
  bool first_pass = true;
  for (auto [l, r] : pairs) {
    float total = 0;
    for (int64_t k0 = 0; k0 < s.k; k0 += s.side) {
      float chunk = 0;
      for (int64_t k = k0; k < std::min(s.k, k0 + s.side); ++k) {
        const float x = lhs[(b * s.m + m) * s.k + k], y = rhs[(b * s.k + k) * s.n + n];
        chunk = s.passes == 0 ? std::fma(x, y, chunk) : std::fma(part(x, l), part(y, r), chunk);
      }
      total = k0 == 0 ? chunk : total + chunk;
    }
    all = first_pass ? total : all + total;
    first_pass = false;
  }
  return all;
}

uint32_t Bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

TEST(ArrayProduct, SumsInTheStatedOrder) {
  std::mt19937 random(7);
  std::normal_distribution<float> values;
  for (ArrayProductShape s : std::vector<ArrayProductShape>{{1, 1, 1, 1, 128, 1},
                                                            {1, 7, 17, 129, 128, 1},
                                                            {2, 13, 33, 300, 128, 3},
                                                            {3, 6, 16, 128, 128, 6},
                                                            {1, 25, 5, 700, 256, 6},
                                                            {2, 8, 31, 257, 256, 0}}) {
    std::vector<float> lhs(s.batch * s.m * s.k), rhs(s.batch * s.k * s.n), out(s.batch * s.m * s.n, -1), two(out);
    for (float& x : lhs) x = values(random);
    for (float& x : rhs) x = values(random);
    ArrayProduct(s, lhs.data(), rhs.data(), out.data(), 1);
    ArrayProduct(s, lhs.data(), rhs.data(), two.data(), 3);
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t m = 0; m < s.m; ++m) {
        for (int64_t n = 0; n < s.n; ++n) {
          const size_t at = (b * s.m + m) * s.n + n;
          ASSERT_EQ(Bits(out[at]), Bits(Slow(s, lhs, rhs, b, m, n))) << m << "," << n << " passes " << s.passes;
        }
      }
    }
    EXPECT_EQ(out, two);
  }
}

TEST(ArrayProduct, ThreadsDoNotChangeBits) {
  ArrayProductShape s{2, 150, 96, 700, 128, 3};
  std::mt19937 random(3);
  std::normal_distribution<float> values;
  std::vector<float> lhs(s.batch * s.m * s.k), rhs(s.batch * s.k * s.n), one(s.batch * s.m * s.n), many(one);
  for (float& x : lhs) x = values(random);
  for (float& x : rhs) x = values(random);
  ArrayProduct(s, lhs.data(), rhs.data(), one.data(), 1);
  ArrayProduct(s, lhs.data(), rhs.data(), many.data(), 5);
  EXPECT_EQ(one, many);
}

// More passes, more of f32's precision: relative to the sum of the absolute products.
TEST(ArrayProduct, PassesBuyPrecision) {
  std::mt19937 random(11);
  std::normal_distribution<float> values;
  double worst[7] = {};
  for (int passes : {1, 3, 6}) {
    ArrayProductShape s{1, 20, 20, 256, 128, passes};
    std::vector<float> lhs(s.m * s.k), rhs(s.k * s.n), out(s.m * s.n);
    for (float& x : lhs) x = values(random);
    for (float& x : rhs) x = values(random);
    ArrayProduct(s, lhs.data(), rhs.data(), out.data(), 1);
    for (int64_t m = 0; m < s.m; ++m) {
      for (int64_t n = 0; n < s.n; ++n) {
        double exact = 0, size = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const double p = double{lhs[m * s.k + k]} * double{rhs[k * s.n + n]};
          exact += p;
          size += std::fabs(p);
        }
        worst[passes] = std::max(worst[passes], std::fabs(out[m * s.n + n] - exact) / size);
      }
    }
  }
  EXPECT_GT(worst[1], std::ldexp(1.0, -12));  // operands of 8 bits
  EXPECT_LT(worst[1], std::ldexp(1.0, -7));
  EXPECT_LT(worst[3], std::ldexp(1.0, -14));
  EXPECT_GT(worst[3], worst[6]);
  EXPECT_LT(worst[6], std::ldexp(1.0, -20));
}

TEST(ArrayProduct, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (int passes : {0, 1, 3, 6}) {
    ArrayProductShape s{1, 3, 1, 2, 128, passes};
    std::vector<float> lhs = {inf, 1, nan, 1, -inf, inf}, rhs = {2, 3}, out(3);
    ArrayProduct(s, lhs.data(), rhs.data(), out.data(), 1);
    if (passes <= 1) {
      EXPECT_EQ(out[0], inf) << passes;
      EXPECT_TRUE(std::isnan(out[1])) << passes;
    }
    EXPECT_TRUE(std::isnan(out[2])) << passes;
  }
  ArrayProductShape none{1, 2, 2, 0, 128, 1};
  std::vector<float> out = {5, 5, 5, 5};
  ArrayProduct(none, nullptr, nullptr, out.data(), 2);
  EXPECT_EQ(out, std::vector<float>(4, 0.0f));
}

TEST(RoundToBf16, TiesToEven) {
  EXPECT_EQ(RoundToBf16(1.0f + std::ldexp(1.0f, -8)), 1.0f);
  EXPECT_EQ(RoundToBf16(1.0f + 3 * std::ldexp(1.0f, -8)), 1.0f + std::ldexp(1.0f, -6));
  EXPECT_EQ(RoundToBf16(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(RoundToBf16(std::numeric_limits<float>::signaling_NaN())));
  EXPECT_TRUE(std::signbit(RoundToBf16(-0.0f)));
}

}  // namespace
}  // namespace backplane::tpu
