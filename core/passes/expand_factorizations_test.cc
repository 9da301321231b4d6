// Custom calls that factorize matrices: the product of the factors must be the matrix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/passes/passes.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using ::testing::HasSubstr;

// Returns the module with its custom calls expanded, as the common pipeline does.
absl::StatusOr<std::unique_ptr<Module>> Expanded(const std::string& text) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  if (!module.ok()) return module;
  absl::StatusOr<bool> changed = MakeCommonPipeline()->Run(module->get());
  if (!changed.ok()) return changed.status();
  absl::Status verified = VerifyModule(**module);
  if (!verified.ok()) return verified;
  EXPECT_FALSE(absl::StrContains((*module)->ToString(), "custom-call"));
  return module;
}

Literal Random(const Shape& shape, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  Literal x(shape);
  for (int64_t i = 0; i < x.num_elements(); ++i) x.SetFromDouble(i, normal(rng));
  return x;
}

std::vector<Literal> Results(const Module& module, const std::vector<Literal>& arguments) {
  absl::StatusOr<Literal> result = Evaluate(module, arguments);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  return result->shape().IsTuple() ? result->elements() : std::vector<Literal>{*result};
}

struct Matrices {
  int64_t m, n;
  const Literal& x;
  double at(int64_t b, int64_t i, int64_t k) const { return x.GetAsDouble((b * m + i) * n + k); }
};

void CheckQr(const std::string& type, int64_t batch, int64_t m, int64_t n, double tolerance) {
  SCOPED_TRACE(absl::StrCat(type, " ", batch, "x", m, "x", n));
  const int64_t k = std::min(m, n);
  const std::string a = absl::StrCat(type, "[", batch, ",", m, ",", n, "]"),
                    t = absl::StrCat(type, "[", batch, ",", k, "]"),
                    square = absl::StrCat(type, "[", batch, ",", m, ",", k, "]");
  auto module =
      Expanded(absl::StrCat("HloModule m\nENTRY e {\n a = ", a, " parameter(0)\n q = (", a, ", ", t,
                            ") custom-call(a), custom_call_target=\"Qr\"\n r = ", a,
                            " get-tuple-element(q), index=0\n t = ", t, " get-tuple-element(q), index=1\n c = ", square,
                            " slice(r), slice={[0:", batch, "], [0:", m, "], [0:", k, "]}\n p = ", square,
                            " custom-call(c, t), custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n"
                            " ROOT o = (",
                            a, ", ", square, ", ", t, ") tuple(r, p, t)\n}\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  const Literal in = Random(*ParseShape(a), 5);
  const std::vector<Literal> out = Results(**module, {in});
  ASSERT_EQ(out.size(), 3u);
  const Matrices x{m, n, in}, r{m, n, out[0]}, q{m, k, out[1]};
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double product = 0;
        for (int64_t l = 0; l <= std::min(j, k - 1); ++l) product += q.at(b, i, l) * r.at(b, l, j);
        EXPECT_NEAR(product, x.at(b, i, j), tolerance);
      }
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        double product = 0;
        for (int64_t l = 0; l < m; ++l) product += q.at(b, l, i) * q.at(b, l, j);
        EXPECT_NEAR(product, i == j ? 1 : 0, tolerance);
      }
    }
    // The sign convention of LAPACK: the first diagonal element has the opposite sign of the column's first element.
    if (m > 1) {
      EXPECT_LT(r.at(b, 0, 0) * x.at(b, 0, 0), 0);
    }
  }
}

TEST(Factorizations, Qr) {
  CheckQr("f32", 1, 5, 3, 1e-5);
  CheckQr("f32", 3, 4, 4, 1e-5);
  CheckQr("f32", 2, 3, 6, 1e-5);
  CheckQr("f64", 2, 6, 4, 1e-12);
  CheckQr("f32", 1, 1, 1, 1e-6);
  CheckQr("bf16", 2, 3, 2, 0.05);
}

TEST(Factorizations, QrOfColumnsThatNeedNoReflectorAndOfLargeNumbers) {
  auto module = Expanded(
      "HloModule m\nENTRY e {\n a = f32[3,2] parameter(0)\n ROOT q = (f32[3,2], f32[2]) custom-call(a), "
      "custom_call_target=\"Qr\"\n}\n");
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<Literal> out = Results(**module, {*ParseLiteral(*ParseShape("f32[3,2]"), "{{2,1},{0,-3},{0,0}}")});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].GetAsDouble(0), 2);  // the column is zero below the diagonal already
  EXPECT_EQ(out[1].GetAsDouble(0), 0);
  out = Results(**module, {*ParseLiteral(*ParseShape("f32[3,2]"), "{{3e30,0},{4e30,0},{0,0}}")});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_NEAR(out[0].GetAsDouble(0) / -5e30, 1, 1e-6);
}

void CheckEigh(const std::string& type, int64_t batch, int64_t n, bool lower, double tolerance) {
  SCOPED_TRACE(absl::StrCat(type, " ", batch, "x", n, lower ? " lower" : " upper"));
  const std::string a = absl::StrCat(type, "[", batch, ",", n, ",", n, "]"),
                    w = absl::StrCat(type, "[", batch, ",", n, "]");
  auto module = Expanded(absl::StrCat("HloModule m\nENTRY e {\n a = ", a, " parameter(0)\n ROOT q = (", a, ", ", w,
                                      ") custom-call(a), custom_call_target=\"Eigh\", backend_config=\"", lower ? 1 : 0,
                                      ",1,100,0.000001\"\n}\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  const Literal in = Random(*ParseShape(a), 11);
  const std::vector<Literal> out = Results(**module, {in});
  ASSERT_EQ(out.size(), 2u);
  const Matrices x{n, n, in}, v{n, n, out[0]};
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t j = 0; j < n; ++j) {
      const double value = out[1].GetAsDouble(b * n + j);
      if (j > 0) {
        EXPECT_GE(value, out[1].GetAsDouble(b * n + j - 1));
      }
      for (int64_t i = 0; i < n; ++i) {
        double product = 0, gram = 0;
        for (int64_t l = 0; l < n; ++l) {
          const bool named = lower ? i >= l : i <= l;
          product += (named ? x.at(b, i, l) : x.at(b, l, i)) * v.at(b, l, j);
          gram += v.at(b, l, i) * v.at(b, l, j);
        }
        EXPECT_NEAR(product, value * v.at(b, i, j), tolerance);
        EXPECT_NEAR(gram, i == j ? 1 : 0, tolerance);
      }
    }
  }
}

