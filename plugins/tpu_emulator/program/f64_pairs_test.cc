#include "plugins/tpu_emulator/program/f64_pairs.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/program/program_testing.h"

namespace backplane::tpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The rule in integers: n * 2^e rounded to f32's grid, ties to even. |n| < 2^54; the result in units of 2^e.
int64_t NearestF32(int64_t n, int e) {
  const uint64_t size = static_cast<uint64_t>(std::abs(n));
  int drop = 0;
  while (size >> drop >= uint64_t{1} << 24) ++drop;
  drop = std::max(drop, -149 - e);  // nothing is finer than the smallest subnormal number
  if (drop <= 0) return n;
  if (drop > 60) return 0;
  const uint64_t unit = uint64_t{1} << drop, rest = size % unit, half = unit / 2;
  uint64_t down = size - rest;
  if (rest > half || (rest == half && (down / unit) % 2 == 1)) down += unit;
  return n < 0 ? -static_cast<int64_t>(down) : static_cast<int64_t>(down);
}

double RoundToPairInIntegers(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  int e = 0;
  const int64_t n = static_cast<int64_t>(std::ldexp(std::frexp(x, &e), 53));
  e -= 53;
  const int64_t high = NearestF32(n, e), low = NearestF32(n - high, e);
  if (std::abs(std::ldexp(static_cast<double>(high), e)) >= std::ldexp(1, 128)) return std::copysign(kInf, x);
  return std::copysign(std::ldexp(static_cast<double>(high + low), e), x);
}

bool SameBits(double a, double b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, 8) == 0; }

std::vector<double> Numbers(int count, uint32_t seed, double log_range) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(-log_range, log_range), unit(1, 2);
  std::vector<double> x;
  for (int i = 0; i < count; ++i)
    x.push_back((random() % 2 ? 1 : -1) * std::exp2(std::floor(exponent(random))) * unit(random));
  return x;
}

TEST(F64Pairs, RoundingMatchesTheRuleInIntegers) {
  std::vector<double> x = Numbers(200000, 1, 170);
  for (double edge : {0.0,
                      -0.0,
                      kInf,
                      -kInf,
                      std::nan(""),
                      3.4028234663852886e38,
                      3.4028235677973366e38,
                      std::nextafter(3.4028235677973366e38, 0),
                      -3.5e38,
                      1e300,
                      1e-300,
                      0x1p-149,
                      0x1p-150,
                      0x1.8p-150,
                      0x1.000001p-126,
                      1 + 0x1p-52,
                      1 + 0x1p-24,
                      1 + 0x3p-25,
                      16777217.0,
                      0x1.fffffffffffffp0}) {
    x.push_back(edge);
  }
  for (double v : x) {
    const double pair = RoundToPair(v);
    EXPECT_TRUE(SameBits(pair, RoundToPairInIntegers(v)))
        << std::hexfloat << v << ": " << pair << ", " << RoundToPairInIntegers(v);
    // The largest pair is halfway between the largest f32 and the next power of two.
    EXPECT_TRUE(SameBits(RoundToPair(pair), pair) || std::abs(pair) == 0x1.ffffffp127) << v;
    if (std::abs(v) > 1e-20 && std::abs(v) < 1e38) {
      EXPECT_LE(std::abs(pair - v), std::ldexp(std::abs(v), -49)) << v;
      // The result is the sum of two f32.
      const float high = static_cast<float>(pair), low = static_cast<float>(pair - static_cast<double>(high));
      EXPECT_EQ(static_cast<double>(high) + static_cast<double>(low), pair);
    }
  }
  EXPECT_EQ(RoundToPair(1 + 0x1p-25 + 0x1p-52), 1 + 0x1p-25);            // not every 53-bit significand fits
  EXPECT_EQ(RoundToPair(1 + 0x1p-47 + 0x1p-52), 1 + 0x1p-47 + 0x1p-52);  // but some do
}

Literal F64(const std::vector<double>& v, std::vector<int64_t> dims = {}) {
  if (dims.empty()) dims = {static_cast<int64_t>(v.size())};
  return Literal::FromValues<double>(dims, v);
}

PreparedProgram PrepareInPairs(const std::string& hlo) {
  PrepareOptions options;
  options.f64 = F64::kPairs;
  return PrepareFromText(hlo, "v5e", options);
}

