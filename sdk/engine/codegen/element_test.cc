// Every elementwise operation on every element type, against the evaluator.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "sdk/engine/codegen/kernel_testing.h"

namespace backplane::engine::codegen {
namespace {

const std::vector<std::string> kFloats = {"f32", "f64", "f16", "bf16"};
const std::vector<std::string> kSmallFloats = {"f8e5m2",        "f8e4m3fn",   "f8e4m3",     "f8e3m4",
                                               "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f4e2m1fn",
                                               "f8e8m0fnu",     "f6e2m3fn",   "f6e3m2fn"};
const std::vector<std::string> kInts = {"s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "s4", "u4", "s2", "u2"};
const std::vector<std::string> kComplex = {"c64", "c128"};

std::string Unary(const std::string& op, const std::string& t, const std::string& r, int n,
                  const std::string& attrs = "") {
  return absl::StrCat("HloModule m\nENTRY e {\n  x = ", t, "[", n, "] parameter(0)\n  ROOT r = ", r, "[", n, "] ", op,
                      "(x)", attrs, "\n}\n");
}
std::string Binary(const std::string& op, const std::string& t, const std::string& r, int n,
                   const std::string& attrs = "") {
  return absl::StrCat("HloModule m\nENTRY e {\n  x = ", t, "[", n, "] parameter(0)\n  y = ", t, "[", n,
                      "] parameter(1)\n  ROOT r = ", r, "[", n, "] ", op, "(x, y)", attrs, "\n}\n");
}

// The elementwise operations of one operand that take the type, with the name of their result's type.
std::vector<std::pair<std::string, std::string>> UnaryOperations(const std::string& type) {
  const Shape shape(*PrimitiveTypeFromName(type), {1});
  const Shape* operands[] = {&shape};
  const Attributes none;
  std::vector<std::pair<std::string, std::string>> found;
  for (const OpInfo& info : Operations()) {
    if (info.arity != 1 || !info.operand_types || !Includes(*info.operand_types, shape.element_type())) continue;
    OpContext op;
    op.opcode = info.opcode;
    op.operands = operands;
    op.attrs = &none;
    found.emplace_back(info.text, Name(InferShape(op)->element_type()));
  }
  return found;
}

RunOptions Specials() {
  RunOptions o;
  o.specials = true;
  return o;
}

TEST(Element, UnaryFloat) {
  for (const std::string& t : kFloats) {
    for (const auto& [op, result] : UnaryOperations(t)) {
      EXPECT_EQ(Difference(Unary(op, t, result, 250), Specials()), "") << op << " " << t;
    }
    EXPECT_EQ(Difference(Unary("copy", t, t, 250), Specials()), "") << "copy " << t;
    EXPECT_EQ(Difference(Unary("is-finite", t, "pred", 250), Specials()), "") << t;
  }
}

// What is read by another operation of the same kernel has been a value of its type: no -0 where there is none.
TEST(Element, NegatedZeroIsConverted) {
  for (const std::string& t : kSmallFloats) {
    const std::string chain = absl::StrCat("HloModule m\nENTRY e {\n  x = ", t, "[250] parameter(0)\n  s = ", t,
                                           "[250] subtract(x, x)\n  n = ", t, "[250] negate(s)\n  m = ", t,
                                           "[250] negate(x)\n  a = f64[250] convert(n)\n  b = f64[250] convert(m)\n",
                                           "  ROOT r = (f64[250], f64[250]) tuple(a, b)\n}\n");
    EXPECT_EQ(Difference(chain), "") << t;
    EXPECT_EQ(Difference(chain, Specials()), "") << t;
  }
}

TEST(Element, UnaryInteger) {
  for (const std::string& t : kInts) {
    RunOptions o;
    if (t.back() == '4' && t.size() == 2) o.int_low = -8, o.int_high = 7;
    if (t.back() == '2' && t.size() == 2) o.int_low = -2, o.int_high = 1;
    if (t[0] == 'u') o.int_low = 0;
    for (const char* op : {"abs", "negate", "not", "sign", "popcnt", "count-leading-zeros"}) {
      EXPECT_EQ(Difference(Unary(op, t, t, 150), o), "") << op << " " << t;
    }
  }
  EXPECT_EQ(Difference(Unary("not", "pred", "pred", 150)), "");
}

TEST(Element, UnaryComplex) {
  for (const std::string& t : kComplex) {
    std::string part = t == "c64" ? "f32" : "f64";
    RunOptions o;
    o.tolerance = 2e-5;
    for (const auto& [op, result] : UnaryOperations(t)) {
      EXPECT_EQ(Difference(Unary(op, t, result, 100), o), "") << op << " " << t;
    }
    for (const char* op : {"add", "subtract", "multiply", "divide", "power"}) {
      EXPECT_EQ(Difference(Binary(op, t, t, 100), o), "") << op << " " << t;
    }
    if (t == "c64") {  // to one unit in the last place, also of large powers
      RunOptions large;
      large.low = -6, large.high = 6;
      large.tolerance = 1.3e-7;
      EXPECT_EQ(Difference(Binary("power", t, t, 3000), large), "");
    }
    const std::string powers_of_zero = absl::StrCat("HloModule m\nENTRY e {\n z = ", t, "[] constant((0, 0))\n b = ", t,
                                                    "[300] broadcast(z), dimensions={}\n x = ", t,
                                                    "[300] parameter(0)\n ROOT r = ", t, "[300] power(b, x)\n}\n");
    EXPECT_EQ(Difference(powers_of_zero), "") << t;
    RunOptions special;
    special.specials = true;
    EXPECT_EQ(Difference(powers_of_zero, special), "") << t;
    EXPECT_EQ(Difference(Binary("complex", part, t, 100), o), "");
    EXPECT_EQ(Difference(Binary("compare", t, "pred", 100, ", direction=EQ")), "");
    EXPECT_EQ(Difference(Binary("compare", t, "pred", 100, ", direction=NE")), "");
  }
}

// Infinities, NaN and zeros as parts, and far from one.
TEST(Element, ComplexSpecialValues) {
  for (const std::string& t : kComplex) {
    for (double size : {2.0, 1e3}) {
      RunOptions o = Specials();
      o.tolerance = 2e-5;
      o.low = -size;
      o.high = size;
      for (const auto& [op, result] : UnaryOperations(t)) {
        EXPECT_EQ(Difference(Unary(op, t, result, 1000), o), "") << op << " " << t << " to " << size;
      }
      EXPECT_EQ(Difference(Binary("divide", t, t, 1000), o), "") << t << " to " << size;
    }
  }
}

TEST(Element, BinaryFloat) {
  for (const std::string& t : kFloats) {
    for (const char* op :
         {"add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "atan2"}) {
      EXPECT_EQ(Difference(Binary(op, t, t, 250), Specials()), "") << op << " " << t;
    }
    for (const char* d : {"EQ", "NE", "GE", "GT", "LE", "LT"}) {
      EXPECT_EQ(Difference(Binary("compare", t, "pred", 250, absl::StrCat(", direction=", d)), Specials()), "")
          << d << " " << t;
      EXPECT_EQ(Difference(Binary("compare", t, "pred", 250, absl::StrCat(", direction=", d, ", type=TOTALORDER")),
                           Specials()),
                "")
          << d << " total order " << t;
    }
  }
}

TEST(Element, BinaryInteger) {
  for (const std::string& t : kInts) {
    RunOptions o;
    if (t.back() == '4' && t.size() == 2) o.int_low = -8, o.int_high = 7;
    if (t.back() == '2' && t.size() == 2) o.int_low = -2, o.int_high = 1;
    if (t[0] == 'u') o.int_low = 0;
    if (t == "u4") o.int_high = 15;
    if (t == "u2") o.int_high = 3;
    for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power", "and",
                           "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical"}) {
      EXPECT_EQ(Difference(Binary(op, t, t, 300), o), "") << op << " " << t;
    }
    for (const char* d : {"EQ", "NE", "GE", "GT", "LE", "LT"}) {
      EXPECT_EQ(Difference(Binary("compare", t, "pred", 100, absl::StrCat(", direction=", d)), o), "") << d << " " << t;
    }
  }
  for (const char* t : {"s32", "u32", "s8", "s64", "u64", "u16"}) {
    RunOptions o;
    std::string name = t;
    o.int_high = name == "s8"         ? 127
                 : name == "u16"      ? 65535
                 : name.back() == '4' ? INT64_MAX
                 : name == "u32"      ? 0xffffffffLL
                                      : INT32_MAX;
    o.int_low = name[0] == 'u' ? 0 : -o.int_high - 1;
    for (const char* op : {"divide", "remainder", "multiply", "power"}) {
      EXPECT_EQ(Difference(Binary(op, t, t, 300), o), "") << op << " of large " << t;
    }
  }
  for (const char* op : {"add", "multiply", "maximum", "minimum", "and", "or", "xor"}) {
    EXPECT_EQ(Difference(Binary(op, "pred", "pred", 100)), "") << op;
  }
  EXPECT_EQ(Difference(Binary("compare", "pred", "pred", 100, ", direction=LT")), "");
}

TEST(Element, SmallFloats) {
  for (const std::string& t : kSmallFloats) {
    for (const char* op : {"add", "multiply", "maximum"}) {
      EXPECT_EQ(Difference(Binary(op, t, t, 300), Specials()), "") << op << " " << t;
    }
    EXPECT_EQ(Difference(Unary("convert", "f32", t, 300), Specials()), "") << t;
    EXPECT_EQ(Difference(Unary("convert", t, "f32", 300), Specials()), "") << t;
    RunOptions tiny;
    tiny.low = -0.05;
    tiny.high = 0.05;
    tiny.tolerance = 1e-9;
    EXPECT_EQ(Difference(Unary("convert", "f32", t, 300), tiny), "") << t;
  }
}

TEST(Element, Conversions) {
  std::vector<std::string> types = kFloats;
  types.insert(types.end(), kInts.begin(), kInts.end());
  types.insert(types.end(), kComplex.begin(), kComplex.end());
  types.push_back("pred");
  types.push_back("f8e4m3fn");
  for (const std::string& from : types) {
    for (const std::string& to : types) {
      RunOptions o;
      if (from == "u4" || from == "u2") o.int_low = 0;
      if (from == "s4" || from == "u4") o.int_low = std::max<int64_t>(o.int_low, -8), o.int_high = 7;
      if (from == "s2" || from == "u2") o.int_low = std::max<int64_t>(o.int_low, -2), o.int_high = 1;
      o.specials = kFloats[0] == from || kFloats[1] == from;
      EXPECT_EQ(Difference(Unary("convert", from, to, 100), o), "") << from << " to " << to;
    }
  }
  RunOptions wide;
  wide.low = -5e10;
  wide.high = 5e10;
  for (const char* to : {"s8", "u8", "s32", "u32", "s64", "u64", "s4"}) {
    for (const char* from : {"f32", "f64", "f16", "bf16"}) {
      EXPECT_EQ(Difference(Unary("convert", from, to, 100), wide), "") << from << " to " << to << ", large";
    }
  }
}

TEST(Element, BitcastsAndPrecision) {
  EXPECT_EQ(Difference(Unary("bitcast-convert", "f32", "s32", 100)), "");
  EXPECT_EQ(Difference(Unary("bitcast-convert", "bf16", "u16", 100)), "");
  EXPECT_EQ(Difference(Unary("bitcast-convert", "u16", "f16", 100)), "");
  EXPECT_EQ(
      Difference("HloModule m\nENTRY e {\n  x = f32[50] parameter(0)\n  ROOT r = u8[50,4] bitcast-convert(x)\n}\n"),
      "");
  EXPECT_EQ(
      Difference("HloModule m\nENTRY e {\n  x = u32[50,2] parameter(0)\n  ROOT r = u64[50] bitcast-convert(x)\n}\n"),
      "");
  EXPECT_EQ(
      Difference("HloModule m\nENTRY e {\n  x = u8[50,2] parameter(0)\n  ROOT r = bf16[50] bitcast-convert(x)\n}\n"),
      "");
  for (const char* t : {"f32", "f64", "bf16", "f16"}) {
    for (auto [e, m] : {std::pair{5, 10}, {8, 7}, {4, 3}, {8, 23}, {5, 2}, {5, 8}, {6, 4}}) {
      EXPECT_EQ(
          Difference(Unary("reduce-precision", t, t, 200, absl::StrCat(", exponent_bits=", e, ", mantissa_bits=", m)),
                     Specials()),
          "")
          << t << " " << e << " " << m;
    }
  }
}

TEST(Element, SelectAndClamp) {
  for (const char* t : {"f32", "bf16", "s32", "u8", "c64", "pred", "f64"}) {
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\nENTRY e {\n  p = pred[77] parameter(0)\n  x = ", t,
                                      "[77] parameter(1)\n  y = ", t, "[77] parameter(2)\n  ROOT r = ", t,
                                      "[77] select(p, x, y)\n}\n")),
              "")
        << t;
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\nENTRY e {\n  p = pred[] parameter(0)\n  x = ", t,
                                      "[77] parameter(1)\n  y = ", t, "[77] parameter(2)\n  ROOT r = ", t,
                                      "[77] select(p, x, y)\n}\n")),
              "")
        << t << ", scalar predicate";
  }
  for (const char* t : {"f32", "bf16", "s32", "u8"}) {
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\nENTRY e {\n  lo = ", t, "[] constant(1)\n  x = ", t,
                                      "[77] parameter(0)\n  hi = ", t, "[] constant(2)\n  ROOT r = ", t,
                                      "[77] clamp(lo, x, hi)\n}\n"),
                         Specials()),
              "")
        << t;
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\nENTRY e {\n  lo = ", t, "[77] parameter(0)\n  x = ", t,
                                      "[77] parameter(1)\n  hi = ", t, "[77] parameter(2)\n  ROOT r = ", t,
                                      "[77] clamp(lo, x, hi)\n}\n"),
                         Specials()),
              "")
        << t;
  }
}

