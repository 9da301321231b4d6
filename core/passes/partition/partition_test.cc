#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/passes/golden.h"
#include "core/passes/partition/custom_partitioning.h"
#include "core/passes/partition/partition_module.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::HasSubstr;

TEST(Golden, PartitionModule) {
  GoldenOptions options;
  options.same_results = false;  // tests/plugin compares the results of multi-device programs
  RunGoldenFile(
      "core/passes/testdata/partition-module.hlo", [] { return std::make_unique<PartitionModule>(); }, options);
}

absl::Status Partition(const std::string& entry, std::vector<std::string>* log = nullptr) {
  auto module = ParseHloModule("HloModule m, num_partitions=4\n\nENTRY e {\n" + entry + "\n}\n");
  if (!module.ok()) return module.status();
  PartitionOptions options;
  options.log = log;
  return PartitionModule(options).Run(module->get()).status();
}

TEST(PartitionModule, RejectsBadShardings) {
  EXPECT_THAT(std::string(Partition("ROOT x = f32[8] parameter(0), sharding={devices=[8]<=[8]}").message()),
              HasSubstr("x: sharding {devices=[8]<=[8]} of f32[8] on 4 partitions: names 8 devices"));
  EXPECT_THAT(
      std::string(
          Partition("x = f32[8] parameter(0)\n"
                    "s = f32[8] custom-call(x), custom_call_target=\"Sharding\", sharding={devices=[4]<=[4]}\n"
                    "ROOT y = f32[4] custom-call(s), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}")
              .message()),
      HasSubstr("y: dimension 0 of f32[8] is 4 in the manual region"));
}

std::unique_ptr<Module> ParseAndPartition(const std::string& text) {
  auto module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return nullptr;
  const absl::Status s = PartitionModule().Run(module->get()).status();
  EXPECT_TRUE(s.ok()) << s;
  if (!s.ok()) return nullptr;
  EXPECT_TRUE(VerifyModule(**module).ok()) << VerifyModule(**module) << (*module)->ToString();
  return *std::move(module);
}

TEST(PartitionModule, RejectsTooManyPartitions) {
  absl::StatusOr<std::unique_ptr<Module>> m =
      ParseHloModule("HloModule m, num_partitions=1048576\nENTRY e {\n  ROOT p = f32[4] parameter(0)\n}\n");
  ASSERT_TRUE(m.ok()) << m.status();
  const absl::Status s = PartitionModule().Run(m->get()).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(s.message()), HasSubstr("at most 65536 are supported [partition_count]"));
}

// Offsets that exceed 32 bits use s64.
TEST(PartitionModule, UsesWideOffsetsForLargeArrays) {
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
ENTRY e {
  p = s8[8589934592,2] parameter(0), sharding={replicated}
  ROOT r = s8[8589934592,2] copy(p), sharding={devices=[4,1]<=[4]}
})");
  ASSERT_NE(module, nullptr);
  const std::string text = module->ToString();
  EXPECT_THAT(text, HasSubstr("s64[4] constant({0, 2147483648, 4294967296, 6442450944})"));
  EXPECT_TRUE(VerifyModule(*module).ok()) << VerifyModule(*module) << text;
}

// All shards have the same size. A dimension of size one that is split exists on one partition only.
TEST(PartitionModule, PadsUnevenShards) {
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
ENTRY e {
  x = f32[10,8] parameter(0), sharding={devices=[4,1]<=[4]}
  one = f32[1] parameter(1), sharding={devices=[4]<=[4]}
  y = f32[10,8] negate(x)
  z = f32[10,8] custom-call(y), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}
  w = f32[1] custom-call(one), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  ROOT r = (f32[10,8], f32[10,8], f32[1]) tuple(y, z, w), sharding={{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}, {devices=[4]<=[4]}}
})");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->parameter(0)->shape().ToString(), "f32[3,8]");
  EXPECT_EQ(module->entry()->parameter(1)->shape().ToString(), "f32[1]");
  EXPECT_EQ(module->entry()->root()->shape().ToString(), "(f32[3,8], f32[10,2], f32[1])");
  const auto& attributes = module->config().frontend_attributes;
  EXPECT_EQ(attributes.at(kParameterShardingsAttribute), "{{devices=[4,1]<=[4]}, {devices=[4]<=[4]}}");
  EXPECT_EQ(attributes.at(kResultShardingsAttribute),
            "{{devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}, {devices=[4]<=[4]}}");
}

// The sharding of a result lists the leaves, also those of a tuple in the tuple. Leaves of inner tuples are replicated.
TEST(PartitionModule, ReadsShardingsOfNestedResultsByLeaf) {
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}
  y = f32[8,8] negate(x)
  pair = (f32[8,8], f32[8,8]) tuple(x, y)
  z = f32[8,8] abs(x)
  ROOT r = ((f32[8,8], f32[8,8]), f32[8,8]) tuple(pair, z), sharding={{replicated}, {devices=[4,1]<=[4]}, {devices=[1,4]<=[4]}}
})");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->shape().ToString(), "((f32[8,8], f32[8,8]), f32[8,2])");
  EXPECT_EQ(module->config().frontend_attributes.at(kResultShardingsAttribute),
            "{{replicated}, {replicated}, {devices=[1,4]<=[4]}}");
}

