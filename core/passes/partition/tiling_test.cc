#include "core/passes/partition/tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace backplane {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tiling Of(const char* text, const Shape& shape, int64_t partitions) {
  auto sharding = ParseSharding(text);
  EXPECT_TRUE(sharding.ok()) << sharding.status();
  auto tiling = Tiling::Of(*sharding, shape, partitions);
  EXPECT_TRUE(tiling.ok()) << tiling.status();
  return *tiling;
}

const Shape kMatrix(PrimitiveType::kF32, {8, 12});

TEST(Tiling, EqualPlacementsAreEqual) {
  EXPECT_EQ(Of("{devices=[2,2]<=[4]}", kMatrix, 4), Of("{devices=[2,2]0,1,2,3}", kMatrix, 4));
  EXPECT_EQ(Of("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", kMatrix, 4),
            Of("{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}", kMatrix, 4));
  EXPECT_FALSE(Of("{devices=[2,2]<=[4]}", kMatrix, 4) == Of("{devices=[2,2]<=[2,2]T(1,0)}", kMatrix, 4));
  EXPECT_TRUE(Of("{replicated}", kMatrix, 4).IsWhole());
  EXPECT_TRUE(Of("{devices=[1,1,4]<=[4] last_tile_dim_replicate}", kMatrix, 4).IsWhole());
}

TEST(Tiling, TilesOfPartitions) {
  const Tiling t = Of("{devices=[2,2]<=[2,2]T(1,0)}", kMatrix, 4);  // devices 0, 2, 1, 3 tile by tile
  EXPECT_EQ(t.at(1, 0), 1);
  EXPECT_EQ(t.at(1, 1), 0);
  EXPECT_EQ(t.at(2, 0), 0);
  EXPECT_EQ(t.at(2, 1), 1);
  EXPECT_EQ(t.ShardOf(kMatrix), Shape(PrimitiveType::kF32, {4, 6}));
  EXPECT_EQ(t.WholeOf(t.ShardOf(kMatrix)), kMatrix);
  EXPECT_TRUE(t.Divides(kMatrix));
  EXPECT_FALSE(t.Divides(Shape(PrimitiveType::kF32, {8, 11})));
}

TEST(Tiling, GroupsHoldEveryTileOnce) {
  const Tiling t = Of("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", kMatrix, 4);
  EXPECT_THAT(t.GroupsAlong({0}), ElementsAre(Ints{0, 2}, Ints{1, 3}));
  const Tiling both = Of("{devices=[2,2]<=[4]}", kMatrix, 4);
  EXPECT_THAT(both.GroupsAlong({0}), ElementsAre(Ints{0, 2}, Ints{1, 3}));
  EXPECT_THAT(both.GroupsAlong({1}), ElementsAre(Ints{0, 1}, Ints{2, 3}));
  EXPECT_THAT(both.GroupsAlong({0, 1}), ElementsAre(Ints{0, 1, 2, 3}));
  EXPECT_THAT(Of("{devices=[4,1]3,2,1,0}", kMatrix, 4).GroupsAlong({0}), ElementsAre(Ints{3, 2, 1, 0}));
}

TEST(Tiling, DimensionsMoveAndMeet) {
  const Tiling t = Of("{devices=[2,2]<=[4]}", kMatrix, 4);
  EXPECT_EQ(t.Select({1, 0}), Of("{devices=[2,2]<=[2,2]T(1,0)}", kMatrix, 4));
  EXPECT_EQ(t.Select({-1, 0}).tiles(0), 1);
  EXPECT_EQ(t.Without(1), Of("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", kMatrix, 4));
  EXPECT_TRUE(t.IsGrid());
  EXPECT_FALSE(t.Select({0, 0}).IsGrid());  // one split cannot serve two dimensions
  EXPECT_TRUE(t.Select({0}).Join(t.Select({1})).IsGrid());
}

TEST(Tiling, BackToAShardingAndAgain) {
  for (const char* text :
       {"{devices=[2,2]<=[4]}", "{devices=[2,2]<=[2,2]T(1,0)}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}",
        "{devices=[4,1]3,1,2,0}", "{replicated}"}) {
    const Tiling t = Of(text, kMatrix, 4);
    EXPECT_EQ(Of(t.ToString().c_str(), kMatrix, 4), t) << text;
  }
}

TEST(Tiling, WhatDoesNotFitIsRefused) {
  auto why = [](const char* text, int64_t partitions) {
    return std::string(Tiling::Of(*ParseSharding(text), kMatrix, partitions).status().message());
  };
  EXPECT_THAT(why("{devices=[2,2]<=[4]}", 8), HasSubstr("names 4 devices"));
  EXPECT_THAT(why("{devices=[4]<=[4]}", 4), HasSubstr("too few dimensions"));
  EXPECT_THAT(why("{devices=[2,2]0,1,1,3}", 4), HasSubstr("twice"));
  EXPECT_EQ(Tiling::Of(*ParseSharding("{unreduced}"), kMatrix, 4).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace backplane
