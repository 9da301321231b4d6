#include "sdk/compiler/fusion/fusion_graph.h"

#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/passes/random_array_program.h"
#include "core/passes/same_results.h"
#include "core/text/hlo_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Fuses arithmetic, as much as it can.
class TestPolicy : public FusionPolicy {
 public:
  FusionOptions options() const override { return wanted; }
  FusionRole GetRole(const Instruction& i) const override {
    if (i.Is(Opcode::kConstant)) return i.shape().IsScalar() ? FusionRole::kElementwise : FusionRole::kNotFusible;
    if (i.Is(Opcode::kReduce)) return FusionRole::kReduction;
    if (i.Is(Opcode::kBroadcast)) return FusionRole::kIndexing;
    return i.info().Has(kElementwise) && i.shape().IsArray() ? FusionRole::kElementwise : FusionRole::kNotFusible;
  }
  bool IsCopiedIntoReaders(const Instruction& i) const override { return copied.contains(i.opcode()); }
  MergeDecision DecideMerge(const FusionGraph& graph, int producer, int target, bool further_result) const override {
    ++judged;
    EXPECT_EQ(graph.node(producer).escapes || CountTargets(graph, producer) > 1, further_result);
    return graph.instruction(producer).Is(Opcode::kReduce) ? reductions : decision;
  }
  bool ShouldCopyIntoReaders(const FusionGraph& graph, int producer, absl::Span<const int> targets) const override {
    EXPECT_EQ(static_cast<int>(targets.size()), CountTargets(graph, producer));
    return recomputed.contains(graph.instruction(producer).opcode());
  }
  bool CanPlan(const Computation& kernel) const override {
    planned.push_back(Describe(kernel));
    return kernel.instruction_count() <= max_planned;
  }
  bool NeedsFusion(const FusionGraph& graph, int group) const override { return graph.group(group).members.size() > 1; }
  FusionLabel Describe(const FusionGraph& graph, int group, absl::Span<const int> results) const override {
    return {"f", "body", FusionKind::kLoop, &graph.instruction(results.back())};
  }

  static std::string Describe(const Computation& c) {
    std::vector<std::string> names;
    for (const auto& i : c.instructions()) {
      if (!i->Is(Opcode::kParameter)) names.emplace_back(OpName(i->opcode()));
    }
    return absl::StrJoin(names, " ");
  }

  FusionOptions wanted;
  std::set<Opcode> copied, recomputed;
  MergeDecision decision = MergeDecision::kAccept, reductions = MergeDecision::kAccept;
  int64_t max_planned = 1000;
  mutable int judged = 0;
  mutable std::vector<std::string> planned;

 private:
  static int CountTargets(const FusionGraph& graph, int n) {
    std::set<int> targets;
    for (const FusionGraph::Use& use : graph.node(n).uses) {
      if (graph.group_of(use.node) >= 0) targets.insert(graph.group_of(use.node));
    }
    return static_cast<int>(targets.size());
  }
};

constexpr char kHead[] = R"(HloModule m
  sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
  lt { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = pred[] compare(x, y), direction=LT }
)";

std::unique_ptr<Module> Parse(absl::string_view entry) {
  absl::StatusOr<std::unique_ptr<Module>> m = ParseHloModule(absl::StrCat(kHead, "ENTRY e {", entry, "}"));
  EXPECT_TRUE(m.ok()) << m.status();
  return m.ok() ? *std::move(m) : nullptr;
}

// Fuses the program, and returns its kernels and what stays outside of them; checks that it computes the same.
std::string Fuse(absl::string_view entry, TestPolicy& policy) {
  const std::unique_ptr<Module> original = Parse(entry), module = original->Clone();
  const absl::StatusOr<bool> fused = FusionGraph(module->entry(), &policy).Fuse();
  EXPECT_TRUE(fused.ok()) << fused.status();
  EXPECT_TRUE(VerifyModule(*module).ok()) << VerifyModule(*module);
  EXPECT_EQ(DescribeDifferenceOfResults(*original, *module, {}).value(), "") << module->ToString();
  std::vector<std::string> words;
  for (const auto& i : module->entry()->instructions()) {
    if (i->Is(Opcode::kFusion)) words.push_back(absl::StrCat("{", TestPolicy::Describe(*i->called(0)), "}"));
    if (!i->Is(Opcode::kFusion) && !i->Is(Opcode::kParameter)) words.emplace_back(OpName(i->opcode()));
  }
  return absl::StrJoin(words, " ");
}