std::vector<double> RunIt(const Module& m, const std::vector<Literal>& arguments) {
  absl::StatusOr<Literal> value = Evaluate(m, arguments);
  EXPECT_TRUE(value.ok()) << value.status();
  std::vector<double> out;
  for (int64_t i = 0; value.ok() && i < value->num_elements(); ++i) out.push_back(value->GetAsDouble(i));
  return out;
}

// The arguments are not pairs, so they are rounded first. Rounding to 53 bits and then to a pair has an error of little
// more than half a unit of the 48th bit. The reference is long double.
TEST(F64Pairs, ArithmeticIsTheNearestPair) {
  const int n = 4000;
  const std::vector<double> a = Numbers(n, 2, 30), b = Numbers(n, 3, 30);
  const struct {
    const char* op;
    double (*ieee)(double, double);
    long double (*exact)(long double, long double);
  } cases[] = {
      {"add(a, b)", [](double x, double y) { return x + y; }, [](long double x, long double y) { return x + y; }},
      {"subtract(a, b)", [](double x, double y) { return x - y; }, [](long double x, long double y) { return x - y; }},
      {"multiply(a, b)", [](double x, double y) { return x * y; }, [](long double x, long double y) { return x * y; }},
      {"divide(a, b)", [](double x, double y) { return x / y; }, [](long double x, long double y) { return x / y; }},
      {"sqrt(c)", [](double x, double) { return std::sqrt(std::abs(x)); },
       [](long double x, long double) { return std::sqrt(std::abs(x)); }}};
  for (const auto& c : cases) {
    PreparedProgram p =
        PrepareInPairs(absl::StrCat("HloModule m\nENTRY e { a = f64[", n, "] parameter(0) b = f64[", n,
                                    "] parameter(1) c = f64[", n, "] abs(a) ROOT r = f64[", n, "] ", c.op, " }"));
    const std::vector<double> got = RunIt(*p.executable, {F64(a), F64(b)});
    ASSERT_EQ(got.size(), a.size()) << c.op;
    for (size_t i = 0; i < got.size(); ++i) {
      const double x = RoundToPairInIntegers(a[i]), y = RoundToPairInIntegers(b[i]);
      EXPECT_TRUE(SameBits(got[i], RoundToPairInIntegers(c.ieee(x, y)))) << c.op << " " << x << " " << y;
      const long double exact = c.exact(x, y);
      EXPECT_LE(std::abs(static_cast<long double>(got[i]) - exact), std::abs(exact) * 0x1.1p-49L) << c.op;
    }
  }
}

TEST(F64Pairs, TheRangeIsThatOfF32) {
  PreparedProgram p = PrepareInPairs("HloModule m\nENTRY e { a = f64[6] parameter(0) ROOT r = f64[6] multiply(a, a) }");
  const std::vector<double> got = RunIt(*p.executable, {F64({1e20, -1e15, 1e-30, 1e60, -0.0, std::nan("")})});
  EXPECT_EQ(got[0], kInf);
  EXPECT_EQ(got[1], RoundToPair(1e30));
  EXPECT_EQ(got[2], 0);
  EXPECT_EQ(got[3], kInf);
  EXPECT_TRUE(SameBits(got[4], 0.0));
  EXPECT_TRUE(std::isnan(got[5]));
}

TEST(F64Pairs, ConstantsAndConversions) {
  PreparedProgram p = PrepareInPairs(R"(HloModule m
ENTRY e {
  c = f64[3] constant({0.1, 1e-3, 1e100})
  i = s64[3] parameter(0)
  d = f64[3] convert(i)
  f = f32[3] convert(c)
  j = s64[3] convert(d)
  ROOT t = (f64[3], f64[3], f32[3], s64[3]) tuple(c, d, f, j)
})");
  const std::vector<int64_t> i = {(int64_t{1} << 52) + 1, 123456789, -(int64_t{1} << 40) - 1};
  absl::StatusOr<Literal> value = Evaluate(*p.executable, {Literal::FromValues<int64_t>({3}, i)});
  ASSERT_TRUE(value.ok()) << value.status();
  const auto at = [&](size_t k, int64_t n) { return value->elements()[k].GetAsDouble(n); };
  EXPECT_EQ(at(0, 0), RoundToPairInIntegers(0.1));
  EXPECT_NE(at(0, 0), 0.1);
  EXPECT_EQ(at(0, 2), kInf);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(at(1, static_cast<int64_t>(k)), RoundToPairInIntegers(static_cast<double>(i[k])));
    EXPECT_EQ(value->elements()[3].GetAsInt(static_cast<int64_t>(k)),
              static_cast<int64_t>(RoundToPairInIntegers(static_cast<double>(i[k]))));
  }
  EXPECT_EQ(at(2, 0), static_cast<double>(0.1f));
}

