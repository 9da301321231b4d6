#include "plugins/tpu_emulator/program/keep_entry_tiled.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/eval/evaluator.h"
#include "core/relayout/relayout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plugins/tpu_emulator/program/program_testing.h"
#include "plugins/tpu_emulator/program/tile_view.h"

namespace backplane::tpu {
namespace {

// Returns what stays tiled. Checks that the program computes the same bits as before for any contents of the padding.
struct Found {
  std::vector<int64_t> parameters, results;
  std::string text;
};

// The memory of an array, with `fill` in its padding.
Literal WriteToMemory(const Literal& array, const Shape& tiled_shape, uint8_t fill) {
  Literal memory(TileView::Of(tiled_shape)->PhysicalShape(tiled_shape.element_type()));
  std::memset(memory.mutable_bytes(), fill, static_cast<size_t>(memory.byte_size()));
  const absl::StatusOr<Relayout> plan = Relayout::Plan(tiled_shape.WithoutLayout(), tiled_shape);
  EXPECT_TRUE(plan.ok()) << plan.status();
  plan->Run(array.bytes(), memory.mutable_bytes());
  return memory;
}

Literal ReadFromMemory(const Literal& memory, const Shape& tiled_shape) {
  Literal array(tiled_shape.WithoutLayout());
  const absl::StatusOr<Relayout> plan = Relayout::Plan(tiled_shape, tiled_shape.WithoutLayout());
  EXPECT_TRUE(plan.ok()) << plan.status();
  plan->Run(memory.bytes(), array.mutable_bytes());
  return array;
}

Found CheckProgram(absl::string_view hlo) {
  Found found;
  std::unique_ptr<Module> module = ParseProgram(hlo);
  if (module == nullptr) return found;
  const std::vector<Shape> parameters = module->config().parameter_layouts;
  const Shape result = module->config().result_layout;
  std::unique_ptr<Module> tiled = module->Clone();
  KeepEntryTiled(tiled.get(), parameters, result, nullptr);
  EXPECT_TRUE(VerifyModule(*tiled).ok()) << VerifyModule(*tiled) << "\n" << tiled->ToString();
  found.text = tiled->ToString();
  const std::vector<Literal> arguments = RandomArguments(*module, 7);
  std::vector<Shape> results{result}, results_in_program{tiled->entry()->root()->shape()};
  if (result.IsTuple()) {
    results = result.tuple_shapes();
    results_in_program = tiled->entry()->root()->shape().tuple_shapes();
  }
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (IsTiledMemory(tiled->entry()->parameters()[p]->shape(), parameters[p]))
      found.parameters.push_back(static_cast<int64_t>(p));
  }
  for (size_t k = 0; k < results.size(); ++k) {
    if (IsTiledMemory(results_in_program[k], results[k])) found.results.push_back(static_cast<int64_t>(k));
  }
  const absl::StatusOr<Literal> expected = Evaluate(*module, arguments);
  EXPECT_TRUE(expected.ok()) << expected.status();
  for (const uint8_t fill : {0x00, 0xff, 0x5a}) {
    std::vector<Literal> given = arguments;
    for (int64_t p : found.parameters)
      given[static_cast<size_t>(p)] =
          WriteToMemory(given[static_cast<size_t>(p)], parameters[static_cast<size_t>(p)], fill);
    absl::StatusOr<Literal> got = Evaluate(*tiled, given);
    EXPECT_TRUE(got.ok()) << got.status() << "\n" << found.text;
    if (!got.ok() || !expected.ok()) return found;
    for (size_t k = 0; k < results.size(); ++k) {
      Literal value = result.IsTuple() ? got->elements()[k] : *got;
      if (std::count(found.results.begin(), found.results.end(), static_cast<int64_t>(k)) > 0)
        value = ReadFromMemory(value, results[k]);
      const Literal& want = result.IsTuple() ? expected->elements()[k] : *expected;
      EXPECT_TRUE(value == want) << "result " << k << ", padding " << static_cast<int>(fill) << "\n" << found.text;
    }
  }
  return found;
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(KeepEntryTiled, UpdatesACacheInItsTilesAndReadsItByDots) {
  const Found found = CheckProgram(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  cache = f32[256,8,32] parameter(0)
  row = f32[1,8,32] parameter(1)
  at = s32[] parameter(2)
  q = f32[8,32] parameter(3)
  zero = s32[] constant(0)
  new = f32[256,8,32] dynamic-update-slice(cache, row, at, zero, zero)
  score = f32[8,256] dot(q, new), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={1}, rhs_contracting_dims={2}
  mixed = f32[8,32] dot(score, new), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[256,8,32], f32[8,32]) tuple(new, mixed)
})");
  EXPECT_THAT(found.parameters, ElementsAre(0));
  EXPECT_THAT(found.results, ElementsAre(0));
  EXPECT_THAT(found.text, HasSubstr("f32[8,4,2,8,128] dynamic-update-slice"));
  EXPECT_THAT(found.text, Not(HasSubstr("f32[256,8,32] ")));  // never row-major
}

