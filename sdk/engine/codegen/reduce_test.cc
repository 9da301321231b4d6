// Reductions of every form, row kernels, windows and scatters, against the evaluator.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "sdk/engine/codegen/kernel_testing.h"

namespace backplane::engine::codegen {
namespace {

const char* kAdd = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n";
const char* kMax = "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n";

std::string Reduce(const std::string& t, const std::string& op, const std::string& init, const std::string& in,
                   const std::string& out, const std::string& dims) {
  return absl::StrCat("HloModule m\nf { a = ", t, "[] parameter(0) b = ", t, "[] parameter(1) ROOT r = ", t, "[] ", op,
                      "(a, b) }\nENTRY e {\n  x = ", t, "[", in, "] parameter(0)\n  i = ", t, "[] constant(", init,
                      ")\n  ROOT r = ", t, "[", out, "] reduce(x, i), dimensions={", dims, "}, to_apply=f\n}\n");
}

TEST(Reduce, AllForms) {
  RunOptions o;
  o.tolerance = 2e-5;
  o.low = 0.1;  // no cancellation: sums in different orders must agree
  struct Case {
    const char *in, *out, *dims;
  };
  for (Case c :
       {Case{"7,100", "7", "1"},  {"100,7", "7", "0"},       {"40,130", "40", "1"},       {"40,130", "130", "0"},
        {"5000", "", "0"},        {"300,400", "", "0,1"},    {"6,50,64", "6,64", "1"},    {"6,50,64", "50", "0,2"},
        {"6,50,64", "64", "0,1"}, {"6,50,64", "6", "1,2"},   {"4,3,5,33", "3,33", "0,2"}, {"70000", "", "0"},
        {"3,40000", "3", "1"},    {"2000,37", "37", "0"},    {"33,1", "33", "1"},         {"1,50", "50", "0"},
        {"200,3", "200", "1"},    {"64,5,16", "64,16", "1"}, {"9,4", "4", "0"},           {"5,0", "5", "1"},
        {"20000,4", "4", "0"},    {"1000,300", "300", "0"}}) {
    EXPECT_EQ(Difference(Reduce("f32", "add", "0", c.in, c.out, c.dims), o), "") << c.in << " over " << c.dims;
    EXPECT_EQ(Difference(Reduce("f32", "maximum", "-inf", c.in, c.out, c.dims), o), "") << c.in << " over " << c.dims;
    EXPECT_EQ(Difference(Reduce("s32", "add", "5", c.in, c.out, c.dims), o), "") << c.in << " over " << c.dims;
  }
}

TEST(Reduce, FunctionsOfTheResults) {
  RunOptions o;
  o.tolerance = 2e-5;
  for (const char* rows : {"4", "8", "64", "300"}) {
    for (const char* columns : {"33", "64"}) {
      for (const char* after :
           {"ROOT r = f32[ROWS] logistic(s)", "n = f32[ROWS] tanh(s) ROOT r = (f32[ROWS], f32[ROWS]) tuple(n, s)",
            "n = f32[ROWS] exponential(y) m = f32[ROWS] multiply(n, s) ROOT r = f32[ROWS] sine(m)"}) {
        const std::string hlo = absl::StrReplaceAll(
            absl::StrCat(
                "HloModule m\n", kAdd,
                "ENTRY e { x = f32[ROWS,COLS] parameter(0) v = f32[COLS] parameter(1) y = f32[ROWS] parameter(2)\n"
                "  t = f32[COLS] tanh(v) b = f32[ROWS,COLS] broadcast(t), dimensions={1} p = f32[ROWS,COLS] "
                "multiply(x, b)\n"
                "  k = f32[] constant(0.01) kb = f32[ROWS,COLS] broadcast(k), dimensions={} q = f32[ROWS,COLS] "
                "multiply(p, kb)\n"
                "  z = f32[] constant(0) s = f32[ROWS] reduce(q, z), dimensions={1}, to_apply=add\n  ",
                after, " }\n"),
            {{"ROWS", rows}, {"COLS", columns}});
        EXPECT_EQ(Difference(hlo, o), "") << rows << " " << columns << " " << after;
      }
    }
  }
}

// Only between narrow floats and f32 are the conversions of a reducer without meaning: integers saturate, and large
// ones are rounded.
TEST(Reduce, ReducersWithConversions) {
  for (const char* type : {"s8", "u8", "s32", "bf16"}) {
    RunOptions o;
    o.low = 90;
    o.high = 100;
    o.int_low = 90;
    o.int_high = 100;
    o.tolerance = type == std::string("bf16") ? 0.02 : 0;
    EXPECT_EQ(Difference(absl::StrReplaceAll(R"(HloModule m
      add {
        a = @[] parameter(0)
        b = @[] parameter(1)
        fa = f32[] convert(a)
        fb = f32[] convert(b)
        s = f32[] add(fa, fb)
        ROOT r = @[] convert(s)
      }
      ENTRY e {
        x = @[64] parameter(0)
        one = @[] constant(1)
        ROOT r = @[] reduce(x, one), dimensions={0}, to_apply=add
      })",
                                             {{"@", type}}),
                         o),
              "")
        << type;
  }
}

// The maximum of f8e4m3fn has no identity, so no part of a sum beside it may begin with one's initial value again.
TEST(Reduce, ReducersOfWhichOnlySomeHaveIdentities) {
  RunOptions o;
  o.tolerance = 1e-5;
  EXPECT_EQ(Difference(R"(HloModule m
    both {
      a = f8e4m3fn[] parameter(0)
      b = f32[] parameter(1)
      c = f8e4m3fn[] parameter(2)
      d = f32[] parameter(3)
      m = f8e4m3fn[] maximum(a, c)
      s = f32[] add(b, d)
      ROOT t = (f8e4m3fn[], f32[]) tuple(m, s)
    }
    ENTRY e {
      x = f8e4m3fn[4,256] parameter(0)
      y = f32[4,256] parameter(1)
      zero = f8e4m3fn[] constant(0)
      one = f32[] constant(1)
      r = (f8e4m3fn[4], f32[4]) reduce(x, y, zero, one), dimensions={1}, to_apply=both
      ROOT s = f32[4] get-tuple-element(r), index=1
    })",
                       o),
            "");
}

