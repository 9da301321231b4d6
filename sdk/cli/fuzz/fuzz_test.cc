// Tests of the tool: the evaluator gives no findings, and planted defects are found and shrunk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "core/text/hlo_parser.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/fuzz/campaign.h"
#include "sdk/cli/fuzz/explain.h"
#include "sdk/cli/fuzz/shrink.h"

namespace backplane::cli::fuzz {
namespace {

std::vector<Lane> EvaluatorLane(Mutation mutation = nullptr) {
  std::vector<Lane> lanes(1);
  lanes[0].push_back(MakeEvaluatorRunner("a"));
  lanes[0].push_back(MakeEvaluatorRunner("b", std::move(mutation)));
  return lanes;
}

// The evaluator's values are within their bounds, and few elements are undecided.
TEST(Campaign, EvaluatorAgreesWithItself) {
  std::vector<Lane> lanes = EvaluatorLane();
  CampaignOptions options;
  options.count = 150;
  const CampaignResult result = RunCampaign(lanes, options);
  EXPECT_EQ(result.programs, 150);
  EXPECT_EQ(result.agreeing, 150);
  EXPECT_EQ(result.generator_failures, 0);
  for (const Finding& f : result.findings) ADD_FAILURE() << f.seed << " " << f.what << PrintModule(*f.program.module);
  const double all = static_cast<double>(result.power.bitwise + result.power.bounded + result.power.undecided);
  EXPECT_LT(static_cast<double>(result.power.undecided), 0.15 * all);
  EXPECT_GT(static_cast<double>(result.power.bitwise), 0.3 * all);
}

// Uses the evaluator and counts its processes.
class Renewed : public Runner {
 public:
  Renewed(std::unique_ptr<Runner> runner, int* count) : runner_(std::move(runner)), count_(count) {}
  const std::string& name() const override { return runner_->name(); }
  void Send(const FuzzProgram& program, Form form) override { runner_->Send(program, form); }
  Outcome Receive() override { return runner_->Receive(); }
  void ReplaceProcess() override { ++*count_; }