TEST(F64Pairs, ComparisonsSeeBothHalves) {
  PreparedProgram p = PrepareInPairs(R"(HloModule m
ENTRY e { a = f64[3] parameter(0) b = f64[3] parameter(1) ROOT r = pred[3] compare(a, b), direction=LT })");
  // The trailing parts differ; then the values differ by less than a pair can hold.
  EXPECT_EQ(RunIt(*p.executable, {F64({1, 1, 2}), F64({1 + 0x1p-40, 1 + 0x1p-46, 1})}), (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(RunIt(*p.executable, {F64({1.5 + 0x1p-26, 0, 0}), F64({1.5 + 0x1p-26 + 0x1p-52, 0, 0})})[0], 0);
}

TEST(F64Pairs, ReductionsRoundEachSum) {
  const std::vector<double> x = Numbers(3 * 101, 7, 8);
  PreparedProgram p = PrepareInPairs(R"(HloModule m
add { x = f64[] parameter(0) y = f64[] parameter(1) ROOT s = f64[] add(x, y) }
max { x = f64[] parameter(0) y = f64[] parameter(1) ROOT s = f64[] maximum(x, y) }
ENTRY e {
  a = f64[3,101] parameter(0)
  z = f64[] constant(0.1)
  s = f64[3] reduce(a, z), dimensions={1}, to_apply=add
  m = f64[3] reduce(a, z), dimensions={1}, to_apply=max
  ROOT t = (f64[3], f64[3]) tuple(s, m)
})");
  absl::StatusOr<Literal> value = Evaluate(*p.executable, {F64(x, {3, 101})});
  ASSERT_TRUE(value.ok()) << value.status();
  bool differs = false;
  for (int64_t r = 0; r < 3; ++r) {
    double sum = RoundToPairInIntegers(0.1), most = sum, plain = 0.1;
    for (int64_t k = 0; k < 101; ++k) {
      const double v = x[static_cast<size_t>(r * 101 + k)];
      sum = RoundToPairInIntegers(sum + RoundToPairInIntegers(v));
      plain += v;
      most = std::max(most, RoundToPairInIntegers(v));
    }
    EXPECT_EQ(value->elements()[0].GetAsDouble(r), sum);
    EXPECT_EQ(value->elements()[1].GetAsDouble(r), most);
    differs |= sum != RoundToPairInIntegers(plain);
  }
  EXPECT_TRUE(differs) << "the data does not tell one rounding from many";
  EXPECT_THAT(p.executable->ToString(), ::testing::HasSubstr("to_apply=%max"));
}

TEST(F64Pairs, DotsAddRoundedProductsInOrder) {
  // Batch 2, left [2,k,3,b], right [5,b,k]: every order of dimensions at once.
  PreparedProgram p = PrepareInPairs(R"(HloModule m
ENTRY e {
  a = f64[3,17,2] parameter(0)
  b = f64[5,2,17] parameter(1)
  ROOT d = f64[2,3,5] dot(a, b), lhs_batch_dims={2}, rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={2}
})");
  const std::vector<double> a = Numbers(3 * 17 * 2, 11, 5), b = Numbers(5 * 2 * 17, 12, 5);
  const std::vector<double> got = RunIt(*p.executable, {F64(a, {3, 17, 2}), F64(b, {5, 2, 17})});
  ASSERT_EQ(got.size(), 30u);
  for (size_t n = 0; n < 2; ++n) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 5; ++j) {
        double sum = 0;
        for (size_t k = 0; k < 17; ++k) {
          const double x = RoundToPairInIntegers(a[(i * 17 + k) * 2 + n]),
                       y = RoundToPairInIntegers(b[(j * 2 + n) * 17 + k]);
          sum = RoundToPairInIntegers(sum + RoundToPairInIntegers(x * y));
        }
        EXPECT_EQ(got[(n * 3 + i) * 5 + j], sum) << n << " " << i << " " << j;
      }
    }
  }
}

