// CHLO operations against the functions of the C++ library, known constants, and each other.
#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "core/types/numeric.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
const char* Spelling();
template <>
const char* Spelling<float>() {
  return "f32";
}
template <>
const char* Spelling<double>() {
  return "f64";
}
template <>
const char* Spelling<std::complex<float>>() {
  return "complex<f32>";
}
template <>
const char* Spelling<std::complex<double>>() {
  return "complex<f64>";
}

Literal Interpret(const std::string& program, std::vector<Literal> arguments) {
  absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
  EXPECT_TRUE(m.ok()) << m.status() << "\n" << program;
  if (!m.ok()) return Literal();
  absl::StatusOr<Literal> r = Evaluate(**m, arguments);
  EXPECT_TRUE(r.ok()) << r.status();
  return r.ok() ? *std::move(r) : Literal();
}

std::string UnaryProgram(absl::string_view op, absl::string_view type) {
  return absl::StrCat("func.func public @main(%a: ", type, ") -> ", type, " {\n  %0 = chlo.", op, " %a : ", type,
                      " -> ", type, "\n  return %0 : ", type, "\n}\n");
}

template <typename T>
std::vector<T> Unary(absl::string_view op, const std::vector<T>& x) {
  const int64_t n = static_cast<int64_t>(x.size());
  Literal y = Interpret(UnaryProgram(op, absl::StrCat("tensor<", n, "x", Spelling<T>(), ">")),
                        {Literal::FromValues<T>({n}, x)});
  if (!y.valid()) return std::vector<T>(x.size());
  return std::vector<T>(y.data<T>().begin(), y.data<T>().end());
}

template <typename T>
std::vector<T> Binary(absl::string_view op, const std::vector<T>& x, const std::vector<T>& y) {
  const int64_t n = static_cast<int64_t>(x.size());
  const std::string type = absl::StrCat("tensor<", n, "x", Spelling<T>(), ">");
  Literal z =
      Interpret(absl::StrCat("func.func public @main(%a: ", type, ", %b: ", type, ") -> ", type, " {\n  %0 = chlo.", op,
                             " %a, %b : ", type, ", ", type, " -> ", type, "\n  return %0 : ", type, "\n}\n"),
                {Literal::FromValues<T>({n}, x), Literal::FromValues<T>({n}, y)});
  if (!z.valid()) return std::vector<T>(x.size());
  return std::vector<T>(z.data<T>().begin(), z.data<T>().end());
}

// |got - want| in units of the last place of want, or of `scale` where that is larger (for functions with zeros).
template <typename T>
double Ulps(T got, double want, double scale = 0) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInf;
  const T rounded = static_cast<T>(want);
  if (got == rounded) return 0;
  if (std::isinf(rounded) || std::isinf(got) || std::isnan(got)) return kInf;
  const T size = std::max(std::abs(rounded), static_cast<T>(scale));
  const T unit =
      std::max(std::nextafter(size, std::numeric_limits<T>::infinity()) - size, std::numeric_limits<T>::denorm_min());
  return std::abs(static_cast<double>(got) - want) / static_cast<double>(unit);
}

template <typename T>
void ExpectUnary(absl::string_view op, const std::vector<T>& x, const std::function<double(double)>& f, double ulps,
                 double scale = 0) {
  SCOPED_TRACE(absl::StrCat("chlo.", op, " of ", Spelling<T>()));
  const std::vector<T> y = Unary<T>(op, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(Ulps(y[i], f(static_cast<double>(x[i])), scale), ulps)
        << op << "(" << x[i] << ") = " << y[i] << ", expected " << f(static_cast<double>(x[i]));
  }
}

// Numbers of every size and both signs, zeros and infinities.
template <typename T>
std::vector<T> Samples(double low, double high) {
  std::vector<T> x;
  const double tiny = std::is_same_v<T, float> ? 1e-38 : 1e-300, huge = std::is_same_v<T, float> ? 1e38 : 1e300;
  for (double v : {0.0, 1e-20, 1e-6, 0.001, 0.1, 0.25, 0.49, 0.5,  0.7,  0.9,   0.9999, 1.0,  1.0001, 1.4,  2.0,
                   2.5, 3.0,   4.0,  5.5,   7.9, 8.1,  10.0, 20.5, 30.0, 100.0, 1e4,    1e10, huge,   tiny, kInf}) {
    for (double s : {v, -v}) {
      if (s >= low && s <= high) x.push_back(static_cast<T>(s));
    }
  }
  x.push_back(static_cast<T>(kNan));
  return x;
}