 private:
  std::unique_ptr<Runner> runner_;
  int* count_;
};

TEST(Campaign, AFindingEndsTheProcess) {
  const absl::StatusOr<Mutation> mutation = FindMutation("swap-min-max");
  ASSERT_TRUE(mutation.ok());
  int right = 0, wrong = 0;
  std::vector<Lane> lanes(1);
  lanes[0].push_back(std::make_unique<Renewed>(MakeEvaluatorRunner("a"), &right));
  lanes[0].push_back(std::make_unique<Renewed>(MakeEvaluatorRunner("b", *mutation), &wrong));
  CampaignOptions options;
  options.count = 60;
  options.shrink_tries = 0;
  const CampaignResult result = RunCampaign(lanes, options);
  EXPECT_GT(result.findings.size(), 0u);
  EXPECT_EQ(right, 0);
  EXPECT_EQ(wrong, static_cast<int>(result.findings.size()));
}

// The computations of reductions and sorts may be longer.
int64_t OperationsOfEntry(const Module& module) {
  return std::count_if(module.entry()->instructions().begin(), module.entry()->instructions().end(), [](const auto& i) {
    return !i->Is(Opcode::kParameter) && !i->Is(Opcode::kConstant) && !i->Is(Opcode::kTuple) &&
           !i->Is(Opcode::kGetTupleElement);
  });
}

class Defect : public testing::TestWithParam<std::string> {};

TEST_P(Defect, IsFoundAndShrunk) {
  absl::StatusOr<Mutation> mutation = FindMutation(GetParam());
  ASSERT_TRUE(mutation.ok());
  std::vector<Lane> lanes = EvaluatorLane(*mutation);
  CampaignOptions options;
  options.count = 400;
  options.most_findings = 1;
  options.generator.devices = 4;
  if (GetParam() == "round-away") options.generator.only = Opcode::kRoundNearestEven;  // ties are rare
  const CampaignResult result = RunCampaign(lanes, options);
  ASSERT_EQ(result.findings.size(), 1u);
  const Finding& f = result.findings[0];
  EXPECT_EQ(f.runner, "b");
  EXPECT_LE(OperationsOfEntry(*f.program.module), 3) << PrintModule(*f.program.module);
  // The program of the finding can be printed and read, and still shows the difference.
  const absl::StatusOr<std::unique_ptr<Module>> again = ParseHloModule(PrintModule(*f.program.module));
  ASSERT_TRUE(again.ok()) << again.status();
  const absl::StatusOr<BoundedValue> meant = EvaluateMeaning(f.program);
  ASSERT_TRUE(meant.ok());
  FuzzProgram read = Copy(f.program);
  read.module = (*again)->Clone();
  EXPECT_FALSE(CompareResults(*meant, lanes[0][0]->Run(read, Form::kHlo).results).has_value());
  const Outcome wrong = lanes[0][1]->Run(read, Form::kHlo);
  EXPECT_TRUE(wrong.kind == Outcome::Kind::kRefused || CompareResults(*meant, wrong.results).has_value());
}

INSTANTIATE_TEST_SUITE_P(All, Defect, testing::ValuesIn(ListMutations()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

BoundedValue BoundText(const char* text, const std::vector<Literal>& arguments) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  std::vector<BoundedValue> bounded;
  for (const Literal& a : arguments) bounded.push_back(BoundedValue::Exact(a));
  absl::StatusOr<BoundedValue> result = BoundComputation(*(*module)->entry(), bounded);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(Bounds, SumsOfWholeNumbersAreExact) {
  const char* text = R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add })";
  const float whole[] = {1, 2, -3, 4}, other[] = {0.1f, 0.2f, 0.7f, 1e-3f};
  EXPECT_FALSE(BoundText(text, {Literal::FromValues<float>({4}, whole)}).seen.valid());
  const BoundedValue rounded = BoundText(text, {Literal::FromValues<float>({4}, other)});
  EXPECT_GT(BoundAt(rounded.seen, 0), 1e-7);
  EXPECT_LT(BoundAt(rounded.seen, 0), 2e-6);
}

TEST(Bounds, FollowTheDataFlow) {
  // The product may stay unrounded inside the program, so its sum may differ; the product itself may not.
  const char* text = R"(HloModule m
ENTRY e { x = f32[1] parameter(0) y = f32[1] parameter(1) m = f32[1] multiply(x, y) s = f32[1] subtract(m, y)
  f = f32[1] floor(s) ROOT t = (f32[1], f32[1], f32[1]) tuple(m, s, f) })";
  const float a[] = {1.1f}, b[] = {0.3f};
  const BoundedValue j = BoundText(text, {Literal::FromValues<float>({1}, a), Literal::FromValues<float>({1}, b)});
  EXPECT_FALSE(j.elements[0].seen.valid());
  EXPECT_GT(BoundAt(j.elements[1].seen, 0), 0);
  EXPECT_LT(BoundAt(j.elements[1].seen, 0), 1e-6);
  EXPECT_LT(BoundAt(j.elements[2].seen, 0), 1e-6);  // far from an integer: decided
}

// The same in f64, where half a unit in the last place is lost when it is added to the number.
TEST(Bounds, FollowTheDataFlowInF64) {
  const char* text = R"(HloModule m
ENTRY e { x = f64[1] parameter(0) m = f64[1] multiply(x, x) ROOT s = f64[1] add(m, x) })";
  const double x[] = {-1.6854748864506042};  // 1.155350706405073 with two roundings, 1.1553507064050728 with one
  const BoundedValue j = BoundText(text, {Literal::FromValues<double>({1}, x)});
  EXPECT_GE(BoundAt(j.seen, 0), 2.3e-16);
  EXPECT_LT(BoundAt(j.seen, 0), 4e-15);
}

