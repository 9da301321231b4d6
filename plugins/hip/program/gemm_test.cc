// Products by matrix instructions and what is fused behind them, against the evaluator: AMD's machine code, and the
// kernels for NVIDIA's GPUs on the host ("mma", program_testing.h).
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

struct Problem {
  int64_t m = 0, n = 0, k = 0;
  std::string type = "f16";
  bool lhs_transposed = false, rhs_transposed = false;  // in memory: k x m, n x k
  int64_t batch = 0;                                    // 0: no batch dimension
  std::string result = {};                              // its type; that of the operands if empty
};

std::string DotText(const Problem& p) {
  const std::string batch = p.batch > 0 ? absl::StrCat(p.batch, ",") : "";
  const int64_t first = p.batch > 0 ? 1 : 0;
  const std::string result = p.result.empty() ? p.type : p.result;
  auto shape = [&](int64_t a, int64_t b) { return absl::StrCat("[", batch, a, ",", b, "]"); };
  const std::string lhs = p.type + (p.lhs_transposed ? shape(p.k, p.m) : shape(p.m, p.k));
  const std::string rhs = p.type + (p.rhs_transposed ? shape(p.n, p.k) : shape(p.k, p.n));
  return absl::StrCat("HloModule m\nENTRY e {\n  x = ", lhs, " parameter(0)\n  y = ", rhs,
                      " parameter(1)\n  ROOT r = ", result, shape(p.m, p.n), " dot(x, y), ",
                      p.batch > 0 ? "lhs_batch_dims={0}, rhs_batch_dims={0}, " : "", "lhs_contracting_dims={",
                      first + (p.lhs_transposed ? 0 : 1), "}, rhs_contracting_dims={",
                      first + (p.rhs_transposed ? 1 : 0), "}\n}\n");
}

double ToleranceOf(const std::string& type) {
  if (type == "f16" || type == "bf16") return 0.05;
  return type == "f32" ? 1e-4 : type == "f64" ? 1e-12 : 0;
}

int64_t CountOf(const Compiled& compiled, const std::string& part) {
  int64_t count = 0;
  for (const auto& [name, times] : compiled.statistics.by_mnemonic) count += absl::StrContains(name, part) ? times : 0;
  return count;
}

class Gemm : public testing::TestWithParam<const char*> {
 protected:
  bool IsGfx942() const { return std::string(GetParam()) == "gfx942"; }
  bool IsMma() const { return absl::StartsWith(GetParam(), "mma"); }

  Compiled Run(const Problem& p) {
    SCOPED_TRACE(DotText(p));
    const bool rounds = p.type == "f32" && absl::StrContains(GetParam(), ":tf32");
    Compiled compiled = CompileAndCompare(DotText(p), GetParam(), rounds ? 0.1 : ToleranceOf(p.type));
    if (compiled.program == nullptr) return compiled;
    for (const KernelResources& k : compiled.program->image().kernels) {
      EXPECT_LE(k.shared_bytes, IsMma() ? 227 * 1024 : 65536) << k.name;
      if (IsMma()) continue;
      EXPECT_EQ(k.spilled_registers, 0) << k.name;
      EXPECT_GE(k.occupancy, 2) << k.name;
    }
    // A product of one term is no dot any more.
    if (IsMma()) {
      const bool is_matrix = p.type != "f32" || absl::StrContains(GetParam(), ":tf32");
      if (p.k > 1) {
        EXPECT_EQ(absl::StrContains(absl::StrJoin(compiled.log, "\n"), "matrix product:"), is_matrix)
            << absl::StrJoin(compiled.log, "\n");
      }
      return compiled;
    }
    if (p.k > 1 && (IsGfx942() || p.type == "f16" || p.type == "bf16" || p.type == "s8")) {
      EXPECT_GT(CountOf(compiled, IsGfx942() ? "mfma" : "wmma"), 0) << absl::StrJoin(compiled.log, "\n");
    }
    return compiled;
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, Gemm,
                         testing::Values("gfx942", "gfx1100", "mma", "mma:tf32", "mma:async", "mma:tf32:async",
                                         "mma:groups:async"));

TEST_P(Gemm, MultipliesEvenSizesInAllOrders) {
  for (const char* type : {"f16", "bf16", "f32", "f64", "s8"}) {
    for (const bool lhs : {false, true}) {
      for (const bool rhs : {false, true})
        Run({128, 192, 256, type, lhs, rhs, 0, std::string(type) == "s8" ? "s32" : ""});
    }
  }
}

TEST_P(Gemm, MultipliesOddSizesInAllOrders) {
  for (const char* type : {"f16", "f32", "f64"}) {
    for (const bool lhs : {false, true}) {
      for (const bool rhs : {false, true}) {
        Run({131, 77, 203, type, lhs, rhs});
        Run({37, 67, 75, type, lhs, rhs, 3});
        Run({5, 3, 90, type, lhs, rhs});
      }
    }
  }
  for (const bool rhs : {false, true}) Run({70, 45, 33, "f64", !rhs, rhs});
  for (const bool lhs : {false, true}) Run({70, 45, 150, "s8", lhs, !lhs, 0, "s32"});
}

TEST_P(Gemm, MultipliesFewTerms) {
  for (const int64_t k : {1, 3, 7, 8, 9, 63, 64, 65, 127, 129}) {
    Run({40, 72, k, "f16"});
    Run({72, 40, k, "bf16", true, true});
    if (k < 20) Run({72, 40, k, "f64", true, true});
  }
  // No terms: zeros.
  CompileAndCompare(DotText({40, 72, 0, "f16"}), GetParam(), 0);
}

TEST_P(Gemm, WritesWiderResults) {
  Run({96, 80, 64, "bf16", false, true, 0, "f32"});
  Run({96, 81, 64, "f16", false, false, 2, "f32"});
}

TEST_P(Gemm, MultipliesInnermostBatches) {
  CompileAndCompare(R"(HloModule m
ENTRY e {
  x = f16[20,70,3] parameter(0)
  y = f16[3,70,40] parameter(1)
  ROOT r = f16[3,20,40] dot(x, y), lhs_batch_dims={2}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}
})",
                    GetParam(), 0.05);
}