TEST(Reduce, NoElementsByWayOfAReshape) {
  EXPECT_EQ(Difference(R"(HloModule m
    two {
      a = f32[] parameter(0)
      b = u8[] parameter(1)
      c = f32[] parameter(2)
      d = u8[] parameter(3)
      s = f32[] add(a, c)
      m = u8[] maximum(b, d)
      ROOT t = (f32[], u8[]) tuple(s, m)
    }
    ENTRY e {
      x = f32[1,2,2,1,0] parameter(0)
      y = f32[1,2,2,0] reshape(x)
      z = u8[1,2,2,0] parameter(1)
      zero = f32[] constant(0)
      none = u8[] constant(0)
      ROOT r = (f32[1], u8[1]) reduce(y, z, zero, none), dimensions={1,2,3}, to_apply=two
    })",
                       RunOptions()),
            "");
}

TEST(Reduce, TypesAndOperations) {
  RunOptions o;
  o.tolerance = 2e-5;
  for (const char* t : {"f32", "f64", "f16", "bf16", "s8", "s32", "s64", "u8", "u32", "u64", "s16", "s4"}) {
    for (const char* op : {"add", "maximum", "minimum", "multiply"}) {
      if (std::string(t) == "s4") o.int_low = -8, o.int_high = 7;
      o.low = std::string(op) == "multiply" ? 0.9 : -1;
      o.high = 1.05;
      std::string init = std::string(op) == "multiply" ? "1" : "0";
      EXPECT_EQ(Difference(Reduce(t, op, init, "9,77", "9", "1"), o), "") << op << " " << t;
      EXPECT_EQ(Difference(Reduce(t, op, init, "9,77", "77", "0"), o), "") << op << " " << t;
    }
  }
  for (const char* op : {"and", "or", "xor"}) {
    EXPECT_EQ(Difference(Reduce("pred", op, std::string(op) == "and" ? "true" : "false", "5,77", "5", "1")), "") << op;
    EXPECT_EQ(Difference(Reduce("u32", op, std::string(op) == "and" ? "4294967295" : "0", "5,77", "77", "0")), "")
        << op;
  }
  o.low = -2;
  EXPECT_EQ(Difference(Reduce("c64", "add", "(0, 0)", "5,77", "5", "1"), o), "");
  EXPECT_EQ(Difference(Reduce("c64", "multiply", "(1, 0)", "5,7", "5", "1"), o), "");
  EXPECT_EQ(Difference(Reduce("c64", "add", "(0, 0)", "50,70", "70", "0"), o), "");
  // The order matters: subtraction reduces from the left.
  EXPECT_EQ(Difference(Reduce("f32", "subtract", "0", "5,33", "5", "1"), o), "");
  EXPECT_EQ(Difference(Reduce("f32", "subtract", "0", "33,50", "50", "0"), o), "");
}

