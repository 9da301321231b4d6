// Sorts and top-k as kernels, compared with the evaluator on the host and in machine code.
#include <string>
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
Compiled Check(const std::string& pattern, const Replacements& replacements, const std::string& target = "host") {
  const std::string hlo = absl::StrReplaceAll(pattern, replacements);
  SCOPED_TRACE(hlo);
  Compiled compiled = CompileAndCompare(hlo, target, 0);
  for (const std::string& line : compiled.log) EXPECT_FALSE(absl::StartsWith(line, "on the host:")) << line;
  return compiled;
}

bool LogHas(const Compiled& compiled, const std::string& text) {
  return absl::StrContains(absl::StrJoin(compiled.log, "\n"), text);
}

// Keys of few values, so that most are equal, beside the numbers of the elements in a type that is no position.
constexpr char kStableSort[] = R"(HloModule m
less {
  a = TYPE[] parameter(0)
  b = TYPE[] parameter(1)
  i = f32[] parameter(2)
  j = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = s32[DIMS] parameter(0)
  key = TYPE[DIMS] convert(x)
  n = s32[DIMS] iota(), iota_dimension=ALONG
  number = f32[DIMS] convert(n)
  ROOT s = (TYPE[DIMS], f32[DIMS]) sort(key, number), dimensions={ALONG}, is_stable=true, to_apply=less
})";

TEST(Sort, IsStableForAllTypes) {
  for (const char* type :
       {"f32", "f64", "bf16", "f16", "f8e4m3fn", "s4", "s8", "u8", "s16", "s32", "u32", "s64", "u64"})
    Check(kStableSort, {{"TYPE", type}, {"DIMS", "3,37"}, {"ALONG", "1"}});
}

TEST(Sort, SortsRowsOfAnyLength) {
  for (const char* length : {"0", "1", "2", "3", "31", "64", "255", "256", "257", "1000", "4095", "4096", "4097"})
    Check(kStableSort, {{"TYPE", "f32"}, {"DIMS", absl::StrCat("2,", length)}, {"ALONG", "1"}});
}

TEST(Sort, SortsRowsThatAreLongerThanAChunk) {
  for (const char* length : {"5000", "8192", "20000", "70001"}) {
    const Compiled compiled =
        Check(kStableSort, {{"TYPE", "f32"}, {"DIMS", absl::StrCat("2,", length)}, {"ALONG", "1"}});
    EXPECT_TRUE(LogHas(compiled, " launches")) << length;
  }
}

// Sorted chunks are merged where the comparator is an order: with equal elements, in a last run of any length, and by
// several keys. Numbers of the elements show that equal ones keep their order.
TEST(Sort, MergesSortedChunks) {
  for (const char* type : {"s32", "u8"}) {
    for (const char* length : {"4097", "8193", "33000"}) {
      const Compiled compiled =
          Check(kStableSort, {{"TYPE", type}, {"DIMS", absl::StrCat("2,", length)}, {"ALONG", "1"}});
      EXPECT_TRUE(LogHas(compiled, "merged by")) << length;
    }
  }
  Check(kStableSort, {{"TYPE", "s32"}, {"DIMS", "3,9001,2"}, {"ALONG", "1"}});
  for (const char* stable : {"true", "false"}) {
    const Compiled compiled = Check(R"(HloModule m
order {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  p = c128[] parameter(4)
  q = c128[] parameter(5)
  first = pred[] compare(a, b), direction=LT
  equal = pred[] compare(a, b), direction=EQ
  second = pred[] compare(c, d), direction=GT, type=TOTALORDER
  tie = pred[] and(equal, second)
  ROOT r = pred[] or(first, tie)
}
ENTRY e {
  x = s32[2,7777] parameter(0)
  y = f32[2,7777] parameter(1)
  z = c128[2,7777] parameter(2)
  ROOT s = (s32[2,7777], f32[2,7777], c128[2,7777]) sort(x, y, z), dimensions={1}, is_stable=STABLE, to_apply=order
})",
                                    {{"STABLE", stable}});
    EXPECT_TRUE(LogHas(compiled, "merged by"));
  }
}

TEST(Sort, SortsAlongAnyDimension) {
  Check(kStableSort, {{"TYPE", "f32"}, {"DIMS", "300,7"}, {"ALONG", "0"}});
  Check(kStableSort, {{"TYPE", "s32"}, {"DIMS", "4,100,3"}, {"ALONG", "1"}});
  Check(kStableSort, {{"TYPE", "f32"}, {"DIMS", "3,70,40"}, {"ALONG", "1"}});
  Check(kStableSort, {{"TYPE", "s32"}, {"DIMS", "5000,20"}, {"ALONG", "0"}});
  Check(kStableSort, {{"TYPE", "s32"}, {"DIMS", "2,9000,3"}, {"ALONG", "1"}});
  Check(kStableSort, {{"TYPE", "s32"}, {"DIMS", "1000,3,5"}, {"ALONG", "2"}});
  Check(kStableSort, {{"TYPE", "s32"}, {"DIMS", "40000,2"}, {"ALONG", "1"}});
}

