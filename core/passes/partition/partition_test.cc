#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "core/passes/golden.h"
#include "core/passes/partition/partition_module.h"
#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::HasSubstr;

TEST(Golden, PartitionModule) {
  RunGoldenFile("core/passes/testdata/partition-module.hlo", [] { return std::make_unique<PartitionModule>(); });
}

absl::Status Partition(const std::string& entry, std::vector<std::string>* log = nullptr) {
  auto module = ParseHloModule("HloModule m, num_partitions=4\n\nENTRY e {\n" + entry + "\n}\n");
  if (!module.ok()) return module.status();
  PartitionOptions options;
  options.log = log;
  return PartitionModule(options).Run(module->get()).status();
}

TEST(PartitionModule, RefusesWhatDoesNotFit) {
  EXPECT_THAT(std::string(Partition("ROOT x = f32[6] parameter(0), sharding={devices=[4]<=[4]}").message()),
              HasSubstr("x: f32[6] does not split evenly"));
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

// One place in each row, looked up and added to: the rows stay where they are.
TEST(PartitionModule, KeepsBatchesOfLookupsWhereTheyLie) {
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

// The host is not asked, and the program not run as if it had been.
TEST(PartitionModule, RefusesToAskTheHost) {
  for (const char* target : {"InspectSharding", "CustomSPMDPartitioning"}) {
    std::string text = "x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n";
    text += "ROOT y = f32[8] custom-call(x), custom_call_target=\"" + std::string(target) + "\"";
    const absl::Status s = Partition(text);
    EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(s.message()), HasSubstr(std::string("y: custom call '") + target));
  }
}

// Of an annotation the dimensions that divide are split.
TEST(PartitionModule, SplitsWhatSplitsEvenly) {
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

TEST(PartitionModule, LogsItsExchanges) {
  std::vector<std::string> log;
  ASSERT_TRUE(Partition("x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
                        "ROOT y = f32[8] reverse(x), dimensions={0}, metadata={op_name=\"turn\"}",
                        &log)
                  .ok());
  EXPECT_THAT(absl::StrJoin(log, "\n"), HasSubstr("all-gather of f32[2] of x to f32[8] in groups of 4"));
}

}  // namespace
}  // namespace backplane
