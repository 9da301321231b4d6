#include "core/ops/attribute_values.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using ::testing::ElementsAre;

TEST(IotaDevices, Expands) {
  EXPECT_THAT((IotaDevices{{2, 2}, {4}, {}}.Expand()), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT((IotaDevices{{4}, {2, 2}, {1, 0}}.Expand()), ElementsAre(0, 2, 1, 3));
  // The same as numpy.arange(12).reshape(2,3,2).transpose(2,0,1).ravel().
  EXPECT_THAT((IotaDevices{{12}, {2, 3, 2}, {2, 0, 1}}.Expand()), ElementsAre(0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11));
  EXPECT_TRUE((IotaDevices{{2, 2}, {5}, {}}.Expand()).empty());
  EXPECT_TRUE((IotaDevices{{4}, {2, 2}, {0, 0}}.Expand()).empty());
  EXPECT_TRUE((IotaDevices{{1 << 30, 1 << 30}, {1 << 30, 1 << 30}, {}}.Expand()).empty());
}

TEST(ReplicaGroups, Expands) {
  ReplicaGroups g;
  g.iota = IotaDevices{{2, 2}, {2, 2}, {1, 0}};
  EXPECT_THAT(g.Expand(), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT((ReplicaGroups{{{3, 1}, {0, 2}}, {}}.Expand()), ElementsAre(ElementsAre(3, 1), ElementsAre(0, 2)));
}

TEST(Window, CountsElements) {
  EXPECT_EQ(Window().CountElements(), 1);
  Window window;
  window.dimensions = {{.size = 3, .padding_low = 2}, {.size = 1}, {.size = 5, .window_dilation = 2}};
  EXPECT_EQ(window.CountElements(), 15);
  window.dimensions.push_back({.size = std::numeric_limits<int64_t>::max() / 2});
  EXPECT_EQ(window.CountElements(), std::numeric_limits<int64_t>::max());
}

TEST(ComparisonDirection, InvertsAllDirections) {
  auto holds = [](ComparisonDirection d, int a, int b) {
    switch (d) {
      case ComparisonDirection::kEq:
        return a == b;
      case ComparisonDirection::kNe:
        return a != b;
      case ComparisonDirection::kGe:
        return a >= b;
      case ComparisonDirection::kGt:
        return a > b;
      case ComparisonDirection::kLe:
        return a <= b;
      case ComparisonDirection::kLt:
        return a < b;
    }
    return false;
  };
  for (int d = 0; d < 6; ++d) {
    const auto direction = static_cast<ComparisonDirection>(d);
    for (int b : {-1, 0, 1}) EXPECT_NE(holds(direction, 0, b), holds(InvertDirection(direction), 0, b)) << d;
  }
}

TEST(Sharding, TextRoundTrips) {
  for (absl::string_view text :
       {"{replicated}", "{manual}", "{unknown}", "{unreduced}", "{maximal device=3}", "{devices=[2,2]<=[4]}",
        "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", "{devices=[2,2]3,1,2,0}",
        "{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}", "{{replicated}, {devices=[2]<=[2]}}", "{}",
        "{replicated metadata={op_type=\"a}\" x={1}}}", "{replicated shard_as 1}", "{replicated shard_like 12}"}) {
    absl::StatusOr<Sharding> s = ParseSharding(text);
    ASSERT_TRUE(s.ok()) << text << " " << s.status();
    EXPECT_EQ(s->ToString(), text);
    EXPECT_TRUE(*ParseSharding(s->ToString()) == *s);
  }
  EXPECT_THAT(ParseSharding("{devices=[2,2]<=[2,2]T(1,0)}")->DeviceList(), ElementsAre(0, 2, 1, 3));
}

TEST(Sharding, Errors) {
  for (absl::string_view text :
       {"", "replicated", "{replicated", "{nonsense}", "{maximal}", "{devices=[2,2]0,1}", "{devices=[0]}",
        "{devices=[2]<=[3]}", "{devices=[2,2]<=[2,2]T(0,0)}", "{devices=[1048577]<=[1048577]}", "{replicated} x",
        "{{replicated}", "{last_tile_dim_replicate}", "{replicated manual}",
        "{devices=[2]<=[2] last_tile_dims={maximal}}", "{devices=[2]0,x}", "{replicated shard_as}",
        "{replicated shard_like x}", "{replicated metadata={a}"}) {
    EXPECT_EQ(ParseSharding(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseSharding(std::string(100000, '{')).ok());
}

TEST(FfiDictionary, TextRoundTrips) {
  for (absl::string_view text :
       {"{}", "{a = 1 : i64}", "{a = true, b = -3 : i8, c = 4 : ui32}",
        "{f = 1.5 : f32, g = 1.0 : f64, h = 1.0e+20 : f64}", "{n = 0x7FC00000 : f32, p = 0xFF800000 : f32}",
        "{s = \"a\\\"b\\\\c\\0A\"}", "{v = array<i32: 1, -2>, w = array<f64>}", "{d = {x = 1 : i32, y = {}}}",
        "{\"odd name\" = 1 : i64}", "{b = array<i1: true, false>, h = 0.5 : bf16}"}) {
    absl::StatusOr<FfiDictionary> d = ParseFfiDictionary(text);
    ASSERT_TRUE(d.ok()) << text << " " << d.status();
    EXPECT_EQ(ToString(*d), text);
    EXPECT_TRUE(*ParseFfiDictionary(ToString(*d)) == *d);
  }
}

TEST(FfiDictionary, BytesAndDefaults) {
  const FfiDictionary d = *ParseFfiDictionary(
      "{a = 7, b = 1.500000e+00, c = dense<[1, 2]> : tensor<2xi16>, e = dense<3> : tensor<2x2xi8>}");
  EXPECT_EQ(d.at("a").type, PrimitiveType::kS64);
  EXPECT_EQ(d.at("a").bytes, std::string("\7\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(d.at("b").type, PrimitiveType::kF64);
  EXPECT_EQ(d.at("c").array_size(), 2);
  EXPECT_EQ(d.at("c").bytes, std::string("\1\0\2\0", 4));
  EXPECT_EQ(d.at("e").bytes, std::string("\3\3\3\3", 4));
}

TEST(FfiDictionary, Errors) {
  for (absl::string_view text :
       {"", "{a}", "{a = }", "{a = 1 : i65}", "{a = 300 : i8}", "{a = 1, a = 2}", "{a = \"x}", "{a = 1",
        "{a = array<i32: 1, x>}", "{a = 0x1FFFFFFFF : f32}", "{a = dense<[1]> : tensor<2xi8>}",
        "{a = dense<1> : tensor<99999999999xi8>}", "{} x", "{a = \"\\q\"}"}) {
    EXPECT_EQ(ParseFfiDictionary(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{a=";
  EXPECT_FALSE(ParseFfiDictionary(deep).ok());
}

}  // namespace
}  // namespace backplane