TEST(Sort, CompilesForGpus) {
  ExpectCompilesForGpus(absl::StrReplaceAll(kStableSort, {{"TYPE", "f32"}, {"DIMS", "2,200"}, {"ALONG", "1"}}));
  ExpectCompilesForGpus(absl::StrReplaceAll(kStableSort, {{"TYPE", "bf16"}, {"DIMS", "2,20000"}, {"ALONG", "1"}}));
  ExpectCompilesForGpus(absl::StrReplaceAll(kStableSort, {{"TYPE", "f64"}, {"DIMS", "20000,3"}, {"ALONG", "0"}}));
}

// The order that JAX asks for: total, but zeros are equal, and NaNs come last and are equal. The bits of the results
// show which of the equal ones comes first.
TEST(Sort, OrdersNanAndNegativeZeroAsTheComparatorSays) {
  for (const char* length : {"100", "6000"}) {
    for (const char* comparator :
         {"compare(c, d), direction=LT, type=TOTALORDER", "compare(a, b), direction=GT, type=TOTALORDER"}) {
      Check(R"(HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  zero = f32[] constant(0)
  nan = f32[] constant(nan)
  za = pred[] compare(a, zero), direction=EQ
  zb = pred[] compare(b, zero), direction=EQ
  aa = f32[] select(za, zero, a)
  bb = f32[] select(zb, zero, b)
  na = pred[] compare(a, a), direction=NE
  nb = pred[] compare(b, b), direction=NE
  c = f32[] select(na, nan, aa)
  d = f32[] select(nb, nan, bb)
  ROOT r = pred[] COMPARATOR
}
ENTRY e {
  x = s32[LENGTH] parameter(0)
  bits = s32[LENGTH] parameter(1)
  high = s32[] constant(31)
  highs = s32[LENGTH] broadcast(high), dimensions={}
  sign = s32[LENGTH] shift-left(bits, highs)
  nan = s32[] constant(2139095041)
  nans = s32[LENGTH] broadcast(nan), dimensions={}
  two = s32[] constant(2)
  twos = s32[LENGTH] broadcast(two), dimensions={}
  is_nan = pred[LENGTH] compare(x, twos), direction=EQ
  some = s32[LENGTH] add(nans, bits)
  plain = f32[LENGTH] convert(x)
  plain_bits = s32[LENGTH] bitcast-convert(plain)
  magnitude = s32[LENGTH] select(is_nan, some, plain_bits)
  all = s32[LENGTH] or(magnitude, sign)
  key = f32[LENGTH] bitcast-convert(all)
  s = f32[LENGTH] sort(key), dimensions={0}, is_stable=true, to_apply=less
  ROOT r = s32[LENGTH] bitcast-convert(s)
})",
            {{"LENGTH", length}, {"COMPARATOR", comparator}});
    }
  }
}

TEST(Sort, SortsByTwoKeysDescending) {
  Check(R"(HloModule m
more {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  p = s32[] parameter(4)
  q = s32[] parameter(5)
  first = pred[] compare(a, b), direction=GT
  equal = pred[] compare(a, b), direction=EQ
  second = pred[] compare(c, d), direction=GT
  tie = pred[] and(equal, second)
  ROOT r = pred[] or(first, tie)
}
ENTRY e {
  x = s32[3,5000] parameter(0)
  y = f32[3,5000] parameter(1)
  n = s32[3,5000] iota(), iota_dimension=1
  ROOT s = (s32[3,5000], f32[3,5000], s32[3,5000]) sort(x, y, n), dimensions={1}, to_apply=more
})",
        {});
}

// An iota that is sorted along tells equal elements apart: no further operand is sorted.
TEST(Sort, UsesPositionsThatAreThere) {
  const Compiled compiled = Check(R"(HloModule m
less { a = s32[] parameter(0) b = s32[] parameter(1) p = s32[] parameter(2) q = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = s32[4,100] parameter(0)
  n = s32[4,100] iota(), iota_dimension=1
  s = (s32[4,100], s32[4,100]) sort(x, n), dimensions={1}, is_stable=true, to_apply=less
  ROOT r = s32[4,100] get-tuple-element(s), index=1
})",
                                  {});
  ASSERT_NE(compiled.program, nullptr);
  for (const auto& i : compiled.program->module().entry()->instructions()) {
    if (i->Is(Opcode::kSort)) {
      EXPECT_EQ(i->operand_count(), 2);
    }
  }
}