const char* kArgmax = R"(HloModule m
f {
  av = f32[] parameter(0)
  ai = s32[] parameter(1)
  bv = f32[] parameter(2)
  bi = s32[] parameter(3)
  gt = pred[] compare(av, bv), direction=GT
  nan = pred[] compare(av, av), direction=NE
  pick = pred[] or(gt, nan)
  eq = pred[] compare(av, bv), direction=EQ
  first = pred[] compare(ai, bi), direction=LT
  tie = pred[] and(eq, first)
  picki = pred[] or(pick, tie)
  v = f32[] select(pick, av, bv)
  i = s32[] select(picki, ai, bi)
  ROOT r = (f32[], s32[]) tuple(v, i)
}
ENTRY e {
  x = f32[$IN] parameter(0)
  i = s32[$IN] iota(), iota_dimension=$D
  v0 = f32[] constant(-inf)
  i0 = s32[] constant(0)
  r = (f32[$OUT], s32[$OUT]) reduce(x, i, v0, i0), dimensions={$D}, to_apply=f
  ROOT g = s32[$OUT] get-tuple-element(r), index=1
})";

TEST(Reduce, Argmax) {
  struct Case {
    const char *in, *out, *d;
  };
  for (Case c : {Case{"5,300", "5", "1"},
                 {"300,50", "50", "0"},
                 {"1000", "", "0"},
                 {"70001", "", "0"},
                 {"3,7", "3", "1"},
                 {"4,100,20", "4,20", "1"}}) {
    for (bool specials : {false, true}) {
      RunOptions o;
      o.specials = specials;
      std::string hlo = absl::StrReplaceAll(kArgmax, {{"$IN", c.in}, {"$OUT", c.out}, {"$D", c.d}});
      EXPECT_EQ(Difference(hlo, o), "") << c.in << (specials ? " with NaN" : "");
    }
  }
}

TEST(Reduce, FusedProducersAndConsumers) {
  RunOptions o;
  o.tolerance = 1e-5;
  EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, R"(
    ENTRY e {
      x = bf16[20,300] parameter(0)
      f = f32[20,300] convert(x)
      q = f32[20,300] multiply(f, f)
      z = f32[] constant(0)
      s = f32[20] reduce(q, z), dimensions={1}, to_apply=add
      n = f32[] constant(300)
      nb = f32[20] broadcast(n), dimensions={}
      m = f32[20] divide(s, nb)
      ROOT r = f32[20] sqrt(m)
    })"),
                       o),
            "");
  // Mean and variance with two sums over the same data, both columns and rows.
  for (const char* d : {"0", "1"}) {
    std::string hlo = absl::StrCat("HloModule m\n", kAdd, R"(
      ENTRY e {
        x = f32[60,90] parameter(0)
        z = f32[] constant(0)
        q = f32[60,90] multiply(x, x)
        s = f32[$N] reduce(x, z), dimensions={$D}, to_apply=add
        t = f32[$N] reduce(q, z), dimensions={$D}, to_apply=add
        m = f32[$N] multiply(s, s)
        v = f32[$N] subtract(t, m)
        ROOT r = (f32[$N], f32[$N]) tuple(s, v)
      })");
    EXPECT_EQ(Difference(absl::StrReplaceAll(hlo, {{"$N", d[0] == '0' ? "90" : "60"}, {"$D", d}}), o), "") << d;
  }
  // A reduction of a reduction's broadcast, over columns: needs phases.
  EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, R"(
    ENTRY e {
      x = f32[60,90] parameter(0)
      z = f32[] constant(0)
      s = f32[90] reduce(x, z), dimensions={0}, to_apply=add
      b = f32[60,90] broadcast(s), dimensions={1}
      ROOT r = f32[60,90] subtract(x, b)
    })"),
                       o),
            "");
  EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, R"(
    ENTRY e {
      x = f32[500] parameter(0)
      z = f32[] constant(0)
      q = f32[500] multiply(x, x)
      s = f32[] reduce(q, z), dimensions={0}, to_apply=add
      n = f32[] sqrt(s)
      b = f32[500] broadcast(n), dimensions={}
      ROOT r = f32[500] divide(x, b)
    })"),
                       o),
            "");
}