// A shard would not know how much of it is used.
TEST(PartitionModule, KeepsArraysOfDynamicSizeWhole) {
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  p = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  n = s32[] parameter(1), sharding={replicated}
  z = f32[] constant(0)
  d = f32[<=8] set-dimension-size(p, n), dimensions={0}
  s = f32[<=8] custom-call(d), custom_call_target="Sharding", sharding={devices=[2]<=[2]}
  q = f32[<=8] multiply(s, p)
  ROOT r = f32[] reduce(q, z), dimensions={0}, to_apply=add
})");
  ASSERT_NE(module, nullptr);
  EXPECT_THAT(module->ToString(), HasSubstr("f32[<=8] multiply("));
  EXPECT_THAT(module->ToString(), testing::Not(HasSubstr("f32[4] multiply(")));
}

int64_t CountOps(const Computation* c, Opcode opcode) {
  int64_t n = 0;
  for (const auto& i : c->instructions()) n += i->Is(opcode);
  return n;
}

// Accumulates gradients over microbatches: each iteration adds partial sums.
constexpr char kPartialSumsInLoop[] = R"(
HloModule m, num_partitions=2
cond {
  s = (s32[], f32[4,4], f32[2,2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT l = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4,4], f32[2,2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  g = f32[4,4] get-tuple-element(s), index=1
  xs = f32[2,2,4] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  slice = f32[1,2,4] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,2,4}
  x = f32[2,4] reshape(slice)
  d = f32[4,4] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  p = f32[4,4] custom-call(d), custom_call_target="Sharding", sharding={devices=[1,1,2]<=[2] last_tile_dims={unreduced}}
  sum = f32[4,4] add(g, p)
  keep = f32[4,4] custom-call(sum), custom_call_target="Sharding", sharding={devices=[1,1,2]<=[2] last_tile_dims={unreduced}}
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[4,4], f32[2,2,4]) tuple(next, YIELDED, xs)
}
ENTRY e {
  xs = f32[2,2,4] parameter(0), sharding={devices=[1,2,1]<=[2]}
  zero = s32[] constant(0)
  nothing = f32[] constant(0)
  none = f32[4,4] broadcast(nothing), dimensions={}
  g = f32[4,4] custom-call(none), custom_call_target="Sharding", sharding={devices=[1,1,2]<=[2] last_tile_dims={unreduced}}
  init = (s32[], f32[4,4], f32[2,2,4]) tuple(zero, g, xs)
  w = (s32[], f32[4,4], f32[2,2,4]) while(init), condition=cond, body=body
  r = f32[4,4] get-tuple-element(w), index=1
  ROOT n = f32[4,4] negate(r)
})";

TEST(PartitionModule, ReducesAfterLoop) {
  for (const char* yielded : {"keep", "sum"}) {
    auto module = ParseAndPartition(absl::StrReplaceAll(kPartialSumsInLoop, {{"YIELDED", yielded}}));
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(CountOps(module->entry(), Opcode::kAllReduce), 1) << module->ToString();
    int64_t all_reduces_in_loop = 0;
    for (const Computation* c : module->PostOrder())
      all_reduces_in_loop += c->IsEntry() ? 0 : CountOps(c, Opcode::kAllReduce);
    EXPECT_EQ(all_reduces_in_loop, 0) << module->ToString();
  }
}

