#include "core/analysis/process_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text/hlo_parser.h"

namespace backplane {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Converts (replica, partition) pairs, the notation of the specification, to process numbers.
Ints MakeMembers(int64_t partitions, std::vector<std::pair<int64_t, int64_t>> pairs) {
  Ints out;
  for (auto [r, p] : pairs) out.push_back(r * partitions + p);
  return out;
}

TEST(ProcessGroups, FlattenedIdsMatchSpecification) {
  auto g = FormProcessGroups(GroupMode::kFlattenedIds, {{0, 1, 4, 5}, {2, 3, 6, 7}}, 2, 4);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_THAT(*g, ElementsAre(MakeMembers(4, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}),
                              MakeMembers(4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}})));
  g = FormProcessGroups(GroupMode::kFlattenedIds, {{0, 1, 2, 3}, {4, 5, 6, 7}}, 4, 2);
  ASSERT_TRUE(g.ok());
  EXPECT_THAT(*g, ElementsAre(MakeMembers(2, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}),
                              MakeMembers(2, {{2, 0}, {2, 1}, {3, 0}, {3, 1}})));
}

TEST(ProcessGroups, CrossReplicaMatchesSpecification) {
  auto g = FormProcessGroups(GroupMode::kCrossReplica, {{0, 1}, {2, 3}}, 4, 2);
  ASSERT_TRUE(g.ok());
  EXPECT_THAT(*g, ElementsAre(MakeMembers(2, {{0, 0}, {1, 0}}), MakeMembers(2, {{0, 1}, {1, 1}}),
                              MakeMembers(2, {{2, 0}, {3, 0}}), MakeMembers(2, {{2, 1}, {3, 1}})));
}

TEST(ProcessGroups, CrossReplicaAndPartitionMatchesSpecification) {
  auto g = FormProcessGroups(GroupMode::kCrossReplicaAndPartition, {{0, 1}, {2, 3}}, 4, 2);
  ASSERT_TRUE(g.ok());
  EXPECT_THAT(*g, ElementsAre(MakeMembers(2, {{0, 0}, {1, 0}, {0, 1}, {1, 1}}),
                              MakeMembers(2, {{2, 0}, {3, 0}, {2, 1}, {3, 1}})));
}

TEST(ProcessGroups, CrossPartitionMatchesSpecification) {
  auto g = FormProcessGroups(GroupMode::kCrossPartition, {{0, 1}}, 4, 2);
  ASSERT_TRUE(g.ok());
  EXPECT_THAT(*g, ElementsAre(MakeMembers(2, {{0, 0}, {0, 1}}), MakeMembers(2, {{1, 0}, {1, 1}}),
                              MakeMembers(2, {{2, 0}, {2, 1}}), MakeMembers(2, {{3, 0}, {3, 1}})));
}

TEST(ProcessGroups, EmptyListIsOneGroupOfAllIds) {
  EXPECT_THAT(*FormProcessGroups(GroupMode::kCrossReplica, {}, 3, 1), ElementsAre(Ints{0, 1, 2}));
  EXPECT_THAT(*FormProcessGroups(GroupMode::kCrossPartition, {}, 2, 2), ElementsAre(Ints{0, 1}, Ints{2, 3}));
  EXPECT_THAT(*FormProcessGroups(GroupMode::kFlattenedIds, {}, 2, 2), ElementsAre(Ints{0, 1, 2, 3}));
  EXPECT_THAT(*FormProcessGroups(GroupMode::kCrossReplicaAndPartition, {}, 2, 2), ElementsAre(Ints{0, 2, 1, 3}));
}

TEST(ProcessGroups, RejectsBadIds) {
  EXPECT_THAT(FormProcessGroups(GroupMode::kCrossReplica, {{0, 2}}, 2, 1).status().ToString(),
              HasSubstr("id 2, there are 2"));
  EXPECT_THAT(FormProcessGroups(GroupMode::kCrossReplica, {{0}, {0}}, 2, 1).status().ToString(),
              HasSubstr("id 0 is in two"));
  EXPECT_THAT(FormProcessGroups(GroupMode::kCrossReplica, {{0}, {}}, 2, 1).status().ToString(), HasSubstr("empty"));
  EXPECT_FALSE(FormProcessGroups(GroupMode::kCrossReplica, {}, int64_t{1} << 40, int64_t{1} << 40).ok());
}

