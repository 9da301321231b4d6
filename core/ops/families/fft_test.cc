// Transforms of one line against the sum that defines them, and against each other.
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "core/ops/families/fft_passes.h"
#include "core/ops/families/fft_real.h"
#include "gtest/gtest.h"

namespace backplane::fft {
namespace {

template <typename S>
class FftLine : public ::testing::Test {
 protected:
  static double Tolerance(int64_t n) { return 4 * std::numeric_limits<S>::epsilon() * static_cast<double>(n); }
  static std::complex<double> Defined(const std::vector<std::complex<double>>& x, int64_t k, int sign) {
    const int64_t n = static_cast<int64_t>(x.size());
    std::complex<double> sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      sum += x[static_cast<size_t>(j)] *
             std::polar(1.0, sign * 2 * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n));
    }
    return sum;
  }
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FftLine, Scalars);

// Every length up to 130 without a large prime: all radices, alone and together, first and last.
std::vector<int64_t> Lengths() {
  std::vector<int64_t> out;
  for (int64_t n = 1; n <= 130; ++n) {
    if (FindLargestPrime(n) <= 31) out.push_back(n);
  }
  for (int64_t n : {256, 343, 7 * 32, 1024}) out.push_back(n);
  return out;
}

TYPED_TEST(FftLine, ComplexOfEveryLength) {
  using S = TypeParam;
  for (int64_t n : Lengths()) {
    std::vector<Number<S>> x(static_cast<size_t>(n)), work(x.size());
    std::vector<std::complex<double>> given;
    for (int64_t j = 0; j < n; ++j) {
      x[static_cast<size_t>(j)] = {static_cast<S>(std::sin(1.7 * j + n)), static_cast<S>(std::cos(0.9 * j * j))};
      given.emplace_back(x[static_cast<size_t>(j)].r, x[static_cast<size_t>(j)].i);
    }
    for (bool forward : {true, false}) {
      std::vector<Number<S>> y = x;
      ComplexLine<S, S>(n).Run(y.data(), work.data(), forward);
      double worst = 0;
      for (int64_t k = 0; k < n; ++k) {
        const std::complex<double> want = this->Defined(given, k, forward ? -1 : 1);
        worst = std::max(
            worst, std::abs(want - std::complex<double>(y[static_cast<size_t>(k)].r, y[static_cast<size_t>(k)].i)));
      }
      EXPECT_LE(worst, this->Tolerance(n)) << n << (forward ? " forward" : " backward");
    }
  }
}

TYPED_TEST(FftLine, RealOfEveryLength) {
  using S = TypeParam;
  for (int64_t n : Lengths()) {
    std::vector<S> x(static_cast<size_t>(n)), work(x.size());
    std::vector<std::complex<double>> given;
    for (int64_t j = 0; j < n; ++j) {
      x[static_cast<size_t>(j)] = static_cast<S>(std::sin(1.7 * j + n) + 0.3 * std::cos(1.0 * j * j));
      given.emplace_back(x[static_cast<size_t>(j)], 0);
    }
    const RealLine<S, S> plan(n);
    std::vector<S> y = x;
    plan.Forward(y.data(), work.data());
    double worst = 0;
    for (int64_t k = 0; k <= n / 2; ++k) {
      const bool real = k == 0 || 2 * k == n;
      const std::complex<double> got(y[static_cast<size_t>(k == 0 ? 0 : 2 * k - 1)],
                                     real ? 0 : y[static_cast<size_t>(2 * k)]);
      worst = std::max(worst, std::abs(this->Defined(given, k, -1) - got));
    }
    EXPECT_LE(worst, this->Tolerance(n)) << n;
    plan.Backward(y.data(), work.data());
    worst = 0;
    for (int64_t j = 0; j < n; ++j) {
      worst = std::max(worst, std::abs(static_cast<double>(y[static_cast<size_t>(j)]) / n - x[static_cast<size_t>(j)]));
    }
    EXPECT_LE(worst, this->Tolerance(1) * std::log2(n + 1)) << n;
  }
}

TEST(Fft, RootsLieOnTheCircle) {
  for (int64_t n : {1, 2, 3, 17, 360, 4096}) {
    const Roots roots(n);
    for (int64_t k = 0; k < n; ++k) {
      const Number<double> w = roots.operator()<double>(k);
      const long double angle = 2 * 3.14159265358979323846264338327950288L * k / n;
      EXPECT_NEAR(w.r, static_cast<double>(std::cos(angle)), 3e-16) << k << "/" << n;
      EXPECT_NEAR(w.i, static_cast<double>(std::sin(angle)), 3e-16) << k << "/" << n;
    }
  }
}

TEST(Fft, FactorsMultiplyToTheLength) {
  for (int64_t n = 2; n < 3000; ++n) {
    for (bool eights : {false, true}) {
      int64_t product = 1;
      for (int64_t f : Factors(n, eights)) product *= f;
      EXPECT_EQ(product, n);
    }
  }
  EXPECT_EQ(FindLargestPrime(1), 1);
  EXPECT_EQ(FindLargestPrime(64), 2);
  EXPECT_EQ(FindLargestPrime(2 * 3 * 101), 101);
}

}  // namespace
}  // namespace backplane::fft