// More tiles than blocks of a grid.
TEST_P(Gemm, MultipliesManyMatrices) { Run({2, 8, 8, "f16", false, true, 16390}); }

TEST_P(Gemm, SplitsLongSums) {
  const Compiled compiled = Run({40, 48, 8192, "f16", false, true});
  ASSERT_NE(compiled.program, nullptr);
  EXPECT_EQ(compiled.program->kernels().size(), 2u) << absl::StrJoin(compiled.log, "\n");
  EXPECT_NE(absl::StrJoin(compiled.log, "\n").find("matrix product: 16 x 40 x 48 x 512"), std::string::npos)
      << absl::StrJoin(compiled.log, "\n");
}

// Tiles of every size, and waves of every shape.
class MmaTiles : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, MmaTiles, testing::Values("mma:tf32", "mma:tf32:async", "mma:groups:tf32:async"));

TEST_P(MmaTiles, MultiplyInAllSizes) {
  for (const char* type : {"f16", "f32", "f64", "s8"}) {
    for (const auto& [m, n] : {std::tuple{1408, 1540}, std::tuple{1050, 900}, std::tuple{64, 2200},
                               std::tuple{600, 520}, std::tuple{31, 1100}, std::tuple{30, 60}}) {
      for (const bool lhs : {false, true}) {
        Problem p{m, n, 80, type, lhs, !lhs, 0, std::string(type) == "s8" ? "s32" : ""};
        SCOPED_TRACE(DotText(p));
        const Compiled compiled =
            CompileAndCompare(DotText(p), GetParam(), p.type == "f32" ? 0.1 : ToleranceOf(p.type));
        EXPECT_THAT(absl::StrJoin(compiled.log, "\n"), testing::HasSubstr("matrix product:"));
      }
    }
  }
}

// Large tiles, some of which reach beyond the matrix, without matrix instructions.
TEST(Mma, MultipliesRaggedSizesExactly) {
  for (const bool lhs : {false, true}) {
    for (const bool rhs : {false, true}) {
      for (const auto& [m, n] : {std::tuple{1000, 2088}, std::tuple{264, 136}})
        CompileAndCompare(DotText({m, n, 40, "f32", lhs, rhs}), "mma", 1e-4);
    }
  }
}

// Operands of f32 are rounded only where the program permits it.
TEST(Mma, RoundsToTf32WherePermitted) {
  auto text = [](const std::string& attributes) {
    return absl::StrCat("HloModule m\nENTRY e {\n  x = f32[64,96] parameter(0)\n  y = f32[96,72] parameter(1)\n",
                        "  ROOT r = f32[64,72] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                        attributes, "\n}\n");
  };
  struct Case {
    const char *target, *attributes;
    bool rounds;
  };
  for (const Case& c : {Case{"mma", "", false},
                        {"mma", ", algorithm=dot_tf32_tf32_f32", true},
                        {"mma", ", algorithm=dot_tf32_tf32_f32_x3", false},
                        {"mma", ", algorithm=dot_f32_f32_f32", false},
                        {"mma:tf32", "", true},
                        {"mma:tf32", ", operand_precision={highest,highest}", false},
                        {"mma:tf32", ", operand_precision={default,high}", false},
                        {"mma:tf32", ", algorithm=dot_f32_f32_f32", false}}) {
    SCOPED_TRACE(absl::StrCat(c.target, c.attributes));
    const Compiled compiled = CompileAndCompare(text(c.attributes), c.target, c.rounds ? 0.1 : 1e-4);
    EXPECT_EQ(absl::StrContains(absl::StrJoin(compiled.log, "\n"), "matrix product:"), c.rounds);
  }
}

