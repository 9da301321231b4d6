// Operations that move elements, alone and inside fusions, against the evaluator.
#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "sdk/engine/codegen/kernel_testing.h"

namespace backplane::engine::codegen {
namespace {

std::string Entry(const std::string& body) { return "HloModule m\n\nENTRY e {\n" + body + "}\n"; }

TEST(Movement, Transposes) {
  for (const char* t : {"f32", "bf16", "s8", "f64", "c64", "pred", "c128"}) {
    for (auto [r, c] : {std::pair{16, 16}, {64, 128}, {33, 70}, {5, 100}, {100, 5}, {3, 3}, {17, 16}, {200, 260}}) {
      std::string hlo = Entry(absl::StrCat("  x = ", t, "[", r, ",", c, "] parameter(0)\n  ROOT r = ", t, "[", c, ",",
                                           r, "] transpose(x), dimensions={1,0}\n"));
      EXPECT_EQ(Difference(hlo), "") << t << " " << r << "x" << c;
    }
  }
  for (const char* p : {"0,2,1", "2,0,1", "2,1,0", "1,0,2", "1,2,0"}) {
    int d[3] = {20, 24, 36}, q[3];
    for (int i = 0; i < 3; ++i) q[i] = d[p[2 * i] - '0'];
    std::string hlo = Entry(absl::StrCat("  x = f32[20,24,36] parameter(0)\n  ROOT r = f32[", q[0], ",", q[1], ",",
                                         q[2], "] transpose(x), dimensions={", p, "}\n"));
    EXPECT_EQ(Difference(hlo), "") << p;
  }
}

// Results too large for the caches, written past them line by line: of rows that begin with a line and of others.
TEST(Movement, LargeTransposes) {
  for (auto [t, r, c] : {std::tuple{"f32", 1040, 1024},
                         {"f32", 1030, 1035},
                         {"bf16", 1500, 1450},
                         {"s8", 2100, 2050},
                         {"f64", 730, 751},
                         {"c64", 64, 8300}}) {
    for (int bytes : {16, 64}) {
      RunOptions o;
      o.max_vector_bytes = bytes;
      std::string hlo = Entry(absl::StrCat("  x = ", t, "[", r, ",", c, "] parameter(0)\n  ROOT r = ", t, "[", c, ",",
                                           r, "] transpose(x), dimensions={1,0}\n"));
      EXPECT_EQ(Difference(hlo, o), "") << t << " " << r << "x" << c << ", vectors of " << bytes;
    }
  }
  EXPECT_EQ(Difference(Entry("  x = f32[70,200,101] parameter(0)\n  ROOT r = f32[101,200,70] transpose(x), "
                             "dimensions={2,1,0}\n")),
            "");
  EXPECT_EQ(Difference(Entry("  x = f32[9,500,301] parameter(0)\n  v = f32[9,500,301] reverse(x), dimensions={1}\n  "
                             "ROOT r = f32[9,301,500] transpose(v), dimensions={0,2,1}\n")),
            "");
}

// Wherever the memory begins: whole lines are written only where they are the result's.
TEST(Movement, TransposesToAnyAddress) {
  constexpr int kRows = 1031, kColumns = 1100, kPast = 128;
  auto kernel =
      TestKernel::Make(Entry("  x = f32[1031,1100] parameter(0)\n  ROOT r = f32[1100,1031] transpose(x), "
                             "dimensions={1,0}\n"));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> source(kRows * kColumns);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  const size_t bytes = source.size() * sizeof(float);
  std::vector<std::byte> memory(bytes + 2 * kPast + 64);
  std::byte* line = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  for (int offset : {0, 1, 4, 36, 63}) {
    std::fill(memory.begin(), memory.end(), std::byte{0x5a});
    std::byte* target = line + offset;
    void* buffers[] = {source.data(), target};
    (*kernel)->RunRaw(buffers);
    size_t wrong = 0;
    for (int c = 0; c < kColumns; ++c) {
      for (int r = 0; r < kRows; ++r) {
        float v;
        std::memcpy(&v, target + sizeof(float) * (static_cast<size_t>(c) * kRows + r), sizeof(v));
        wrong += v != source[static_cast<size_t>(r) * kColumns + c];
      }
    }
    EXPECT_EQ(wrong, 0) << offset;
    for (std::byte* p = line; p < target; ++p) EXPECT_EQ(*p, std::byte{0x5a}) << offset;
    for (std::byte* p = target + bytes; p < target + bytes + 64; ++p) EXPECT_EQ(*p, std::byte{0x5a}) << offset;
  }
}

TEST(Movement, TransposesInsideFusions) {
  for (auto [r, c] : {std::pair{64, 96}, {50, 37}, {130, 70}}) {
    std::string hlo = Entry(R"(
      x = f32[$R,$C] parameter(0)
      y = f32[$C,$R] parameter(1)
      b = f32[$R] parameter(2)
      t = f32[$C,$R] transpose(x), dimensions={1,0}
      bb = f32[$C,$R] broadcast(b), dimensions={1}
      s = f32[$C,$R] add(t, y)
      e = f32[$C,$R] tanh(s)
      ROOT r = f32[$C,$R] multiply(e, bb)
    )");
    hlo = absl::StrReplaceAll(hlo, {{"$R", absl::StrCat(r)}, {"$C", absl::StrCat(c)}});
    EXPECT_EQ(Difference(hlo), "") << r << "x" << c;
  }
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[40,48] parameter(0)
    y = bf16[40,48] parameter(1)
    t = f32[48,40] transpose(x), dimensions={1,0}
    u = bf16[48,40] transpose(y), dimensions={1,0}
    uf = f32[48,40] convert(u)
    ROOT r = f32[48,40] add(t, uf)
  )")),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[2,12,8,16] parameter(0)
    t = f32[2,8,12,16] transpose(x), dimensions={0,2,1,3}
    ROOT r = f32[2,8,192] reshape(t)
  )")),
            "");
}