template <typename T>
class ChloReal : public ::testing::Test {};
using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ChloReal, RealTypes);

TYPED_TEST(ChloReal, InverseAndHyperbolicFunctions) {
  using T = TypeParam;
  const std::vector<T> all = Samples<T>(-kInf, kInf), unit = Samples<T>(-1, 1), above = Samples<T>(1, kInf);
  ExpectUnary<T>(
      "acos", unit, [](double x) { return std::acos(x); }, 3);
  ExpectUnary<T>(
      "asin", unit, [](double x) { return std::asin(x); }, 3);
  ExpectUnary<T>(
      "atan", all, [](double x) { return std::atan(x); }, 2);
  ExpectUnary<T>(
      "acosh", above, [](double x) { return std::acosh(x); }, 3);
  ExpectUnary<T>(
      "asinh", all, [](double x) { return std::asinh(x); }, 3);
  ExpectUnary<T>(
      "atanh", unit, [](double x) { return std::atanh(x); }, 3);
  ExpectUnary<T>(
      "sinh", all, [](double x) { return std::sinh(x); }, 4);
  ExpectUnary<T>(
      "cosh", all, [](double x) { return std::cosh(x); }, 3);
  ExpectUnary<T>(
      "acosh", {T(0.5), T(-3), T(-1e10), T(-kInf)}, [](double) { return kNan; }, 0);
  ExpectUnary<T>(
      "atanh", {T(1.5), T(-3), T(kInf)}, [](double) { return kNan; }, 0);
}

TYPED_TEST(ChloReal, SmallNumbersKeepTheirSign) {
  using T = TypeParam;
  for (const char* op : {"asin", "atan", "asinh", "atanh", "sinh", "erf_inv"}) {
    std::vector<T> y = Unary<T>(op, {T(0.0), T(-0.0)});
    EXPECT_EQ(y[0], 0) << op;
    EXPECT_FALSE(std::signbit(y[0])) << op;
    EXPECT_EQ(y[1], 0) << op;
  }
}

TYPED_TEST(ChloReal, GammaFamily) {
  using T = TypeParam;
  // Absolute digits near the zeros at 1 and 2.
  ExpectUnary<T>(
      "lgamma", Samples<T>(1e-6, 1e30), [](double x) { return std::lgamma(x); }, 16, 1);
  ExpectUnary<T>(
      "lgamma", {T(-0.5), T(-1.5), T(-2.25), T(-7.75)}, [](double x) { return std::lgamma(x); }, 60, 1);
  ExpectUnary<T>(
      "lgamma", {T(0), T(-1), T(-2), T(kInf), T(-kInf)}, [](double) { return kInf; }, 0);
  const double gamma = 0.57721566490153286061;
  ExpectUnary<T>(
      "digamma", {T(1)}, [&](double) { return -gamma; }, 16, 1);
  ExpectUnary<T>(
      "digamma", {T(0.5)}, [&](double) { return -gamma - 2 * std::log(2.0); }, 16, 1);
  ExpectUnary<T>(
      "digamma", {T(10)}, [](double) { return 2.2517525890667211076; }, 4);
  ExpectUnary<T>(
      "digamma", {T(-0.5)}, [&](double) { return 2 - gamma - 2 * std::log(2.0); }, 16, 1);
  ExpectUnary<T>(
      "digamma", {T(0), T(-1), T(-5)}, [](double) { return kNan; }, 0);
}

