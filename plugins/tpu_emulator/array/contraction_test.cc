#include "plugins/tpu_emulator/array/contraction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/eval/evaluator.h"
#include "core/relayout/relayout.h"
#include "core/text/hlo_parser.h"
#include "plugins/tpu_emulator/array/array_product.h"
#include "plugins/tpu_emulator/machine/default_layout.h"

namespace backplane::tpu {
namespace {

std::unique_ptr<Module> Parse(const std::string& signature, const std::string& line) {
  auto module = ParseHloModule("HloModule m\nENTRY e {\n" + signature + "\n  ROOT r = " + line + "\n}\n");
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

// With small integers every sum is exact, so the result has the evaluator's bits for any order of additions.
Literal Integers(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  Literal out(shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) out.SetFromInt(i, static_cast<int64_t>(random() % 5) - 2);
  return out;
}

// Copies an array into its tiled layout. All padding bytes are set to 0xff, which is NaN in floating-point types.
std::vector<std::byte> CopyIntoTiles(const Literal& value, const Layout& layout) {
  Shape tiled = value.shape().WithoutLayout(), plain = tiled;
  tiled.set_layout(layout);
  plain.set_row_major();
  auto relayout = Relayout::Plan(plain, tiled);
  EXPECT_TRUE(relayout.ok()) << relayout.status();
  std::vector<std::byte> out(static_cast<size_t>(relayout->target_bytes()) + 64, std::byte{0xff});
  relayout->Run(value.bytes(), out.data());
  return out;
}

class Exact : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Exact, EqualsTheEvaluator) {
  const auto [signature, line] = GetParam();
  auto module = Parse(signature, line);
  ASSERT_NE(module, nullptr);
  const Instruction& op = *module->entry()->root();
  ASSERT_TRUE(CheckArraySupports(op).ok()) << CheckArraySupports(op);
  std::vector<Literal> arguments = {Integers(op.operand(0)->shape(), 1), Integers(op.operand(1)->shape(), 2)};
  auto expected = Evaluate(*module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status();
  engine::ThreadPool pool({.num_threads = 2});
  for (engine::ThreadPool* threads : {static_cast<engine::ThreadPool*>(nullptr), &pool}) {
    auto found = RunOnArray(op, arguments[0], arguments[1], 128, threads);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->shape(), expected->shape());
    for (int64_t i = 0; i < expected->num_elements(); ++i) {
      ASSERT_EQ(found->GetAsDouble(i), expected->GetAsDouble(i)) << "element " << i;
    }
  }
}

// The same with operands and results in tiled layouts. Only elements are read and written, never padding.
TEST_P(Exact, EqualsTheEvaluatorInTiles) {
  const auto [signature, line] = GetParam();
  auto module = Parse(signature, line);
  ASSERT_NE(module, nullptr);
  const Instruction& op = *module->entry()->root();
  const Literal lhs = Integers(op.operand(0)->shape(), 1), rhs = Integers(op.operand(1)->shape(), 2);
  auto expected = RunOnArray(op, lhs, rhs, 128, nullptr);
  ASSERT_TRUE(expected.ok()) << expected.status();
  auto layout_of = [](const Shape& s) { return DefaultLayout(s.element_type(), s.dimensions()); };
  for (int which = 1; which < 8; ++which) {
    const Layout layouts[] = {layout_of(lhs.shape()), layout_of(rhs.shape()), layout_of(op.shape())};
    bool tiled[3];
    for (int i = 0; i < 3; ++i) tiled[i] = (which >> i & 1) != 0 && SupportsLayout(op, i, layouts[i]);
    auto plan = Contraction::Plan(op, tiled[0] ? &layouts[0] : nullptr, tiled[1] ? &layouts[1] : nullptr,
                                  tiled[2] ? &layouts[2] : nullptr, 128);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const std::vector<std::byte> a = CopyIntoTiles(lhs, layouts[0]), b = CopyIntoTiles(rhs, layouts[1]);
    Literal dense(op.shape().WithoutLayout());
    std::vector<std::byte> out = CopyIntoTiles(dense, layouts[2]);
    std::fill(out.begin(), out.end(), std::byte{0xff});
    // The initial contents of the workspace must not matter, NaN included.
    std::vector<std::byte> workspace(static_cast<size_t>((*plan)->workspace_bytes(1)) + 64, std::byte{0xff});
    void* aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64);
    (*plan)->Run(tiled[0] ? a.data() : lhs.bytes(), tiled[1] ? b.data() : rhs.bytes(),
                 tiled[2] ? out.data() : dense.mutable_bytes(), aligned, nullptr);
    if (tiled[2]) {
      std::vector<std::byte> wanted = CopyIntoTiles(*expected, layouts[2]);
      EXPECT_EQ(out, wanted) << which;
    } else {
      EXPECT_EQ(std::memcmp(dense.bytes(), expected->bytes(), static_cast<size_t>(dense.byte_size())), 0) << which;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Array, Exact,
    testing::Values(
        std::pair{"  a = f32[5,300] parameter(0)\n  b = f32[300,7] parameter(1)",
                  "f32[5,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        std::pair{"  a = bf16[3,4,6,5] parameter(0)\n  b = bf16[5,3,7,6] parameter(1)",
                  "f32[3,4,7] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={3,2}, "
                  "rhs_contracting_dims={0,3}"},
        std::pair{"  a = f32[0,4] parameter(0)\n  b = f32[4,3] parameter(1)",
                  "f32[0,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        std::pair{"  a = f32[2,0] parameter(0)\n  b = f32[0,3] parameter(1)",
                  "f32[2,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        std::pair{"  a = f16[9] parameter(0)\n  b = f16[9] parameter(1)",
                  "f16[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
        std::pair{"  a = f8e4m3fn[4,9] parameter(0)\n  b = bf16[9,2] parameter(1)",
                  "bf16[4,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                  "operand_precision={highest,highest}"},
        std::pair{"  a = f32[2,9,8,3] parameter(0)\n  b = f32[3,2,3,5] parameter(1)",
                  "f32[2,5,9,5] convolution(a, b), window={size=3x2 stride=2x1 pad=1_1x2_0 rhs_reversal=1x0}, "
                  "dim_labels=b01f_01io->b01f"},
        std::pair{"  a = f32[6,2,5] parameter(0)\n  b = f32[4,3,2] parameter(1)",
                  "f32[4,2,9] convolution(a, b), window={size=2 pad=0_1 lhs_dilate=2 rhs_dilate=1}, "
                  "dim_labels=fb0_oi0->fb0, feature_group_count=2"},
        std::pair{"  a = f32[4,7,6] parameter(0)\n  b = f32[3,6,8] parameter(1)",
                  "f32[2,3,8] convolution(a, b), window={size=3 rhs_dilate=2}, dim_labels=b0f_0io->b0f, "
                  "batch_group_count=2"},
        std::pair{"  a = bf16[130,200] parameter(0)\n  b = bf16[200,150] parameter(1)",
                  "bf16[130,150] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"},
        std::pair{"  a = bf16[200,130] parameter(0)\n  b = f16[150,200] parameter(1)",
                  "f32[130,150] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}"},
        std::pair{"  a = f32[3,2] parameter(0)\n  b = f32[3,700] parameter(1)",
                  "f16[2,700] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
        std::pair{"  a = f32[2,9,8,16] parameter(0)\n  b = f32[1,1,16,20] parameter(1)",
                  "f32[2,9,8,20] convolution(a, b), window={size=1x1}, dim_labels=b01f_01io->b01f"},
        std::pair{"  a = bf16[7,9,8,24] parameter(0)\n  b = bf16[7,5,4,40] parameter(1)",
                  "f32[24,4,6,40] convolution(a, b), window={size=5x4 pad=-1_0x0_1 lhs_dilate=1x1}, "
                  "dim_labels=f01b_i01o->b01f"},
        // The result has the same size but is shifted, so some windows lie outside of the input.
        std::pair{"  a = f32[5,2,3] parameter(0)\n  b = f32[2,3,1] parameter(1)",
                  "f32[5,2,2] convolution(a, b), window={size=1 pad=-1_1}, dim_labels=0bf_oi0->0bf"},
        std::pair{"  a = f32[1,4,4,2] parameter(0)\n  b = f32[1,1,2,3] parameter(1)",
                  "f32[1,4,3,3] convolution(a, b), window={size=1x1 pad=2_-2x-2_1}, dim_labels=b01f_01io->b01f"},
        std::pair{"  a = bf16[2,3] parameter(0)\n  b = bf16[3,4] parameter(1)",
                  "bf16[2,4] convolution(a, b), dim_labels=bf_io->bf"},
        // Empty dimensions: features, a padded spatial dimension, a dilated one, and one of the window.
        std::pair{"  a = f32[2,5,5,0] parameter(0)\n  b = f32[3,3,0,8] parameter(1)",
                  "f32[2,5,5,8] convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
        std::pair{"  a = f32[2,5,0,3] parameter(0)\n  b = f32[3,3,3,8] parameter(1)",
                  "f32[2,5,2,8] convolution(a, b), window={size=3x3 pad=1_1x2_2}, dim_labels=b01f_01io->b01f"},
        std::pair{"  a = f32[1,0,4,3] parameter(0)\n  b = f32[3,3,3,2] parameter(1)",
                  "f32[1,1,8,2] convolution(a, b), window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2}, "
                  "dim_labels=b01f_01io->b01f"},
        std::pair{"  a = f32[2,5,4,3] parameter(0)\n  b = f32[0,3,3,8] parameter(1)",
                  "f32[2,6,2,8] convolution(a, b), window={size=0x3 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"},
        std::pair{"  a = f32[0,5,5,4] parameter(0)\n  b = f32[3,3,2,8] parameter(1)",
                  "f32[0,5,5,8] convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, "
                  "feature_group_count=2"}));

TEST(Array, PassesByPrecisionAndAlgorithm) {
  const std::string f32 = "  a = f32[4,8] parameter(0)\n  b = f32[8,4] parameter(1)";
  const std::string bf16 = "  a = bf16[4,8] parameter(0)\n  b = bf16[8,4] parameter(1)";
  const std::string dot = "f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  auto passes = [](const std::string& signature, const std::string& line) {
    auto module = Parse(signature, line);
    return module == nullptr ? -1 : CountPasses(*module->entry()->root());
  };
  EXPECT_EQ(passes(f32, dot), 1);
  EXPECT_EQ(passes(f32, dot + ", operand_precision={high,default}"), 3);
  EXPECT_EQ(passes(f32, dot + ", operand_precision={high,highest}"), 6);
  EXPECT_EQ(passes(f32, dot + ", algorithm=dot_bf16_bf16_f32_x3"), 3);
  EXPECT_EQ(passes(f32, dot + ", algorithm=dot_f32_f32_f32"), 6);
  EXPECT_EQ(passes(f32, dot + ", algorithm=dot_bf16_bf16_f32"), 1);
  EXPECT_EQ(passes(f32, dot + ", algorithm=dot_f16_f16_f32"), 3);
  EXPECT_EQ(passes(f32, dot + ", algorithm=dot_tf32_tf32_f32"), 3);
  EXPECT_EQ(passes(f32, dot + ", algorithm=dot_tf32_tf32_f32_x3"), 6);
  EXPECT_EQ(passes(bf16, dot), 0);
}

// An f32 operand in one pass loses what bf16 cannot hold.
TEST(Array, RoundsOperands) {
  auto module = Parse("  a = f32[1,1] parameter(0)\n  b = f32[1,1] parameter(1)",
                      "f32[1,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
  ASSERT_NE(module, nullptr);
  const Instruction& op = *module->entry()->root();
  Literal a(op.operand(0)->shape()), b(a);
  a.SetFromDouble(0, 1.0 + std::ldexp(1.0, -10));
  b.SetFromDouble(0, 3.0);
  EXPECT_EQ(RunOnArray(op, a, b, 128, nullptr)->GetAsDouble(0), 3.0);
}

TEST(Array, RejectsUnsupportedTypes) {
  for (const char* type : {"f64", "s32", "c64"}) {
    const std::string t = type;
    auto module = Parse("  a = " + t + "[4,8] parameter(0)\n  b = " + t + "[8,4] parameter(1)",
                        t + "[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(CheckArraySupports(*module->entry()->root()).code(), absl::StatusCode::kUnimplemented) << type;
  }
}

}  // namespace
}  // namespace backplane::tpu