// Gradients of stacked layers: an inner loop writes the partial sums of each layer into an array that begins as zeros,
// and an outer loop adds these arrays.
constexpr char kPartialSumsInNestedLoops[] = R"(
HloModule m, num_partitions=2
cond2 {
  s = (s32[], f32[2,4,4], f32[2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT l = pred[] compare(i, n), direction=LT
}
cond3 {
  s = (s32[], f32[2,4,4], f32[3,2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}
inner {
  s = (s32[], f32[2,4,4], f32[2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  gs = f32[2,4,4] get-tuple-element(s), index=1
  x = f32[2,4] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  d = f32[4,4] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  p = f32[4,4] custom-call(d), custom_call_target="Sharding", sharding={devices=[1,1,2]<=[2] last_tile_dims={unreduced}}
  turned = f32[4,4] transpose(p), dimensions={1,0}
  row = f32[1,4,4] reshape(WRITTEN)
  all = f32[2,4,4] dynamic-update-slice(gs, row, i, zero, zero)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[2,4] sine(x)
  ROOT t = (s32[], f32[2,4,4], f32[2,4]) tuple(next, all, y)
}
outer {
  s = (s32[], f32[2,4,4], f32[3,2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  g = f32[2,4,4] get-tuple-element(s), index=1
  xs = f32[3,2,4] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  slice = f32[1,2,4] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,2,4}
  x = f32[2,4] reshape(slice)
  nothing = f32[] constant(0)
  none = f32[2,4,4] broadcast(nothing), dimensions={}
  init = (s32[], f32[2,4,4], f32[2,4]) tuple(zero, none, x)
  w = (s32[], f32[2,4,4], f32[2,4]) while(init), condition=cond2, body=inner
  gs = f32[2,4,4] get-tuple-element(w), index=1
  sum = f32[2,4,4] add(g, gs)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[2,4,4], f32[3,2,4]) tuple(next, sum, xs)
}
ENTRY e {
  xs = f32[3,2,4] parameter(0), sharding={devices=[1,2,1]<=[2]}
  zero = s32[] constant(0)
  nothing = f32[] constant(0)
  none = f32[2,4,4] broadcast(nothing), dimensions={}
  init = (s32[], f32[2,4,4], f32[3,2,4]) tuple(zero, none, xs)
  w = (s32[], f32[2,4,4], f32[3,2,4]) while(init), condition=cond3, body=outer
  r = f32[2,4,4] get-tuple-element(w), index=1
  ROOT n = f32[2,4,4] cosine(r)
})";

TEST(PartitionModule, ReducesAfterNestedLoops) {
  for (const auto& [written, in_entry, in_loops] :
       {std::tuple{"turned", 1, 0}, {"p", 1, 0}, {"cosine", 0, 1}}) {  // a cosine needs the sum
    std::string text = absl::StrReplaceAll(
        kPartialSumsInNestedLoops,
        {{"WRITTEN)", absl::StrCat(written, ")")}, {"  row =", "  cosine = f32[4,4] cosine(p)\n  row ="}});
    // A host may add the dimension by a reshape or by a broadcast.
    for (const std::string& form :
         {text, absl::StrReplaceAll(text, {{absl::StrCat("reshape(", written, ")"),
                                            absl::StrCat("broadcast(", written, "), dimensions={1,2}")}})}) {
      auto module = ParseAndPartition(form);
      ASSERT_NE(module, nullptr);
      EXPECT_EQ(CountOps(module->entry(), Opcode::kAllReduce), in_entry) << module->ToString();
      int64_t all_reduces_in_loops = 0;
      for (const Computation* c : module->PostOrder())
        all_reduces_in_loops += c->IsEntry() ? 0 : CountOps(c, Opcode::kAllReduce);
      EXPECT_EQ(all_reduces_in_loops, in_loops) << module->ToString();
    }
  }
}

// Sums of sums: each value is searched once, not once for each way to it.
TEST(PartitionModule, SearchesSharedSummandsOnce) {
  std::string chain = "  s0 = f32[4,4] multiply(d, d)\n";
  for (int i = 1; i <= 60; ++i) absl::StrAppend(&chain, "  s", i, " = f32[4,4] add(s", i - 1, ", s", i - 1, ")\n");
  std::string text =
      absl::StrReplaceAll(kPartialSumsInLoop, {{"YIELDED", "s60"}, {"  one = s32", chain + "  one = s32"}});
  text = absl::StrReplaceAll(text, {{"tuple(zero, g, xs)", "tuple(zero, none, xs)"}});
  ASSERT_NE(ParseAndPartition(text), nullptr);
}

// A partial value that is doubled again and again: its partial sums are doubled, and they are searched once for each of
// the values.
TEST(PartitionModule, SearchesSharedPartialValuesOnce) {
  std::string chain = "  s0 = f32[4,4] transpose(p), dimensions={1,0}\n";
  for (int i = 1; i <= 60; ++i) absl::StrAppend(&chain, "  s", i, " = f32[4,4] add(s", i - 1, ", s", i - 1, ")\n");
  auto module = ParseAndPartition(
      absl::StrReplaceAll(kPartialSumsInNestedLoops, {{"WRITTEN)", "s60)"}, {"  row =", chain + "  row ="}}));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(CountOps(module->entry(), Opcode::kAllReduce), 1) << module->ToString();
}

// A factor that may be infinite: a partition whose partial sum is 0 would compute 0 * inf, unless the program asks for
// that by an annotation of the product.
TEST(PartitionModule, MultipliesPartialSumsByFiniteFactorsOnly) {
  const std::string kUnreduced =
      ", custom_call_target=\"Sharding\", sharding={devices=[1,1,2]<=[2] last_tile_dims={unreduced}}\n";
  for (const auto& [factor, annotated, in_entry] : {std::tuple{"constant(0.25)", false, 1},
                                                    {"constant(inf)", false, 0},
                                                    {"convert(i)", false, 0},
                                                    {"convert(i)", true, 1}}) {
    const std::string product =
        absl::StrCat("  factor = f32[] ", factor, "\n  factors = f32[4,4] broadcast(factor), dimensions={}\n",
                     "  product = f32[4,4] multiply(p, factors)\n  asked = f32[4,4] ",
                     annotated ? absl::StrCat("custom-call(product)", kUnreduced) : "negate(product)\n",
                     "  both = f32[4,4] add(asked, p)\n");
    auto module = ParseAndPartition(
        absl::StrReplaceAll(kPartialSumsInNestedLoops, {{"WRITTEN)", "both)"}, {"  row =", product + "  row ="}}));
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(CountOps(module->entry(), Opcode::kAllReduce), in_entry) << factor << "\n" << module->ToString();
  }
}

// Each line works on dimension 0 or 1 only. Split along the other one, it needs no communication.
TEST(PartitionModule, SplitsAlongDimensionsThatAnOperationLeavesAlone) {
  for (const auto& [worked_on, operation] : std::vector<std::pair<int, const char*>>{
           {0, "f32[3,8] slice(x), slice={[1:7:2], [0:8]}"},
           {1, "f32[8,12] pad(x, zero), padding=0_0x1_3"},
           {0, "f32[8,8] reverse(x), dimensions={0}"},
           {1, "f32[8,8] reverse(x), dimensions={1}"},
           {1, "f32[8,2] dynamic-slice(x, start, start), dynamic_slice_sizes={8,2}"},
           {0, "f32[8,8] dynamic-update-slice(x, row, start, start)"},
           {0, "f32[7,8] reduce-window(x, zero), window={size=2x1}, to_apply=sum"},
           {1, "f32[8,16] concatenate(x, x), dimensions={1}"},
           {0, "f32[8,8] sort(x), dimensions={0}, to_apply=less"},
           {-1, "f32[8,8] select(p, x, x)"},
           {-1, "f32[8,8] clamp(zero, x, zero)"},
       }) {
    for (int split : {0, 1}) {
      auto module = ParseAndPartition(absl::StrCat(R"(
HloModule m, num_partitions=4
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=)",
                                                   split == 0 ? "[4,1]" : "[1,4]", R"(<=[4]}
  row = f32[1,8] parameter(1), sharding={replicated}
  start = s32[] parameter(2), sharding={replicated}
  p = pred[] parameter(3), sharding={replicated}
  zero = f32[] constant(0)
  ROOT r = )",
                                                   operation, "\n}\n"));
      ASSERT_NE(module, nullptr);
      bool communicates = false;
      for (const auto& i : module->entry()->instructions()) communicates |= i->info().Has(kCollective);
      EXPECT_EQ(communicates, split == worked_on) << module->ToString();
    }
  }
}

// Each matrix or row is worked on as a whole, so the batch may be split.
TEST(PartitionModule, SplitsBatchesOfTransformsAndFactorizations) {
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,4,4] parameter(0), sharding={devices=[4,1,1]<=[4]}
  l = f32[8,4,4] cholesky(x), lower=true
  y = f32[8,4,4] triangular-solve(l, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  ROOT f = c64[8,4,3] fft(y), fft_type=RFFT, fft_length={4}
})");
  ASSERT_NE(module, nullptr);
  for (const auto& i : module->entry()->instructions())
    EXPECT_FALSE(i->info().Has(kCollective) && !i->users().empty()) << module->ToString();
  EXPECT_EQ(module->entry()->root()->shape().dimensions(0), 2) << module->ToString();
}

TEST(PartitionModule, SplitsOperationsWithSeveralResults) {
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
later {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  is_less = pred[] compare(a, b), direction=LT
  value = f32[] select(is_less, b, a)
  index = s32[] select(is_less, j, i)
  ROOT t = (f32[], s32[]) tuple(value, index)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[8,16] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  r = (f32[8], s32[8]) reduce(x, i, low, zero), dimensions={1}, to_apply=later
  s = (f32[8,16], s32[8,16]) sort(x, i), dimensions={1}, to_apply=less
  k = (f32[8,3], s32[8,3]) topk(x), k=3, largest=true
  argmax = s32[8] get-tuple-element(r), index=1
  order = s32[8,16] get-tuple-element(s), index=1
  best = f32[8,3] get-tuple-element(k), index=0
  ROOT t = (s32[8], s32[8,16], f32[8,3]) tuple(argmax, order, best)
})");
  ASSERT_NE(module, nullptr);
  for (const auto& i : module->entry()->instructions())
    EXPECT_FALSE(i->info().Has(kCollective) && !i->users().empty()) << module->ToString();
  for (const Instruction* result : module->entry()->root()->operands())
    EXPECT_EQ(result->shape().dimensions(0), 2) << module->ToString();
}

