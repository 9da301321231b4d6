// Positions of elements under layouts with and without tiles, with hand-computed examples.
#include "conformance/kit/device_image.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::conformance {
namespace {

using ::testing::ElementsAre;

TEST(DeviceImage, WithoutTilesTheOrderOfTheDims) {
  EXPECT_THAT(MakeTiledImage({2, 3}, {1, 0}, {}, 4).offsets, ElementsAre(0, 4, 8, 12, 16, 20));
  const DeviceImage columns = MakeTiledImage({2, 3}, {0, 1}, {}, 2);
  EXPECT_THAT(columns.offsets, ElementsAre(0, 4, 8, 2, 6, 10));
  EXPECT_EQ(columns.bytes, 12);
  EXPECT_THAT(MakeTiledImage({}, {}, {}, 8).offsets, ElementsAre(0));
  EXPECT_EQ(MakeTiledImage({0, 3}, {1, 0}, {}, 4).bytes, 0);
}

TEST(DeviceImage, TilesPadAndReorder) {
  // Tiles of 2 by 2 over two rows of three: the third column starts the second tile.
  const DeviceImage image = MakeTiledImage({2, 3}, {1, 0}, {{2, 2}}, 1);
  EXPECT_THAT(image.offsets, ElementsAre(0, 1, 4, 2, 3, 6));
  EXPECT_EQ(image.bytes, 8);
  EXPECT_EQ(MakeTiledImage({9, 130}, {1, 0}, {{8, 128}}, 4).bytes, 16 * 256 * 4);
  // Inside the tile, pairs of rows share what was one row: (4,2) and then (2,1).
  EXPECT_THAT(MakeTiledImage({4, 2}, {1, 0}, {{4, 2}, {2, 1}}, 1).offsets, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST(DeviceImage, ATileOfMoreDimsThanTheArray) {
  const DeviceImage image = MakeTiledImage({3}, {0}, {{2, 4}}, 4);
  EXPECT_THAT(image.offsets, ElementsAre(0, 4, 8));
  EXPECT_EQ(image.bytes, 32);
}

TEST(DeviceImage, BytesAndRanges) {
  const DeviceImage image = MakeTiledImage({2, 3}, {1, 0}, {{2, 2}}, 1);
  EXPECT_EQ(image.Bytes("abcdef", 1), std::string("abdec\0f\0", 8));
  EXPECT_EQ(image.GetBegin(2, 4), 2);
  EXPECT_EQ(image.GetEnd(2, 4, 1), 5);
}

}  // namespace
}  // namespace backplane::conformance