TEST(Bounds, JumpsAreNotDecided) {
  // exp(x) is inexact at 1; floor of exp(0) may be 0 or 1.
  const char* text = R"(HloModule m
ENTRY e { x = f32[2] parameter(0) y = f32[2] exponential(x) f = f32[2] floor(y) i = s32[2] convert(y)
  ROOT t = (f32[2], s32[2]) tuple(f, i) })";
  const float x[] = {0, 1};
  const BoundedValue j = BoundText(text, {Literal::FromValues<float>({2}, x)});
  EXPECT_GE(BoundAt(j.elements[0].seen, 0), 1);
  EXPECT_LT(BoundAt(j.elements[0].seen, 1), 1e-5);
  EXPECT_TRUE(std::isinf(BoundAt(j.elements[1].seen, 0)));
  EXPECT_EQ(BoundAt(j.elements[1].seen, 1), 0);
}

// Integers times the smallest subnormal number are exact; halves of them are rounded for each product or, in a fused
// multiply-add, with the sum: 1.5 + 2.5 units are 2 + 2, or 2 + 2.5 rounded, or 4.
TEST(Bounds, ProductsThatUnderflow) {
  const char* text = R"(HloModule m
ENTRY e { x = f64[2] parameter(0) y = f64[2] parameter(1) ROOT d = f64[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0} })";
  const double least = 5e-324;
  const double small[] = {least, least}, whole[] = {3, -2}, halves[] = {1.5, 2.5}, normal[] = {0x1p-1000, 0x1p-1000};
  auto bound = [&](const double* x, const double* y) {
    return BoundAt(BoundText(text, {Literal::FromValues<double>({2}, absl::MakeConstSpan(x, 2)),
                                    Literal::FromValues<double>({2}, absl::MakeConstSpan(y, 2))})
                       .seen,
                   0);
  };
  EXPECT_EQ(bound(small, whole), 0);
  EXPECT_GE(bound(small, halves), 2 * least);
  EXPECT_LE(bound(small, halves), 4 * least);
  EXPECT_EQ(bound(normal, halves), 0);
}

// The rounding error of a product is nonzero even if it underflows itself.
TEST(Bounds, RemaindersThatUnderflow) {
  const char* text = R"(HloModule m
ENTRY e { x = f64[2] parameter(0) y = f64[2] parameter(1) m = f64[2] multiply(x, y) z = f64[2] constant({5e-324, 5e-324})
  ROOT s = f64[2] add(m, z) })";
  const double x[] = {5e-324, 5e-324}, y[] = {0.5, 3};
  const BoundedValue j = BoundText(text, {Literal::FromValues<double>({2}, x), Literal::FromValues<double>({2}, y)});
  EXPECT_GE(BoundAt(j.seen, 0), 5e-324);  // 0 + 1 unit, or 0.5 + 1 rounded to 2
  EXPECT_EQ(BoundAt(j.seen, 1), 0);
}

// Shrinking may make a loop endless.
TEST(Bounds, EndlessLoopsOfReducersAreGivenUp) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(R"(HloModule m
go_on { c = f32[] parameter(0) ROOT yes = pred[] constant(true) }
same { ROOT s = f32[] parameter(0) }
reducer {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] add(a, b)
  ROOT w = f32[] while(s), condition=go_on, body=same
}
ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=reducer })");
  ASSERT_TRUE(module.ok()) << module.status();
  const std::vector<float> values = {1, 2, 3, 4};
  const BoundedValue x = BoundedValue::Exact(Literal::FromValues<float>({4}, values));
  const absl::StatusOr<BoundedValue> result = BoundComputation(*(*module)->entry(), absl::MakeConstSpan(&x, 1));
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
}

// The angle of x^y is y log x, here 744 radians, which the type represents with an error of 1e-13. This changes the
// direction of the result.
TEST(Bounds, PowersWithLargeAngles) {
  const char* text = R"(HloModule m
ENTRY e { x = c128[2] parameter(0) y = c128[2] parameter(1) ROOT p = c128[2] power(x, y) })";
  const std::complex<double> x[] = {{5e-324, 0}, {1.5, 0.5}}, y[] = {{0, 1}, {0, 1}};
  const BoundedValue j = BoundText(
      text, {Literal::FromValues<std::complex<double>>({2}, x), Literal::FromValues<std::complex<double>>({2}, y)});
  EXPECT_GT(BoundAt(j.seen, 0), 3e-13);
  EXPECT_LT(BoundAt(j.seen, 0), 2e-12);
  EXPECT_LT(BoundAt(j.seen, 1), 5e-14);
}

