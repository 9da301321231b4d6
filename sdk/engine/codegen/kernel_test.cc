#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "sdk/engine/codegen/kernel_testing.h"

namespace backplane::engine::codegen {
namespace {

std::string Entry(const std::string& body) { return "HloModule m\n\nENTRY e {\n" + body + "}\n"; }

TEST(Kernel, AddsOfManySizes) {
  for (int n : {1, 2, 3, 4, 7, 16, 31, 32, 33, 63, 64, 65, 1000}) {
    std::string hlo = absl::StrReplaceAll(Entry(R"(
      x = f32[#] parameter(0)
      y = f32[#] parameter(1)
      s = f32[#] add(x, y)
      ROOT r = f32[#] multiply(s, y)
    )"),
                                          {{"#", absl::StrCat(n)}});
    EXPECT_EQ(Difference(hlo), "") << n;
    RunOptions share;
    share.share = true;
    EXPECT_EQ(Difference(hlo, share), "") << n << " in place";
  }
}

TEST(Kernel, BroadcastsRowsAndColumns) {
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[7,37] parameter(0)
    row = f32[37] parameter(1)
    col = f32[7] parameter(2)
    c = f32[] constant(2.5)
    rb = f32[7,37] broadcast(row), dimensions={1}
    cb = f32[7,37] broadcast(col), dimensions={0}
    kb = f32[7,37] broadcast(c), dimensions={}
    a = f32[7,37] add(x, rb)
    m = f32[7,37] multiply(a, cb)
    ROOT r = f32[7,37] maximum(m, kb)
  )")),
            "");
}

TEST(Kernel, Softmax) {
  const char* kSoftmax = R"(HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[ROWS,COLS] parameter(0)
  ninf = f32[] constant(-inf)
  zero = f32[] constant(0)
  mx = f32[ROWS] reduce(x, ninf), dimensions={1}, to_apply=max
  mb = f32[ROWS,COLS] broadcast(mx), dimensions={0}
  d = f32[ROWS,COLS] subtract(x, mb)
  ex = f32[ROWS,COLS] exponential(d)
  s = f32[ROWS] reduce(ex, zero), dimensions={1}, to_apply=add
  sb = f32[ROWS,COLS] broadcast(s), dimensions={0}
  ROOT r = f32[ROWS,COLS] divide(ex, sb)
})";
  for (auto [rows, cols] : {std::pair{5, 64}, {3, 100}, {17, 7}, {2, 33}, {40, 1000}}) {
    std::string hlo = absl::StrReplaceAll(kSoftmax, {{"ROWS", absl::StrCat(rows)}, {"COLS", absl::StrCat(cols)}});
    EXPECT_EQ(Difference(hlo), "") << rows << "x" << cols;
    RunOptions share;
    share.share = true;
    EXPECT_EQ(Difference(hlo, share), "") << rows << "x" << cols << " in place";
  }
}

}  // namespace
}  // namespace backplane::engine::codegen
