// Convolutions against the evaluator, on the host and in machine code.
#include <cstdlib>
#include <random>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

class Convolution : public testing::TestWithParam<const char*> {
 protected:
  // `kernels`: as many as the program may have at most.
  Compiled Check(const std::string& hlo, bool is_product, size_t kernels, double tolerance = 1e-3) {
    SCOPED_TRACE(hlo);
    Compiled compiled = CompileAndCompare(hlo, GetParam(), tolerance);
    if (compiled.program == nullptr) {
      ADD_FAILURE() << "no program";
      return compiled;
    }
    const std::string log = absl::StrJoin(compiled.log, "\n");
    EXPECT_EQ(absl::StrContains(log, "product: "), is_product) << log;
    EXPECT_EQ(absl::StrContains(log, ": convolution: "), !is_product) << log;
    EXPECT_LE(compiled.program->kernels().size(), kernels) << log;
    for (const KernelResources& k : compiled.program->image().kernels) EXPECT_LE(k.spilled_registers, 0) << k.name;
    return compiled;
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, Convolution, testing::Values("host", "gfx942", "gfx1100", "mma", "mma:tf32"));

constexpr char kConvolution[] = R"(HloModule m
ENTRY e {
  x = @T[@IN] parameter(0)
  w = @T[@KERNEL] parameter(1)
  ROOT r = @T[@OUT] convolution(x, w), window={@WINDOW}, dim_labels=@LABELS
})";

std::string Text(const std::string& type, const std::string& in, const std::string& kernel, const std::string& out,
                 const std::string& window, const std::string& labels) {
  return absl::StrReplaceAll(
      kConvolution,
      {{"@T", type}, {"@IN", in}, {"@KERNEL", kernel}, {"@OUT", out}, {"@WINDOW", window}, {"@LABELS", labels}});
}