// A hyperbolic cosine of 1e22 has an error of a million radians, so its cosine may be any value, whichever values the
// ends of that range happen to have.
TEST(Bounds, AnglesOfWhichNoDigitIsKnown) {
  const char* text = R"(HloModule m
ENTRY e { x = f64[2] parameter(0) c = f64[2] cosh(x) ROOT r = f64[2] cosine(c) })";
  const double x[] = {51.5, 1};
  const BoundedValue j = BoundText(text, {Literal::FromValues<double>({2}, x)});
  EXPECT_GE(BoundAt(j.seen, 0), 2);
  EXPECT_LT(BoundAt(j.seen, 1), 1e-14);
}

// The sum over the products of gradient and operand overflows; divided by the variance it does not.
TEST(Bounds, BatchNormGradThatOverflowsOnTheWay) {
  const char* text = R"(HloModule m
ENTRY e { x = f32[2,1] parameter(0) s = f32[1] constant({1}) m = f32[1] constant({0.5}) v = f32[1] constant({0.75})
  g = f32[2,1] parameter(1) ROOT r = (f32[2,1], f32[1], f32[1]) batch-norm-grad(x, s, m, v, g), epsilon=0.001, feature_index=1 })";
  const float x[] = {-1.5f, 1.5f}, great[] = {-3.4e38f, 1.0f}, plain[] = {-3.4f, 1.0f};
  const Literal operand = Literal::FromValues<float>({2, 1}, x);
  const BoundedValue open = BoundText(text, {operand, Literal::FromValues<float>({2, 1}, great)});
  EXPECT_TRUE(std::isinf(BoundAt(open.elements[0].seen, 0)));
  const BoundedValue decided = BoundText(text, {operand, Literal::FromValues<float>({2, 1}, plain)});
  EXPECT_LT(BoundAt(decided.elements[0].seen, 0), 1e-3);
}

// If the variance overflows, the results are undecided: the mean and the normalized values may be finite.
TEST(Bounds, BatchNormTrainingOfInfiniteVariance) {
  const char* text = R"(HloModule m
ENTRY e { x = f32[3,1] parameter(0) s = f32[1] constant({0.5}) o = f32[1] constant({-1.8})
  ROOT r = (f32[3,1], f32[1], f32[1]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1 })";
  const auto bound = [&](float greatest) {
    const float x[] = {0.8f, 0.5f, greatest};
    return BoundAt(BoundText(text, {Literal::FromValues<float>({3, 1}, x)}).elements[0].seen, 0);
  };
  EXPECT_TRUE(std::isinf(bound(1e25f)));
  EXPECT_LT(bound(2), 1e-3);
}

// The number that represents NaN in a type without NaN is unspecified.
TEST(Bounds, NanWithoutNan) {
  const char* text = R"(HloModule m
ENTRY e { x = f32[2] parameter(0) n = f4e2m1fn[2] convert(x) w = f8e4m3fn[2] convert(x)
  ROOT t = (f4e2m1fn[2], f8e4m3fn[2]) tuple(n, w) })";
  const float x[] = {std::nanf(""), 1};
  const BoundedValue j = BoundText(text, {Literal::FromValues<float>({2}, x)});
  EXPECT_TRUE(std::isinf(BoundAt(j.elements[0].seen, 0)));
  EXPECT_EQ(BoundAt(j.elements[0].seen, 1), 0);
  EXPECT_FALSE(j.elements[1].seen.valid());
}

