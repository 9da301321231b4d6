// Kernels that compute their outputs in parts behind a convolution: which do, and that results are the evaluator's.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "sdk/engine/compiler/program_testing.h"

namespace backplane::engine {
namespace {

// A convolution y of x, f32[N,16,16,32], and what follows it. Returns whether a kernel follows in parts.
bool Follows(const std::string& rest, int64_t images = 1, const std::string& header = "HloModule m") {
  const std::string program = absl::StrReplaceAll(absl::StrCat(header, R"(
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT m = f32[] add(p, q) }
ENTRY main {
  x = A parameter(0)
  w = f32[3,3,32,32] parameter(1)
  c = f32[32] parameter(2)
  y = A convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  zero = f32[] constant(0)
  zeros = A broadcast(zero), dimensions={}
)",
                                                               rest, "\n}"),
                                                  {{"A", absl::StrCat("f32[", images, ",16,16,32]")}});
  std::vector<std::string> log;
  ProgramRunOptions options;
  options.log = &log;
  options.low = 0.1;
  options.high = 1;
  options.tolerance = 2e-5;
  EXPECT_EQ(ProgramDifference(program, options), "") << program;
  for (const std::string& line : log) {
    if (absl::StrContains(line, ": in parts, behind ")) return true;
  }
  return false;
}

const char kFactors[] = R"(
  r = f32[32] rsqrt(c)
  rs = A broadcast(r), dimensions={3}
  cs = A broadcast(c), dimensions={3}
)";

TEST(FollowedConvolutionTest, ComputesNormalizationAndActivation) {
  for (int64_t images : {1, 3}) {
    EXPECT_TRUE(Follows(absl::StrCat(kFactors, R"(
  a = A multiply(y, rs)
  b = A add(a, cs)
  ROOT m = A maximum(b, zeros))"),
                        images));
  }
}

TEST(FollowedConvolutionTest, AddsOtherArrays) {
  EXPECT_TRUE(Follows(R"(
  z = A parameter(3)
  b = A add(y, z)
  ROOT m = A maximum(b, zeros))"));
  // In the memory of a temporary, with a further user.
  EXPECT_TRUE(Follows(R"(
  v = A parameter(3)
  z = A sine(v)
  b = A add(y, z)
  m = A maximum(b, zeros)
  y2 = A convolution(m, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT t = (A, A) tuple(m, y2))"));
}

TEST(FollowedConvolutionTest, StoresSeveralResultsAndTypes) {
  EXPECT_TRUE(Follows(R"(
  m = A maximum(y, zeros)
  h = bf16[1,16,16,32] convert(m)
  ROOT t = (A, bf16[1,16,16,32]) tuple(m, h))"));
}

// The convolution still reads the array in whose memory the kernel could write.
TEST(FollowedConvolutionTest, DoesNotOverwriteOperands) {
  Follows(R"(
  b = A add(y, x)
  ROOT m = A maximum(b, zeros))",
          1, "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }");
  Follows(R"(
  s = A sine(x)
  y1 = A convolution(s, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  b = A add(y1, s)
  m = A maximum(b, zeros)
  y2 = A convolution(m, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT n = A add(y2, y))");
}

TEST(FollowedConvolutionTest, LeavesKernelsThatReadOtherPositions) {
  EXPECT_FALSE(Follows("  ROOT m = A reverse(y), dimensions={1}"));
  EXPECT_FALSE(Follows(R"(
  t = f32[1,32,16,16] transpose(y), dimensions={0,3,1,2}
  ROOT m = f32[1,32,16,16] abs(t))"));
  EXPECT_FALSE(Follows("  ROOT m = f32[32] reduce(y, zero), dimensions={0,1,2}, to_apply=sum"));
  EXPECT_FALSE(Follows(R"(
  p = f32[1,18,16,32] pad(y, zero), padding=0_0x1_1x0_0x0_0
  ROOT m = f32[1,18,16,32] negate(p))"));
}

}  // namespace
}  // namespace backplane::engine