TEST(FusionGraph, NumbersInstructions) {
  const std::unique_ptr<Module> m = Parse(R"(
    a = f32[4] parameter(0)
    b = f32[4] add(a, a)
    c = f32[4] sort(b), dimensions={0}, to_apply=lt
    ROOT d = f32[4] multiply(c, b))");
  TestPolicy policy;
  FusionGraph graph(m->entry(), &policy);
  ASSERT_EQ(graph.node_count(), 4);
  EXPECT_EQ(graph.group_count(), 2);
  EXPECT_EQ(graph.instruction(1).name(), "b");
  EXPECT_THAT(graph.node(1).operands, ElementsAre(0));  // each once
  EXPECT_THAT(graph.node(3).operands, ElementsAre(2, 1));
  EXPECT_EQ(graph.group_of(0), -1);
  EXPECT_EQ(graph.group_of(2), -1);
  EXPECT_THAT(graph.group(graph.group_of(3)).members, ElementsAre(3));
  EXPECT_THAT(graph.group(graph.group_of(3)).inputs, ElementsAre(1, 2));
  graph.MergeProducers();
  ASSERT_EQ(graph.node(1).uses.size(), 2u);
  EXPECT_EQ(graph.node(1).uses[0].node, 2);
  EXPECT_EQ(graph.node(1).uses[1].node, 3);
  EXPECT_TRUE(graph.node(1).escapes);   // the sort reads it
  EXPECT_TRUE(graph.node(3).escapes);   // the root
  EXPECT_FALSE(graph.node(2).escapes);  // only a group reads it
  EXPECT_EQ(graph.group_count(), 2);    // numbers of groups stay
  EXPECT_NE(graph.group_of(1), graph.group_of(3));
}

TEST(FusionGraph, MakesOneFusionOfAChain) {
  TestPolicy policy;
  EXPECT_EQ(Fuse(R"(
    a = f32[4] parameter(0)
    b = f32[4] negate(a)
    c = f32[4] exponential(b)
    ROOT d = f32[4] subtract(c, b))",
                 policy),
            "{negate exponential subtract}");
  EXPECT_EQ(policy.judged, 2);
}

TEST(FusionGraph, ReturnsWhatOthersRead) {
  // The negation is read by the sort, too; the sum reads the sort elsewhere.
  TestPolicy policy;
  const std::string text = Fuse(R"(
    a = f32[4] parameter(0)
    b = f32[4] negate(a)
    c = f32[4] exponential(b)
    s = f32[4] sort(b), dimensions={0}, to_apply=lt
    ROOT t = (f32[4], f32[4]) tuple(c, s))",
                                policy);
  EXPECT_EQ(text, "{negate exponential tuple} get-tuple-element get-tuple-element sort tuple");
}

TEST(FusionGraph, RefusesCycles) {
  TestPolicy policy;
  const std::string text = Fuse(R"(
    a = f32[4] parameter(0)
    b = f32[4] negate(a)
    b2 = f32[4] sine(b)
    s = f32[4] sort(b2), dimensions={0}, to_apply=lt
    c = f32[4] add(b2, s)
    ROOT d = f32[4] exponential(c))",
                                policy);
  EXPECT_EQ(text, "{negate sine} sort {add exponential}");
}

TEST(FusionGraph, CopiesSourcesIntoEveryReader) {
  TestPolicy policy;
  policy.copied = {Opcode::kConstant, Opcode::kBroadcast};
  const std::string text = Fuse(R"(
    a = f32[4] parameter(0)
    k = f32[] constant(2)
    b = f32[4] broadcast(k), dimensions={}
    c = f32[4] multiply(a, b)
    s = f32[4] sort(c), dimensions={0}, to_apply=lt
    n = f32[4] sine(s)
    ROOT d = f32[4] add(n, b))",
                                policy);
  EXPECT_EQ(text, "constant broadcast multiply sort {sine constant broadcast add}");
}