TYPED_TEST(ChloReal, ErrorFunctions) {
  using T = TypeParam;
  ExpectUnary<T>(
      "erf", Samples<T>(-kInf, kInf), [](double x) { return std::erf(x); }, 3);
  std::vector<T> x = {T(-kInf), T(-30), T(-5), T(-1.5), T(-0.4), T(0), T(0.3),  T(0.99), T(1.01),
                      T(1.9),   T(2.1), T(4),  T(6.5),  T(8.5),  T(9), T(kInf), T(kNan)};
  ExpectUnary<T>(
      "erfc", x, [](double v) { return std::erfc(v); }, 8);
  // The inverse of erf, where rounding x does not matter more than the function.
  for (T v : {T(-0.999), T(-0.9), T(-0.5), T(-1e-5), T(0), T(1e-10), T(0.3), T(0.7), T(0.95), T(0.9999)}) {
    const T y = Unary<T>("erf_inv", {v})[0];
    const double slope = 1.1283791670955126 * std::exp(-static_cast<double>(y) * y);
    EXPECT_NEAR(std::erf(static_cast<double>(y)), v,
                8 * slope * std::abs(y) * std::numeric_limits<T>::epsilon() + 1e-300)
        << v;
  }
  ExpectUnary<T>(
      "erf_inv", {T(1), T(-1)}, [](double v) { return v * kInf; }, 0);
  ExpectUnary<T>(
      "erf_inv", {T(1.5), T(-2)}, [](double) { return kNan; }, 0);
}

TYPED_TEST(ChloReal, BesselFunction) {
  using T = TypeParam;
  std::vector<T> x = {T(0), T(1e-5), T(0.5), T(1), T(3), T(7.9), T(8.1), T(20), T(100)};
  ExpectUnary<T>(
      "bessel_i1e", x, [](double v) { return std::cyl_bessel_i(1.0, v) * std::exp(-v); }, 8);
  ExpectUnary<T>(
      "bessel_i1e", {T(-3)}, [](double) { return -std::cyl_bessel_i(1.0, 3.0) * std::exp(-3.0); }, 8);
}

TYPED_TEST(ChloReal, ZetaAndPolygamma) {
  using T = TypeParam;
  const double pi = M_PI;
  std::vector<T> z = Binary<T>("zeta", {T(2), T(4), T(3), T(2), T(1), T(0.5), T(2), T(3), T(50), T(2.5), T(2)},
                               {T(1), T(1), T(1), T(3), T(2), T(2), T(-1), T(-1), T(2), T(-1.5), T(kNan)});
  const double want[] = {pi * pi / 6,
                         pi * pi * pi * pi / 90,
                         1.2020569031595942854,
                         pi * pi / 6 - 1.25,
                         kInf,
                         kNan,
                         kInf,
                         kNan,
                         std::riemann_zeta(50.0) - 1,
                         kNan,
                         kNan};
  for (size_t i = 0; i < z.size(); ++i) {
    // riemann_zeta(50) - 1 has few digits; its leading term has them all.
    const double expected = i == 8 ? std::pow(2.0, -50) * (1 + std::pow(1.5, -50)) : want[i];
    EXPECT_LE(Ulps(z[i], expected), 8) << i << ": " << z[i];
  }
  std::vector<T> p =
      Binary<T>("polygamma", {T(0), T(1), T(2), T(1), T(-1), T(1.5)}, {T(1), T(1), T(1), T(0.5), T(1), T(1)});
  const double polygamma[] = {-0.57721566490153286061, pi * pi / 6, -2.4041138063191885708, pi * pi / 2, kNan, kNan};
  for (size_t i = 0; i < p.size(); ++i) EXPECT_LE(Ulps(p[i], polygamma[i]), 16) << i << ": " << p[i];
}

TYPED_TEST(ChloReal, NextAfter) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity(), max = std::numeric_limits<T>::max();
  std::vector<T> x = {T(1), T(1), T(-1), T(-1), T(0), T(0), T(-0.0), T(5), max, inf, -inf, T(kNan), T(1)};
  std::vector<T> y = {T(2), T(0), T(2), T(-9), T(1), T(-1), T(0), T(5), inf, T(0), T(0), T(1), T(kNan)};
  std::vector<T> z = Binary<T>("next_after", x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    const T want = std::nextafter(x[i], y[i]);
    EXPECT_TRUE(z[i] == want || (std::isnan(want) && std::isnan(z[i]))) << x[i] << " to " << y[i] << ": " << z[i];
  }
}

