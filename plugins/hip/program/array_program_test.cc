// Scans, select-and-scatter, transposes and random bits as kernels, compared with the evaluator on the host and in
// machine code.
#include <string>
#include <tuple>
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

bool LogHas(const Compiled& compiled, const std::string& text) {
  return absl::StrContains(absl::StrJoin(compiled.log, "\n"), text);
}

class InMachineCode : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, InMachineCode, testing::Values("gfx942", "gfx1100"));

// ---- Scans.

constexpr char kScan[] = R"(HloModule m
combine { a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT r = TYPE[] OP(a, b) }
ENTRY e {
  x = TYPE[DIMS] parameter(0)
  start = TYPE[] constant(START)
  ROOT r = TYPE[DIMS] reduce-window(x, start), window={size=SIZE pad=PAD}, to_apply=combine
})";

TEST(Scan, ScansAllTypes) {
  for (const char* type : {"f32", "f64", "bf16", "s8", "s32", "u16", "s64", "c64"}) {
    const Compiled compiled = Check(kScan,
                                    {{"TYPE", type},
                                     {"DIMS", "3,100"},
                                     {"SIZE", "1x100"},
                                     {"PAD", "0_0x99_0"},
                                     {"OP", "add"},
                                     {"START", std::string(type) == "c64" ? "(1, 2)" : "2"}},
                                    std::string(type) == "bf16" ? 0.01 : 1e-5);
    EXPECT_TRUE(LogHas(compiled, "scan: 3 rows of 100"));
  }
}

TEST(Scan, ScansByAllOperations) {
  for (const char* op : {"maximum", "minimum", "multiply", "add"}) {
    Check(kScan,
          {{"TYPE", "f32"}, {"DIMS", "2,700"}, {"SIZE", "1x700"}, {"PAD", "0_0x0_699"}, {"OP", op}, {"START", "1"}},
          1e-4);
  }
  for (const char* op : {"and", "or", "xor", "maximum"}) {
    Check(kScan,
          {{"TYPE", "s32"}, {"DIMS", "2,700"}, {"SIZE", "1x700"}, {"PAD", "0_0x699_0"}, {"OP", op}, {"START", "1"}}, 0);
  }
}

TEST(Scan, ScansRowsOfAnyLengthInBothDirections) {
  for (const int n : {64, 65, 511, 512, 2047, 2048, 2049, 10000, 16384, 16385, 50000}) {
    for (const bool reverse : {false, true}) {
      Check(kScan,
            {{"TYPE", "s32"},
             {"DIMS", absl::StrCat("2,", n)},
             {"SIZE", absl::StrCat("1x", n)},
             {"PAD", reverse ? absl::StrCat("0_0x0_", n - 1) : absl::StrCat("0_0x", n - 1, "_0")},
             {"OP", "add"},
             {"START", "3"}},
            0);
    }
  }
}

TEST(Scan, ScansAlongOuterDimensions) {
  Check(kScan,
        {{"TYPE", "f32"}, {"DIMS", "100,7"}, {"SIZE", "100x1"}, {"PAD", "99_0x0_0"}, {"OP", "add"}, {"START", "0"}},
        1e-5);
  const Compiled compiled = Check(kScan,
                                  {{"TYPE", "s32"},
                                   {"DIMS", "2,70,5000"},
                                   {"SIZE", "1x70x1"},
                                   {"PAD", "0_0x0_69x0_0"},
                                   {"OP", "add"},
                                   {"START", "2"}},
                                  0);
  EXPECT_TRUE(LogHas(compiled, "one in each thread"));
}

TEST(Scan, ScansSeveralArraysTogether) {
  Check(R"(HloModule m
both {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  m = f32[] maximum(a, b)
  s = s32[] add(i, j)
  ROOT t = (f32[], s32[]) tuple(m, s)
}
ENTRY e {
  x = f32[20000] parameter(0)
  y = s32[20000] parameter(1)
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[20000], s32[20000]) reduce-window(x, y, low, zero), window={size=20000 pad=19999_0}, to_apply=both
})",
        {}, 0);
}

TEST(Scan, CompilesForGpus) {
  for (const char* type : {"f32", "bf16", "c128"}) {
    ExpectCompilesForGpus(absl::StrReplaceAll(kScan, {{"TYPE", type},
                                                      {"DIMS", "3,3000"},
                                                      {"SIZE", "1x3000"},
                                                      {"PAD", "0_0x2999_0"},
                                                      {"OP", "add"},
                                                      {"START", std::string(type) == "c128" ? "(0, 0)" : "0"}}));
  }
}

