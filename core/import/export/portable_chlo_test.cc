// Ragged dots and scans in portable artifacts: composites that are read back as what they were, and whose
// decompositions compute the same for a reader that does not know them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/eval/evaluator.h"
#include "core/import/export/export.h"
#include "core/import/import.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::HasSubstr;

constexpr char kScan[] = R"(HloModule m

step {
  x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  n = f32[3] add(x, c)
  h = f32[3] multiply(n, x)
  ROOT r = (f32[3], f32[3]) tuple(h, n)
}

ENTRY main {
  x = f32[4,3] parameter(0)
  c = f32[3] parameter(1)
  ROOT s = (f32[4,3], f32[3]) scan(x, c), dimensions={0}, is_reverse=REVERSED, num_carries=1, to_apply=step
})";

std::string RaggedDot(absl::string_view lhs, absl::string_view rhs, absl::string_view groups, absl::string_view result,
                      absl::string_view dims) {
  return absl::StrCat("HloModule m\n\nENTRY main {\n  a = ", lhs, " parameter(0)\n  b = ", rhs,
                      " parameter(1)\n  g = ", groups, " parameter(2)\n  ROOT r = ", result, " ragged-dot(a, b, g), ",
                      dims, "\n}");
}

Literal Argument(const Shape& shape, int64_t number) {
  Literal l(shape);
  const bool sizes = IsIntegral(shape.element_type());
  for (int64_t i = 0; i < l.num_elements(); ++i) l.SetFromInt(i, sizes ? (i + 2) % 3 : (i * 7 + number * 3) % 5 - 2);
  return l;
}

void Leaves(const Literal& l, std::vector<Literal>* out) {
  if (!l.shape().IsTuple()) return out->push_back(l);
  for (const Literal& e : l.elements()) Leaves(e, out);
}

void ExpectSame(const Module& a, const Module& b) {
  std::vector<Literal> arguments;
  for (const Instruction* p : a.entry()->parameters()) arguments.push_back(Argument(p->shape(), p->parameter_number()));
  auto want = Evaluate(a, arguments), got = Evaluate(b, arguments);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status() << b.ToString();
  std::vector<Literal> x, y;
  Leaves(*want, &x);
  Leaves(*got, &y);
  EXPECT_EQ(x, y) << b.ToString();
}

bool Holds(const Module& module, Opcode opcode) {
  for (const auto& i : module.entry()->instructions()) {
    if (i->Is(opcode)) return true;
  }
  return false;
}

struct Case {
  std::string hlo;
  Opcode opcode;
  int since;  // the minor version that has a composite for it
};

std::vector<Case> Cases() {
  return {
      {absl::StrReplaceAll(kScan, {{"REVERSED", "false"}}), Opcode::kScan, 14},
      {absl::StrReplaceAll(kScan, {{"REVERSED", "true"}}), Opcode::kScan, 14},
      {RaggedDot("f32[6,4]", "f32[3,4,5]", "s64[3]", "f32[6,5]",
                 "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
       Opcode::kRaggedDot, 0},
      {RaggedDot("f32[2,6,4]", "f32[3,2,4,5]", "s32[2,3]", "f32[2,6,5]",
                 "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, "
                 "lhs_ragged_dims={1}, rhs_group_dims={0}"),
       Opcode::kRaggedDot, 0},
      {RaggedDot("f32[5,6]", "f32[6,4]", "s64[3]", "f32[3,5,4]",
                 "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={}"),
       Opcode::kRaggedDot, 0},
  };
}

TEST(PortableChlo, IsReadBackAsItWas) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.hlo);
    auto module = ParseHloModule(c.hlo);
    ASSERT_TRUE(module.ok()) << module.status();
    for (int minor : {20, 17, 14, 13, 9}) {
      SCOPED_TRACE(minor);
      auto bytes = ExportPortableArtifact(**module, {1, minor, 0});
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      auto back = ImportStablehlo(*bytes);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(Holds(**back, c.opcode), minor >= c.since) << (*back)->ToString();
      ExpectSame(**module, **back);
    }
    // Before there were composites.
    auto old = ExportPortableArtifact(**module, {0, 18, 0});
    ASSERT_TRUE(old.ok()) << old.status();
    auto back = ImportStablehlo(*old);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_FALSE(Holds(**back, c.opcode));
    ExpectSame(**module, **back);
  }
}

// The name is unknown to the reader: the decomposition is what the program means.
TEST(PortableChlo, DecompositionsComputeTheSame) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.hlo);
    auto module = ParseHloModule(c.hlo);
    ASSERT_TRUE(module.ok()) << module.status();
    auto bytes = ExportPortableArtifact(**module, {1, 17, 0});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    std::string strange = *bytes;
    for (const char* name : {"chlo.scan", "chlo.ragged_dot"}) {
      // The string table ends each with a zero; the functions' names go on with ".impl".
      for (size_t at = 0; (at = strange.find(absl::StrCat(name, absl::string_view("\0", 1)), at)) != std::string::npos;
           ++at) {
        strange[at] = 'x';
      }
    }
    ASSERT_NE(strange, *bytes);
    auto back = ImportStablehlo(strange);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_FALSE(Holds(**back, c.opcode));
    ExpectSame(**module, **back);
  }
}

