// Linear algebra and Fourier transforms as kernels, compared with the evaluator on the host and in
// machine code.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

using Replacements = std::vector<std::pair<std::string, std::string>>;

// Nothing may be left to the host.
Compiled Check(const std::string& pattern, const Replacements& replacements, double tolerance,
               const std::string& target = "host") {
  const std::string hlo = absl::StrReplaceAll(pattern, replacements);
  SCOPED_TRACE(hlo);
  Compiled compiled = CompileAndCompare(hlo, target, tolerance);
  for (const std::string& line : compiled.log) EXPECT_FALSE(absl::StartsWith(line, "on the host:")) << line;
  return compiled;
}

bool IsComplexName(const std::string& type) { return type == "c64" || type == "c128"; }

class LinearAlgebraCode : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, LinearAlgebraCode, testing::Values("gfx942", "gfx1100"));

// Of x x^H + n, which is positive definite.
constexpr char kCholesky[] = R"(HloModule m
ENTRY e {
  x = TYPE[2,#,#] parameter(0)
  PREPARE
  p = TYPE[2,#,#] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  i = s32[2,#,#] iota(), iota_dimension=1
  j = s32[2,#,#] iota(), iota_dimension=2
  d = pred[2,#,#] compare(i, j), direction=EQ
  n = TYPE[] constant(SHIFT)
  nb = TYPE[2,#,#] broadcast(n), dimensions={}
  q = TYPE[2,#,#] add(p, nb)
  a = TYPE[2,#,#] select(d, q, p)
  ROOT r = TYPE[2,#,#] cholesky(a), lower=LOWER
})";

Replacements CholeskyOf(const std::string& type, int n, bool lower, double shift) {
  std::string prepare = "y = TYPE[2,#,#] add(x, x)";
  if (IsComplexName(type)) {
    prepare = absl::StrReplaceAll(R"(re = PART[2,#,#] real(x)
  im = PART[2,#,#] imag(x)
  ni = PART[2,#,#] negate(im)
  y = TYPE[2,#,#] complex(re, ni))",
                                  {{"PART", type == "c64" ? "f32" : "f64"}});
  }
  return {{"PREPARE", absl::StrReplaceAll(prepare, {{"TYPE", type}, {"#", absl::StrCat(n)}})},
          {"TYPE", type},
          {"SHIFT", IsComplexName(type) ? absl::StrCat("(", shift, ", 0)") : absl::StrCat(shift)},
          {"LOWER", lower ? "true" : "false"},
          {"#", absl::StrCat(n)}};
}

TEST(Cholesky, FactorsMatrices) {
  for (const char* type : {"f32", "f64", "bf16", "c64", "c128"}) {
    for (const int n : {1, 7, 33, 64, 65, 150}) {
      if (n != 7 && n != 65 && std::string(type) != "f32") continue;
      for (const bool lower : {true, false})
        Check(kCholesky, CholeskyOf(type, n, lower, 2 * n), std::string(type) == "bf16" ? 0.05 : 1e-4);
    }
  }
}

// Not positive definite: no element is a number, also where only a late part of the matrix shows it.
TEST(Cholesky, HasNoFactorOfOtherMatrices) {
  for (const int n : {1, 5, 64, 150}) Check(kCholesky, CholeskyOf("f32", n, true, -100 * n), 0);
  Check(R"(HloModule m
ENTRY e {
  i = s32[130,130] iota(), iota_dimension=0
  j = s32[130,130] iota(), iota_dimension=1
  same = pred[130,130] compare(i, j), direction=EQ
  l = s32[] constant(LAST)
  lb = s32[130,130] broadcast(l), dimensions={}
  at = pred[130,130] compare(i, lb), direction=EQ
  one = f32[] constant(1)
  ones = f32[130,130] broadcast(one), dimensions={}
  z = f32[] constant(0)
  zeros = f32[130,130] broadcast(z), dimensions={}
  v = f32[130,130] select(at, zeros, ones)
  a = f32[130,130] select(same, v, zeros)
  ROOT r = f32[130,130] cholesky(a), lower=true
})",
        {{"LAST", "127"}}, 0);
}

constexpr char kSolve[] = R"(HloModule m
ENTRY e {
  x = TYPE[3,#,#] parameter(0)
  b = TYPE[3,RIGHT] parameter(1)
  i = s32[3,#,#] iota(), iota_dimension=1
  j = s32[3,#,#] iota(), iota_dimension=2
  d = pred[3,#,#] compare(i, j), direction=EQ
  n = TYPE[] constant(SHIFT)
  nb = TYPE[3,#,#] broadcast(n), dimensions={}
  q = TYPE[3,#,#] add(x, nb)
  a = TYPE[3,#,#] select(d, q, x)
  s = TYPE[] constant(SCALE)
  sb = TYPE[3,#,#] broadcast(s), dimensions={}
  t = TYPE[3,#,#] divide(a, sb)
  ROOT r = TYPE[3,RIGHT] triangular-solve(t, b), left_side=LEFT, lower=LOWER, unit_diagonal=UNIT, transpose_a=TRANSPOSE
})";

Replacements SolveOf(const std::string& type, int n, int vectors, bool left, bool lower, bool unit,
                     const std::string& transpose) {
  auto number = [&](int x) { return IsComplexName(type) ? absl::StrCat("(", x, ", 0)") : absl::StrCat(x); };
  return {{"RIGHT", left ? absl::StrCat(n, ",", vectors) : absl::StrCat(vectors, ",", n)},
          {"#", absl::StrCat(n)},
          {"TYPE", type},
          {"SHIFT", number(3 * n)},
          {"SCALE", number(3 * n)},
          {"LEFT", left ? "true" : "false"},
          {"LOWER", lower ? "true" : "false"},
          {"UNIT", unit ? "true" : "false"},
          {"TRANSPOSE", transpose}};
}

TEST(TriangularSolve, SolvesInAllForms) {
  for (const int n : {5, 150}) {
    for (const bool left : {true, false}) {
      for (const bool lower : {true, false}) {
        for (const char* transpose : {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}) {
          for (const char* type : {"f32", "c64"}) {
            if (n == 150 && (std::string(type) == "f32") != (std::string(transpose) != "ADJOINT")) continue;
            Check(kSolve, SolveOf(type, n, 9, left, lower, n == 5 && lower, transpose), 1e-4);
          }
        }
      }
    }
  }
}

TEST(TriangularSolve, SolvesForManyVectors) {
  for (const char* type : {"f32", "f64", "bf16", "c128"}) {
    for (const int n : {1, 31, 65}) {
      for (const int vectors : {1, 100})
        Check(kSolve, SolveOf(type, n, vectors, true, true, false, "NO_TRANSPOSE"),
              std::string(type) == "bf16" ? 0.05 : 1e-4);
    }
  }
}

TEST(LinearAlgebra, CompilesForGpus) {
  for (const char* type : {"f32", "f64", "c128"}) {
    ExpectCompilesForGpus(absl::StrReplaceAll(kCholesky, CholeskyOf(type, 50, true, 100)));
    ExpectCompilesForGpus(absl::StrReplaceAll(kSolve, SolveOf(type, 50, 70, true, true, false, "ADJOINT")));
  }
}

TEST_P(LinearAlgebraCode, FactorsAndSolves) {
  Check(kCholesky, CholeskyOf("f32", 20, true, 40), 1e-4, GetParam());
  Check(kCholesky, CholeskyOf("f64", 9, false, 40), 1e-6, GetParam());
  Check(kSolve, SolveOf("f32", 20, 7, true, true, false, "NO_TRANSPOSE"), 1e-4, GetParam());
  Check(kSolve, SolveOf("f32", 9, 7, false, true, false, "TRANSPOSE"), 1e-4, GetParam());
}

// ---- Fourier transforms.

constexpr char kFft[] = R"(HloModule m
ENTRY e {
  x = FROM[INPUT] parameter(0)
  ROOT r = TO[OUTPUT] fft(x), fft_type=KIND, fft_length={LENGTH}
})";

TEST(Fft, TransformsOfAnyLength) {
  // Those of 97 and 1042 are convolutions.
  for (const int n : {1, 2, 64, 97, 100, 1042}) {
    const std::string length = absl::StrCat(n), half = absl::StrCat(n / 2 + 1);
    auto check = [&](const char* from, const char* to, const char* kind, const std::string& input,
                     const std::string& output, double tolerance) {
      Check(kFft,
            {{"FROM", from},
             {"TO", to},
             {"INPUT", "3," + input},
             {"OUTPUT", "3," + output},
             {"KIND", kind},
             {"LENGTH", length}},
            tolerance);
    };
    check("c64", "c64", "FFT", length, length, 2e-4);
    check("c128", "c128", "IFFT", length, length, 1e-10);
    check("f32", "c64", "RFFT", length, half, 2e-4);
    check("c128", "f64", "IRFFT", half, length, 1e-10);
  }
}

TEST(Fft, TransformsSeveralDimensions) {
  for (const char* kind : {"FFT", "IFFT"}) {
    Check(
        kFft,
        {{"FROM", "c64"}, {"TO", "c64"}, {"INPUT", "2,6,70"}, {"OUTPUT", "2,6,70"}, {"KIND", kind}, {"LENGTH", "6,70"}},
        1e-4);
  }
  Check(
      kFft,
      {{"FROM", "f64"}, {"TO", "c128"}, {"INPUT", "4,5,9"}, {"OUTPUT", "4,5,5"}, {"KIND", "RFFT"}, {"LENGTH", "4,5,9"}},
      1e-10);
  Check(
      kFft,
      {{"FROM", "c64"}, {"TO", "f32"}, {"INPUT", "4,5,5"}, {"OUTPUT", "4,5,8"}, {"KIND", "IRFFT"}, {"LENGTH", "4,5,8"}},
      1e-4);
}

// Both parts of the results, or their only part twice.
constexpr char kFftParts[] = R"(HloModule m
ENTRY e {
  x = FROM[INPUT] parameter(0)
  y = TO[OUTPUT] fft(x), fft_type=KIND, fft_length={LENGTH}
  r = PART[OUTPUT] real(y)
  i = PART[OUTPUT] imag(y)
  ROOT t = (PART[OUTPUT], PART[OUTPUT]) tuple(r, i)
})";

Replacements FftOf(const std::string& kind, bool is_double, const std::string& rows, const std::vector<int>& lengths) {
  const std::string all = absl::StrJoin(lengths, ",");
  std::vector<int> half = lengths;
  half.back() = half.back() / 2 + 1;
  const std::string bins = rows + absl::StrJoin(half, ","), complex = is_double ? "c128" : "c64";
  const std::string real = is_double ? "f64" : "f32";
  return {{"FROM", kind == "RFFT" ? real : complex},
          {"TO", kind == "IRFFT" ? real : complex},
          {"INPUT", kind == "IRFFT" ? bins : rows + all},
          {"OUTPUT", kind == "RFFT" ? bins : rows + all},
          {"KIND", kind},
          {"LENGTH", all},
          {"PART", real}};
}

// Transforms of one stage for each dimension add in the order of the definition. The lengths have passes of radix 2, 3,
// 4, 5, 8, of odd radices in registers and in shared memory, and lines that do not fill a block.
TEST(Fft, HasTheBitsOfTheDefinition) {
  for (const char* kind : {"FFT", "IFFT", "RFFT", "IRFFT"}) {
    for (const int n : {2, 3, 5, 8, 9, 13, 15, 16, 17, 32, 33, 34, 51, 61, 77, 120, 1024})
      Check(kFftParts, FftOf(kind, n % 2 == 0, "5,", {n}), 0);
    Check(kFftParts, FftOf(kind, false, "3,", {6, 17, 20}), 0);
    Check(kFftParts, FftOf(kind, true, "", {40, 1, 19}), 0);
  }
  Check(kFftParts, FftOf("RFFT", false, "2,", {4096}), 0);
}

TEST(Fft, DividesLongLinesIntoStages) {
  for (const char* kind : {"FFT", "IFFT"}) {
    Check(kFftParts, FftOf(kind, false, "2,", {4096}), 2e-4);
    Check(kFftParts, FftOf(kind, true, "3,", {3, 2310}), 1e-11);
    Check(kFftParts, FftOf(kind, true, "", {4500, 3}), 1e-11);
    Check(kFftParts, FftOf(kind, false, "", {1 << 19}), 3e-3);
  }
  Check(kFftParts, FftOf("RFFT", false, "2,", {9000}), 1e-3);
  Check(kFftParts, FftOf("IRFFT", true, "2,", {4100}), 1e-11);
  Check(kFftParts, FftOf("IRFFT", false, "", {2500, 6}), 1e-4);
}

TEST(Fft, CompilesForGpus) {
  for (const char* kind : {"FFT", "IFFT", "RFFT", "IRFFT"}) {
    ExpectCompilesForGpus(absl::StrReplaceAll(kFftParts, FftOf(kind, false, "3,", {1000})));
    ExpectCompilesForGpus(absl::StrReplaceAll(kFftParts, FftOf(kind, true, "", {13, 11, 37})));
  }
  ExpectCompilesForGpus(absl::StrReplaceAll(kFftParts, FftOf("FFT", true, "", {1 << 20})));
}

TEST_P(LinearAlgebraCode, TransformsFrequencies) {
  Check(kFft,
        {{"FROM", "c64"}, {"TO", "c64"}, {"INPUT", "2,130"}, {"OUTPUT", "2,130"}, {"KIND", "IFFT"}, {"LENGTH", "130"}},
        1e-4, GetParam());
}

TEST_P(LinearAlgebraCode, TransformsWithTheBitsOfTheDefinition) {
  for (const char* kind : {"FFT", "IFFT", "RFFT", "IRFFT"}) {
    Check(kFftParts, FftOf(kind, false, "3,", {4, 60}), 0, GetParam());
    Check(kFftParts, FftOf(kind, true, "3,", {34}), 0, GetParam());
  }
  Check(kFftParts, FftOf("FFT", false, "", {4096}), 2e-4, GetParam());
}

}  // namespace
}  // namespace backplane::hip