TEST(KeepEntryTiled, ReadsATiledUpdateInRowMajorOrder) {
  const Found found = CheckProgram(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  cache = f32[3,16,256] parameter(0)
  layer = f32[1,16,256] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  new = f32[3,16,256] dynamic-update-slice(cache, layer, at, zero, zero)
  twice = f32[1,16,256] add(layer, layer)
  ROOT out = (f32[3,16,256], f32[1,16,256]) tuple(new, twice)
})");
  EXPECT_THAT(found.parameters, ElementsAre(0, 1));
  EXPECT_THAT(found.results, ElementsAre(0, 1));
}

TEST(KeepEntryTiled, ClampsStartsToTheArray) {
  // 250 rows are padded to 256: a start past the end must not reach the padding. RandomArguments gives -4 to 4.
  for (const char* start : {"-3", "0", "17", "249", "250", "255", "1000"}) {
    const Found found = CheckProgram(absl::StrCat(R"(HloModule m
ENTRY e {
  table = f32[250,160] parameter(0)
  at = s32[] constant()",
                                                  start, R"()
  zero = s32[] constant(0)
  ROOT row = f32[1,160] dynamic-slice(table, at, zero), dynamic_slice_sizes={1,160}
})"));
    EXPECT_THAT(found.parameters, ElementsAre(0)) << start;
  }
  for (const char* start : {"-3", "0", "17", "129", "130", "1000"}) {
    const Found found = CheckProgram(absl::StrCat(R"(HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  table = bf16[130,6,16] parameter(0)
  row = bf16[1,3,16] parameter(1)
  at = s32[] constant()",
                                                  start, R"()
  two = s32[] constant(2)
  zero = s32[] constant(0)
  ROOT new = bf16[130,6,16] dynamic-update-slice(table, row, at, two, zero)
})"));
    EXPECT_THAT(found.parameters, ElementsAre(0)) << start;
    EXPECT_THAT(found.results, ElementsAre(0)) << start;
  }
}

TEST(KeepEntryTiled, WritesATiledArgumentIntoAnother) {
  const Found found = CheckProgram(R"(HloModule m
ENTRY e {
  x = u64[2] parameter(0)
  u = u64[1] parameter(1)
  at = s32[] constant(3)
  new = u64[2] dynamic-update-slice(x, u, at)
  rest = u64[1] remainder(u, u)
  ROOT out = (u64[1], u64[2]) tuple(rest, new)
})");
  EXPECT_THAT(found.parameters, ElementsAre(0, 1));
}

TEST(KeepEntryTiled, RunsChainsOverThePaddingToo) {
  const Found found = CheckProgram(R"(HloModule m
ENTRY e {
  a = f32[5,130] parameter(0)
  b = f32[5,130] parameter(1)
  half = f32[] constant(0.5)
  halves = f32[5,130] broadcast(half), dimensions={}
  c = f32[5,130] multiply(a, halves)
  less = pred[5,130] compare(c, b), direction=LT
  d = f32[5,130] divide(c, b)
  ROOT out = f32[5,130] select(less, d, a)
})");
  EXPECT_THAT(found.parameters, ElementsAre(0, 1));
  EXPECT_THAT(found.results, ElementsAre(0));
  EXPECT_THAT(found.text, Not(HasSubstr("[5,130] ")));
}

TEST(KeepEntryTiled, ReadsOtherValuesIntoUnpaddedChains) {
  const Found found = CheckProgram(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  weights = f32[16,256] parameter(0)
  x = f32[4,16] parameter(1)
  y = f32[4,256] parameter(2)
  bias = f32[256] parameter(3)
  gradient = f32[16,256] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  more = f32[16,256] broadcast(bias), dimensions={1}
  sum = f32[16,256] add(gradient, more)
  new = f32[16,256] subtract(weights, sum)
  forward = f32[4,256] dot(x, weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[16,256], f32[4,256]) tuple(new, forward)
})");
  EXPECT_THAT(found.parameters, ElementsAre(0));
  EXPECT_THAT(found.results, ElementsAre(0));
  EXPECT_THAT(found.text, HasSubstr("f32[2,2,8,128] subtract"));
}