class InstructionGroups : public testing::Test {
 protected:
  static absl::StatusOr<std::unique_ptr<Module>> Parse(const std::string& line) {
    return ParseHloModule(
        "HloModule m\nsum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
        "ENTRY e {\n x = f32[8] parameter(0)\n ROOT r = " +
        line + "\n}\n");
  }
  const Instruction& ParseRoot(const std::string& line) {
    auto module = Parse(line);
    EXPECT_TRUE(module.ok()) << module.status();
    modules_.push_back(*std::move(module));
    return *modules_.back()->entry()->root();
  }
  std::vector<std::unique_ptr<Module>> modules_;
};

TEST_F(InstructionGroups, SelectsModeByChannelAndGlobalIds) {
  EXPECT_EQ(GetGroupMode(ParseRoot("f32[8] all-reduce(x), replica_groups={}, to_apply=sum")), GroupMode::kCrossReplica);
  EXPECT_EQ(GetGroupMode(ParseRoot("f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1}}, to_apply=sum")),
            GroupMode::kCrossReplicaAndPartition);
  EXPECT_EQ(
      GetGroupMode(ParseRoot(
          "f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum")),
      GroupMode::kFlattenedIds);
  EXPECT_EQ(GetGroupMode(ParseRoot("f32[8] all-to-all(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}")),
            GroupMode::kCrossPartition);
  EXPECT_EQ(GetGroupMode(ParseRoot("f32[8] collective-permute(x), channel_id=1, source_target_pairs={{0,1}}")),
            GroupMode::kCrossPartition);
}

TEST_F(InstructionGroups, ExpandsIotaGroups) {
  auto g = GetProcessGroups(ParseRoot("f32[8] all-reduce(x), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), "
                                      "use_global_device_ids=true, to_apply=sum"),
                            1, 4);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_THAT(*g, ElementsAre(Ints{0, 2}, Ints{1, 3}));
}

TEST_F(InstructionGroups, RequiresEveryProcessExceptInBroadcasts) {
  const std::string reduce = "f32[8] all-reduce(x), replica_groups={{0,2}}, to_apply=sum";
  EXPECT_THAT(GetProcessGroups(ParseRoot(reduce), 3, 1).status().ToString(), HasSubstr("replica 1 is in none"));
  auto g = GetProcessGroups(ParseRoot("f32[8] collective-broadcast(x), replica_groups={{2,1}}"), 4, 1);
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_THAT(*g, ElementsAre(Ints{2, 1}));
  // Shape inference rejects groups of different sizes already.
  EXPECT_THAT(Parse("f32[8] all-to-all(x), replica_groups={{0,1},{2}}, dimensions={0}").status().ToString(),
              HasSubstr("differ in size: 2 and 1 [all_to_all_c8]"));
}

TEST_F(InstructionGroups, ExpandsPairsOfReplicasOrPartitions) {
  EXPECT_THAT(*GetProcessPairs(ParseRoot("f32[8] collective-permute(x), source_target_pairs={{0,1}}"), 2, 2),
              ElementsAre(std::make_pair(0, 2), std::make_pair(1, 3)));
  EXPECT_THAT(
      *GetProcessPairs(ParseRoot("f32[8] collective-permute(x), channel_id=3, source_target_pairs={{0,1}}"), 2, 2),
      ElementsAre(std::make_pair(0, 1), std::make_pair(2, 3)));
  EXPECT_THAT(
      GetProcessPairs(ParseRoot("f32[8] collective-permute(x), source_target_pairs={{0,5}}"), 2, 2).status().ToString(),
      HasSubstr("id 5, there are 2"));
}

}  // namespace
}  // namespace backplane