TEST(Factorizations, Eigh) {
  CheckEigh("f32", 1, 1, true, 1e-6);
  CheckEigh("f32", 1, 2, true, 1e-5);
  CheckEigh("f32", 2, 5, false, 2e-5);
  CheckEigh("f32", 1, 6, true, 2e-5);
  CheckEigh("f64", 2, 7, true, 1e-9);
}

TEST(Factorizations, EighOfMatricesThatAreNotFiniteOrLarge) {
  auto module = Expanded(
      "HloModule m\nENTRY e {\n a = f32[5,2,2] parameter(0)\n ROOT q = (f32[5,2,2], f32[5,2]) custom-call(a), "
      "custom_call_target=\"Eigh\", backend_config=\"1,1,100,0.000001\"\n}\n");
  ASSERT_TRUE(module.ok()) << module.status();
  const Literal in = *ParseLiteral(*ParseShape("f32[5,2,2]"),
                                   "{{{1,0},{nan,1}},{{inf,0},{1,1}},{{2e38,1},{1e38,2e38}},{{2e-38,0},{1e-38,2e-38}},"
                                   "{{2,inf},{1,2}}}");
  const std::vector<Literal> out = Results(**module, {in});
  ASSERT_EQ(out.size(), 2u);
  for (int64_t k = 0; k < 8; ++k) EXPECT_TRUE(std::isnan(out[0].GetAsDouble(k))) << k;
  for (int64_t k = 0; k < 4; ++k) EXPECT_TRUE(std::isnan(out[1].GetAsDouble(k))) << k;
  EXPECT_NEAR(out[1].GetAsDouble(4) / 1e38, 1, 1e-5);
  EXPECT_NEAR(out[1].GetAsDouble(5) / 3e38, 1, 1e-5);
  EXPECT_NEAR(out[1].GetAsDouble(6) / 1e-38, 1, 1e-5);
  EXPECT_NEAR(out[1].GetAsDouble(7) / 3e-38, 1, 1e-5);
  EXPECT_NEAR(out[1].GetAsDouble(8), 1, 1e-5);  // the upper triangle is not read
  EXPECT_NEAR(out[1].GetAsDouble(9), 3, 1e-5);
  for (int64_t k = 8; k < 20; ++k) EXPECT_NEAR(std::abs(out[0].GetAsDouble(k)), std::sqrt(0.5), 1e-5) << k;
}

TEST(Factorizations, CallsThatDoNotFit) {
  auto error = [](const std::string& body) {
    return std::string(Expanded(absl::StrCat("HloModule m\nENTRY e {\n", body, "\n}\n")).status().message());
  };
  EXPECT_THAT(
      error(" a = f32[3,2] parameter(0)\n ROOT q = (f32[3,2], f32[3]) custom-call(a), custom_call_target=\"Qr\""),
      HasSubstr("expected (f32[3,2], f32[2])"));
  EXPECT_THAT(error(" a = f32[3] parameter(0)\n ROOT q = (f32[3], f32[3]) custom-call(a), custom_call_target=\"Qr\""),
              HasSubstr("the operand is f32[3]"));
  EXPECT_THAT(error(" a = f32[2,3] parameter(0)\n t = f32[2] parameter(1)\n ROOT q = f32[2,3] custom-call(a, t), "
                    "custom_call_target=\"ProductOfElementaryHouseholderReflectors\""),
              HasSubstr("2 reflectors for a product of 2 by 3"));
  EXPECT_THAT(error(" a = f32[2,2] parameter(0)\n ROOT q = (f32[2,2], f32[2]) custom-call(a), "
                    "custom_call_target=\"Eigh\", backend_config=\"1,1\""),
              HasSubstr("lower,sort,max_iter,tol"));
}

TEST(Factorizations, ProductOfNoReflectors) {
  auto module = Expanded(
      "HloModule m\nENTRY e {\n a = f32[2,3,2] parameter(0)\n t = f32[2,0] parameter(1)\n ROOT q = f32[2,3,2] "
      "custom-call(a, t), custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n}\n");
  ASSERT_TRUE(module.ok()) << module.status();
  const Shape a = *ParseShape("f32[2,3,2]");
  const std::vector<Literal> out = Results(**module, {Random(a, 3), Literal(*ParseShape("f32[2,0]"))});
  ASSERT_EQ(out.size(), 1u);
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(out[0].GetAsDouble(i), i % 6 == 0 || i % 6 == 3 ? 1 : 0) << i;
}

TEST(Factorizations, MatricesWithoutElements) {
  auto module = Expanded(
      "HloModule m\nENTRY e {\n a = f32[0,3] parameter(0)\n ROOT q = (f32[0,3], f32[0]) custom-call(a), "
      "custom_call_target=\"Qr\"\n}\n");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(Results(**module, {Literal(*ParseShape("f32[0,3]"))}).size(), 2u);
}

}  // namespace
}  // namespace backplane
