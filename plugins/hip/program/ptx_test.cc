// Matrix products as PTX: the instructions that NVIDIA's GPUs get, and what NVIDIA's assembler makes of them where
// there is one ("ptxas" in the path).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/hip/compiler/pipeline.h"
#include "plugins/hip/program/program_testing.h"

namespace backplane::hip {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Problem {
  int64_t m = 0, n = 0, k = 0;
  std::string type = "f16";
  bool lhs_transposed = false, rhs_transposed = false;  // in memory: k x m, n x k
  int64_t batch = 0;                                    // 0: no batch dimension
  bool has_bias = false;                                // a bias and an activation behind the product
};

std::string ProductText(const Problem& p) {
  const std::string batch = p.batch > 0 ? absl::StrCat(p.batch, ",") : "";
  const int64_t first = p.batch > 0 ? 1 : 0;
  const std::string type = p.type == "tf32" ? "f32" : p.type, result = type == "s8" ? "s32" : type;
  auto shape = [&](int64_t a, int64_t b) { return absl::StrCat("[", batch, a, ",", b, "]"); };
  const std::string out = result + shape(p.m, p.n);
  std::string text =
      absl::StrCat("HloModule m\nENTRY e {\n  x = ", type, p.lhs_transposed ? shape(p.k, p.m) : shape(p.m, p.k),
                   " parameter(0)\n  y = ", type, p.rhs_transposed ? shape(p.n, p.k) : shape(p.k, p.n),
                   " parameter(1)\n  ", p.has_bias ? "" : "ROOT ", "d = ", out, " dot(x, y), ",
                   p.batch > 0 ? "lhs_batch_dims={0}, rhs_batch_dims={0}, " : "", "lhs_contracting_dims={",
                   first + (p.lhs_transposed ? 0 : 1), "}, rhs_contracting_dims={", first + (p.rhs_transposed ? 1 : 0),
                   "}", p.type == "tf32" ? ", algorithm=dot_tf32_tf32_f32" : "", "\n");
  if (p.has_bias) {
    absl::StrAppend(&text, "  bias = ", result, "[", p.n, "] parameter(2)\n  bb = ", out,
                    " broadcast(bias), dimensions={", first + 1, "}\n  a = ", out, " add(d, bb)\n  ROOT r = ", out,
                    " maximum(a, d)\n");
  }
  return text + "}\n";
}

std::string CompileToPtx(const std::string& hlo, const std::string& target, std::vector<std::string>* log) {
  auto module = ParseHloModule(hlo);
  EXPECT_TRUE(module.ok()) << module.status();
  NamedValues cost;
  EXPECT_TRUE(RunGpuPipeline(module->get(), {}, &cost, log).ok());
  auto program = GpuProgram::Build(*std::move(module), *FindGpuTarget(target), nullptr, log);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? (*program)->image().bytes : "";
}

std::string CompileToPtx(const Problem& p, const std::string& target, std::vector<std::string>* log) {
  return CompileToPtx(ProductText(p), target, log);
}

// Convolutions of a residual network: forward, the gradients of input and kernel, with few features, in groups.
std::vector<std::string> AllConvolutions(const std::string& type) {
  auto text = [&](const std::string& x, const std::string& w, const std::string& out, const std::string& rest) {
    return absl::StrCat("HloModule m\nENTRY e {\n  x = ", type, "[", x, "] parameter(0)\n  w = ", type, "[", w,
                        "] parameter(1)\n  ROOT r = ", type, "[", out, "] convolution(x, w), window=", rest, "\n}\n");
  };
  return {
      text("32,28,28,128", "3,3,128,128", "32,28,28,128", "{size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
      text("32,28,28,128", "3,3,128,128", "32,28,28,128",
           "{size=3x3 pad=1_1x1_1 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"),
      text("32,14,14,256", "32,14,14,256", "3,3,256,256", "{size=14x14 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"),
      text("8,224,224,3", "7,7,3,64", "8,112,112,64", "{size=7x7 stride=2x2 pad=2_3x2_3}, dim_labels=b01f_01io->b01f"),
      text("8,56,56,128", "3,3,16,128", "8,56,56,128",
           "{size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=8"),
  };
}

std::vector<Problem> AllProblems() {
  std::vector<Problem> all;
  for (const char* type : {"f16", "bf16", "tf32", "f64", "s8"}) {
    for (const bool lhs : {false, true}) {
      for (const bool rhs : {false, true}) {
        all.push_back({4096, 2048, 1024, type, lhs, rhs});
        all.push_back({131, 77, 203, type, lhs, rhs});
        all.push_back({512, 384, 96, type, lhs, rhs, 3});
      }
    }
    all.push_back({256, 1024, 512, type, false, false, 0, true});
    all.push_back({37, 67, 40, type, false, false, 2, true});
    all.push_back({16, 4096, 256, type, false, true});
    all.push_back({5, 3, 90, type});
  }
  return all;
}

class Ptx : public testing::TestWithParam<const char*> {
 protected:
  // The name of the machine alone.
  static std::string Machine() {
    const std::string name = GetParam();
    return name.substr(0, name.find(':'));
  }
  static bool IsHopper() { return Machine() == "sm_90a"; }
  static bool IsAsync() { return !absl::StrContains(GetParam(), kRegistersSuffix); }
};
INSTANTIATE_TEST_SUITE_P(Targets, Ptx,
                         testing::Values("sm_80", "sm_89", "sm_90", "sm_90a", "sm_80:registers", "sm_90a:registers"));

TEST_P(Ptx, MultipliesByMatrixInstructions) {
  for (const Problem& p : AllProblems()) {
    SCOPED_TRACE(ProductText(p));
    std::vector<std::string> log;
    const std::string ptx = CompileToPtx(p, GetParam(), &log);
    // Groups multiply all but what they cannot read, or threads cannot bring to them.
    const bool is_plain = !p.lhs_transposed && (p.rhs_transposed || p.type != "s8") && p.m > 32;
    const bool can_transpose = p.type == "f16" || p.type == "bf16", along_k = !p.lhs_transposed && p.rhs_transposed;
    const bool can_copy =
        IsAsync() && (can_transpose || (p.type == "s8" && along_k)) && p.m % 16 == 0 && p.n % 16 == 0 && p.k % 16 == 0;
    if (IsHopper() && p.type != "f64" && (is_plain || can_copy)) {
      EXPECT_THAT(ptx, HasSubstr("wgmma.mma_async.sync.aligned."));
    } else {
      EXPECT_THAT(ptx, HasSubstr("\tmma.sync.aligned."));
    }
    EXPECT_THAT(ptx, Not(HasSubstr(".local"))) << "an array of a thread in memory";
    EXPECT_THAT(absl::StrJoin(log, "\n"), HasSubstr("matrix product:"));
  }
}

// 16 bytes at a time, of aligned operands.
TEST_P(Ptx, AccessesVectors) {
  for (const char* type : {"f16", "bf16", "tf32", "f64", "s8"}) {
    for (const bool lhs : {false, true}) {
      for (const bool rhs : {false, true}) {
        const Problem p{4096, 2048, 1024, type, lhs, rhs};
        SCOPED_TRACE(ProductText(p));
        const std::string ptx = CompileToPtx(p, GetParam(), nullptr);
        for (const absl::string_view line : absl::StrSplit(ptx, '\n')) {
          const bool of_shared = absl::StrContains(line, "ld.shared") || absl::StrContains(line, "st.shared");
          if (of_shared || absl::StrContains(line, "ld.global")) {
            const bool is_wide = absl::StrContains(line, ".v4.") || absl::StrContains(line, ".v2.f64") ||
                                 absl::StrContains(line, ".v2.u64") || absl::StrContains(line, ".v2.b64");
            EXPECT_TRUE(is_wide) << line;
          }
        }
      }
    }
  }
}

TEST_P(Ptx, IsAssembledWithoutSpills) {
  if (std::system("ptxas --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no ptxas";
  const std::string path = absl::StrCat(testing::TempDir(), "/ptx_test_", getpid());
  std::vector<std::string> programs;
  for (const Problem& p : AllProblems()) programs.push_back(ProductText(p));
  for (const char* type : {"bf16", "f32"}) {
    const std::vector<std::string> convolutions = AllConvolutions(type);
    programs.insert(programs.end(), convolutions.begin(), convolutions.end());
  }
  for (const std::string& hlo : programs) {
    SCOPED_TRACE(hlo);
    std::ofstream(path + ".ptx") << CompileToPtx(hlo, GetParam(), nullptr);
    ASSERT_EQ(std::system(absl::StrCat("ptxas -v -arch=", Machine(), " -o ", path, ".cubin ", path, ".ptx > ", path,
                                       ".txt 2>&1")
                              .c_str()),
              0);
    std::stringstream said;
    said << std::ifstream(path + ".txt").rdbuf();
    EXPECT_THAT(said.str(), Not(HasSubstr("wgmma"))) << "a warning: products wait for one another";
    int kernels = 0;
    for (const absl::string_view line : absl::StrSplit(said.str(), '\n')) {
      if (absl::StrContains(line, "spill")) {
        ++kernels;
        // Two registers of the threads that put unaligned bytes together, and one of those of f64 on older GPUs.
        const bool may_spill = absl::StrContains(hlo, "s8[131,203]") || absl::StrContains(hlo, "f64[3,512,96]");
        int bytes = 0;
        EXPECT_TRUE(absl::SimpleAtoi(absl::StripAsciiWhitespace(line.substr(0, line.find("bytes stack"))), &bytes));
        EXPECT_LE(bytes, may_spill ? 8 : 0) << line;
      }
      if (absl::StrContains(line, "registers")) std::printf("%s %s\n", GetParam(), std::string(line).c_str());
    }
    EXPECT_GT(kernels, 0);
  }
  for (const char* suffix : {".ptx", ".cubin", ".txt"}) std::remove((path + suffix).c_str());
}

}  // namespace
}  // namespace backplane::hip
