// Tests what is generated, on how many devices, and how it is passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/import/export/export.h"
#include "core/import/import.h"
#include "core/text/hlo_parser.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/fuzz/campaign.h"
#include "sdk/cli/fuzz/schedule.h"
#include "sdk/cli/fuzz/shrink.h"

namespace backplane::cli::fuzz {
namespace {

TEST(Generator, MakesEveryOperation) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 700; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed);
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    AddCoverage(*program->module, coverage);
  }
  for (const OpInfo& info : Operations()) {
    const Opcode opcode = info.opcode;
    if (!ExplainNotGenerated(opcode).empty()) continue;
    EXPECT_GT(coverage.count(opcode), 0u) << OpName(opcode);
  }
  // Programs on several devices contain the collectives.
  GeneratorOptions devices;
  devices.devices = 8;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed, devices);
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    if (GetDevices(*program->module).count() > 1) AddCoverage(*program->module, coverage);
  }
  for (const OpInfo& info : Operations()) {
    const Opcode opcode = info.opcode;
    if (!ExplainNotGenerated(opcode, 8).empty()) continue;
    EXPECT_GT(coverage.count(opcode), 0u) << OpName(opcode);
  }
  EXPECT_EQ(ExplainNotGenerated(Opcode::kAllReduce, 8), "");
  // An operation that is not generated must have a reason, and others must not.
  EXPECT_EQ(ExplainNotGenerated(Opcode::kAllReduce), "a collective");
  EXPECT_EQ(ExplainNotGenerated(Opcode::kRng), "a side effect");
  EXPECT_EQ(ExplainNotGenerated(Opcode::kDot), "");
}

TEST(Generator, SameProgramForASeed) {
  for (uint64_t seed : {3, 17, 40}) {
    const absl::StatusOr<FuzzProgram> a = GenerateProgram(seed), b = GenerateProgram(seed),
                                      c = GenerateProgram(seed + 1);
    ASSERT_TRUE(a.ok() && b.ok() && c.ok());
    EXPECT_EQ(PrintModule(*a->module), PrintModule(*b->module));
    EXPECT_EQ(a->arguments, b->arguments);
    EXPECT_NE(PrintModule(*a->module), PrintModule(*c->module));
  }
}

TEST(Generator, ArgumentsInAnyOrder) {
  int64_t dense = 0, ordered = 0, gaps = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed);
    ASSERT_TRUE(program.ok());
    ASSERT_EQ(program->host_orders.size(), program->arguments.size());
    for (size_t i = 0; i < program->arguments.size(); ++i) {
      const HostOrder& order = program->host_orders[i];
      ++(order.minor_to_major.empty() ? dense : ordered);
      gaps += order.gap > 0;
      if (order.minor_to_major.empty()) continue;
      EXPECT_EQ(static_cast<int64_t>(order.minor_to_major.size()), program->arguments[i].shape().rank());
    }
  }
  EXPECT_GT(dense, 0);
  EXPECT_GT(ordered, 0);
  EXPECT_GT(gaps, 0);
}

TEST(Generator, HandlesArgumentsInManyWays) {
  int64_t ordered = 0, aliased = 0, given = 0, kept = 0, tiles = 0, several = 0;
  GeneratorOptions options;
  options.devices = 4;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed, options);
    ASSERT_TRUE(program.ok());
    const ModuleConfig& config = program->module->config();
    for (const Shape& shape : config.parameter_layouts) ordered += !shape.layout().IsRowMajor();
    aliased += static_cast<int64_t>(config.input_output_aliases.size());
    given += static_cast<int64_t>(config.buffer_donors.size());
    several += GetDevices(*program->module).count() > 1;
    for (const HostOrder& order : program->host_orders) {
      kept += order.kept;
      tiles += !order.tile.empty();
    }
  }
  for (const int64_t count : {ordered, aliased, given, kept, tiles, several}) EXPECT_GT(count, 3);
}