TEST(FusionGraph, LooksThroughCopies) {
  const std::unique_ptr<Module> m = Parse(R"(
    a = f32[] parameter(0)
    n = f32[] negate(a)
    b = f32[4] broadcast(n), dimensions={}
    c = f32[1] broadcast(n), dimensions={}
    d = f32[4] exponential(b)
    e = f32[1] exponential(c)
    ROOT t = (f32[4], f32[1]) tuple(d, e))");
  TestPolicy policy;
  policy.copied = {Opcode::kBroadcast};
  policy.decision = MergeDecision::kRefuse;
  FusionGraph graph(m->entry(), &policy);
  graph.MergeProducers();
  const FusionGraph::Node& negate = graph.node(1);
  ASSERT_EQ(negate.uses.size(), 2u);
  EXPECT_EQ(negate.uses[0].node, 4);
  EXPECT_TRUE(negate.uses[0].repeats);  // four times
  EXPECT_EQ(negate.uses[1].node, 5);
  EXPECT_FALSE(negate.uses[1].repeats);
  EXPECT_FALSE(negate.escapes);
}

TEST(FusionGraph, RecomputesWhatThePolicySays) {
  constexpr char kText[] = R"(
    a = f32[4] parameter(0)
    n = f32[4] negate(a)
    x = f32[4] exponential(n)
    s = f32[4] sort(x), dimensions={0}, to_apply=lt
    y = f32[4] sine(s)
    z = f32[4] add(y, n)
    r = f32[4] reverse(z), dimensions={0}
    ROOT t = (f32[4], f32[4]) tuple(s, r))";
  TestPolicy policy;
  policy.recomputed = {Opcode::kNegate};
  EXPECT_EQ(Fuse(kText, policy), "negate exponential sort {sine negate add} reverse tuple");
  TestPolicy stored;
  EXPECT_EQ(Fuse(kText, stored),
            "{negate exponential tuple} get-tuple-element get-tuple-element sort {sine add} reverse tuple");
}

TEST(FusionGraph, AsksWhetherTheTargetCanPlan) {
  constexpr char kText[] = R"(
    a = f32[4,4] parameter(0)
    z = f32[] constant(0)
    s = f32[4] reduce(a, z), dimensions={1}, to_apply=sum
    n = f32[4] negate(s)
    ROOT d = f32[4] exponential(n))";
  TestPolicy policy;
  policy.reductions = MergeDecision::kIfPlannable;
  EXPECT_EQ(Fuse(kText, policy), "{constant reduce negate exponential}");
  EXPECT_THAT(policy.planned, ElementsAre("reduce negate exponential"));  // as it would be outlined then
  TestPolicy small;
  small.reductions = MergeDecision::kIfPlannable;
  small.max_planned = 4;
  EXPECT_EQ(Fuse(kText, small), "{constant reduce} {negate exponential}");
}

TEST(FusionGraph, MergesEqualMembersOnRequest) {
  constexpr char kText[] = R"(
    a = f32[4] parameter(0)
    b = f32[4] negate(a), metadata={op_name="one"}
    c = f32[4] negate(a), metadata={op_name="two"}
    d = f32[4] sine(c)
    ROOT e = f32[4] add(b, d))";
  TestPolicy policy;
  EXPECT_EQ(Fuse(kText, policy), "{negate negate sine add}");
  policy.wanted.merge_equal_members = true;
  EXPECT_EQ(Fuse(kText, policy), "{negate sine add}");
}

TEST(FusionGraph, KeepsAnnotationsOnRequest) {
  for (bool keep : {true, false}) {
    const std::unique_ptr<Module> m = Parse(R"(
      a = f32[4] parameter(0)
      special = f32[4] negate(a), frontend_attributes={k="v"}
      ROOT e = f32[4] sine(special))");
    TestPolicy policy;
    policy.wanted.keep_annotations = keep;
    ASSERT_TRUE(FusionGraph(m->entry(), &policy).Fuse().ok());
    EXPECT_EQ(absl::StrContains(m->ToString(), "frontend_attributes"), keep) << m->ToString();
  }
}

// The example of docs/fusion.md.
class LoopPolicy : public FusionPolicy {
 public:
  FusionRole GetRole(const Instruction& i) const override {
    return i.info().Has(kElementwise) && i.shape().IsArray() ? FusionRole::kElementwise : FusionRole::kNotFusible;
  }
  MergeDecision DecideMerge(const FusionGraph& graph, int producer, int target, bool further_result) const override {
    return graph.CountInputs(graph.group_of(producer), target) <= 64 ? MergeDecision::kAccept : MergeDecision::kRefuse;
  }
  FusionLabel Describe(const FusionGraph& graph, int group, absl::Span<const int> results) const override {
    return {"loop_fusion", "fused_loop", FusionKind::kLoop, &graph.instruction(results.back())};
  }
};