// As MLIR's own tools write them.
TEST(PortableChlo, CompositesOfOtherHosts) {
  auto scan = ImportStablehlo(R"(
func.func @main(%x: tensor<3x2xf32>, %c: tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>) {
  %0:2 = stablehlo.composite "chlo.scan" %x, %c ({
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %s = stablehlo.add %a, %b : tensor<2xf32>
    stablehlo.return %s, %s : tensor<2xf32>, tensor<2xf32>
  }) {composite_attributes = {dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}, decomposition = @impl, version = 1 : i32} : (tensor<3x2xf32>, tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<2xf32>
}
func.func private @impl(%x: tensor<3x2xf32>, %c: tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>) {
  return %x, %c : tensor<3x2xf32>, tensor<2xf32>
})");
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_TRUE(Holds(**scan, Opcode::kScan)) << (*scan)->ToString();
  for (bool largest : {true, false}) {
    auto top = ImportStablehlo(absl::StrReplaceAll(R"(
func.func @main(%x: tensor<6xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {k = 2 : i64, largest = WHICH}, decomposition = @impl, version = 1 : i32} : (tensor<6xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
func.func private @impl(%x: tensor<6xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %c = stablehlo.constant dense<0.0> : tensor<2xf32>
  %d = stablehlo.constant dense<0> : tensor<2xi32>
  return %c, %d : tensor<2xf32>, tensor<2xi32>
})",
                                                   {{"WHICH", largest ? "true" : "false"}}));
    ASSERT_TRUE(top.ok()) << top.status();
    auto x = Literal::FromValues<float>({6}, {3, 1, 4, 1.5, 9, 2});
    auto got = Evaluate(**top, {x});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->elements()[0].GetAsDouble(0), largest ? 9 : 1);
    EXPECT_EQ(got->elements()[1].GetAsInt(1), largest ? 2 : 3);
  }
}

// As custom calls, which older tools make of them.
TEST(PortableChlo, CustomCallsOfOtherHosts) {
  auto module = ImportStablehlo(R"(
func.func @main(%x: tensor<6xf32>, %a: tensor<6x4xf32>, %b: tensor<3x4x5xf32>, %g: tensor<3xi64>) -> (tensor<2xf32>, tensor<2xi32>, tensor<6xf32>, tensor<6x5xf32>) {
  %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64} : (tensor<6xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  %1 = stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<6xf32>) -> tensor<6xf32>
  %2 = stablehlo.custom_call @chlo.ragged_dot(%a, %b, %g) {mhlo.attributes = {precision_config = ["DEFAULT", "DEFAULT"], ragged_dot_dimension_numbers = [dense<> : tensor<0xi64>, dense<> : tensor<0xi64>, dense<1> : tensor<1xi64>, dense<1> : tensor<1xi64>, dense<0> : tensor<1xi64>, dense<0> : tensor<1xi64>]}, mhlo.version = 1 : i64} : (tensor<6x4xf32>, tensor<3x4x5xf32>, tensor<3xi64>) -> tensor<6x5xf32>
  return %0#0, %0#1, %1, %2 : tensor<2xf32>, tensor<2xi32>, tensor<6xf32>, tensor<6x5xf32>
})");
  ASSERT_TRUE(module.ok()) << module.status();
  for (Opcode opcode : {Opcode::kTopK, Opcode::kErf, Opcode::kRaggedDot}) {
    EXPECT_TRUE(Holds(**module, opcode)) << (*module)->ToString();
  }
  EXPECT_FALSE(Holds(**module, Opcode::kCustomCall));
}

// control_dep: what is written first comes second, and a circle is refused.
TEST(ControlDependency, OrdersCalls) {
  const std::string text = R"(
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = stablehlo.custom_call @first(%x) {has_side_effect = true} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.custom_call @second(OPERAND) {has_side_effect = true} : (tensor<2xf32>) -> tensor<2xf32>
  stablehlo.custom_call @control_dep(%1, %0) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
})";
  auto module = ImportStablehlo(absl::StrReplaceAll(text, {{"OPERAND", "%x"}}));
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<std::string> order;
  for (const auto& i : (*module)->entry()->instructions()) {
    if (i->Is(Opcode::kCustomCall)) order.push_back(i->custom_call_target());
  }
  EXPECT_THAT(order, testing::ElementsAre("second", "first"));
  auto again = ParseHloModule((*module)->ToString());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->ToString(), (*module)->ToString());
  EXPECT_THAT((*module)->ToString(), HasSubstr("control-predecessors={"));
  EXPECT_THAT(std::string(ImportStablehlo(absl::StrReplaceAll(text, {{"OPERAND", "%0"}})).status().message()),
              HasSubstr("cannot come after"));
}

}  // namespace
}  // namespace backplane