TEST(Movement, ReshapesAndSlices) {
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[6,35] parameter(0)
    y = f32[14,15] parameter(1)
    z = f32[14,15] reshape(x)
    ROOT r = f32[14,15] add(z, y)
  )")),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[8,12] parameter(0)
    b = f32[4] parameter(1)
    z = f32[8,3,4] reshape(x)
    bb = f32[8,3,4] broadcast(b), dimensions={2}
    s = f32[8,3,4] multiply(z, bb)
    ROOT r = f32[96] reshape(s)
  )")),
            "");
  for (const char* t : {"f32", "s8", "bf16", "c64"}) {
    std::string hlo = Entry(R"(
      x = $T[9,70] parameter(0)
      s = $T[4,$N] slice(x), slice={[1:9:2],[$S]}
      v = $T[4,$N] reverse(s), dimensions={$V}
      ROOT r = $T[4,$N] negate(v)
    )");
    for (auto [n, s] : {std::pair{70, "0:70"},
                        {60, "5:65"},
                        {35, "0:70:2"},
                        {34, "1:69:2"},
                        {23, "2:70:3"},
                        {17, "3:70:4"},
                        {14, "0:70:5"}}) {
      for (const char* v : {"0", "1", "0,1"}) {
        std::string h = absl::StrReplaceAll(hlo, {{"$T", t}, {"$N", absl::StrCat(n)}, {"$S", s}, {"$V", v}});
        EXPECT_EQ(Difference(h), "") << t << " " << s << " reversed " << v;
      }
    }
  }
}