TEST(F64Pairs, LoopsComplexNumbersAndFunctions) {
  PreparedProgram p = PrepareInPairs(R"(HloModule m
body { t = (s32[], f64[]) parameter(0) i = s32[] get-tuple-element(t), index=0 x = f64[] get-tuple-element(t), index=1
  one = s32[] constant(1) n = s32[] add(i, one) h = f64[] constant(1.1) y = f64[] multiply(x, h)
  ROOT r = (s32[], f64[]) tuple(n, y) }
cond { t = (s32[], f64[]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(50)
  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f64[] parameter(0) z = c128[4] parameter(1) zero = s32[] constant(0) t = (s32[], f64[]) tuple(zero, x)
  w = (s32[], f64[]) while(t), condition=cond, body=body
  p = f64[] get-tuple-element(w), index=1 q = c128[4] add(z, z) e = f64[] exponential(x) ROOT r = (f64[], c128[4], f64[]) tuple(p, q, e) })");
  const std::vector<std::complex<double>> z = {{0.1, -0.3}, {1e100, 1}, {1 + 0x1p-52, 0}, {-0.7, 1e-40}};
  absl::StatusOr<Literal> value =
      Evaluate(*p.executable, {F64({0.3}, {}).Reshape({}).value(), Literal::FromValues<std::complex<double>>({4}, z)});
  ASSERT_TRUE(value.ok()) << value.status();
  double x = RoundToPairInIntegers(0.3);
  for (int i = 0; i < 50; ++i) x = RoundToPairInIntegers(x * RoundToPairInIntegers(1.1));
  EXPECT_EQ(value->elements()[0].GetAsDouble(0), x);
  for (size_t i = 0; i < 4; ++i) {
    const std::complex<double> got = value->elements()[1].GetAsComplex(static_cast<int64_t>(i));
    EXPECT_EQ(got.real(), RoundToPairInIntegers(2 * RoundToPairInIntegers(z[i].real())));
    EXPECT_EQ(got.imag(), RoundToPairInIntegers(2 * RoundToPairInIntegers(z[i].imag())));
  }
  const double e = value->elements()[2].GetAsDouble(0);
  EXPECT_EQ(e, RoundToPairInIntegers(e));
  EXPECT_NEAR(e, std::exp(0.3), 0x1p-47);
}

TEST(F64Pairs, RoundsEachLeafOfACustomCall) {
  PreparedProgram p = PrepareInPairs(R"(HloModule m
ENTRY e { a = f64[8] parameter(0) c = (f64[8], (s32[], f64[2])) custom-call(a), custom_call_target="theirs"
  i = (s32[], f64[2]) get-tuple-element(c), index=1 x = f64[2] get-tuple-element(i), index=1
  ROOT r = ((f64[8], (s32[], f64[2])), f64[2]) tuple(c, x) })");
  // Three roundings of f64: the argument and each leaf of the call's result.
  size_t roundings = 0;
  for (const auto& i : p.executable->entry()->instructions()) roundings += i->Is(Opcode::kIsFinite);
  EXPECT_EQ(roundings, 3u) << p.executable->ToString();
}

TEST(F64Pairs, LeavesOtherTypesAndIeeeModeUnchanged) {
  const std::string f32 = "HloModule m\nENTRY e { a = f32[9] parameter(0) ROOT r = f32[9] multiply(a, a) }";
  EXPECT_EQ(PrepareInPairs(f32).executable->ToString(), PrepareFromText(f32).executable->ToString());
  const std::string f64 = "HloModule m\nENTRY e { a = f64[9] parameter(0) ROOT r = f64[9] multiply(a, a) }";
  EXPECT_THAT(PrepareFromText(f64).executable->ToString(), ::testing::Not(::testing::HasSubstr("is-finite")));
  PreparedProgram pairs = PrepareInPairs(f64);
  EXPECT_EQ(pairs.kernels->ToString(),
            PrepareFromText(f64).kernels->ToString());  // layouts, sizes and times do not depend on the mode
  EXPECT_EQ(pairs.schedule.seconds, PrepareFromText(f64).schedule.seconds);
}

}  // namespace
}  // namespace backplane::tpu