template <typename P>
class ChloComplex : public ::testing::Test {};
TYPED_TEST_SUITE(ChloComplex, RealTypes);

template <typename P>
std::vector<std::complex<P>> Plane() {
  std::vector<std::complex<P>> z;
  const double huge = std::is_same_v<P, float> ? 3e38 : 1e308, tiny = std::is_same_v<P, float> ? 1e-38 : 1e-307;
  const double parts[] = {0.0, tiny, 1e-10, 0.3, 0.999, 1.0, 1.001, 1.7, 20.0, 1e10, huge, kInf};
  for (double re : parts) {
    for (double im : parts) {
      for (int signs = 0; signs < 4; ++signs) {
        z.emplace_back(static_cast<P>(signs & 1 ? -re : re), static_cast<P>(signs & 2 ? -im : im));
      }
    }
  }
  return z;
}

TYPED_TEST(ChloComplex, InverseFunctions) {
  using P = TypeParam;
  using Z = std::complex<long double>;
  struct Row {
    const char* name;
    std::function<Z(Z)> f;
  };
  const Row rows[] = {{"asin", [](Z z) { return std::asin(z); }},   {"acos", [](Z z) { return std::acos(z); }},
                      {"asinh", [](Z z) { return std::asinh(z); }}, {"acosh", [](Z z) { return std::acosh(z); }},
                      {"atan", [](Z z) { return std::atan(z); }},   {"atanh", [](Z z) { return std::atanh(z); }}};
  const std::vector<std::complex<P>> z = Plane<P>();
  for (const Row& row : rows) {
    const std::vector<std::complex<P>> got = Unary<std::complex<P>>(row.name, z);
    int bad = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      const Z want = row.f(Z(z[i].real(), z[i].imag()));
      for (bool imaginary : {false, true}) {
        const double w = static_cast<double>(imaginary ? want.imag() : want.real());
        const P g = imaginary ? got[i].imag() : got[i].real();
        // Numbers below the normal ones have fewer digits.
        const double ulps = Ulps(g, w, std::numeric_limits<P>::min());
        if (ulps > 8 && ++bad < 10) {
          ADD_FAILURE() << row.name << z[i] << " = " << got[i] << ", expected " << (imaginary ? "imaginary " : "real ")
                        << w << ", off by " << ulps;
        }
        if (w == 0 && !std::isnan(g)) {
          EXPECT_EQ(std::signbit(g), std::signbit(w)) << row.name << z[i] << (imaginary ? " imag" : " real");
        }
      }
    }
    EXPECT_EQ(bad, 0) << row.name;
  }
}

TYPED_TEST(ChloComplex, SinhSquareAndConjugate) {
  using P = TypeParam;
  using Z = std::complex<P>;
  std::vector<Z> z = {Z(0.5, 1), Z(-2, 0.25), Z(3, -4), Z(1e-6, 1e-6)};
  std::vector<Z> s = Unary<Z>("sinh", z), q = Unary<Z>("square", z), c = Unary<Z>("conj", z);
  for (size_t i = 0; i < z.size(); ++i) {
    EXPECT_LE(std::abs(s[i] - std::sinh(z[i])), 8 * std::numeric_limits<P>::epsilon() * std::abs(s[i]));
    EXPECT_LE(std::abs(q[i] - z[i] * z[i]), 8 * std::numeric_limits<P>::epsilon() * std::abs(q[i]));
    EXPECT_EQ(c[i], std::conj(z[i]));
  }
}

TEST(Chlo, NarrowFloatsAreComputedInF32) {
  Literal x = *Literal::FromValues<float>({3}, {0.25f, 2.5f, -0.5f}).Convert(PrimitiveType::kBF16);
  Literal y = Interpret(UnaryProgram("lgamma", "tensor<3xbf16>"), {x});
  ASSERT_EQ(y.shape().element_type(), PrimitiveType::kBF16);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(y.GetAsDouble(i), std::lgamma(x.GetAsDouble(i)), 0.004 * std::abs(y.GetAsDouble(i)));
  }
}

