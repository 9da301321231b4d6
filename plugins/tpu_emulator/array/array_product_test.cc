#include "plugins/tpu_emulator/array/array_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace backplane::tpu {
namespace {

// The definition in the header, computed element by element.
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
  engine::ThreadPool pool({.num_threads = 3});
  std::mt19937 random(7);
  std::normal_distribution<float> values;
  for (ArrayProductShape s : std::vector<ArrayProductShape>{{1, 1, 1, 1, 128, 1},
                                                            {1, 7, 17, 129, 128, 1},
                                                            {2, 13, 33, 300, 128, 3},
                                                            {3, 6, 16, 128, 128, 6},
                                                            {1, 25, 5, 700, 256, 6},
                                                            {1, 8, 8, 257, 512, 0},
                                                            {1, 9, 17, 1500, 512, 1},
                                                            {1, 2, 5, 2000, 1024, 3},
                                                            {2, 8, 31, 257, 256, 0},
                                                            {1, 70, 3, 40, 128, 3},
                                                            {1, 3, 400, 150, 128, 1},
                                                            {1, 2, 105, 300, 128, 6},
                                                            {1, 500, 40, 130, 128, 1}}) {
    std::vector<float> lhs(s.batch * s.m * s.k), rhs(s.batch * s.k * s.n), out(s.batch * s.m * s.n, -1), two(out);
    for (float& x : lhs) x = values(random);
    for (float& x : rhs) x = values(random);
    ComputeArrayProduct(s, lhs.data(), rhs.data(), out.data(), nullptr);
    ComputeArrayProduct(s, lhs.data(), rhs.data(), two.data(), &pool);
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
  engine::ThreadPool pool({.num_threads = 5});
  ArrayProductShape s{2, 350, 400, 300, 128, 3};
  std::mt19937 random(3);
  std::normal_distribution<float> values;
  std::vector<float> lhs(s.batch * s.m * s.k), rhs(s.batch * s.k * s.n), one(s.batch * s.m * s.n), many(one);
  for (float& x : lhs) x = values(random);
  for (float& x : rhs) x = values(random);
  ComputeArrayProduct(s, lhs.data(), rhs.data(), one.data(), nullptr);
  ComputeArrayProduct(s, lhs.data(), rhs.data(), many.data(), &pool);
  EXPECT_EQ(one, many);
}

// Operands and result are transposed and have gaps. bf16 is also tested with the interleaved pairs of a tile (2,1).
TEST(ArrayProduct, ReadsAndWritesInPlace) {
  const int64_t m = 37, n = 45, k = 261;
  std::mt19937 random(5);
  std::normal_distribution<float> values;
  std::vector<float> lhs(m * k), rhs(k * n), dense(m * n);
  for (float& x : lhs) x = RoundToBf16(values(random));
  for (float& x : rhs) x = RoundToBf16(values(random));
  const ArrayProductShape s{1, m, n, k, 128, 0};
  ComputeArrayProduct(s, lhs.data(), rhs.data(), dense.data(), nullptr);
  for (bool bf16 : {false, true}) {
    for (bool pairs : {false, true}) {
      Offsets none, rows, left_k, columns, right_k, out_rows, out_columns;
      if (pairs) {  // the left operand's rows, the right one's terms: two of them side by side
        const PhysicalLayout::Digit two[] = {{2, (m + 1) / 2, 2 * (k + 3)}, {1, 2, 1}};
        rows.Add(m, two);
        left_k.Add(k, 2);
        const PhysicalLayout::Digit terms[] = {{2, (k + 1) / 2, 2 * (n + 1)}, {1, 2, 1}};
        right_k.Add(k, terms);
        columns.Add(n, 2);
      } else {
        rows.Add(m, 1);
        left_k.Add(k, m + 5);
        right_k.Add(k, 1);
        columns.Add(n, k + 7);
      }
      out_rows.Add(m, 1);
      out_columns.Add(n, m + 2);
      auto place = [&](const std::vector<float>& from, const Offsets& outer, const Offsets& inner, bool by_inner) {
        std::vector<uint32_t> to((m + 8) * (k + 8) * 2 + (n + 8) * (k + 8) * 2, 0x7fc00001u);
        for (int64_t i = 0; i < outer.size(); ++i) {
          for (int64_t j = 0; j < inner.size(); ++j) {
            const float x = by_inner ? from[j * outer.size() + i] : from[i * inner.size() + j];
            const int64_t at = outer.At(i) + inner.At(j);
            if (bf16) {
              reinterpret_cast<uint16_t*>(to.data())[at] = static_cast<uint16_t>(Bits(x) >> 16);
            } else {
              to[at] = Bits(x);
            }
          }
        }
        return to;
      };
      const std::vector<uint32_t> a = place(lhs, rows, left_k, false), b = place(rhs, columns, right_k, true);
      std::vector<float> out((m + 2) * n, -7.0f), workspace(ComputeArrayProductWorkspaceBytes(s, 1) / 4 + 1);
      const PrimitiveType type = bf16 ? PrimitiveType::kBF16 : PrimitiveType::kF32;
      ComputeArrayProduct(s, {a.data(), type, &none, &rows, &left_k}, {b.data(), type, &none, &columns, &right_k},
                          {out.data(), PrimitiveType::kF32, &none, &out_rows, &out_columns}, workspace.data(), nullptr);
      for (int64_t c = 0; c < n; ++c) {
        for (int64_t r = 0; r < m; ++r)
          ASSERT_EQ(Bits(out[c * (m + 2) + r]), Bits(dense[r * n + c])) << bf16 << pairs << " " << r << "," << c;
        ASSERT_EQ(out[c * (m + 2) + m], -7.0f);
      }
    }
  }
}

// More passes give a smaller error, relative to the sum of the absolute products.
TEST(ArrayProduct, MorePassesAreMorePrecise) {
  std::mt19937 random(11);
  std::normal_distribution<float> values;
  double worst[7] = {};
  for (int passes : {1, 3, 6}) {
    ArrayProductShape s{1, 20, 20, 256, 128, passes};
    std::vector<float> lhs(s.m * s.k), rhs(s.k * s.n), out(s.m * s.n);
    for (float& x : lhs) x = values(random);
    for (float& x : rhs) x = values(random);
    ComputeArrayProduct(s, lhs.data(), rhs.data(), out.data(), nullptr);
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
    ComputeArrayProduct(s, lhs.data(), rhs.data(), out.data(), nullptr);
    if (passes <= 1) {
      EXPECT_EQ(out[0], inf) << passes;
      EXPECT_TRUE(std::isnan(out[1])) << passes;
    }
    EXPECT_TRUE(std::isnan(out[2])) << passes;
  }
  ArrayProductShape none{1, 2, 2, 0, 128, 1};
  std::vector<float> out = {5, 5, 5, 5};
  ComputeArrayProduct(none, nullptr, nullptr, out.data(), nullptr);
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