TEST_P(Convolution, MultipliesWindows) {
  Check(Text("f32", "2,9,8,16", "3,3,16,24", "2,9,8,24", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"), true, 1, 0.05);
  Check(Text("bf16", "2,16,9,8", "24,16,3,3", "2,24,5,4", "size=3x3 stride=2x2 pad=1_1x1_1", "bf01_oi01->bf01"), true,
        3, 0.05);
  Check(Text("f16", "3,40,20", "5,20,17", "3,32,17", "size=5 rhs_dilate=2", "b0f_0io->b0f"), true, 1, 0.05);
  Check(Text("f16", "1,12,11,64", "3,3,64,72", "1,12,11,72", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"), true, 1, 0.05);
}

// The gradient of the input: zeros between its elements, and a kernel that is read backwards.
TEST_P(Convolution, MultipliesDilatedInputsAndReversedWindows) {
  for (const char* type : {"f32", "f16"}) {
    Check(Text(type, "2,5,4,16", "3,3,18,16", "2,10,8,18", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
               "b01f_01oi->b01f"),
          true, 1, 0.1);
  }
}

// Large ones are divided into one for each phase of the output, which multiplies no such zero.
TEST_P(Convolution, SplitsPhasesOfDilatedInputs) {
  if (std::string(GetParam()) != "host" && std::string(GetParam()) != "gfx942") GTEST_SKIP();
  for (const char* reversal : {"1x1", "0x1"}) {
    const Compiled compiled = CompileAndCompare(
        Text("f32", "2,15,15,64", "3,3,72,64", "2,30,29,72",
             absl::StrCat("size=3x3 pad=1_2x2_0 lhs_dilate=2x2 rhs_reversal=", reversal), "b01f_01oi->b01f"),
        GetParam(), 1e-3);
    const std::string log = absl::StrJoin(compiled.log, "\n");
    for (const char* terms : {" x 72 x 64,", " x 72 x 128,", " x 72 x 256,"})
      EXPECT_TRUE(absl::StrContains(log, terms)) << log;
  }
}

// The gradient of the kernel: a window as large as the image, summed over the batch, in parts.
TEST_P(Convolution, MultipliesLargeWindows) {
  for (const char* type : {"f32", "bf16"}) {
    const Compiled compiled = Check(
        Text(type, "16,10,8,16", "16,10,8,24", "3,3,16,24", "size=10x8 pad=1_1x1_1", "f01b_i01o->01bf"), true, 2, 0.2);
    EXPECT_TRUE(absl::StrContains(absl::StrJoin(compiled.log, "\n"), "product: 2 x 144 x 24 x 640"))
        << absl::StrJoin(compiled.log, "\n");
  }
}

TEST_P(Convolution, MultipliesSingleElements) {
  Check(Text("f32", "2,6,7,32", "1,1,32,20", "2,6,7,20", "size=1x1", "b01f_01io->b01f"), true, 1, 0.05);
  Check(Text("f32", "2,6,7,32", "1,1,32,20", "2,3,4,20", "size=1x1 stride=2x2", "b01f_01io->b01f"), true, 1, 0.05);
}

// Neighbouring positions of the output and of the window are neighbours in memory: rows begin at any element.
TEST_P(Convolution, MultipliesWindowsOfOneFeature) {
  CompileAndCompare(Text("f16", "2,16,16,1", "8,8,1,32", "2,9,9,32", "size=8x8", "b01f_01io->b01f"), GetParam(), 0.1);
  CompileAndCompare(Text("f64", "2,8,8,1", "4,4,1,24", "2,5,5,24", "size=4x4", "b01f_01io->b01f"), GetParam(), 1e-9);
}

TEST_P(Convolution, MultipliesInGroups) {
  const std::string groups = Text("f16", "2,6,7,32", "3,3,8,64", "2,6,7,64", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f");
  Check(absl::StrReplaceAll(groups, {{"->b01f", "->b01f, feature_group_count=4"}}), true, 1, 0.05);
  const std::string batches =
      Text("f16", "8,6,7,16", "3,3,16,32", "4,6,7,32", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f");
  Check(absl::StrReplaceAll(batches, {{"->b01f", "->b01f, batch_group_count=2"}}), true, 1, 0.05);
}

TEST_P(Convolution, ComputesOthersByTheDefinition) {
  Check(Text("f32", "2,6,7,3", "3,3,3,2", "2,4,5,2", "size=3x3", "b01f_01io->b01f"), false, 1);
  for (const char* type : {"f32", "bf16"}) {
    const std::string depthwise =
        Text(type, "2,6,7,24", "3,3,1,24", "2,6,7,24", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f");
    const Compiled compiled =
        Check(absl::StrReplaceAll(depthwise, {{"->b01f", "->b01f, feature_group_count=24"}}), false, 1, 0.05);
    EXPECT_TRUE(absl::StrContains(absl::StrJoin(compiled.log, "\n"), " in each thread"));
    // The gradient of the input.
    const std::string gradient =
        Text(type, "2,6,7,24", "3,3,24,1", "2,6,7,24", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01oi->b01f");
    const Compiled backward =
        Check(absl::StrReplaceAll(gradient, {{"->b01f", "->b01f, feature_group_count=24"}}), false, 1, 0.05);
    EXPECT_TRUE(absl::StrContains(absl::StrJoin(backward.log, "\n"), " in each thread"));
  }
}

TEST_P(Convolution, SumsProductsForDepthwiseGradients) {
  const std::string gradient =
      Text("f32", "4,6,7,24", "4,6,7,24", "3,3,1,24", "size=6x7 pad=1_1x1_1", "f01b_i01o->01bf");
  const Compiled compiled =
      CompileAndCompare(absl::StrReplaceAll(gradient, {{"->01bf", "->01bf, batch_group_count=24"}}), GetParam(), 1e-3);
  EXPECT_FALSE(absl::StrContains(absl::StrJoin(compiled.log, "\n"), "convolution: "));
  // Of a window with strides: the padding moves the image and keeps its size.
  const std::string moved =
      Text("f32", "4,6,6,8", "4,2,2,8", "3,3,1,8", "size=2x2 pad=1_-1x1_-1 rhs_dilate=3x3", "f01b_i01o->01bf");
  CompileAndCompare(absl::StrReplaceAll(moved, {{"->01bf", "->01bf, batch_group_count=8"}}), GetParam(), 1e-3);
}

TEST_P(Convolution, ComputesWhatFollows) {
  Check(R"(HloModule m
ENTRY e {
  x = f16[2,6,7,16] parameter(0)
  w = f16[3,3,16,24] parameter(1)
  bias = f16[24] parameter(2)
  old = f16[2,6,7,24] parameter(3)
  c = f16[2,6,7,24] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  bb = f16[2,6,7,24] broadcast(bias), dimensions={3}
  a = f16[2,6,7,24] add(c, bb)
  zero = f16[] constant(0)
  zeros = f16[2,6,7,24] broadcast(zero), dimensions={}
  m = f16[2,6,7,24] maximum(a, zeros)
  s = f16[2,6,7,24] add(m, old)
  ROOT r = f32[2,6,7,24] convert(s)
})",
        true, 1, 0.05);
}

// ---- Random convolutions.

struct Random {
  std::mt19937 engine;
  int64_t Below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(engine); }
  int64_t Of(std::initializer_list<int64_t> all) { return *(all.begin() + Below(static_cast<int64_t>(all.size()))); }
};

// The labels of an array in a random order, and its dimensions in that order.
std::pair<std::string, std::string> Arrange(Random& random, const std::string& labels, std::vector<int64_t> sizes) {
  std::vector<size_t> order(labels.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random.Below(2) == 0) std::shuffle(order.begin(), order.end(), random.engine);
  std::string text;
  std::vector<int64_t> dims;
  for (const size_t i : order) text += labels[i], dims.push_back(sizes[i]);
  return {text, absl::StrJoin(dims, ",")};
}

// Returns the text of a convolution, or an empty string if its result has no elements.
std::string RandomConvolution(uint32_t seed, std::string* type) {
  Random random{std::mt19937(seed)};
  *type = std::vector<std::string>{"f32", "bf16", "f16", "f16", "f64", "s8"}[static_cast<size_t>(random.Below(6))];
  const int64_t rank = 1 + random.Below(3);
  const bool grouped = random.Below(4) == 0, by_batch = grouped && random.Below(2) == 0;
  const int64_t groups = grouped ? random.Of({2, 3, 8}) : 1;
  int64_t features = random.Of({1, 3, 4, 8, 16, 20, 24, 32, 64}), columns = random.Of({1, 3, 8, 16, 17, 24, 40, 72});
  int64_t batch = random.Of({1, 2, 3, 4, 8, 16});
  const bool gradient = random.Below(4) == 0;  // windows as large as the image
  std::string spatial, window_text[6];
  std::vector<int64_t> input = {batch * (by_batch ? groups : 1)}, kernel, out = {batch};
  for (int64_t d = 0; d < rank; ++d) {
    spatial += static_cast<char>('0' + d);
    int64_t size = rank == 1 ? random.Of({5, 16, 40}) : rank == 2 ? random.Of({1, 4, 7, 9, 12}) : random.Of({2, 4, 5});
    const int64_t dilation = random.Of({1, 1, 1, 2, 3}), holes = random.Of({1, 1, 1, 2});
    const int64_t stride = random.Of({1, 1, 2, 3});
    int64_t window = gradient ? size : std::min<int64_t>(random.Of({1, 2, 3, 3, 5, 7}), rank == 3 ? 3 : 7);
    const int64_t low = random.Of({-1, 0, 1, 1, 2, 3}), high = random.Of({-1, 0, 1, 1, 2, 3});
    const int64_t padded = (size - 1) * dilation + 1 + low + high, extent = (window - 1) * holes + 1;
    if (padded < extent) return "";
    input.push_back(size), kernel.push_back(window), out.push_back((padded - extent) / stride + 1);
    const std::string separator = d > 0 ? "x" : "";
    const std::string parts[] = {absl::StrCat(window),   absl::StrCat(stride), absl::StrCat(low, "_", high),
                                 absl::StrCat(dilation), absl::StrCat(holes),  absl::StrCat(random.Below(2))};
    for (size_t k = 0; k < 6; ++k) window_text[k] += separator + parts[k];
  }
  input.push_back(features * (grouped && !by_batch ? groups : 1));
  kernel.push_back(features), kernel.push_back(columns * groups);
  out.push_back(columns * groups);
  const auto [in_labels, in_dims] = Arrange(random, absl::StrCat("b", spatial, "f"), input);
  const auto [kernel_labels, kernel_dims] = Arrange(random, absl::StrCat(spatial, "io"), kernel);
  const auto [out_labels, out_dims] = Arrange(random, absl::StrCat("b", spatial, "f"), out);
  const std::string result = *type == "s8" ? "s32" : *type;
  return absl::StrCat(
      "HloModule m\nENTRY e {\n  x = ", *type, "[", in_dims, "] parameter(0)\n  w = ", *type, "[", kernel_dims,
      "] parameter(1)\n  ROOT r = ", result, "[", out_dims, "] convolution(x, w), window={size=", window_text[0],
      " stride=", window_text[1], " pad=", window_text[2], " lhs_dilate=", window_text[3],
      " rhs_dilate=", window_text[4], " rhs_reversal=", window_text[5], "}, dim_labels=", in_labels, "_", kernel_labels,
      "->", out_labels, grouped ? absl::StrCat(by_batch ? ", batch" : ", feature", "_group_count=", groups) : "",
      "\n}\n");
}

// BACKPLANE_RANDOM_CONVOLUTIONS: how many, in place of a few.
TEST_P(Convolution, ComputesRandomOnes) {
  const char* wanted = std::getenv("BACKPLANE_RANDOM_CONVOLUTIONS");
  int64_t count = 12;
  if (wanted != nullptr) {
    ASSERT_TRUE(absl::SimpleAtoi(wanted, &count));
  }
  for (uint32_t seed = 0; seed < count && !HasFailure(); ++seed) {
    std::string type;
    const std::string hlo = RandomConvolution(seed, &type);
    if (hlo.empty()) continue;
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", hlo));
    const bool rounds = type == "f32" && absl::StrContains(GetParam(), ":tf32");
    const double tolerance = type == "f64" ? 1e-9 : type == "s8" ? 0 : type == "f32" && !rounds ? 2e-3 : 0.3;
    CompileAndCompare(hlo, GetParam(), tolerance);
  }
}

}  // namespace
}  // namespace backplane::hip