TEST(Movement, PadAndConcatenate) {
  for (const char* p : {"1_2x3_4", "0_0x5_0", "-1_2x-3_1", "1_0_1x2_1_2", "0_1_2x0_0", "0_0x0_3_3"}) {
    std::string padded;
    int64_t dims[2] = {6, 40}, out[2];
    std::string text = p;
    size_t x = text.find('x');
    std::string parts[2] = {text.substr(0, x), text.substr(x + 1)};
    for (int i = 0; i < 2; ++i) {
      int lo = 0, hi = 0, in = 0;
      sscanf(parts[i].c_str(), "%d_%d_%d", &lo, &hi, &in);
      out[i] = lo + dims[i] + (dims[i] - 1) * in + hi;
    }
    std::string hlo = Entry(absl::StrCat(
        "  x = f32[6,40] parameter(0)\n  v = f32[] parameter(1)\n  n = f32[6,40] negate(x)\n  p = f32[", out[0], ",",
        out[1], "] pad(n, v), padding=", p, "\n  ROOT r = f32[", out[0], ",", out[1], "] add(p, p)\n"));
    EXPECT_EQ(Difference(hlo), "") << p;
  }
  for (auto [a, b, d] : {std::tuple{30, 45, 1}, {3, 5, 1}, {7, 9, 0}, {64, 64, 1}}) {
    int r0 = d == 0 ? a : 6, r1 = d == 0 ? b : 6, c0 = d == 0 ? 50 : a, c1 = d == 0 ? 50 : b;
    int ro = d == 0 ? a + b : 6, co = d == 0 ? 50 : a + b;
    std::string head = absl::StrCat("  x = f32[", r0, ",", c0, "] parameter(0)\n  y = f32[", r1, ",", c1,
                                    "] parameter(1)\n  e = f32[", r0, ",", c0, "] exponential(x)\n");
    std::string cat = absl::StrCat("f32[", ro, ",", co, "] concatenate(e, y), dimensions={", d, "}\n");
    EXPECT_EQ(Difference(Entry(head + "  ROOT r = " + cat)), "") << a << "," << b << "," << d;
    EXPECT_EQ(Difference(Entry(head + "  c = " + cat + absl::StrCat("  ROOT r = f32[", ro, ",", co, "] negate(c)\n"))),
              "")
        << a << "," << b << "," << d << " inside";
  }
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[4,40] parameter(0)
    ROOT r = f32[12,40] concatenate(x, x, x), dimensions={0}
  )")),
            "");
}

TEST(Movement, IotaAndConstants) {
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[5,37] parameter(0)
    i = f32[5,37] iota(), iota_dimension=1
    j = s32[5,37] iota(), iota_dimension=0
    jf = f32[5,37] convert(j)
    c = f32[5] constant({1, 2, 3, 4, 5})
    cb = f32[5,37] broadcast(c), dimensions={0}
    a = f32[5,37] add(x, i)
    b = f32[5,37] multiply(a, jf)
    ROOT r = f32[5,37] subtract(b, cb)
  )")),
            "");
  for (const char* t : {"bf16", "s8", "u64", "f64", "c64"}) {
    EXPECT_EQ(Difference(Entry(absl::StrCat("  ROOT r = ", t, "[3,50] iota(), iota_dimension=1\n"))), "") << t;
  }
}

TEST(Movement, DynamicSlices) {
  RunOptions o;
  o.int_low = -5;
  o.int_high = 40;
  for (uint32_t seed : {1, 2, 3, 4}) {
    o.seed = seed;
    EXPECT_EQ(Difference(Entry(R"(
      x = f32[10,60] parameter(0)
      i = s32[] parameter(1)
      j = s32[] parameter(2)
      s = f32[3,33] dynamic-slice(x, i, j), dynamic_slice_sizes={3,33}
      ROOT r = f32[3,33] negate(s)
    )"),
                         o),
              "");
    for (bool share : {false, true}) {
      o.share = share;
      EXPECT_EQ(Difference(Entry(R"(
        x = f32[10,60] parameter(0)
        u = f32[3,33] parameter(1)
        i = s32[] parameter(2)
        j = s32[] parameter(3)
        n = f32[3,33] exponential(u)
        ROOT r = f32[10,60] dynamic-update-slice(x, n, i, j)
      )"),
                           o),
                "");
      EXPECT_EQ(Difference(Entry(R"(
        x = s32[50] parameter(0)
        i = u8[] parameter(1)
        one = s32[] constant(1)
        ob = s32[1] broadcast(one), dimensions={}
        s = s32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
        a = s32[1] add(s, ob)
        ROOT r = s32[50] dynamic-update-slice(x, a, i)
      )"),
                           o),
                "");
    }
    o.share = false;
    EXPECT_EQ(Difference(Entry(R"(
      x = f32[10,60] parameter(0)
      u = f32[3,33] parameter(1)
      i = s32[] parameter(2)
      j = s32[] parameter(3)
      n = f32[3,33] exponential(u)
      d = f32[10,60] dynamic-update-slice(x, n, i, j)
      ROOT r = f32[10,60] add(d, d)
    )"),
                         o),
              "");
  }
}