TEST(Chlo, ClassOfInfinities) {
  auto run = [](absl::string_view op) {
    Literal y = Interpret(absl::StrCat("func.func public @main(%a: tensor<4xf32>) -> tensor<4xi1> {\n  %0 = chlo.", op,
                                       " %a : tensor<4xf32> -> tensor<4xi1>\n  return %0 : tensor<4xi1>\n}\n"),
                          {Literal::FromValues<float>({4}, {1.0f, INFINITY, -INFINITY, NAN})});
    std::string s;
    for (int64_t i = 0; y.valid() && i < 4; ++i) s += y.GetAsInt(i) != 0 ? '1' : '0';
    return s;
  };
  EXPECT_EQ(run("is_inf"), "0110");
  EXPECT_EQ(run("is_pos_inf"), "0100");
  EXPECT_EQ(run("is_neg_inf"), "0010");
}

TEST(Chlo, BroadcastingForms) {
  const char* program = R"(
func.func public @main(%a: tensor<2x3xf64>, %b: tensor<3xf64>, %p: tensor<i1>) -> (tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xi1>, tensor<2x3xf64>) {
  %0 = chlo.broadcast_zeta %a, %b {broadcast_dimensions = array<i64: 1>} : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  %1 = chlo.broadcast_next_after %b, %a : (tensor<3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %2 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xi1>
  %3 = chlo.broadcast_select %p, %a, %b : (tensor<i1>, tensor<2x3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
  return %0, %1, %2, %3 : tensor<2x3xf64>, tensor<2x3xf64>, tensor<2x3xi1>, tensor<2x3xf64>
})";
  Literal pred(Shape::Scalar(PrimitiveType::kPred));
  Literal r = Interpret(program, {Literal::FromValues<double>({2, 3}, {2, 3, 4, 5, 6, 7}),
                                  Literal::FromValues<double>({3}, {1, 2, 9}), pred});
  ASSERT_TRUE(r.valid());
  const std::vector<Literal>& e = r.elements();
  EXPECT_NEAR(e[0].GetAsDouble(0), M_PI * M_PI / 6, 1e-14);
  EXPECT_NEAR(e[0].GetAsDouble(1), 1.2020569031595942854 - 1, 1e-14);
  EXPECT_EQ(e[1].GetAsDouble(2), std::nextafter(9.0, 0.0));
  EXPECT_EQ(e[1].GetAsDouble(4), std::nextafter(2.0, 9.0));
  EXPECT_EQ(e[2].GetAsInt(2), 0);
  EXPECT_EQ(e[2].GetAsInt(4), 1);
  EXPECT_EQ(e[3].GetAsDouble(5), 9);
}

TEST(Chlo, HighHalvesOfProducts) {
  const char* program = R"(
func.func public @main(%a: tensor<4xi64>, %b: tensor<4xi64>, %c: tensor<4xui64>, %d: tensor<4xui64>) -> (tensor<4xi64>, tensor<4xui64>) {
  %0 = chlo.mulhi %a, %b : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
  %1 = chlo.mulhi %c, %d : tensor<4xui64>, tensor<4xui64> -> tensor<4xui64>
  return %0, %1 : tensor<4xi64>, tensor<4xui64>
})";
  const std::vector<int64_t> a = {INT64_MIN, -1, 0x123456789abcdef, INT64_MAX},
                             b = {INT64_MIN, 1, -0x7edcba9876543210, INT64_MIN};
  const std::vector<uint64_t> c = {UINT64_MAX, 1, 0xfedcba9876543210, uint64_t{1} << 63},
                              d = {UINT64_MAX, UINT64_MAX, 0x123456789abcdef, 2};
  Literal r = Interpret(program, {Literal::FromValues<int64_t>({4}, a), Literal::FromValues<int64_t>({4}, b),
                                  Literal::FromValues<uint64_t>({4}, c), Literal::FromValues<uint64_t>({4}, d)});
  ASSERT_TRUE(r.valid());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(r.elements()[0].data<int64_t>()[i], static_cast<int64_t>((static_cast<__int128>(a[i]) * b[i]) >> 64))
        << i;
    EXPECT_EQ(r.elements()[1].data<uint64_t>()[i],
              static_cast<uint64_t>((static_cast<unsigned __int128>(c[i]) * d[i]) >> 64))
        << i;
  }
}