// The dimensions of a product, or of the rows that a gather finds, mean something else than those of the operands, even
// if their sizes are equal. A result with a dynamic size would lose it.
TEST(PartitionModule, KeepsTilesOfResultsOnlyAlongTheDimensionsOfTheOperand) {
  for (const char* result : {
           "f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
           "f32[8,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
           "slice_sizes={1,8}",
           "f32[<=8,8] set-dimension-size(x, n), dimensions={0}",
       }) {
    auto module = ParseAndPartition(absl::StrReplaceAll(R"(
HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[8,1] parameter(1)
  n = s32[] parameter(2)
  ROOT r = RESULT
})",
                                                        {{"RESULT", result}}));
    ASSERT_NE(module, nullptr) << result;
    EXPECT_EQ(module->entry()->root()->shape().dimensions(0), 8) << module->ToString();
    EXPECT_EQ(module->entry()->root()->shape().dimensions(1), 8) << module->ToString();
  }
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[4,1]<=[4]}
  low = f32[] constant(-inf)
  ROOT r = f32[8,8] reduce-window(x, low), window={size=8x1 pad=7_0x0_0}, to_apply=max
})");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->shape().dimensions(0), 2) << module->ToString();
}

// The operand with the most tiles along the dimensions that may be split decides.
TEST(PartitionModule, SplitsLikeTheOperandThatCanBeSplit) {
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[4,4] parameter(0), sharding={devices=[1,4]<=[4]}
  y = f32[4,4] parameter(1), sharding={devices=[4,1]<=[4]}
  s = (f32[4,4], f32[4,4]) sort(x, y), dimensions={1}, to_apply=less
  ROOT r = f32[4,4] get-tuple-element(s), index=1
})");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->shape().dimensions(0), 1) << module->ToString();
}

