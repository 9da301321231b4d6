#include "core/passes/rewriter.h"

#include <gtest/gtest.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "core/passes/match.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using namespace match;

std::unique_ptr<Module> Parse(const std::string& text) {
  absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

Instruction* Twice(Instruction* i, Rewriter&) {
  Instruction* x;
  return Matches(i, Op(i->opcode(), Op(i->opcode(), Any(&x)))) ? x : nullptr;
}

RuleSet NegateTwice() {
  RuleSet rules;
  rules.Add({{Opcode::kNegate}, "negate-twice", "", &Twice});
  return rules;
}

// A chain of `count` operations on a parameter.
std::string Chain(const std::string& op, int count) {
  std::string text = "HloModule m ENTRY e { v0 = f32[2] parameter(0)\n";
  for (int k = 1; k <= count; ++k)
    absl::StrAppend(&text, k == count ? "ROOT " : "", "v", k, " = f32[2] ", op, "(v", k - 1, ")\n");
  return text + "}";
}

TEST(Rewriter, ReachesTheFixedPoint) {
  for (int count : {1, 2, 3, 100, 101}) {
    const std::unique_ptr<Module> module = Parse(Chain("negate", count));
    std::vector<int64_t> applied;
    const RuleSet rules = NegateTwice();
    EXPECT_EQ(Rewriter(module->entry(), rules, &applied).Run(), count > 1);
    EXPECT_EQ(module->entry()->instruction_count(), 1 + count % 2);  // dead instructions are removed too
    EXPECT_EQ(applied, std::vector<int64_t>{count / 2});
    EXPECT_TRUE(VerifyModule(*module).ok());
    EXPECT_FALSE(Rewriter(module->entry(), rules).Run());
  }
}

TEST(Rewriter, LooksAgainAtTheOnlyReaderLeft) {
  const std::unique_ptr<Module> module = Parse(R"(HloModule m ENTRY e {
    x = f32[2] parameter(0)
    a = f32[2] abs(x)
    once = f32[2] sine(a)
    n = f32[2] negate(a)
    nn = f32[2] negate(n)
    again = f32[2] negate(nn)
    last = f32[2] negate(again)
    ROOT t = (f32[2], f32[2]) tuple(once, x) })");
  RuleSet rules;
  rules.Add({{Opcode::kSin}, "sine-of-abs", "", [](Instruction* i, Rewriter& to) -> Instruction* {
               if (!Matches(i, Op(Opcode::kSin, OneUser(Op(Opcode::kAbs, Any()))))) return nullptr;
               return to.Make(Opcode::kCos, i->shape(), {i->operand(0)->operand(0)});
             }});
  // `last` is dead from the start and stays: the calling pass removes it.
  EXPECT_FALSE(Rewriter(module->entry(), rules).Run());
  module->entry()->RemoveDead();
  EXPECT_TRUE(Rewriter(module->entry(), rules).Run());
  EXPECT_TRUE(module->entry()->root()->operand(0)->Is(Opcode::kCos));
}

TEST(Rewriter, EndsWhereRulesGoRoundInCircles) {
  const std::unique_ptr<Module> module = Parse(Chain("sine", 3));
  RuleSet rules;
  auto swap = [](Opcode opcode) {
    return [opcode](Instruction* i, Rewriter& to) { return to.Make(opcode, i->shape(), {i->operand(0)}); };
  };
  rules.Add({{Opcode::kSin}, "sine-to-cosine", "", swap(Opcode::kCos)});
  rules.Add({{Opcode::kCos}, "cosine-to-sine", "", swap(Opcode::kSin)});
  std::vector<int64_t> applied;
  EXPECT_TRUE(Rewriter(module->entry(), rules, &applied).Run());
  EXPECT_EQ(applied[0] + applied[1], Rewriter::kRewritesPerInstruction * 5);
  EXPECT_TRUE(VerifyModule(*module).ok());
  EXPECT_EQ(module->entry()->instruction_count(), 4);
}

TEST(Rewriter, KeepsEffectsAndTheirOrder) {
  const std::unique_ptr<Module> module = Parse(R"(HloModule m ENTRY e {
    x = f32[2] parameter(0)
    first = token[] after-all()
    o = token[] outfeed(x, first)
    n = f32[2] negate(x), control-predecessors={o}
    nn = f32[2] negate(n)
    p = token[] outfeed(nn, first), control-predecessors={n}
    ROOT a = f32[2] abs(nn) })");
  EXPECT_TRUE(Rewriter(module->entry(), NegateTwice()).Run());
  EXPECT_TRUE(VerifyModule(*module).ok()) << VerifyModule(*module);
  EXPECT_EQ(module->entry()->root()->operand(0), module->entry()->parameter(0));
  bool ordered = false;
  for (const auto& i : module->entry()->instructions()) ordered |= i->Is(Opcode::kNegate);  // between the two outfeeds
  EXPECT_TRUE(ordered) << module->ToString();
}

TEST(Rewriter, RemovesWhatARuleMadeAndDidNotUse) {
  const std::unique_ptr<Module> module = Parse(Chain("sine", 2));
  RuleSet rules;
  rules.Add({{Opcode::kSin}, "gives-up", "", [](Instruction* i, Rewriter& to) -> Instruction* {
               Instruction* made = to.Make(Opcode::kCos, i->shape(), {i->operand(0)});
               to.Make(Opcode::kCos, i->shape(), {made});
               return nullptr;
             }});
  EXPECT_FALSE(Rewriter(module->entry(), rules).Run());
  EXPECT_EQ(module->entry()->instruction_count(), 3);
}

TEST(Rewriter, DependsOnNoAddresses) {
  std::string texts[2];
  for (std::string& text : texts) {
    const std::unique_ptr<Module> module = Parse(Chain("negate", 50));
    std::vector<std::unique_ptr<int>> noise;
    for (size_t k = 0; k < 100 * text.size() + 7; ++k) noise.push_back(std::make_unique<int>(1));
    Rewriter(module->entry(), NegateTwice()).Run();
    text = module->ToString();
  }
  EXPECT_EQ(texts[0], texts[1]);
}

// One value with many pairs of negations as users, all of which are removed: the time must be linear in their number.
TEST(Rewriter, IsNotQuadratic) {
  auto seconds = [](int count) {
    std::string text = "HloModule m ENTRY e { x = f32[2] parameter(0)\n", results;
    for (int k = 0; k < count; ++k) {
      absl::StrAppend(&text, "a", k, " = f32[2] negate(x)\nb", k, " = f32[2] negate(a", k, ")\n");
      absl::StrAppend(&results, k > 0 ? ", " : "", "b", k);
    }
    absl::StrAppend(&text, "ROOT c = f32[", 2 * count, "] concatenate(", results, "), dimensions={0} }");
    const std::unique_ptr<Module> module = Parse(text);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(Rewriter(module->entry(), NegateTwice()).Run());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(module->entry()->instruction_count(), 2);
    return took.count();
  };
  const double small = seconds(1000), large = seconds(16000);
  EXPECT_LT(large, 80 * small + 0.5) << small << " s for 1,000, " << large << " s for 16,000";  // quadratic: 256
}

}  // namespace
}  // namespace backplane