// These types have no -0. An operation that reads the unrounded value may see -0, but no other difference.
TEST(Bounds, ZeroWithoutSign) {
  const char* text = R"(HloModule m
ENTRY e { x = f8e5m2fnuz[2] parameter(0) n = f8e5m2fnuz[2] negate(x) w = f64[2] convert(n)
  ROOT t = (f8e5m2fnuz[2], f64[2]) tuple(n, w) })";
  const absl::StatusOr<Literal> x =
      Literal::FromValues<float>({2}, std::vector<float>{0, 1}).Convert(PrimitiveType::kF8E5M2FNUZ);
  ASSERT_TRUE(x.ok());
  const BoundedValue j = BoundText(text, {*x});
  EXPECT_FALSE(j.elements[0].seen.valid());
  EXPECT_GT(BoundAt(j.elements[1].seen, 0), 0);
  EXPECT_LT(BoundAt(j.elements[1].seen, 0), 1e-300);
  EXPECT_EQ(BoundAt(j.elements[1].seen, 1), 0);
}

TEST(Compare, BitsNanAndZeros) {
  const float want[] = {0.0f, std::nanf(""), 1.0f}, same[] = {0.0f, -std::nanf("1"), 1.0f};
  const float zero[] = {-0.0f, std::nanf(""), 1.0f}, off[] = {0.0f, std::nanf(""), 1.0000001f};
  const BoundedValue meant = BoundedValue::Exact(Literal::FromValues<float>({3}, want));
  EXPECT_FALSE(CompareResults(meant, {Literal::FromValues<float>({3}, same)}).has_value());
  ASSERT_TRUE(CompareResults(meant, {Literal::FromValues<float>({3}, zero)}).has_value());
  EXPECT_TRUE(CompareResults(meant, {Literal::FromValues<float>({3}, zero)})->zero_sign);
  ASSERT_TRUE(CompareResults(meant, {Literal::FromValues<float>({3}, off)}).has_value());
  EXPECT_EQ(CompareResults(meant, {Literal::FromValues<float>({3}, off)})->element, 2);
  EXPECT_TRUE(CompareResults(meant, {}).has_value());
}

FuzzProgram ProgramOf(const char* text, std::vector<Literal> arguments) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  FuzzProgram program;
  program.module = *std::move(module);
  program.arguments = std::move(arguments);
  return program;
}

TEST(Explain, Flushing) {
  const float x[] = {1e-40f, 3.0f}, two[] = {2.0f, 2.0f};
  const FuzzProgram program = ProgramOf(
      "HloModule m\nENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT r = f32[2] multiply(x, y) }",
      {Literal::FromValues<float>({2}, x), Literal::FromValues<float>({2}, two)});
  const float right[] = {2e-40f, 6.0f}, flushed[] = {0.0f, 6.0f}, other[] = {0.0f, 5.0f};
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<float>({2}, right)}));
  EXPECT_TRUE(IsFlushing(program, {Literal::FromValues<float>({2}, flushed)}));
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<float>({2}, other)}));
}

// With several programs in flight, the results that are read are explained.
TEST(Explain, FlushingInASchedule) {
  const float x[] = {1e-40f, 3.0f};
  FuzzProgram program = ProgramOf("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] add(x, x) }",
                                  {Literal::FromValues<float>({2}, x)});
  program.schedule = {{HostStep::Kind::kRun, 0, {0}}, {HostStep::Kind::kRun, 0, {2}}, {HostStep::Kind::kRead, 0, {3}}};
  const float right[] = {4e-40f, 12.0f}, flushed[] = {0.0f, 12.0f}, other[] = {0.0f, 6.0f};
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<float>({2}, right)}));
  EXPECT_TRUE(IsFlushing(program, {Literal::FromValues<float>({2}, flushed)}));
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<float>({2}, other)}));
}

// A subnormal number that is flushed is exactly zero, whatever its error was, and so is its root.
TEST(Explain, FlushingBeforeAFunction) {
  const float x[] = {0x1p-133f}, flushed[] = {0.0f}, other[] = {0x1p-60f};
  const FuzzProgram program = ProgramOf(
      "HloModule m\nENTRY e { x = f32[1] parameter(0) s = f32[1] sine(x) a = f32[1] abs(s) ROOT r = f32[1] sqrt(a) }",
      {Literal::FromValues<float>({1}, x)});
  EXPECT_TRUE(IsFlushing(program, {Literal::FromValues<float>({1}, flushed)}));
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<float>({1}, other)}));
}