TEST(KeepEntryTiled, ComputesSharedValuesInRowMajorOrder) {
  const Found found = CheckProgram(R"(HloModule m
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
ENTRY e {
  a = f32[24,256] parameter(0)
  zero = f32[] constant(0)
  b = f32[24,256] exponential(a)
  rows = f32[24] reduce(b, zero), dimensions={1}, to_apply=sum
  spread = f32[24,256] broadcast(rows), dimensions={0}
  ROOT out = f32[24,256] divide(b, spread)
})");
  EXPECT_THAT(found.results, ElementsAre());
  EXPECT_THAT(found.parameters, ElementsAre());
}

TEST(KeepEntryTiled, TreatsAliasedArgumentAndResultAlike) {
  // The result could stay tiled, but the argument that it aliases is not one of its operands.
  const Found found = CheckProgram(R"(HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }
ENTRY e {
  a = f32[16,256] parameter(0)
  b = f32[16,256] parameter(1)
  c = f32[16,256] add(a, a)
  d = f32[256,16] transpose(b), dimensions={1,0}
  ROOT out = (f32[16,256], f32[256,16]) tuple(c, d)
})");
  EXPECT_THAT(found.results, ElementsAre());
  EXPECT_THAT(found.parameters, ElementsAre());
}

TEST(KeepEntryTiled, SupportsEveryKindOfReader) {
  // `a` stays tiled for the sum. The transpose and the gather read it in row-major order, the slice and the dot in
  // tiles.
  const Found found = CheckProgram(R"(HloModule m
ENTRY e {
  a = f32[40,256] parameter(0)
  b = f32[40,256] parameter(1)
  at = s32[] parameter(2)
  x = f32[3,40] parameter(3)
  zero = s32[] constant(0)
  sum = f32[40,256] add(a, b)
  transposed = f32[256,40] transpose(a), dimensions={1,0}
  row = f32[1,256] dynamic-slice(a, at, zero), dynamic_slice_sizes={1,256}
  product = f32[3,256] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  both = f32[40,40] dot(a, sum), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT out = (f32[40,256], f32[256,40], f32[1,256], f32[3,256], f32[40,40], f32[40,256]) tuple(sum, transposed, row, product, both, a)
})");
  EXPECT_THAT(found.parameters, ElementsAre(0, 1));
  EXPECT_THAT(found.results, ElementsAre(0));
}

// Applies `line` to the value before it many times, then ends with `end`. Returns the log. In `line`, $v is the value
// and $p the one before it.
std::string KeepLongProgramTiled(int64_t count, absl::string_view head, absl::string_view line, absl::string_view end) {
  std::string text(head), previous = "x", values, types;
  for (int64_t k = 0; k < count; ++k) {
    const std::string value = absl::StrCat("v", k);
    absl::StrAppend(&text, absl::StrReplaceAll(line, {{"$v", value}, {"$p", previous}}));
    absl::StrAppend(&values, k > 0 ? ", " : "", value);
    absl::StrAppend(&types, k > 0 ? ", " : "", "f32[16,256]");
    previous = value;
  }
  absl::StrAppend(&text, absl::StrReplaceAll(end, {{"$p", previous}, {"$values", values}, {"$types", types}}), "}\n");
  std::unique_ptr<Module> module = ParseProgram(text);
  if (module == nullptr) return "";
  const std::vector<Shape> parameters = module->config().parameter_layouts;
  const Shape result = module->config().result_layout;
  std::vector<std::string> log;
  KeepEntryTiled(module.get(), parameters, result, &log);
  EXPECT_TRUE(VerifyModule(*module).ok()) << VerifyModule(*module);
  return log.empty() ? "" : log[0];
}