// Two replicas of two partitions, each device with its own number.
std::vector<int64_t> OnDevices(const std::string& collective, int64_t replicas, int64_t partitions) {
  const std::string text = absl::StrCat(R"(HloModule m, replica_count=)", replicas, ", num_partitions=", partitions, R"(
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT s = s32[] add(a, b) }
ENTRY e { r = u32[] replica-id() p = u32[] partition-id() ten = u32[] constant(10) t = u32[] multiply(r, ten)
  n = u32[] add(t, p) c = s32[] convert(n) x = s32[1] reshape(c) )",
                                        collective, " }");
  const absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(text);
  EXPECT_TRUE(module.ok()) << module.status();
  std::vector<int64_t> found;
  if (!module.ok()) return found;
  const absl::StatusOr<BoundedValue> result = BoundEntry(**module, {});
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return found;
  for (const BoundedValue* leaf : Leaves(*result)) {
    for (int64_t i = 0; i < leaf->value.num_elements(); ++i) found.push_back(leaf->value.GetAsInt(i));
  }
  return found;
}

// The examples of process groups in the StableHLO specification, computed by hand: devices 00, 01, 10, 11.
TEST(Devices, GroupsOfEveryMode) {
  using testing::ElementsAre;
  const std::string gather = "ROOT g = s32[2] all-gather(x), dimensions={0}, ";
  EXPECT_THAT(OnDevices(gather + "replica_groups={{1,0}}", 2, 2), ElementsAre(10, 0, 11, 1, 10, 0, 11, 1));
  EXPECT_THAT(OnDevices(gather + "channel_id=1, use_global_device_ids=true, replica_groups={{0,3},{2,1}}", 2, 2),
              ElementsAre(0, 11, 10, 1, 10, 1, 0, 11));
  EXPECT_THAT(OnDevices("ROOT g = s32[4] all-gather(x), dimensions={0}, channel_id=1, replica_groups={{1,0}}", 2, 2),
              ElementsAre(10, 0, 11, 1, 10, 0, 11, 1, 10, 0, 11, 1, 10, 0, 11, 1));
  EXPECT_THAT(OnDevices("ROOT g = s32[1] all-reduce(x), to_apply=add, replica_groups={}", 2, 2),
              ElementsAre(10, 12, 10, 12));
  EXPECT_THAT(OnDevices("ROOT g = s32[1] collective-broadcast(x), channel_id=1, replica_groups={{1,0}}", 2, 2),
              ElementsAre(1, 1, 11, 11));
  EXPECT_THAT(OnDevices("ROOT g = s32[1] collective-permute(x), channel_id=1, source_target_pairs={{0,1}}", 2, 2),
              ElementsAre(0, 0, 0, 10));
  EXPECT_THAT(OnDevices("ROOT g = s32[1] collective-permute(x), source_target_pairs={{0,1}}", 2, 2),
              ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(OnDevices("c2 = s32[2] concatenate(x, x), dimensions={0} ROOT g = s32[1] reduce-scatter(c2), "
                        "dimensions={0}, to_apply=add, replica_groups={{0,1}}",
                        2, 1),
              ElementsAre(10, 10));
  EXPECT_THAT(OnDevices("i = s32[2] iota(), iota_dimension=0 w = s32[2] broadcast(c), dimensions={} "
                        "s = s32[2] add(i, w) ROOT g = s32[2] all-to-all(s), dimensions={0}, replica_groups={{1,0}}",
                        2, 1),
              ElementsAre(11, 1, 10, 0));
  EXPECT_THAT(
      OnDevices("y = s32[1] negate(x) ROOT g = (s32[1], s32[1]) all-to-all(x, y), replica_groups={{1,0}}", 2, 1),
      ElementsAre(-10, 0, 10, 0));
}

// Whether the text, imported and evaluated, gives the meaning of the program.
bool MeansTheSame(const FuzzProgram& program, const std::string& text) {
  const absl::StatusOr<BoundedValue> meant = EvaluateMeaning(program);
  const absl::StatusOr<std::unique_ptr<Module>> read = ImportStablehlo(text);
  EXPECT_TRUE(meant.ok() && read.ok()) << read.status() << text;
  if (!meant.ok() || !read.ok()) return false;
  FuzzProgram other;
  other.module = (*read)->Clone();
  other.arguments = program.arguments;
  return !CompareResults(*meant, MakeEvaluatorRunner("evaluator")->Run(other, Form::kHlo).results).has_value();
}

// A group of all devices, written out where StableHLO takes the number of blocks from it: replicas, or partitions with
// a channel.
TEST(Devices, ExchangeOfAllIsWrittenOut) {
  for (const bool channel : {false, true}) {
    const absl::StatusOr<std::unique_ptr<Module>> module =
        ParseHloModule(absl::StrCat("HloModule m, replica_count=2, num_partitions=4\nENTRY e { x = f32[8] parameter(0) "
                                    "ROOT r = f32[8] all-to-all(x), ",
                                    channel ? "channel_id=1, " : "", "replica_groups={}, dimensions={0} }"));
    ASSERT_TRUE(module.ok()) << module.status();
    const absl::StatusOr<std::string> text = ExportStablehloText(**module);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, testing::HasSubstr(channel ? "dense<[[0, 1, 2, 3]]>" : "dense<[[0, 1]]>"));
    EXPECT_THAT(*text, testing::HasSubstr(channel ? "split_count = 4" : "split_count = 2"));
    EXPECT_TRUE(ImportStablehlo(*text).ok()) << *text;
  }
}