// p * (p * v): the inner product, which nobody has asked for, is reduced. Two partial factors would give the sum of the
// products and not the product of the sums.
TEST(PartitionModule, MultipliesOnlyOneFactorByPartialSums) {
  const std::string product =
      "  v = f32[] convert(i)\n  vs = f32[4,4] broadcast(v), dimensions={}\n  b = f32[4,4] multiply(p, vs)\n"
      "  pb = f32[4,4] multiply(p, b)\n  asked = f32[4,4] custom-call(pb), custom_call_target=\"Sharding\", "
      "sharding={devices=[1,1,2]<=[2] last_tile_dims={unreduced}}\n";
  auto module = ParseAndPartition(
      absl::StrReplaceAll(kPartialSumsInNestedLoops, {{"WRITTEN)", "asked)"}, {"  row =", product + "  row ="}}));
  ASSERT_NE(module, nullptr);
  int64_t all_reduces_in_loops = 0;
  for (const Computation* c : module->PostOrder())
    all_reduces_in_loops += c->IsEntry() ? 0 : CountOps(c, Opcode::kAllReduce);
  EXPECT_EQ(all_reduces_in_loops, 1) << module->ToString();
  EXPECT_EQ(CountOps(module->entry(), Opcode::kAllReduce), 1) << module->ToString();
}

// Rows whose partial sums are split as well are written into an array that cannot be split so.
TEST(PartitionModule, DoesNotSplitUnevenSumsOfSplitSummands) {
  for (const char* width : {"9", "10"}) {
    auto module = ParseAndPartition(absl::StrReplaceAll(R"(
HloModule m, num_partitions=4
cond {
  s = (s32[], f32[4,WIDTH], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4,WIDTH], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  g = f32[4,WIDTH] get-tuple-element(s), index=1
  x = f32[8,8] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  row = f32[1,8] slice(x), slice={[0:1],[0:8]}
  d = f32[1,8] dot(row, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  p = f32[1,8] custom-call(d), custom_call_target="Sharding", sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={unreduced}}
  all = f32[4,WIDTH] dynamic-update-slice(g, p, i, zero)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[4,WIDTH], f32[8,8]) tuple(next, all, x)
}
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[2,2]<=[4]}
  zero = s32[] constant(0)
  nothing = f32[] constant(0)
  none = f32[4,WIDTH] broadcast(nothing), dimensions={}
  init = (s32[], f32[4,WIDTH], f32[8,8]) tuple(zero, none, x)
  w = (s32[], f32[4,WIDTH], f32[8,8]) while(init), condition=cond, body=body
  r = f32[4,WIDTH] get-tuple-element(w), index=1
  ROOT c = f32[4,WIDTH] cosine(r)
})",
                                                        {{"WIDTH", width}}));
    EXPECT_NE(module, nullptr) << width;
  }
}

// The body yields a value that is not linear in the sum, so it must reduce in each iteration.
TEST(PartitionModule, ReducesInLoopThatNeedsTheSum) {
  auto module = ParseAndPartition(absl::StrReplaceAll(
      kPartialSumsInLoop, {{"YIELDED", "root"}, {"  one = s32", "  root = f32[4,4] cosine(keep)\n  one = s32"}}));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(CountOps(module->entry(), Opcode::kAllReduce), 0) << module->ToString();
  int64_t all_reduces_in_loop = 0;
  for (const Computation* c : module->PostOrder())
    all_reduces_in_loop += c->IsEntry() ? 0 : CountOps(c, Opcode::kAllReduce);
  EXPECT_EQ(all_reduces_in_loop, 1) << module->ToString();
}