constexpr char kTwoParameters[] = R"(HloModule m
ENTRY e {
  x = f32[16,256] parameter(0)
  y = f32[16,256] parameter(1)
)";

TEST(KeepEntryTiled, KeepsLongChains) {
  EXPECT_EQ(
      KeepLongProgramTiled(20000, kTwoParameters, "$v = f32[16,256] add($p, y)\n", "ROOT r = f32[16,256] negate($p)\n"),
      "kept tiled: 2 arguments and 1 results");
}

TEST(KeepEntryTiled, KeepsLongChainsOfUpdates) {
  EXPECT_EQ(KeepLongProgramTiled(20000, R"(HloModule m
ENTRY e {
  x = f32[16,256] parameter(0)
  row = f32[1,256] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
)",
                                 "$v = f32[16,256] dynamic-update-slice($p, row, at, zero)\n",
                                 "one = f32[16,256] dynamic-update-slice($p, row, zero, zero)\n"
                                 "ROOT r = (f32[16,256]) tuple(one)\n"),
            "kept tiled: 1 arguments and 1 results");
}

// Each value of a chain is a result, so the chains of the results overlap.
TEST(KeepEntryTiled, KeepsManyResultsOfOneChain) {
  constexpr char kLine[] = "$v = f32[16,256] add($p, y)\n";
  EXPECT_EQ(KeepLongProgramTiled(4000, kTwoParameters, kLine, "ROOT r = ($types) tuple($values)\n"),
            "kept tiled: 2 arguments and 4000 results");
  // The last one has a row-major user. Without it, the one before it has one, and so on.
  EXPECT_EQ(KeepLongProgramTiled(4000, kTwoParameters, kLine,
                                 "t = f32[256,16] transpose($p), dimensions={1,0}\n"
                                 "ROOT r = ($types, f32[256,16]) tuple($values, t)\n"),
            "");
}

// Views and conversions for many types, ranks and sizes.
TEST(TileView, ConvertsBetweenMemoryAndArray) {
  int views = 0;
  for (const PrimitiveType type :
       {PrimitiveType::kF32, PrimitiveType::kBF16, PrimitiveType::kS8, PrimitiveType::kF64}) {
    for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{
             {300}, {3, 1000}, {256, 384}, {5, 130}, {130, 5}, {2, 3, 8, 128}, {256, 8, 32}, {7, 1, 5, 3}, {1, 1}}) {
      auto module = std::make_unique<Module>("m");
      Computation* entry = module->AddComputation("e");
      InstructionSpec spec;
      spec.opcode = Opcode::kParameter;
      spec.shape = Shape(type, dims);
      spec.attrs.Set(AttrId::kParameterNumber, int64_t{0});
      Instruction* p = entry->Add(std::move(spec));
      entry->set_root(p);
      module->set_entry(entry);
      SetDefaultEntryLayouts(module.get());
      const Shape tiled_shape = module->config().parameter_layouts[0];
      const std::optional<TileView> view = TileView::Of(tiled_shape);
      if (!view.has_value()) continue;
      ++views;
      const Literal array = RandomArguments(*module, 3)[0];
      p->mutable_shape() = view->PhysicalShape(type);
      entry->set_root(ReadFromTiles(entry, *view, p));
      ASSERT_TRUE(VerifyModule(*module).ok()) << module->ToString();
      absl::StatusOr<Literal> out = Evaluate(*module, {WriteToMemory(array, tiled_shape, 0xff)});
      ASSERT_TRUE(out.ok()) << out.status();
      EXPECT_TRUE(*out == array) << tiled_shape.ToString(true);
      if (view->HasPadding()) continue;
      entry->set_root(WriteToTiles(entry, *view, entry->root()));
      out = Evaluate(*module, {WriteToMemory(array, tiled_shape, 0xff)});
      ASSERT_TRUE(out.ok()) << out.status();
      EXPECT_TRUE(*out == WriteToMemory(array, tiled_shape, 0)) << tiled_shape.ToString(true);
    }
  }
  EXPECT_GE(views, 25);
}

}  // namespace
}  // namespace backplane::tpu