// If one vector holds the array, the divisors are a constant vector with 0 and -1.
TEST(Element, DivisionByConstantsWithZeros) {
  for (const char* t : {"s8", "s16", "s32", "s64", "u32"}) {
    for (const char* op : {"divide", "remainder"}) {
      for (const char* shape : {"1,2", "2,2", "1,4", "1,8", "5,4"}) {
        for (const char* first : {"0", "1", "2"}) {
          const std::string hlo = absl::StrReplaceAll(
              R"(HloModule m
ENTRY e {
  x = T[S] parameter(0)
  i = T[S] iota(), iota_dimension=1
  c = T[] constant(FIRST)
  cs = T[S] broadcast(c), dimensions={}
  n = T[S] subtract(cs, i)
  ROOT r = T[S] OP(x, n)
})",
              {{"T[S]", absl::StrCat(t, "[", shape, "]")},
               {"T[]", absl::StrCat(t, "[]")},
               {"OP(", absl::StrCat(op, "(")},
               {"FIRST", first}});
          EXPECT_EQ(Difference(hlo), "") << op << " " << t << "[" << shape << "] " << first;
        }
      }
    }
  }
}

// Every number and every NaN of bf16, as the first operand and, in another order, as the second.
TEST(Element, ArithmeticOfAllBf16) {
  for (const char* operation : {"add(x, y)", "subtract(x, y)", "multiply(x, y)", "divide(x, y)", "exponential(x)",
                                "tanh(x)", "logistic(x)", "sqrt(x)"}) {
    EXPECT_EQ(Difference(absl::StrCat("HloModule m\nENTRY e {\n  n = u16[65536] iota(), iota_dimension=0\n"
                                      "  x = bf16[65536] bitcast-convert(n)\n  p = u16[] parameter(0)\n"
                                      "  pb = u16[65536] broadcast(p), dimensions={}\n  one = u16[] constant(1)\n"
                                      "  ob = u16[65536] broadcast(one), dimensions={}\n"
                                      "  odd = u16[65536] or(pb, ob)\n  m = u16[65536] multiply(n, odd)\n"
                                      "  y = bf16[65536] bitcast-convert(m)\n  ROOT r = bf16[65536] ",
                                      operation, "\n}\n")),
              "")
        << operation;
  }
}

TEST(Element, NarrowVectors) {
  for (int bytes : {16, 32}) {
    RunOptions o = Specials();
    o.max_vector_bytes = bytes;
    for (const char* op : {"exponential", "tanh", "floor", "negate", "sign"}) {
      EXPECT_EQ(Difference(Unary(op, "f32", "f32", 45), o), "") << op << " " << bytes;
      EXPECT_EQ(Difference(Unary(op, "bf16", "bf16", 45), o), "") << op << " " << bytes;
    }
    EXPECT_EQ(Difference(Unary("convert", "f32", "s8", 45), o), "") << bytes;
    EXPECT_EQ(Difference(Binary("divide", "s32", "s32", 45), o), "") << bytes;
  }
}

}  // namespace
}  // namespace backplane::engine::codegen