TEST_P(InMachineCode, Scans) {
  Check(kScan,
        {{"TYPE", "f32"}, {"DIMS", "2,3000"}, {"SIZE", "1x3000"}, {"PAD", "0_0x2999_0"}, {"OP", "add"}, {"START", "0"}},
        1e-4, GetParam());
  Check(
      kScan,
      {{"TYPE", "bf16"}, {"DIMS", "2,100"}, {"SIZE", "1x100"}, {"PAD", "0_0x0_99"}, {"OP", "maximum"}, {"START", "0"}},
      0, GetParam());
}

// ---- Select-and-scatter.

constexpr char kMaxPoolGradient[] = R"(HloModule m
ge { a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
combine { a = TYPE[] parameter(0) b = TYPE[] parameter(1) ROOT r = TYPE[] OP(a, b) }
ENTRY e {
  x = TYPE[DIMS] parameter(0)
  y = TYPE[SOURCE] parameter(1)
  start = TYPE[] constant(START)
  ROOT r = TYPE[DIMS] select-and-scatter(x, y, start), window={WINDOW}, select=ge, scatter=combine
})";

const Replacements kOverlapping = {
    {"DIMS", "2,9,11,3"}, {"SOURCE", "2,5,6,3"}, {"WINDOW", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"}};

Replacements With(Replacements all, const Replacements& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(SelectAndScatter, ScattersOfAllTypes) {
  for (const char* type : {"f32", "bf16", "s32", "u8", "f64"}) {
    for (const char* op : {"add", "multiply", "maximum"})
      Check(kMaxPoolGradient, With(kOverlapping, {{"TYPE", type}, {"OP", op}, {"START", "1"}}), 1e-6);
  }
}

TEST(SelectAndScatter, TakesAnyWindow) {
  for (const auto& [dims, source, window] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {"8,12", "4,3", "size=2x4 stride=2x4"},
           {"10", "2", "size=3 stride=4"},  // elements that are in no window
           {"10", "8", "size=3 stride=1"},
           {"5,5", "1,1", "size=5x5 stride=1x1"},
           {"6", "4", "size=2 stride=3 pad=2_4"},  // windows of padding alone
           {"7,3", "7,0", "size=1x4"},
           {"4", "10", "size=4 stride=1 pad=5_4"}}) {
    Check(kMaxPoolGradient,
          {{"DIMS", dims}, {"SOURCE", source}, {"WINDOW", window}, {"TYPE", "s32"}, {"OP", "add"}, {"START", "7"}}, 0);
  }
}

TEST(SelectAndScatter, CompilesForGpus) {
  ExpectCompilesForGpus(
      absl::StrReplaceAll(kMaxPoolGradient, With(kOverlapping, {{"TYPE", "bf16"}, {"OP", "add"}, {"START", "0"}})));
}

TEST_P(InMachineCode, SelectsAndScatters) {
  Check(kMaxPoolGradient, With(kOverlapping, {{"TYPE", "f32"}, {"OP", "add"}, {"START", "0"}}), 1e-6, GetParam());
}

// ---- Random bits.

constexpr char kRandomBits[] = R"(HloModule m
ENTRY e {
  x = s32[WORDS] parameter(0)
  w = u64[WORDS] convert(x)
  big = u64[] constant(FACTOR)
  bigs = u64[WORDS] broadcast(big), dimensions={}
  s = u64[WORDS] multiply(w, bigs)
  n = u64[WORDS] subtract(s, w)
  ROOT r = (u64[WORDS], TYPE[DIMS]) rng-bit-generator(n), algorithm=ALGORITHM
})";

TEST(RandomBits, AreThoseOfTheDefinition) {
  for (const char* algorithm : {"rng_philox", "rng_three_fry", "rng_default"}) {
    for (const char* words : {"2", "3"}) {
      if (std::string(algorithm) == "rng_three_fry" && std::string(words) == "3") continue;
      for (const char* type : {"u32", "u64", "s16", "u8", "u4"}) {
        for (const char* dims : {"7", "4,6", "5,3,7", "0", ""})
          Check(kRandomBits,
                {{"WORDS", words}, {"TYPE", type}, {"DIMS", dims}, {"ALGORITHM", algorithm}, {"FACTOR", "12345678901"}},
                0);
      }
      // Counters that overflow.
      Check(kRandomBits,
            {{"WORDS", words},
             {"TYPE", "u32"},
             {"DIMS", "100"},
             {"ALGORITHM", algorithm},
             {"FACTOR", "18446744073709551615"}},
            0);
    }
  }
}

TEST(RandomBits, TakesStatesOf32Bits) {
  for (const char* algorithm : {"rng_philox", "rng_three_fry"}) {
    Check(R"(HloModule m
ENTRY e {
  s = u32[4] parameter(0)
  ROOT r = (u32[4], u32[1001]) rng-bit-generator(s), algorithm=ALGORITHM
})",
          {{"ALGORITHM", algorithm}}, 0);
  }
}