TEST(FusionGraph, NeedsThreeAnswersOfAPolicy) {
  std::string entry = "a0 = f32[4] parameter(0) v0 = f32[4] negate(a0) ";
  for (int k = 1; k <= 100; ++k) {
    absl::StrAppend(&entry, "a", k, " = f32[4] parameter(", k, ") v", k, " = f32[4] add(v", k - 1, ", a", k, ") ");
  }
  const std::unique_ptr<Module> original = Parse(absl::StrCat(entry, "ROOT r = f32[4] sine(v100)"));
  const std::unique_ptr<Module> module = original->Clone();
  LoopPolicy policy;
  ASSERT_TRUE(FusionGraph(module->entry(), &policy).Fuse().value());
  EXPECT_EQ(DescribeDifferenceOfResults(*original, *module, {}).value(), "");
  std::vector<int64_t> operands;
  for (const auto& i : module->entry()->instructions()) {
    if (i->Is(Opcode::kFusion)) operands.push_back(i->operand_count());
  }
  EXPECT_THAT(operands, ElementsAre(38, 64));  // 101 parameters, and the first fusion's result
}

// ---- Limits.

// A diamond: the negation reaches the sum through `length` sorts.
std::string Detour(int length) {
  std::string text = "a = f32[4] parameter(0) n = f32[4] negate(a) s0 = f32[4] sort(n), dimensions={0}, to_apply=lt ";
  for (int k = 1; k < length; ++k) {
    absl::StrAppend(&text, "s", k, " = f32[4] sort(s", k - 1, "), dimensions={0}, to_apply=lt ");
  }
  // Two readers that the sorts do not reach: merging with the first of them makes no cycle.
  absl::StrAppend(&text, "x = f32[4] exponential(n) ROOT t = (f32[4], f32[4]) tuple(x, s", length - 1, ")");
  return text;
}

TEST(FusionGraph, GivesUpLongSearches) {
  TestPolicy policy;
  EXPECT_THAT(Fuse(Detour(40), policy), HasSubstr("{negate exponential tuple}"));
  policy.wanted.cycle_search.max_visits = 41;  // 40 sorts and the tuple
  EXPECT_THAT(Fuse(Detour(40), policy), HasSubstr("{negate exponential tuple}"));
  policy.wanted.cycle_search.max_visits = 40;
  EXPECT_THAT(Fuse(Detour(40), policy), testing::Not(HasSubstr("{")));
}

TEST(FusionGraph, BoundsTheWorkOfAllSearches) {
  TestPolicy policy;
  policy.wanted.cycle_search = {.max_visits = 0, .total = 30, .total_per_instruction = 0, .short_search = 8};
  // The exponential comes behind the sorts, all of which the search looks at.
  EXPECT_THAT(Fuse(Detour(40), policy), testing::Not(HasSubstr("{")));
  EXPECT_THAT(Fuse(Detour(20), policy), HasSubstr("{negate exponential tuple}"));
}

TEST(FusionGraph, AsksLittleOfLargePrograms) {
  constexpr int kLength = 50000;
  std::string chain = "a = f32[4] parameter(0) v0 = f32[4] negate(a) ";
  std::string wide = "a = f32[4] parameter(0) x = f32[4] negate(a) ";
  std::vector<std::string> values, shapes;
  for (int k = 1; k <= kLength; ++k) {
    absl::StrAppend(&chain, "v", k, " = f32[4] sine(v", k - 1, ") ");
    absl::StrAppend(&wide, "v", k, " = f32[4] sine(x) ");
    values.push_back(absl::StrCat("v", k));
    shapes.emplace_back("f32[4]");
  }
  absl::StrAppend(&chain, "ROOT r = f32[4] negate(v", kLength, ")");
  absl::StrAppend(&wide, "ROOT t = (", absl::StrJoin(shapes, ","), ") tuple(", absl::StrJoin(values, ","), ")");

  const std::unique_ptr<Module> one = Parse(chain), many = Parse(wide);
  TestPolicy accepts;
  FusionGraph(one->entry(), &accepts).MergeProducers();
  EXPECT_EQ(accepts.judged, kLength + 1);  // once for each producer
  TestPolicy refuses;
  refuses.decision = MergeDecision::kRefuse;
  refuses.wanted.max_targets = 64;
  FusionGraph(many->entry(), &refuses).MergeProducers();
  EXPECT_EQ(refuses.judged, 64);
}