// Each partition pads the shard that it holds with zeros, which gives partial sums without communication.
TEST(PartitionModule, PadsShardsToPartialSumsLocally) {
  for (const char* sharding :
       {"{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "{devices=[2,2]<=[4]}", "{devices=[2,2]<=[2,2]T(1,0)}"}) {
    auto module = ParseAndPartition(absl::StrReplaceAll(R"(
HloModule m, num_partitions=4
ENTRY e {
  x = s32[8,4] parameter(0), sharding=SHARDING
  ROOT y = s32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[1,1,4]<=[4] last_tile_dims={unreduced}}
})",
                                                        {{"SHARDING", sharding}}));
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(CountOps(module->entry(), Opcode::kAllGather), 0) << module->ToString();
    EXPECT_EQ(CountOps(module->entry(), Opcode::kAllReduce), 0) << module->ToString();
    EXPECT_EQ(CountOps(module->entry(), Opcode::kDynamicUpdateSlice), 1) << module->ToString();
  }
  // Partitions 0 and 1 sum up one half of the rows, partitions 2 and 3 the other half.
  auto module = ParseAndPartition(R"(
HloModule m, num_partitions=4
ENTRY e {
  x = s32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT y = s32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dims={unreduced}}
})");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->shape().ToString(), "s32[4,4]");
  EXPECT_EQ(CountOps(module->entry(), Opcode::kAllGather), 0) << module->ToString();
}

// A gather and a scatter with batching dimensions work on one row per batch element.
TEST(PartitionModule, SplitsBatchedGatherAndScatterLocally) {
  auto module = ParseHloModule(R"(
HloModule m, num_partitions=4

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY e {
  x = f32[8,5] parameter(0), sharding={devices=[4,1]<=[4]}
  at = s32[8,1] parameter(1)
  found = f32[8] gather(x, at), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}
  twice = f32[8] add(found, found)
  ROOT r = f32[8,5] scatter(x, at, twice), update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1, to_apply=sum
})");
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<std::string> log;
  PartitionOptions options;
  options.log = &log;
  ASSERT_TRUE(PartitionModule(options).Run(module->get()).ok());
  EXPECT_THAT(log, testing::IsEmpty());
  EXPECT_EQ((*module)->entry()->root()->shape().ToString(), "f32[2,5]");
}

// Each partition scatters its own updates; an all-reduce combines the results.
TEST(PartitionModule, SplitsScatterByUpdates) {
  const std::string text = R"(
HloModule m, num_partitions=4

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY e {
  x = f32[5] parameter(0)
  at = s32[8,1] parameter(1), sharding={devices=[4,1]<=[4]}
  u = f32[8] parameter(2), sharding={devices=[4]<=[4]}
  ROOT r = f32[5] scatter(x, at, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
})";
  auto module = ParseHloModule(text);
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<std::string> log;
  PartitionOptions options;
  options.log = &log;
  ASSERT_TRUE(PartitionModule(options).Run(module->get()).ok());
  EXPECT_THAT(log, testing::ElementsAre(HasSubstr("all-reduce of f32[5]")));
  // The operand is added once, not on each partition.
  const Instruction* root = (*module)->entry()->root();
  ASSERT_EQ(root->opcode(), Opcode::kAdd);
  EXPECT_EQ(root->operand(0)->opcode(), Opcode::kParameter);
  const Instruction* own = root->operand(1)->operand(0);
  ASSERT_EQ(own->opcode(), Opcode::kScatter);
  EXPECT_EQ(own->operand(1)->shape().ToString(), "s32[2,1]");
  EXPECT_EQ(own->operand(0)->opcode(), Opcode::kBroadcast);
  // A zero operand may be added on every partition, so no extra add is needed.
  std::string zeros = text;
  const std::string parameter = "x = f32[5] parameter(0)";
  zeros.replace(zeros.find(parameter), parameter.size(),
                "zero = f32[] constant(0)\n  z = f32[5] broadcast(zero), dimensions={}\n"
                "  x = f32[5] custom-call(z), custom_call_target=\"Sharding\", sharding={replicated}");
  zeros.replace(zeros.find("s32[8,1] parameter(1)"), 21, "s32[8,1] parameter(0)");
  zeros.replace(zeros.find("f32[8] parameter(2)"), 19, "f32[8] parameter(1)");
  module = ParseHloModule(zeros);
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_TRUE(PartitionModule(options).Run(module->get()).ok());
  EXPECT_EQ((*module)->entry()->root()->opcode(), Opcode::kAllReduce);
  // If the operand is much larger than the updates, the updates are gathered.
  log.clear();
  std::string large = text;
  for (size_t k = large.find("f32[5]"); k != std::string::npos; k = large.find("f32[5]", k))
    large.replace(k, 6, "f32[50]");
  module = ParseHloModule(large);
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_TRUE(PartitionModule(options).Run(module->get()).ok());
  EXPECT_THAT(log, testing::Each(HasSubstr("all-gather")));
}

TEST(PartitionModule, RejectsHostCallsWithoutRegistration) {
  for (const char* target : {"InspectSharding", "CustomSPMDPartitioning"}) {
    std::string text = "x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n";
    text += "ROOT y = f32[8] custom-call(x), custom_call_target=\"" + std::string(target) + "\"";
    const absl::Status s = Partition(text);
    EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(s.message()), HasSubstr(std::string("y: custom call '") + target));
  }
}