// Floats: their bits are random, NaNs among them.
TEST(RandomBits, MakesFloats) {
  Check(R"(HloModule m
ENTRY e {
  s = u64[2] parameter(0)
  r = (u64[2], f32[1001]) rng-bit-generator(s), algorithm=rng_philox
  x = f32[1001] get-tuple-element(r), index=1
  ROOT b = u32[1001] bitcast-convert(x)
})",
        {}, 0);
}

// ---- Transposes.

constexpr char kTranspose[] = R"(HloModule m
ENTRY e {
  x = TYPE[FROM] parameter(0)
  y = TYPE[TO] parameter(1)
  t = TYPE[TO] transpose(x), dimensions={ORDER}
  s = TYPE[TO] add(t, y)
  ROOT r = (TYPE[TO], TYPE[TO]) tuple(t, s)
})";

Replacements TransposeOf(const std::string& type, const std::vector<int>& dims, const std::vector<int>& order) {
  std::vector<int> to;
  for (const int d : order) to.push_back(dims[static_cast<size_t>(d)]);
  return {{"TYPE", type},
          {"FROM", absl::StrJoin(dims, ",")},
          {"TO", absl::StrJoin(to, ",")},
          {"ORDER", absl::StrJoin(order, ",")}};
}

TEST(Transpose, GoesThroughSharedMemory) {
  for (const char* type : {"f32", "f16", "s8", "f64", "c64", "c128"}) {
    for (const auto& [dims, order] :
         std::vector<std::pair<std::vector<int>, std::vector<int>>>{{{128, 192}, {1, 0}},
                                                                    {{131, 77}, {1, 0}},
                                                                    {{3, 70, 90}, {0, 2, 1}},
                                                                    {{33, 5, 65}, {2, 1, 0}},
                                                                    {{7, 20, 3, 36}, {3, 0, 2, 1}}}) {
      const Compiled compiled = Check(kTranspose, TransposeOf(type, dims, order), 0);
      EXPECT_TRUE(LogHas(compiled, "transpose: ")) << type;
    }
  }
  // Sides that are too short, and rows that stay rows.
  Check(kTranspose, TransposeOf("f32", {3000, 4}, {1, 0}), 0);
  Check(kTranspose, TransposeOf("f32", {16, 30, 64}, {1, 0, 2}), 0);
}

TEST(Transpose, CompilesForGpus) {
  for (const char* type : {"f32", "bf16", "c128"})
    ExpectCompilesForGpus(absl::StrReplaceAll(kTranspose, TransposeOf(type, {131, 5, 77}, {2, 1, 0})));
}

TEST_P(InMachineCode, Transposes) {
  for (const char* type : {"f32", "bf16", "s8", "f64"})
    Check(kTranspose, TransposeOf(type, {130, 2, 70}, {2, 1, 0}), 0, GetParam());
}

TEST(RandomBits, CompilesForGpus) {
  for (const char* algorithm : {"rng_philox", "rng_three_fry"}) {
    ExpectCompilesForGpus(absl::StrReplaceAll(
        kRandomBits,
        {{"WORDS", "2"}, {"TYPE", "u32"}, {"DIMS", "1001,3"}, {"ALGORITHM", algorithm}, {"FACTOR", "77777777777777"}}));
  }
}

TEST_P(InMachineCode, MakesRandomBits) {
  for (const char* algorithm : {"rng_philox", "rng_three_fry"}) {
    for (const char* type : {"u32", "u64"})
      Check(kRandomBits,
            {{"WORDS", "2"}, {"TYPE", type}, {"DIMS", "37,5"}, {"ALGORITHM", algorithm}, {"FACTOR", "77777777777777"}},
            0, GetParam());
  }
}

}  // namespace
}  // namespace backplane::hip
