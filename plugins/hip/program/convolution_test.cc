// Convolutions that are computed as products: against the evaluator, on the host and in machine code.
#include <string>
#include <tuple>

#include "absl/strings/match.h"
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
  void Check(const std::string& hlo, bool is_product, size_t kernels, double tolerance = 1e-3) {
    SCOPED_TRACE(hlo);
    const Compiled compiled = CompileAndCompare(hlo, GetParam(), tolerance);
    ASSERT_NE(compiled.program, nullptr);
    const std::string log = absl::StrJoin(compiled.log, "\n");
    EXPECT_EQ(absl::StrContains(log, "product: "), is_product) << log;
    EXPECT_EQ(absl::StrContains(log, "convolution: "), !is_product) << log;
    EXPECT_LE(compiled.program->kernels().size(), kernels) << log;
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, Convolution, testing::Values("host", "gfx942", "gfx1100"));

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
  Check(Text("f32", "2,9,8,16", "3,3,16,24", "2,9,8,24", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"), true, 3);
  Check(Text("bf16", "2,16,9,8", "24,16,3,3", "2,24,5,4", "size=3x3 stride=2x2 pad=1_1x1_1", "bf01_oi01->bf01"), true,
        6, 0.05);
  Check(Text("f16", "3,40,20", "5,20,17", "3,32,17", "size=5 rhs_dilate=2", "b0f_0io->b0f"), true, 3, 0.05);
}

// The gradient of the input: zeros between its elements, and a kernel that is read backwards.
TEST_P(Convolution, MultipliesDilatedInputsAndReversedWindows) {
  Check(Text("f32", "2,5,4,16", "3,3,18,16", "2,10,8,18", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
             "b01f_01oi->b01f"),
        true, 4);
}

TEST_P(Convolution, MultipliesSingleElements) {
  Check(Text("f32", "2,6,7,32", "1,1,32,20", "2,6,7,20", "size=1x1", "b01f_01io->b01f"), true, 1);
  Check(Text("f32", "2,6,7,32", "1,1,32,20", "2,3,4,20", "size=1x1 stride=2x2", "b01f_01io->b01f"), true, 2);
}

TEST_P(Convolution, ComputesOthersByTheDefinition) {
  Check(Text("f32", "2,6,7,3", "3,3,3,4", "2,4,5,4", "size=3x3", "b01f_01io->b01f"), false, 1);
}

}  // namespace
}  // namespace backplane::hip