// The importer's result for quantized types agrees with the formulas; with a wrong scale it does not.
TEST(Quantized, TextMeansWhatTheFormulasSay) {
  GeneratorOptions options;
  options.quantized = options.portable = true;
  options.in_flight = 0;
  int functions = 0, found = 0;
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed, options);
    ASSERT_TRUE(program.ok());
    if (program->quantized.empty()) continue;
    const absl::StatusOr<std::string> text = ExportQuantized(*program->module, program->quantized);
    ASSERT_TRUE(text.ok()) << seed << text.status();
    if (!absl::StrContains(*text, "!quant.uniform")) continue;
    ++functions;
    EXPECT_TRUE(MeansTheSame(*program, *text)) << seed << *text;
    FuzzProgram wrong;
    wrong.quantized = program->quantized;
    for (auto& [name, function] : wrong.quantized) {
      for (Quantization& argument : function.arguments) argument.scale *= 4;
    }
    const absl::StatusOr<std::string> other = ExportQuantized(*program->module, wrong.quantized);
    ASSERT_TRUE(other.ok());
    found += !MeansTheSame(*program, *other);
  }
  EXPECT_GT(functions, 20);
  EXPECT_GT(found, functions / 3);
}

TEST(HostOrder, LaysElementsOut) {
  const std::byte dense[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}, std::byte{6}};
  const StridedMemory columns = WriteInOrder(dense, {2, 3}, 1, {{0, 1}, 0});
  EXPECT_THAT(columns.byte_strides, testing::ElementsAre(1, 2));
  EXPECT_THAT(columns.bytes,
              testing::ElementsAre(std::byte{1}, std::byte{4}, std::byte{2}, std::byte{5}, std::byte{3}, std::byte{6}));
  const StridedMemory gaps = WriteInOrder(dense, {3}, 2, {{0}, 1});
  EXPECT_THAT(gaps.byte_strides, testing::ElementsAre(4));
  EXPECT_EQ(gaps.bytes[4], std::byte{3});
  EXPECT_EQ(gaps.bytes[9], std::byte{6});
}

// Computations with several callers, loops that share a body, state of every kind.
TEST(Generator, StructuredPrograms) {
  GeneratorOptions options;
  options.structured = 100;
  int64_t shared_loops = 0, shared_functions = 0, shared_branches = 0, flags = 0, nested_state = 0, nested_loops = 0,
          repeated = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed, options);
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    std::map<const Computation*, std::map<Opcode, int>> callers;
    std::set<const Computation*> loops;
    for (const Computation* c : program->module->PostOrder()) {
      for (const auto& i : c->instructions()) {
        for (const Computation* called : i->called()) ++callers[called][i->opcode()];
        if (!i->Is(Opcode::kWhile)) continue;
        loops.insert(i->called(1));
        nested_loops += loops.count(c) > 0 || c != program->module->entry();
        const Instruction* root = i->called(0)->root();
        flags += root->Is(Opcode::kNot) ||
                 (root->Is(Opcode::kAnd) && (root->operand(0)->Is(Opcode::kNot) || root->operand(1)->Is(Opcode::kNot)));
        for (const Shape& element : i->shape().tuple_shapes()) nested_state += element.IsTuple();
      }
    }
    for (auto& [c, by] : callers) {
      shared_loops += by[Opcode::kWhile] > 1;
      shared_functions += by[Opcode::kCall] > 1;
      shared_branches += by[Opcode::kConditional] > 1;
    }
    const Instruction* root = program->module->entry()->root();
    if (root->Is(Opcode::kTuple))
      repeated += std::set<const Instruction*>(root->operands().begin(), root->operands().end()).size() <
                  root->operands().size();
  }
  for (const int64_t count :
       {shared_loops, shared_functions, shared_branches, flags, nested_state, nested_loops, repeated}) {
    EXPECT_GT(count, 10);
  }
}