// ---- What follows a product.

void ExpectOneKernel(const std::string& hlo, const std::string& target, double tolerance) {
  const Compiled compiled = CompileAndCompare(hlo, target, tolerance);
  ASSERT_NE(compiled.program, nullptr);
  EXPECT_EQ(compiled.program->kernels().size(), 1u) << absl::StrJoin(compiled.log, "\n");
  EXPECT_NE(absl::StrJoin(compiled.log, "\n").find("with what follows it"), std::string::npos)
      << absl::StrJoin(compiled.log, "\n");
  for (const KernelResources& k : compiled.program->image().kernels) EXPECT_LE(k.spilled_registers, 0) << k.name;
}

class Epilogue : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, Epilogue,
                         testing::Values("gfx942", "gfx1100", "host", "mma", "mma:async", "mma:groups:async"));

TEST_P(Epilogue, AddsBiasActivatesAddsResidualAndScales) {
  for (const auto& [m, n, k] : {std::tuple{64, 128, 96}, std::tuple{37, 67, 40}, std::tuple{9, 5, 33}}) {
    const std::string shape = absl::StrCat("bf16[", m, ",", n, "]");
    ExpectOneKernel(absl::StrCat("HloModule m\nENTRY e {\n  x = bf16[", m, ",", k, "] parameter(0)\n  w = bf16[", k,
                                 ",", n, "] parameter(1)\n  bias = bf16[", n, "] parameter(2)\n  old = ", shape,
                                 " parameter(3)\n  scale = bf16[] parameter(4)\n  d = ", shape,
                                 " dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  bb = ", shape,
                                 " broadcast(bias), dimensions={1}\n  a = ", shape, " add(d, bb)\n  t = ", shape,
                                 " tanh(a)\n  s = ", shape, " broadcast(scale), dimensions={}\n  u = ", shape,
                                 " multiply(t, s)\n  ROOT r = ", shape, " add(u, old)\n}\n"),
                    GetParam(), 0.05);
  }
}

TEST_P(Epilogue, ConvertsAndComparesSums) {
  for (const auto& [result, root] :
       {std::pair{"bf16", "convert(relu)"}, std::pair{"pred", "compare(a, zb), direction=GT"}}) {
    ExpectOneKernel(absl::StrCat(R"(HloModule m
ENTRY e {
  x = f32[50,60] parameter(0)
  w = f32[60,72] parameter(1)
  rows = f32[50] parameter(2)
  zero = f32[] constant(0)
  d = f32[50,72] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  rb = f32[50,72] broadcast(rows), dimensions={0}
  a = f32[50,72] add(d, rb)
  zb = f32[50,72] broadcast(zero), dimensions={}
  relu = f32[50,72] maximum(a, zb)
  ROOT r = )",
                                 result, "[50,72] ", root, "\n}\n"),
                    GetParam(), 0.02);
  }
}

TEST_P(Epilogue, FollowsBatchesOfManyDimensionsAndTransposedResults) {
  ExpectOneKernel(R"(HloModule m
ENTRY e {
  x = f16[3,5,7,64] parameter(0)
  w = f16[3,64,6,8] parameter(1)
  bias = f16[6,8] parameter(2)
  d = f16[3,5,7,6,8] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  bb = f16[3,5,7,6,8] broadcast(bias), dimensions={3,4}
  ROOT r = f16[3,5,7,6,8] add(d, bb)
})",
                  GetParam(), 0.05);
  ExpectOneKernel(R"(HloModule m
ENTRY e {
  x = f16[4,40,64] parameter(0)
  w = f16[4,64,24] parameter(1)
  d = f16[4,40,24] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  t = f16[40,4,24] transpose(d), dimensions={1,0,2}
  ROOT r = f16[40,4,24] negate(t)
})",
                  GetParam(), 0.05);
}

TEST_P(Epilogue, DoesNotMoveReadsOfOtherElements) {
  const Compiled compiled = CompileAndCompare(R"(HloModule m
ENTRY e {
  x = f32[16,16] parameter(0)
  y = f32[16,16] parameter(1)
  d = f32[16,16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  reversed = f32[16,16] reverse(d), dimensions={0}
  ROOT r = f32[16,16] add(d, reversed)
})",
                                              GetParam(), 1e-4);
  ASSERT_NE(compiled.program, nullptr);
  EXPECT_EQ(compiled.program->kernels().size(), 2u);
}

}  // namespace
}  // namespace backplane::hip