// A comparator that is no order leaves a permutation: sorted again by its numbers, nothing is missing.
TEST(Sort, KeepsAllElementsUnderAnyComparator) {
  for (const char* length : {"300", "9000"}) {
    for (const char* stable : {"true", "false"}) {
      Check(R"(HloModule m
odd { a = f32[] parameter(0) b = f32[] parameter(1) p = s32[] parameter(2) q = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction=NE }
less { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[LENGTH] parameter(0)
  n = s32[LENGTH] iota(), iota_dimension=0
  s = (f32[LENGTH], s32[LENGTH]) sort(x, n), dimensions={0}, is_stable=STABLE, to_apply=odd
  m = s32[LENGTH] get-tuple-element(s), index=1
  ROOT r = s32[LENGTH] sort(m), dimensions={0}, to_apply=less
})",
            {{"LENGTH", length}, {"STABLE", stable}});
    }
  }
}

TEST(Sort, SortsComplexNumbersAndManyOperands) {
  Check(R"(HloModule m
less {
  a = c64[] parameter(0) b = c64[] parameter(1) p0 = f64[] parameter(2) q0 = f64[] parameter(3)
  p1 = c128[] parameter(4) q1 = c128[] parameter(5) p2 = pred[] parameter(6) q2 = pred[] parameter(7)
  x = f32[] real(a)
  y = f32[] real(b)
  ROOT r = pred[] compare(x, y), direction=LT
}
ENTRY e {
  a = c64[3000] parameter(0)
  b = f64[3000] parameter(1)
  c = c128[3000] parameter(2)
  d = pred[3000] parameter(3)
  ROOT s = (c64[3000], f64[3000], c128[3000], pred[3000]) sort(a, b, c, d), dimensions={0}, is_stable=true, to_apply=less
})",
        {});
}

constexpr char kTopK[] = R"(HloModule m
ENTRY e {
  x = TYPE[ROWS,LENGTH] parameter(0)
  ROOT r = (TYPE[ROWS,COUNT], s32[ROWS,COUNT]) topk(x), k=COUNT, largest=LARGEST
})";

TEST(TopK, FindsTheLargestAndTheSmallest) {
  for (const char* type : {"f32", "bf16", "s32", "u8", "s8", "f64"}) {
    for (const char* largest : {"true", "false"}) {
      Check(kTopK, {{"TYPE", type}, {"ROWS", "3"}, {"LENGTH", "50"}, {"COUNT", "5"}, {"LARGEST", largest}});
      Check(kTopK, {{"TYPE", type}, {"ROWS", "2"}, {"LENGTH", "5000"}, {"COUNT", "7"}, {"LARGEST", largest}});
    }
  }
  Check(kTopK, {{"TYPE", "f32"}, {"ROWS", "1"}, {"LENGTH", "200001"}, {"COUNT", "100"}, {"LARGEST", "true"}});
  Check(kTopK, {{"TYPE", "f32"}, {"ROWS", "2"}, {"LENGTH", "6000"}, {"COUNT", "3000"}, {"LARGEST", "true"}});
  Check(kTopK, {{"TYPE", "s32"}, {"ROWS", "2"}, {"LENGTH", "2049"}, {"COUNT", "512"}, {"LARGEST", "false"}});
}

// Any type and length, by both kernels and with a second pass over the parts.
TEST(TopK, FindsAnyNumberInRowsOfAnyLength) {
  for (const char* type : {"f16", "u32"}) {
    for (const char* length : {"1", "17", "2047", "2049", "30000"}) {
      for (const char* count : {"1", "16", "300"}) {
        if (std::stoi(count) > std::stoi(length)) continue;
        Check(kTopK, {{"TYPE", type}, {"ROWS", "3"}, {"LENGTH", length}, {"COUNT", count}, {"LARGEST", "true"}});
      }
    }
  }
}

class SortCode : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, SortCode, testing::Values("gfx942", "gfx1100"));

TEST_P(SortCode, SortsInMachineCode) {
  for (const char* type : {"f32", "bf16", "s64"})
    Check(kStableSort, {{"TYPE", type}, {"DIMS", "3,100"}, {"ALONG", "1"}}, GetParam());
  Check(kStableSort, {{"TYPE", "f32"}, {"DIMS", "4500,2"}, {"ALONG", "0"}}, GetParam());
  Check(kStableSort, {{"TYPE", "s32"}, {"DIMS", "9000"}, {"ALONG", "0"}}, GetParam());
}

TEST_P(SortCode, FindsTheLargestInMachineCode) {
  Check(kTopK, {{"TYPE", "f32"}, {"ROWS", "2"}, {"LENGTH", "3000"}, {"COUNT", "4"}, {"LARGEST", "true"}}, GetParam());
}

}  // namespace
}  // namespace backplane::hip