TEST(Movement, Gathers) {
  RunOptions o;
  o.int_low = -2;
  o.int_high = 30;
  EXPECT_EQ(Difference(Entry(R"(
    table = f32[20,64] parameter(0)
    ids = s32[7] parameter(1)
    g = f32[7,64] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
    ROOT r = f32[7,64] negate(g)
  )"),
                       o),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    table = bf16[20] parameter(0)
    ids = s64[5,40] parameter(1)
    ROOT r = bf16[5,40] gather(table, ids), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1}
  )"),
                       o),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    table = f32[4,20] parameter(0)
    ids = s32[4,33,1] parameter(1)
    ROOT r = f32[4,33] gather(table, ids), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
  )"),
                       o),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[16,11] parameter(0)
    ids = s32[5,2] parameter(1)
    ROOT r = f32[5,8,6] gather(x, ids), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={8,6}
  )"),
                       o),
            "");
}

TEST(Movement, ShortRowsAndScalars) {
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[200,3] parameter(0)
    b = f32[3] parameter(1)
    bb = f32[200,3] broadcast(b), dimensions={1}
    ROOT r = f32[200,3] add(x, bb)
  )")),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    x = s32[] parameter(0)
    y = s32[] parameter(1)
    ROOT r = pred[] compare(x, y), direction=LT
  )")),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[0,5] parameter(0)
    ROOT r = f32[0,5] negate(x)
  )")),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[6,5] parameter(0)
    y = f32[30] parameter(1)
    n = f32[6,5] negate(x)
    z = f32[30] reshape(x)
    s = f32[30] add(z, y)
    m = pred[6,5] compare(x, n), direction=GT
    ROOT r = (f32[6,5], f32[30], pred[6,5]) tuple(n, s, m)
  )")),
            "");
}

TEST(Movement, Fft4LikeShuffles) {
  // Interleaving and splitting through reshape, slice and concatenate, as butterfly networks do.
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[8,64] parameter(0)
    a = f32[8,32] slice(x), slice={[0:8],[0:64:2]}
    b = f32[8,32] slice(x), slice={[0:8],[1:64:2]}
    s = f32[8,32] add(a, b)
    d = f32[8,32] subtract(a, b)
    ROOT r = f32[8,64] concatenate(s, d), dimensions={1}
  )")),
            "");
  EXPECT_EQ(Difference(Entry(R"(
    x = f32[4,40] parameter(0)
    zero = f32[] constant(0)
    p = f32[4,43] pad(x, zero), padding=0_0x3_0
    q = f32[4,40] slice(p), slice={[0:4],[0:40]}
    ROOT r = f32[4,40] add(q, x)
  )")),
            "");
}

// A vector along a short last dimension would cross its end: its elements are computed by copies of the code.
TEST(Movement, ShortLastDimensions) {
  // The derivative of a system of three equations, for many points.
  const std::string equations = R"(
    x = $T[$N,3] parameter(0)
    a = $T[$N,1] slice(x), slice={[0:$N],[0:1]}
    b = $T[$N,1] slice(x), slice={[0:$N],[1:2]}
    c = $T[$N,1] slice(x), slice={[0:$N],[2:3]}
    d = $T[$N,1] subtract(b, a)
    e = $T[$N,1] multiply(a, c)
    f = $T[$N,1] multiply(a, b)
    k = $T[$N,3] concatenate(d, e, f), dimensions={1}
    ROOT r = $T[$N,3] add(x, k)
  )";
  // A cross product of points and of their transposes, and what is the same for all coordinates of a point.
  const std::string mixed = R"(
    x = $T[$N,3] parameter(0)
    y = $T[3,$N] parameter(1)
    m = $T[$N] parameter(2)
    t = $T[$N,3] transpose(y), dimensions={1,0}
    x1 = $T[$N,2] slice(x), slice={[0:$N],[1:3]}
    x0 = $T[$N,1] slice(x), slice={[0:$N],[0:1]}
    u = $T[$N,3] concatenate(x1, x0), dimensions={1}
    w = $T[$N,3] multiply(u, t)
    mm = $T[$N,3] broadcast(m), dimensions={0}
    p = $T[$N,3] multiply(w, mm)
    q = $T[3,$N] transpose(p), dimensions={1,0}
    ROOT r = ($T[$N,3], $T[3,$N]) tuple(p, q)
  )";
  for (const std::string& text : {equations, mixed}) {
    for (const char* type : {"f32", "f64", "bf16", "s8", "c64"}) {
      for (int n : {3, 4, 5, 31, 32, 33, 64, 1000}) {
        for (bool share : {false, true}) {
          RunOptions o;
          o.share = share;
          o.max_vector_bytes = n % 2 == 0 ? 64 : 32;
          const std::string hlo = Entry(absl::StrReplaceAll(text, {{"$N", absl::StrCat(n)}, {"$T", type}}));
          EXPECT_EQ(Difference(hlo, o), "") << hlo << share;
        }
      }
    }
  }
}