const char* kLayerNorm = R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = $T[$R,$C] parameter(0)
  g = f32[$C] parameter(1)
  beta = f32[$C] parameter(2)
  f = f32[$R,$C] convert(x)
  z = f32[] constant(0)
  n = f32[] constant($C)
  nb = f32[$R] broadcast(n), dimensions={}
  s = f32[$R] reduce(f, z), dimensions={1}, to_apply=add
  mean = f32[$R] divide(s, nb)
  mb = f32[$R,$C] broadcast(mean), dimensions={0}
  d = f32[$R,$C] subtract(f, mb)
  q = f32[$R,$C] multiply(d, d)
  v = f32[$R] reduce(q, z), dimensions={1}, to_apply=add
  var = f32[$R] divide(v, nb)
  eps = f32[] constant(1e-5)
  eb = f32[$R] broadcast(eps), dimensions={}
  ve = f32[$R] add(var, eb)
  inv = f32[$R] rsqrt(ve)
  ib = f32[$R,$C] broadcast(inv), dimensions={0}
  nrm = f32[$R,$C] multiply(d, ib)
  gb = f32[$R,$C] broadcast(g), dimensions={1}
  bb = f32[$R,$C] broadcast(beta), dimensions={1}
  sc = f32[$R,$C] multiply(nrm, gb)
  y = f32[$R,$C] add(sc, bb)
  o = $T[$R,$C] convert(y)
  ROOT r = ($T[$R,$C], f32[$R], f32[$R]) tuple(o, mean, inv)
})";

TEST(Reduce, LayerNorm) {
  for (const char* t : {"f32", "bf16"}) {
    for (auto [r, c] : {std::pair{7, 64}, {40, 100}, {33, 768}, {3, 5}}) {
      for (bool share : {false, true}) {
        RunOptions o;
        o.share = share;
        o.tolerance = 1e-5;
        std::string hlo =
            absl::StrReplaceAll(kLayerNorm, {{"$T", t}, {"$R", absl::StrCat(r)}, {"$C", absl::StrCat(c)}});
        EXPECT_EQ(Difference(hlo, o), "") << t << " " << r << "x" << c << (share ? " in place" : "");
      }
    }
  }
}

TEST(Reduce, RowsInPlaceWithRowOutput) {
  // The row's sum must be taken before the row is overwritten.
  RunOptions o;
  o.share = true;
  o.tolerance = 1e-5;
  EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, kMax, R"(
    ENTRY e {
      x = f32[30,70] parameter(0)
      z = f32[] constant(0)
      ninf = f32[] constant(-inf)
      s = f32[30] reduce(x, z), dimensions={1}, to_apply=add
      m = f32[30] reduce(x, ninf), dimensions={1}, to_apply=max
      mb = f32[30,70] broadcast(m), dimensions={0}
      y = f32[30,70] subtract(x, mb)
      ROOT r = (f32[30,70], f32[30]) tuple(y, s)
    })"),
                       o),
            "");
}