TEST(Generator, SchedulesFitAndTellLittle) {
  GeneratorOptions options;
  options.in_flight = 100;
  int64_t schedules = 0, runs = 0, deleted = 0, read = 0, helpers = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed, options);
    ASSERT_TRUE(program.ok());
    if (program->schedule.empty()) continue;
    ++schedules;
    helpers += static_cast<int64_t>(program->helpers.size());
    EXPECT_TRUE(ScheduleFits(*program)) << seed;
    for (const HostStep& step : program->schedule) {
      runs += step.kind == HostStep::Kind::kRun;
      deleted += step.kind == HostStep::Kind::kDelete;
      read += step.kind == HostStep::Kind::kRead;
    }
    // Without its last step it is still valid, unless nothing is read any more.
    for (const FuzzProgram& shorter : ShorterSchedule(*program)) {
      if (!shorter.schedule.empty() && shorter.schedule.back().kind == HostStep::Kind::kRead) {
        EXPECT_TRUE(ScheduleFits(shorter));
      }
    }
  }
  EXPECT_GT(schedules, 25);
  EXPECT_GT(runs, 2 * schedules);
  for (const int64_t count : {deleted, read, helpers}) EXPECT_GT(count, 15);
}

// Buffers 0 and 1 are the argument, twice; the program consumes it.
TEST(Schedule, MeansOneStepAfterTheOther) {
  const absl::StatusOr<std::unique_ptr<Module>> module = ParseHloModule(
      "HloModule m, buffer_donor={ (0, {}) }\nENTRY e { x = s32[] parameter(0) y = s32[] add(x, x) "
      "ROOT r = (s32[], s32[]) tuple(y, x) }");
  ASSERT_TRUE(module.ok()) << module.status();
  FuzzProgram program;
  program.module = (*module)->Clone();
  program.arguments.push_back(Literal::ScalarInt(PrimitiveType::kS32, 3));
  using Kind = HostStep::Kind;
  program.schedule = {{Kind::kRun, 0, {1}},  {Kind::kRun, 0, {2}},  {Kind::kDelete, 0, {3}},
                      {Kind::kRead, 0, {4}}, {Kind::kRead, 0, {0}}, {Kind::kRead, 0, {5}}};
  ASSERT_TRUE(ScheduleFits(program));
  const absl::StatusOr<BoundedValue> meant = EvaluateMeaning(program);
  ASSERT_TRUE(meant.ok()) << meant.status();
  std::vector<int64_t> read;
  for (const BoundedValue& e : meant->elements) read.push_back(e.value.GetAsInt(0));
  EXPECT_THAT(read, testing::ElementsAre(12, 3, 6));
  program.schedule.push_back({Kind::kRead, 0, {1}});  // consumed by the first run
  EXPECT_FALSE(ScheduleFits(program));
  program.schedule.back().buffers = {3};  // deleted
  EXPECT_FALSE(ScheduleFits(program));
}

TEST(Generator, OnlyAndWithout) {
  GeneratorOptions only;
  only.only = Opcode::kPad;
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const absl::StatusOr<FuzzProgram> program = GenerateProgram(seed, only);
    ASSERT_TRUE(program.ok());
    AddCoverage(*program->module, coverage);
  }
  int64_t pads = 0;
  for (const auto& [type, count] : coverage[Opcode::kPad]) pads += count;
  EXPECT_GT(pads, 40);
}

}  // namespace
}  // namespace backplane::cli::fuzz