TEST(ShardingRule, Parses) {
  std::optional<ShardingRule> rule = ParseShardingRule(
      "#sdy.op_sharding_rule<([i, jk], [])->([k, z_1z_12]) {i=2, j=4, k=8} need_replication={k}, custom>");
  ASSERT_TRUE(rule);
  EXPECT_THAT(rule->operands, testing::ElementsAre(Ints{0, 1}, Ints{}));
  EXPECT_THAT(rule->results, testing::ElementsAre(Ints{-1, 18}));
  for (const char* text :
       {"", "#sdy.op_sharding_rule<", "#sdy.op_sharding_rule<([i])", "#sdy.op_sharding_rule<([a])->([i])>",
        "#sdy.op_sharding_rule<([i])->([i]) need_replication={", "#sdy.op_sharding_rule<([z_])->()>"}) {
    EXPECT_FALSE(ParseShardingRule(text)) << text;
  }
}

// A host callback that splits its operand by rows. Its second result is the sum of the rows.
std::shared_ptr<CustomPartitioning> MakeRowSplitter(std::string* seen, std::string program) {
  auto host = std::make_shared<CustomPartitioning>();
  host->partition = [seen, program](absl::Span<const CustomPartitioning::Value> operands,
                                    const CustomPartitioning::Value& result,
                                    absl::string_view config) -> absl::StatusOr<CustomPartitioning::PartitionedCall> {
    *seen = absl::StrCat(config, ": ", operands[0].shape.ToString(), " ", operands[0].sharding.ToString(), " -> ",
                         result.shape.ToString(), " ", result.sharding.ToString());
    if (config == "fail") return absl::NotFoundError("no mesh");
    CustomPartitioning::PartitionedCall partitioned;
    auto module = ParseHloModule(program);
    if (!module.ok()) return module.status();
    partitioned.program = *std::move(module);
    partitioned.operands = {*ParseSharding("{devices=[4,1]<=[4]}")};
    partitioned.result = *ParseSharding("{{devices=[4,1]<=[4]}, {replicated}}");
    return partitioned;
  };
  return host;
}

constexpr char kRowSplitterProgram[] = R"(
HloModule host
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
inner {
  x = f32[2,4] parameter(0)
  ROOT n = f32[2,4] negate(x)
}
ENTRY e {
  x = f32[2,4] parameter(0)
  n = f32[2,4] call(x), to_apply=inner
  zero = f32[] constant(0)
  own = f32[4] reduce(n, zero), dimensions={0}, to_apply=sum
  all = f32[4] all-reduce(own), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=sum
  ROOT t = (f32[2,4], f32[4]) tuple(n, all)
})";

std::string MakeCallingProgram(const char* config) {
  return absl::StrCat(
      R"(
HloModule m, num_partitions=4
sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY e {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  other = f32[8,4] all-reduce(x), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=sum
  y = (f32[8,4], f32[4]) custom-call(x), custom_call_target="TestSplit", opaque=")",
      config,
      R"(", frontend_attributes={xla.sdy.sharding_rule="#sdy.op_sharding_rule<([i, j])->([i, j], [j])>"}
  a = f32[8,4] get-tuple-element(y), index=0
  b = f32[4] get-tuple-element(y), index=1
  c = f32[8,4] sine(a)
  ROOT r = (f32[8,4], f32[4]) tuple(c, b)
})");
}

TEST(CustomPartitioning, ReplacesCallByHostProgram) {
  std::string seen;
  RegisterCustomPartitioning("TestSplit", MakeRowSplitter(&seen, kRowSplitterProgram));
  auto module = ParseHloModule(MakeCallingProgram("rows"));
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<std::string> log;
  PartitionOptions options;
  options.log = &log;
  absl::Status ran = PartitionModule(options).Run(module->get()).status();
  ASSERT_TRUE(ran.ok()) << ran;
  // The sharding rule propagates the tiling of the operand to the result.
  EXPECT_EQ(seen, "rows: f32[8,4] {devices=[4,1]<=[4]} -> (f32[8,4], f32[4]) {{devices=[4,1]<=[4]}, {replicated}}");
  EXPECT_THAT(log, testing::IsEmpty());
  EXPECT_EQ((*module)->entry()->root()->shape().ToString(), "(f32[2,4], f32[4])");
  EXPECT_TRUE(VerifyModule(**module).ok());
  std::vector<int64_t> channels;
  for (const auto& i : (*module)->entry()->instructions()) {
    EXPECT_FALSE(i->Is(Opcode::kCustomCall) || i->Is(Opcode::kCall)) << i->ToString();
    if (i->Is(Opcode::kAllReduce)) channels.push_back(i->attrs().GetInt(AttrId::kChannelId));
  }
  EXPECT_EQ(channels.size(), 1u);  // the other all-reduce is dead
  RegisterCustomPartitioning("TestSplit", nullptr);
}

TEST(CustomPartitioning, HandlesCallAsResult) {
  std::string seen;
  RegisterCustomPartitioning("TestSplit", MakeRowSplitter(&seen, kRowSplitterProgram));
  std::string text = MakeCallingProgram("rows");
  const size_t sine = text.find("  c = "), root = text.find("tuple(c, b)");
  text.replace(root, 11, "tuple(a, b)");
  text.erase(sine, text.find('\n', sine) - sine);
  auto module = ParseHloModule(text);
  ASSERT_TRUE(module.ok()) << module.status();
  absl::Status ran = PartitionModule().Run(module->get()).status();
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ((*module)->entry()->root()->shape().ToString(), "(f32[2,4], f32[4])");
  EXPECT_TRUE(VerifyModule(**module).ok());
  const std::string results = (*module)->config().frontend_attributes.at(kResultShardingsAttribute);
  EXPECT_THAT(results, HasSubstr("{devices=[4,1]<=[4]}"));
  EXPECT_THAT(results, HasSubstr("{replicated}"));
  RegisterCustomPartitioning("TestSplit", nullptr);
}

