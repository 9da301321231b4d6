#include "core/passes/partition/tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace backplane {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tiling ParseTiling(const char* text, const Shape& shape, int64_t partitions) {
  auto sharding = ParseSharding(text);
  EXPECT_TRUE(sharding.ok()) << sharding.status();
  auto tiling = Tiling::FromSharding(*sharding, shape, partitions);
  EXPECT_TRUE(tiling.ok()) << tiling.status();
  return *tiling;
}

const Shape kMatrix(PrimitiveType::kF32, {8, 12});

TEST(Tiling, IsCanonical) {
  EXPECT_EQ(ParseTiling("{devices=[2,2]<=[4]}", kMatrix, 4), ParseTiling("{devices=[2,2]0,1,2,3}", kMatrix, 4));
  EXPECT_EQ(ParseTiling("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", kMatrix, 4),
            ParseTiling("{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}", kMatrix, 4));
  EXPECT_FALSE(ParseTiling("{devices=[2,2]<=[4]}", kMatrix, 4) ==
               ParseTiling("{devices=[2,2]<=[2,2]T(1,0)}", kMatrix, 4));
  EXPECT_TRUE(ParseTiling("{replicated}", kMatrix, 4).IsReplicated());
  EXPECT_TRUE(ParseTiling("{devices=[1,1,4]<=[4] last_tile_dim_replicate}", kMatrix, 4).IsReplicated());
}

TEST(Tiling, GivesTileIndicesAndShardShape) {
  const Tiling t =
      ParseTiling("{devices=[2,2]<=[2,2]T(1,0)}", kMatrix, 4);  // tiles in row-major order are on devices 0, 2, 1, 3
  EXPECT_EQ(t.tile_index(1, 0), 1);
  EXPECT_EQ(t.tile_index(1, 1), 0);
  EXPECT_EQ(t.tile_index(2, 0), 0);
  EXPECT_EQ(t.tile_index(2, 1), 1);
  EXPECT_EQ(t.ShardShape(kMatrix), Shape(PrimitiveType::kF32, {4, 6}));
  EXPECT_TRUE(t.Divides(kMatrix));
  EXPECT_FALSE(t.Divides(Shape(PrimitiveType::kF32, {8, 11})));
}

TEST(Tiling, GroupsHoldEveryTileOnce) {
  const Tiling t = ParseTiling("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", kMatrix, 4);
  EXPECT_THAT(t.GroupPartitionsAlong({0}), ElementsAre(Ints{0, 2}, Ints{1, 3}));
  const Tiling both = ParseTiling("{devices=[2,2]<=[4]}", kMatrix, 4);
  EXPECT_THAT(both.GroupPartitionsAlong({0}), ElementsAre(Ints{0, 2}, Ints{1, 3}));
  EXPECT_THAT(both.GroupPartitionsAlong({1}), ElementsAre(Ints{0, 1}, Ints{2, 3}));
  EXPECT_THAT(both.GroupPartitionsAlong({0, 1}), ElementsAre(Ints{0, 1, 2, 3}));
  EXPECT_THAT(ParseTiling("{devices=[4,1]3,2,1,0}", kMatrix, 4).GroupPartitionsAlong({0}),
              ElementsAre(Ints{3, 2, 1, 0}));
}

TEST(Tiling, SelectsDims) {
  const Tiling t = ParseTiling("{devices=[2,2]<=[4]}", kMatrix, 4);
  EXPECT_EQ(t.SelectDims({1, 0}), ParseTiling("{devices=[2,2]<=[2,2]T(1,0)}", kMatrix, 4));
  EXPECT_EQ(t.SelectDims({-1, 0}).tiles(0), 1);
  EXPECT_EQ(t.ReplicateDim(1), ParseTiling("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", kMatrix, 4));
  EXPECT_TRUE(t.IsGrid());
  EXPECT_FALSE(t.SelectDims({0, 0}).IsGrid());  // both dimensions are split over the same partitions
}

TEST(Tiling, RoundTripsThroughSharding) {
  for (const char* text :
       {"{devices=[2,2]<=[4]}", "{devices=[2,2]<=[2,2]T(1,0)}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}",
        "{devices=[4,1]3,1,2,0}", "{replicated}"}) {
    const Tiling t = ParseTiling(text, kMatrix, 4);
    EXPECT_EQ(ParseTiling(t.ToString().c_str(), kMatrix, 4), t) << text;
  }
}

TEST(Tiling, CopiesShareIndicesUntilOneChanges) {
  Sharding rows;
  rows.type = Sharding::Type::kOther;
  rows.tile_dims = {4, 1, 2};
  rows.replicate_on_last_tile_dim = true;
  rows.iota = IotaDevices{{4, 1, 2}, {8}, {}};
  Sharding columns = rows;
  columns.tile_dims = {1, 2, 4};
  columns.iota = IotaDevices{{1, 2, 4}, {4, 2}, {1, 0}};
  const Shape shape(PrimitiveType::kF32, {8, 8});
  absl::StatusOr<Tiling> a = Tiling::FromSharding(rows, shape, 8), b = Tiling::FromSharding(columns, shape, 8);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  const Tiling before = *a;
  Tiling both = *a;
  ASSERT_TRUE(both.SplitLike(1, *b, 1));
  EXPECT_EQ(*a, before);
  EXPECT_EQ(both.CountTiles(), 8);
  EXPECT_EQ(both.tile_index(5, 0), 2);
  EXPECT_EQ(both.tile_index(5, 1), 1);
  EXPECT_EQ(both.ReplicateDim(1), before);
  EXPECT_EQ(both.ReplicateDim(1).ReplicateDim(0), Tiling::Replicated(2, 8));
}

// 16,384 devices: the groups have 128 each.
TEST(Tiling, LargeMeshesStayShort) {
  Sharding s;
  s.type = Sharding::Type::kOther;
  s.tile_dims = {128, 128};
  s.iota = IotaDevices{{128, 128}, {128, 128}, {1, 0}};
  absl::StatusOr<Tiling> t = Tiling::FromSharding(s, Shape(PrimitiveType::kF32, {128, 128}), 16384);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_TRUE(t->IsGrid());
  EXPECT_EQ(t->ToSharding(), s);
  ReplicaGroups groups;
  groups.groups = t->GroupPartitionsAlong({1});
  groups.Compress();
  EXPECT_EQ(groups.iota, (IotaDevices{{128, 128}, {128, 128}, {1, 0}}));
}

TEST(Tiling, RejectsBadShardings) {
  auto get_error = [](const char* text, int64_t partitions) {
    return std::string(Tiling::FromSharding(*ParseSharding(text), kMatrix, partitions).status().message());
  };
  EXPECT_THAT(get_error("{devices=[2,2]<=[4]}", 8), HasSubstr("names 4 devices"));
  EXPECT_THAT(get_error("{devices=[4]<=[4]}", 4), HasSubstr("too few dimensions"));
  EXPECT_THAT(get_error("{devices=[2,2]0,1,1,3}", 4), HasSubstr("twice"));
  EXPECT_EQ(Tiling::FromSharding(*ParseSharding("{unreduced}"), kMatrix, 4).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace backplane