TEST(Chlo, UnknownFunctionsAndTypesAreNamed) {
  auto error = [](absl::string_view op, absl::string_view type) {
    return std::string(ImportProgram("mlir", UnaryProgram(op, type)).status().message());
  };
  EXPECT_THAT(error("lgamma", "tensor<2xcomplex<f32>>"), HasSubstr("chlo.lgamma of c64[2] is not supported"));
  EXPECT_THAT(error("asin", "tensor<2xi32>"), HasSubstr("chlo.asin of s32[2] is not supported"));
  EXPECT_THAT(error("gudermann", "tensor<2xf32>"), HasSubstr("gudermann"));
}

// The readers do not know how many operands and results these operations have, nor their attributes.
TEST(Chlo, OperationsOfAWrongFormAreRefused) {
  const char* types[] = {"tensor<f32>", "tensor<2xi1>", "tensor<3xcomplex<f32>>", "!stablehlo.token",
                         "tuple<tensor<f32>>"};
  const char* attributes[] = {"", "k = 1 : i64", "value = 1.0 : f32",
                              "comparison_direction = #chlo<comparison_direction EQ>"};
  int programs = 0;
  for (absl::string_view name : {"constant",
                                 "constant_like",
                                 "top_k",
                                 "ragged_dot",
                                 "scan",
                                 "mulhi",
                                 "erf",
                                 "lgamma",
                                 "zeta",
                                 "conj",
                                 "is_inf",
                                 "broadcast_compare",
                                 "broadcast_select",
                                 "broadcast_add",
                                 "broadcast_zeta",
                                 "broadcast_complex",
                                 "broadcast_partition_id",
                                 "broadcast_convert",
                                 "broadcast_rng",
                                 "broadcast_after_all"}) {
    for (absl::string_view type : types) {
      for (int operands = 0; operands < 4; ++operands) {
        for (int results = 0; results < 3; ++results) {
          for (absl::string_view attribute : attributes) {
            std::string in, in_types, out_types;
            for (int i = 0; i < operands; ++i) {
              absl::StrAppend(&in, i ? ", " : "", "%a");
              absl::StrAppend(&in_types, i ? ", " : "", type);
            }
            for (int i = 0; i < results; ++i) absl::StrAppend(&out_types, i ? ", " : "", type);
            const std::string program =
                absl::StrCat("func.func public @main(%a: ", type, ") {\n  ",
                             results ? absl::StrCat("%0:", results, " = ") : "", "\"chlo.", name, "\"(", in, ") {",
                             attribute, "} : (", in_types, ") -> (", out_types, ")\n  return\n}\n");
            absl::StatusOr<std::unique_ptr<Module>> m = ImportProgram("mlir", program);
            EXPECT_EQ(m.ok(), m.status().message().empty()) << program;
            ++programs;
          }
        }
      }
    }
  }
  EXPECT_EQ(programs, 20 * 5 * 4 * 3 * 4);
  auto error = [](absl::string_view op) {
    return std::string(
        ImportProgram("mlir", absl::StrCat("func.func public @main(%a: tensor<4xf32>) {\n  ", op, "\n  return\n}\n"))
            .status()
            .message());
  };
  EXPECT_THAT(error("%0 = \"chlo.constant\"() : () -> tensor<f32>"), HasSubstr("expected a constant tensor"));
  EXPECT_THAT(error("%0:2 = \"chlo.top_k\"() {k = 1 : i64} : () -> (tensor<1xf32>, tensor<1xi32>)"),
              HasSubstr("has 0 operands and 2 results, expected 1 and 2"));
  for (absl::string_view operands : {"() {", "(%a) {"}) {
    EXPECT_NE(error(absl::StrCat("%0 = \"chlo.broadcast_compare\"", operands,
                                 "comparison_direction = #chlo<comparison_direction EQ>} : (",
                                 operands == "() {" ? "" : "tensor<4xf32>", ") -> tensor<4xi1>")),
              "");
  }
}

}  // namespace
}  // namespace backplane