// A sum may flush what it has added up so far, although its result is a normal number.
TEST(Explain, FlushingOfPartialSums) {
  const float x[] = {0.0f}, updates[] = {1e-38f, 3e-38f};
  const FuzzProgram program = ProgramOf(
      "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
      "ENTRY e { x = f32[1] parameter(0) u = f32[2] parameter(1) i = s32[2,1] constant({{0},{0}}) ROOT r = f32[1] "
      "scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=1, to_apply=add }",
      {Literal::FromValues<float>({1}, x), Literal::FromValues<float>({2}, updates)});
  const float right[] = {4e-38f}, flushed[] = {3e-38f}, other[] = {3e-36f};
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<float>({1}, right)}));
  EXPECT_TRUE(IsFlushing(program, {Literal::FromValues<float>({1}, flushed)}));
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<float>({1}, other)}));
}

// A function may treat one operand as zero in a comparison and compute with the other.
TEST(Explain, FlushingOneOperand) {
  const double x[] = {-1.5e-323};
  const FuzzProgram program =
      ProgramOf("HloModule m\nENTRY e { y = f64[1] parameter(0) x = f64[1] parameter(1) ROOT r = f64[1] atan2(y, x) }",
                {Literal::FromValues<double>({1}, x), Literal::FromValues<double>({1}, x)});
  const double right[] = {-2.3561944901923448}, half[] = {-1.5707963267948966}, other[] = {-0.5};
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<double>({1}, right)}));
  EXPECT_TRUE(IsFlushing(program, {Literal::FromValues<double>({1}, half)}));
  EXPECT_FALSE(IsFlushing(program, {Literal::FromValues<double>({1}, other)}));
}

// The result after a compiler's rewrite is distinguished from the correct result and from all others.
TEST(Explain, Rewrites) {
  struct Case {
    const char *sign, *text;
    std::vector<int32_t> right, rewritten, other;
  };
  const std::vector<Case> cases = {
      {"divide-by-power",
       R"(p = s32[2] parameter(0) two = s32[2] constant({2, 2}) q = s32[2] power(p, two)
         ROOT r = s32[2] divide(p, q))",
       {-1, 1},
       {0, 1},
       {0, 0}},
      {"one-update",
       R"(p = s32[2] parameter(0) x = s32[1] constant({100}) i = s32[2,0] constant({{},{}}) k = s32[2] constant({2, 4})
         u = s32[2] add(p, k) s = s32[1] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
         scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=addi
         q = s32[] reshape(s) ROOT r = s32[2] broadcast(q), dimensions={})",
       {107, 107},
       {105, 105},
       {102, 102}},
      {"six-bit-exponent",
       R"(p = s32[2] parameter(0) many = s32[2] constant({65, 66}) three = s32[2] constant({3, 3}) b = s32[2] add(p, three)
         ROOT r = s32[2] power(b, many))",
       {1820079875, 0},
       {3, 16},
       {9, 64}},
      {"add-as-xor",
       R"(p = s32[2] parameter(0) b = pred[2] convert(p) s = pred[2] add(b, b) ROOT r = s32[2] convert(s))",
       {0, 1},
       {0, 0},
       {1, 1}},
      {"divide-by-itself", "p = s32[2] parameter(0) ROOT r = s32[2] divide(p, p)", {-1, 1}, {1, 1}, {0, 1}},
      {"byte-popcnt",
       R"(p = s32[2] parameter(0) q = s4[2] convert(p) n = s4[2] negate(q) b = s4[2] popcnt(n) ROOT r = s32[2] convert(b))",
       {0, 4},
       {0, -8},
       {0, 7}},
      {"added-starts",
       R"(p = s32[2] parameter(0) i = s32[5] iota(), iota_dimension=0 one = s32[] constant(1)
         less = s32[] constant(-2) d = s32[3] dynamic-slice(i, one), dynamic_slice_sizes={3}
         t = s32[2] dynamic-slice(d, less), dynamic_slice_sizes={2} ROOT r = s32[2] add(t, p))",
       {1, 3},
       {0, 2},
       {2, 4}},
      {"lost-contraction",
       R"(p = s32[2] parameter(0) f = f32[2] convert(p) x = f32[2,2] broadcast(f), dimensions={0}
         c = f32[] constant(2) y = f32[2,3] broadcast(c), dimensions={}
         d = f32[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} z = f32[] constant(0)
         s = f32[2] reduce(d, z), dimensions={1}, to_apply=add ROOT r = s32[2] convert(s))",
       {0, 12},
       {0, 6},
       {0, 4}},
  };
  for (const Case& c : cases) {
    const int32_t p[] = {0, 1};
    const FuzzProgram program =
        ProgramOf((std::string("HloModule m\nadd { a = f32[] parameter(0) b = f32[] "
                               "parameter(1) ROOT s = f32[] add(a, b) }\naddi { a = s32[] parameter(0) b = s32[] "
                               "parameter(1) ROOT s = s32[] add(a, b) }\nENTRY e { ") +
                   std::string(c.text) + " }")
                      .c_str(),
                  {Literal::FromValues<int32_t>({2}, p)});
    auto signs = [&](const std::vector<int32_t>& found) {
      return FindExplanations(program, {Literal::FromValues<int32_t>({2}, found)});
    };
    const absl::StatusOr<BoundedValue> meant = EvaluateMeaning(program);
    ASSERT_TRUE(meant.ok()) << meant.status();
    EXPECT_FALSE(CompareResults(*meant, {Literal::FromValues<int32_t>({2}, c.right)}).has_value()) << c.sign;
    EXPECT_THAT(signs(c.right), testing::IsEmpty()) << c.sign;
    EXPECT_THAT(signs(c.rewritten), testing::ElementsAre(c.sign));
    EXPECT_THAT(signs(c.other), testing::IsEmpty()) << c.sign;
  }
}