// ---- Paths, against a search of the graph of groups that is written as simply as possible.

bool HasPathSlowly(const FusionGraph& graph, int a, int b, bool around) {
  const int nodes = graph.node_count();
  std::vector<std::set<int>> next(static_cast<size_t>(graph.group_count() + nodes));
  auto unit = [&](int n) { return graph.group_of(n) >= 0 ? graph.group_of(n) : graph.group_count() + n; };
  for (int n = 0; n < nodes; ++n) {
    for (int o : graph.node(n).operands) {
      if (unit(o) != unit(n)) next[static_cast<size_t>(unit(o))].insert(unit(n));
    }
  }
  std::set<int> seen;
  std::vector<int> stack;
  for (int u : next[static_cast<size_t>(a)]) {
    if (!around || u != b) stack.push_back(u);
  }
  while (!stack.empty()) {
    const int u = stack.back();
    stack.pop_back();
    if (u == b) return true;
    if (!seen.insert(u).second) continue;
    stack.insert(stack.end(), next[static_cast<size_t>(u)].begin(), next[static_cast<size_t>(u)].end());
  }
  return false;
}

// Decides by chance.
class RandomPolicy : public TestPolicy {
 public:
  RandomPolicy(uint32_t seed, bool copies) : copies_(copies), random_(seed) {}
  MergeDecision DecideMerge(const FusionGraph&, int, int, bool) const override {
    return random_() % 2 == 0 ? MergeDecision::kAccept : MergeDecision::kRefuse;
  }
  bool ShouldCopyIntoReaders(const FusionGraph&, int, absl::Span<const int>) const override {
    return copies_ && random_() % 2 == 0;
  }
  void Finish(FusionGraph& graph) override {
    for (int k = 0; k < 40 && graph.group_count() > 0; ++k) {
      const int a = static_cast<int>(random_() % static_cast<uint32_t>(graph.group_count()));
      const int b = static_cast<int>(random_() % static_cast<uint32_t>(graph.group_count()));
      if (a == b || graph.group(a).members.empty() || graph.group(b).members.empty()) continue;
      const bool around = graph.HasPathAround(a, b), back = graph.HasPathAround(b, a);
      if (!copies_) {  // the slow search does not look through copies
        EXPECT_EQ(graph.HasPath(a, b), HasPathSlowly(graph, a, b, false));
        EXPECT_EQ(around, HasPathSlowly(graph, a, b, true));
        EXPECT_EQ(back, HasPathSlowly(graph, b, a, true));
        ++compared;
        found += around;
      }
      if (!around && !back) {
        graph.Merge(a, b);
        ++merged;
      }
    }
  }
  int compared = 0, found = 0, merged = 0;

 private:
  const bool copies_;
  mutable std::mt19937 random_;
};

TEST(FusionGraph, FindsPathsAndKeepsResultsOfRandomPrograms) {
  int compared = 0, found = 0, merged = 0, fused = 0;
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    const std::unique_ptr<Module> original = MakeRandomArrayProgram(seed), module = original->Clone();
    RandomPolicy policy(seed, seed % 3 == 0);
    if (seed % 3 == 0) policy.copied = {Opcode::kConstant, Opcode::kBroadcast};
    policy.wanted.merge_equal_members = seed % 2 == 0;
    policy.wanted.keep_positions = seed % 4 < 2;
    const absl::StatusOr<bool> changed = FusionGraph(module->entry(), &policy).Fuse();
    ASSERT_TRUE(changed.ok()) << "seed " << seed << ": " << changed.status() << original->ToString();
    ASSERT_TRUE(VerifyModule(*module).ok()) << "seed " << seed << ": " << VerifyModule(*module);
    EXPECT_EQ(DescribeDifferenceOfResults(*original, *module, {}).value_or(""), "")
        << "seed " << seed << module->ToString();
    compared += policy.compared;
    found += policy.found;
    merged += policy.merged;
    fused += *changed;
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(found, 50);
  EXPECT_GT(merged, 100);
  EXPECT_GT(fused, 100);
}

}  // namespace
}  // namespace backplane::compiler
