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