TEST(Explain, JoinedConstants) {
  const float x[] = {81}, right[] = {315.707336f}, joined[] = {315.707306f}, other[] = {315.7075f};
  const FuzzProgram program = ProgramOf(R"(HloModule m
ENTRY e { x = f32[1] parameter(0) c = f32[1] constant({-3}) d = f32[1] constant({-1.29920709}) a = f32[1] multiply(x, c)
  ROOT b = f32[1] multiply(d, a) })",
                                        {Literal::FromValues<float>({1}, x)});
  EXPECT_THAT(FindExplanations(program, {Literal::FromValues<float>({1}, right)}), testing::IsEmpty());
  EXPECT_THAT(FindExplanations(program, {Literal::FromValues<float>({1}, joined)}),
              testing::ElementsAre("joined-constants"));
  EXPECT_THAT(FindExplanations(program, {Literal::FromValues<float>({1}, other)}), testing::IsEmpty());
}

TEST(Explain, OrderOfRealPartsSignedPowersAndLogarithms) {
  using C = std::complex<double>;
  const C zero[] = {{0, 0}}, above[] = {{-0.0, 1.6}}, near[] = {{-1.5, 5e-324}};
  const bool yes[] = {true}, no[] = {false};
  const FuzzProgram order = ProgramOf(R"(HloModule m
ENTRY e { x = c128[1] parameter(0) y = c128[1] parameter(1) ROOT r = pred[1] compare(x, y), direction=GE })",
                                      {Literal::FromValues<C>({1}, zero), Literal::FromValues<C>({1}, above)});
  EXPECT_THAT(FindExplanations(order, {Literal::FromValues<bool>({1}, yes)}), testing::ElementsAre("real-parts-only"));
  EXPECT_THAT(FindExplanations(order, {Literal::FromValues<bool>({1}, no)}), testing::IsEmpty());
  const uint8_t base[] = {253}, exponent[] = {250}, right[] = {105}, nothing[] = {0}, other[] = {7};
  const FuzzProgram power =
      ProgramOf("HloModule m\nENTRY e { x = u8[1] parameter(0) y = u8[1] parameter(1) ROOT r = u8[1] power(x, y) }",
                {Literal::FromValues<uint8_t>({1}, base), Literal::FromValues<uint8_t>({1}, exponent)});
  EXPECT_THAT(FindExplanations(power, {Literal::FromValues<uint8_t>({1}, nothing)}),
              testing::ElementsAre("signed-power"));
  EXPECT_THAT(FindExplanations(power, {Literal::FromValues<uint8_t>({1}, right)}), testing::IsEmpty());
  EXPECT_THAT(FindExplanations(power, {Literal::FromValues<uint8_t>({1}, other)}), testing::IsEmpty());
  const C below[] = {std::log(C(-1.5, -0.0))};
  const FuzzProgram log = ProgramOf("HloModule m\nENTRY e { x = c128[1] parameter(0) ROOT r = c128[1] log(x) }",
                                    {Literal::FromValues<C>({1}, near)});
  EXPECT_THAT(FindExplanations(log, {Literal::FromValues<C>({1}, below)}), testing::ElementsAre("log-of-subnormal"));
}