TEST(CustomPartitioning, ChecksAnswerOfHost) {
  std::string seen;
  auto run = [&](std::string program, const char* config = "rows") {
    RegisterCustomPartitioning("TestSplit", MakeRowSplitter(&seen, std::move(program)));
    auto module = ParseHloModule(MakeCallingProgram(config));
    EXPECT_TRUE(module.ok()) << module.status();
    return std::string(PartitionModule().Run(module->get()).status().message());
  };
  EXPECT_THAT(run(kRowSplitterProgram, "fail"), HasSubstr("y: custom call 'TestSplit': no mesh"));
  EXPECT_THAT(run("HloModule h\nENTRY e {\n ROOT x = f32[2,4] parameter(0)\n}\n"), HasSubstr("gives 1 results, not 2"));
  EXPECT_THAT(run("HloModule h\nENTRY e {\n x = f32[8,4] parameter(0)\n ROOT t = (f32[8,4]) tuple(x)\n}\n"),
              HasSubstr("argument 0 of the host's program is f32[8,4], its sharding makes that f32[2,4]"));
  EXPECT_THAT(
      run("HloModule h\nENTRY e {\n x = f32[2,4] parameter(0)\n ROOT t = (f32[2,4], f32[2,4]) tuple(x, x)\n}\n"),
      HasSubstr("result 1 of the host's program is f32[2,4], its sharding makes that f32[4]"));
  EXPECT_THAT(run("HloModule h\nENTRY e {\n ROOT x = f32[] constant(0)\n}\n"), HasSubstr("is not one of 1 arguments"));
  RegisterCustomPartitioning("TestSplit", nullptr);
}

TEST(CustomPartitioning, InspectsShardingOnce) {
  auto host = std::make_shared<CustomPartitioning>();
  std::vector<std::string> reports;
  absl::Status answer;
  host->inspect = [&](const Sharding& sharding, absl::string_view config) {
    reports.push_back(absl::StrCat(config, " ", sharding.ToString()));
    return answer;
  };
  RegisterCustomPartitioning("TestInspect", host);
  // The loop causes a trial run, which must not call the host.
  const char* text = R"(
HloModule m, num_partitions=4
body {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  n1 = s32[] add(n, one)
  v1 = f32[8] sine(v)
  ROOT t = (s32[], f32[8]) tuple(n1, v1)
}
cond {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT c = pred[] compare(n, five), direction=LT
}
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  y = f32[8] negate(x)
  look = f32[8] custom-call(y), custom_call_target="TestInspect", opaque="me", custom_call_has_side_effect=true
  zero = s32[] constant(0)
  t = (s32[], f32[8]) tuple(zero, y)
  w = (s32[], f32[8]) while(t), condition=cond, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
})";
  auto module = ParseHloModule(text);
  ASSERT_TRUE(module.ok()) << module.status();
  absl::Status ran = PartitionModule().Run(module->get()).status();
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(reports, testing::ElementsAre("me {devices=[4]<=[4]}"));
  for (const auto& i : (*module)->entry()->instructions()) EXPECT_FALSE(i->Is(Opcode::kCustomCall)) << i->ToString();
  answer = absl::InternalError("not today");
  module = ParseHloModule(text);
  EXPECT_THAT(std::string(PartitionModule().Run(module->get()).status().message()),
              HasSubstr("look: custom call 'TestInspect': not today"));
  RegisterCustomPartitioning("TestInspect", nullptr);
}

// Only the dimensions of an annotation that divide evenly are split.
TEST(PartitionModule, SplitsOnlyEvenDimsOfAnnotations) {
  auto module = ParseHloModule(R"(
HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,5] parameter(0)
  ROOT s = f32[8,5] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,2]<=[4]}
})");
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_TRUE(PartitionModule().Run(module->get()).ok());
  EXPECT_EQ((*module)->entry()->root()->shape().ToString(), "f32[4,5]");
  EXPECT_EQ((*module)->config().frontend_attributes.at(kResultShardingsAttribute),
            "{{devices=[2,1,2]<=[4] last_tile_dim_replicate}}");
}

TEST(PartitionModule, LogsCollectives) {
  std::vector<std::string> log;
  ASSERT_TRUE(Partition("x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
                        "ROOT y = f32[8] reverse(x), dimensions={0}, metadata={op_name=\"reverse\"}",
                        &log)
                  .ok());
  EXPECT_THAT(absl::StrJoin(log, "\n"), HasSubstr("all-gather of f32[2] of x to f32[8] in groups of 4"));
}

}  // namespace
}  // namespace backplane