TEST(Reduce, GroupNorm) {
  RunOptions o;
  o.tolerance = 1e-5;
  EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, R"(
    ENTRY e {
      x = f32[2,5,6,32] parameter(0)
      g = f32[2,30,4,8] reshape(x)
      z = f32[] constant(0)
      s = f32[2,4] reduce(g, z), dimensions={1,3}, to_apply=add
      n = f32[] constant(240)
      nb = f32[2,4] broadcast(n), dimensions={}
      m = f32[2,4] divide(s, nb)
      mb = f32[2,30,4,8] broadcast(m), dimensions={0,2}
      d = f32[2,30,4,8] subtract(g, mb)
      ROOT r = f32[2,5,6,32] reshape(d)
    })"),
                       o),
            "");
}

TEST(Reduce, Windows) {
  auto pool = [](const char* in, const char* out, const char* window, const char* f, const char* init) {
    return absl::StrCat("HloModule m\n", kAdd, kMax, "ENTRY e {\n  x = f32[", in,
                        "] parameter(0)\n  i = f32[] constant(", init, ")\n  ROOT r = f32[", out,
                        "] reduce-window(x, i), window={", window, "}, to_apply=", f, "\n}\n");
  };
  RunOptions o;
  o.tolerance = 1e-5;
  EXPECT_EQ(
      Difference(pool("2,14,14,40", "2,7,7,40", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0", "max", "-inf"), o),
      "");
  EXPECT_EQ(Difference(pool("2,3,14,14", "2,3,7,7", "size=1x1x2x2 stride=1x1x2x2", "add", "0"), o), "");
  EXPECT_EQ(Difference(pool("2,3,14,14", "2,3,14,14", "size=1x1x3x3 pad=0_0x0_0x1_1x1_1", "add", "0"), o), "");
  EXPECT_EQ(Difference(pool("1,40,40,3", "1,32,32,3", "size=1x9x9x1", "add", "0"), o), "");
  EXPECT_EQ(
      Difference(pool("3,2", "2,2", "size=2x1 stride=4x1 pad=2_1x0_0 lhs_dilate=2x1 rhs_dilate=3x1", "add", "0"), o),
      "");
  EXPECT_EQ(Difference(pool("50", "46", "size=5 rhs_reversal=1", "add", "0"), o), "");
}

TEST(Reduce, Cumulative) {
  RunOptions o;
  o.tolerance = 1e-5;
  for (const char* t : {"f32", "s32", "f64", "bf16", "s64"}) {
    for (const char* in : {"6,100", "6,128", "1,33", "9,5"}) {
      for (bool reverse : {false, true}) {
        std::string n = std::string(in).substr(std::string(in).find(',') + 1);
        std::string pad = reverse ? absl::StrCat("0_", std::stoi(n) - 1) : absl::StrCat(std::stoi(n) - 1, "_0");
        std::string hlo =
            absl::StrCat("HloModule m\nf { a = ", t, "[] parameter(0) b = ", t, "[] parameter(1) ROOT r = ", t,
                         "[] add(a, b) }\nENTRY e {\n  x = ", t, "[", in, "] parameter(0)\n  i = ", t,
                         "[] constant(0)\n  ROOT r = ", t, "[", in, "] reduce-window(x, i), window={size=1x", n,
                         " pad=0_0x", pad, "}, to_apply=f\n}\n");
        EXPECT_EQ(Difference(hlo, o), "") << t << " " << in << (reverse ? " reversed" : "");
      }
    }
  }
  EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kMax, R"(
    ENTRY e {
      x = f32[3,20,45] parameter(0)
      i = f32[] constant(-inf)
      ROOT r = f32[3,20,45] reduce-window(x, i), window={size=1x20x1 pad=0_0x19_0x0_0}, to_apply=max
    })")),
            "");
}