TEST(Known, ReadsAndMatches) {
  const auto known = ParseKnownDifferences("# comment\nmax-nan | xla | maximum | f32 f64 | nan | fast max\n");
  ASSERT_TRUE(known.ok()) << known.status();
  const auto module = ParseHloModule(
      "HloModule m\nENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT r = f32[2] maximum(x, y) }");
  ASSERT_TRUE(module.ok());
  EXPECT_NE(FindKnown(*known, "/lib/xla.so", **module, {"nan"}, ""), nullptr);
  EXPECT_EQ(FindKnown(*known, "/lib/xla.so", **module, {"values"}, ""), nullptr);
  EXPECT_EQ(FindKnown(*known, "/lib/cpu.so", **module, {"nan"}, ""), nullptr);
  const auto quoted = ParseKnownDifferences("no-max | xla | maximum | f32 | refused \"not for f32\" | max\n");
  ASSERT_TRUE(quoted.ok()) << quoted.status();
  EXPECT_NE(FindKnown(*quoted, "xla.so", **module, {"refused"}, "refused: maximum: not for f32"), nullptr);
  EXPECT_EQ(FindKnown(*quoted, "xla.so", **module, {"refused"}, "refused: out of memory"), nullptr);
  EXPECT_EQ(FindKnown(*quoted, "xla.so", **module, {"values"}, "not for f32"), nullptr);
  const auto same = ParseKnownDifferences("same | xla | maximum(x,x) | f32 | nan | of one value\n");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(FindKnown(*same, "xla.so", **module, {"nan"}, ""), nullptr);
  const auto twice = ParseHloModule("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] maximum(x, x) }");
  ASSERT_TRUE(twice.ok());
  EXPECT_NE(FindKnown(*same, "xla.so", **twice, {"nan"}, ""), nullptr);
  EXPECT_FALSE(ParseKnownDifferences("no-max | xla | maximum | f32 | refused \"not | max\n").ok());
  EXPECT_FALSE(ParseKnownDifferences("a | b | no-such-op | * | * | x").ok());
  EXPECT_FALSE(ParseKnownDifferences("a | b").ok());
}

std::string ReadText(const std::string& path) {
  std::ifstream file(std::string(BACKPLANE_SOURCE_DIR) + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The file can be read, and the page explains each of its entries.
TEST(Known, EveryEntryIsExplained) {
  const auto known = ParseKnownDifferences(ReadText("/sdk/cli/fuzz/known_differences.txt"));
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_GE(known->size(), 5u);
  const std::string page = ReadText("/docs/known_differences.md");
  for (const KnownDifference& k : *known) {
    EXPECT_NE(page.find("### " + k.id + "\n"), std::string::npos) << k.id;
  }
}

}  // namespace
}  // namespace backplane::cli::fuzz