// A short first loop that decides between the parts of a concatenate, and coordinates inside a nest of loops.
TEST(Movement, ShortOuterDimensions) {
  for (int n : {5, 40, 97}) {
    for (bool share : {false, true}) {
      RunOptions o;
      o.share = share;
      const std::string outer = Entry(absl::StrReplaceAll(R"(
        x = f32[3,$N] parameter(0)
        a = f32[1,$N] slice(x), slice={[0:1],[0:$N]}
        b = f32[1,$N] slice(x), slice={[1:2],[0:$N]}
        s = f32[1,$N] add(a, b)
        t = f32[1,$N] multiply(a, b)
        k = f32[3,$N] concatenate(s, t, a), dimensions={0}
        ROOT r = f32[3,$N] multiply(x, k)
      )",
                                                          {{"$N", absl::StrCat(n)}}));
      EXPECT_EQ(Difference(outer, o), "") << n << share;
      const std::string inner = Entry(absl::StrReplaceAll(R"(
        x = f32[6,$N,2] parameter(0)
        y = f32[6,2] parameter(1)
        z = f32[$N] parameter(2)
        yy = f32[6,$N,2] broadcast(y), dimensions={0,2}
        zz = f32[6,$N,2] broadcast(z), dimensions={1}
        v = f32[6,$N,2] reverse(x), dimensions={2}
        s = f32[6,$N,2] multiply(v, yy)
        ROOT r = f32[6,$N,2] add(s, zz)
      )",
                                                          {{"$N", absl::StrCat(n)}}));
      EXPECT_EQ(Difference(inner, o), "") << n << share;
    }
  }
}

// Where conditions on a long loop change, the loop is cut into segments.
TEST(Movement, Segments) {
  for (const char* type : {"f32", "s16", "c64"}) {
    for (int n : {128, 257, 1000}) {
      for (int k : {1, 2, 40, 127}) {
        for (bool share : {false, true}) {
          RunOptions o;
          o.share = share;
          // Neighbours on both sides in a ring; the second result is of the same elements, the third of others.
          const std::string ring = Entry(absl::StrReplaceAll(
              R"(
            x = $T[$N] parameter(0)
            y = $T[$N] parameter(1)
            a = $T[$K] slice(x), slice={[$R:$N]}
            b = $T[$R] slice(x), slice={[0:$R]}
            l = $T[$N] concatenate(a, b), dimensions={0}
            c = $T[$K] slice(x), slice={[0:$K]}
            d = $T[$R] slice(x), slice={[$K:$N]}
            r = $T[$N] concatenate(d, c), dimensions={0}
            s = $T[$N] add(l, r)
            t = $T[$N] multiply(s, y)
            u = $T[$N] add(t, x)
            ROOT out = ($T[$N], $T[$N], $T[$R]) tuple(t, u, d)
          )",
              {{"$T", type}, {"$N", absl::StrCat(n)}, {"$K", absl::StrCat(k)}, {"$R", absl::StrCat(n - k)}}));
          EXPECT_EQ(Difference(ring, o), "") << ring << share;
          const std::string padded = Entry(absl::StrReplaceAll(
              R"(
            x = $T[5,$N] parameter(0)
            y = $T[5,$R] parameter(1)
            z = $T[] parameter(2)
            p = $T[5,$N] pad(y, z), padding=0_0x$K_0
            ROOT r = $T[5,$N] add(x, p)
          )",
              {{"$T", type}, {"$N", absl::StrCat(n)}, {"$K", absl::StrCat(k)}, {"$R", absl::StrCat(n - k)}}));
          EXPECT_EQ(Difference(padded, o), "") << padded << share;
        }
      }
    }
  }
}

}  // namespace
}  // namespace backplane::engine::codegen