TEST(Reduce, Scatters) {
  RunOptions o;
  o.int_low = -3;
  o.int_high = 25;
  o.tolerance = 1e-5;
  for (bool share : {false, true}) {
    o.share = share;
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, R"(
      ENTRY e {
        x = f32[20,70] parameter(0)
        ids = s32[15] parameter(1)
        u = f32[15,70] parameter(2)
        n = f32[15,70] negate(u)
        ROOT r = f32[20,70] scatter(x, ids, n), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
      })"),
                         o),
              "");
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, R"(
      ENTRY e {
        x = f32[20] parameter(0)
        ids = s32[50] parameter(1)
        u = f32[50] parameter(2)
        ROOT r = f32[20] scatter(x, ids, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
      })"),
                         o),
              "");
    EXPECT_EQ(Difference(R"(HloModule m
      f { a = s8[] parameter(0) b = s8[] parameter(1) ROOT r = s8[] maximum(a, b) }
      ENTRY e {
        x = s8[16,40] parameter(0)
        ids = s32[5,2] parameter(1)
        u = s8[5,3,34] parameter(2)
        ROOT r = s8[16,40] scatter(x, ids, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=f
      })",
                         o),
              "");
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\n", kAdd, R"(
      ENTRY e {
        x = f32[4,20] parameter(0)
        ids = s32[4,6,1] parameter(1)
        u = f32[4,6] parameter(2)
        ROOT r = f32[4,20] scatter(x, ids, u), update_window_dims={}, inserted_window_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, scatter_dims_to_operand_dims={1}, index_vector_dim=2, to_apply=add
      })"),
                         o),
              "");
  }
}

TEST(Reduce, SelectAndScatter) {
  auto text = [](const char* in, const char* source, const char* window) {
    return absl::StrCat("HloModule m\n", kAdd,
                        "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), "
                        "direction=GE }\nENTRY e {\n  x = f32[",
                        in, "] parameter(0)\n  s = f32[", source,
                        "] parameter(1)\n  i = f32[] constant(0.5)\n  ROOT r = f32[", in,
                        "] select-and-scatter(x, s, i), window={", window, "}, select=ge, scatter=add\n}\n");
  };
  EXPECT_EQ(Difference(text("2,12,12,40", "2,6,6,40", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0")), "");
  EXPECT_EQ(Difference(text("2,3,12,12", "2,3,6,6", "size=1x1x2x2 stride=1x1x2x2")), "");
  EXPECT_EQ(Difference(text("4,5", "2,2", "size=2x3 stride=2x2")), "");
}

TEST(Reduce, NarrowVectors) {
  for (int bytes : {16, 32}) {
    RunOptions o;
    o.max_vector_bytes = bytes;
    o.tolerance = 1e-5;
    EXPECT_EQ(Difference(Reduce("f32", "add", "0", "9,77", "9", "1"), o), "");
    EXPECT_EQ(Difference(Reduce("s8", "maximum", "-128", "9,77", "77", "0"), o), "");
    EXPECT_EQ(Difference(absl::StrReplaceAll(kArgmax, {{"$IN", "5,300"}, {"$OUT", "5"}, {"$D", "1"}}), o), "");
    EXPECT_EQ(Difference(absl::StrReplaceAll(kLayerNorm, {{"$T", "bf16"}, {"$R", "7"}, {"$C", "100"}}), o), "");
  }
}

// The rows of a large array are fetched ahead, those of a small one are not.
TEST(Rows, FetchesTheNextRow) {
  for (const bool large : {false, true}) {
    const std::string n = large ? "1030" : "30";
    const std::string hlo = absl::StrReplaceAll(
        "HloModule m\nmax { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\nENTRY e {\n"
        "  x = f32[N,515] parameter(0)\n  low = f32[] constant(-inf)\n"
        "  m = f32[N] reduce(x, low), dimensions={1}, to_apply=max\n"
        "  b = f32[N,515] broadcast(m), dimensions={0}\n  ROOT r = f32[N,515] subtract(x, b)\n}\n",
        {{"[N", "[" + n}});
    EXPECT_EQ(Difference(hlo), "");
    RunOptions options;
    options.keep_code = true;
    absl::StatusOr<std::unique_ptr<TestKernel>> kernel = TestKernel::Make(hlo, options);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_EQ(absl::StrContains((*kernel)->ir(), "llvm.prefetch"), large);
  }
}

}  // namespace
}  // namespace backplane::engine::codegen
