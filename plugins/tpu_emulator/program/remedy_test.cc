#include "plugins/tpu_emulator/program/remedy.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane::tpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Shape RowMajorTiles(PrimitiveType type, std::initializer_list<int64_t> dims) {
  Shape s(type, dims);
  s.set_layout(TiledLayout(type, s.dimensions(), Layout::RowMajor(s.rank()).minor_to_major));
  return s;
}

TEST(PaddingRemedy, SuggestsWhatSavesMost) {
  // The array of a well-known bug report: 32 times its data.
  EXPECT_EQ(
      SuggestPaddingRemedy(RowMajorTiles(PrimitiveType::kF32, {8388608, 8, 4}), {}),
      "In the order of dimensions {0,2,1:T(4,128)} it takes 1.00G instead of 32.00G: the layout was asked for, or "
      "comes from a transpose.");
}

TEST(PaddingRemedy, MergesNeighbours) {
  Shape s(PrimitiveType::kF32, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
  s.set_layout(DefaultLayout(s.element_type(), s.dimensions()));
  EXPECT_THAT(SuggestPaddingRemedy(s, {}),
              AllOf(HasSubstr("merged, as [4,2,2,2,2,2,2,2,2,2,2]"), HasSubstr("instead of")));
}

TEST(PaddingRemedy, NamesSizesThatDoNotFillTheirTiles) {
  Shape s(PrimitiveType::kF32, {130, 129});
  s.set_layout(DefaultLayout(s.element_type(), s.dimensions()));
  EXPECT_THAT(SuggestPaddingRemedy(s, {}), HasSubstr("choose sizes that fill the tiles"));
}

TEST(PaddingRemedy, IgnoresLittlePadding) {
  EXPECT_EQ(SuggestPaddingRemedy(RowMajorTiles(PrimitiveType::kF32, {1024, 1024}), {}), "");
  EXPECT_EQ(SuggestPaddingRemedy(RowMajorTiles(PrimitiveType::kF32, {1000, 1000}), {}), "");  // 5 %
  EXPECT_EQ(SuggestPaddingRemedy(RowMajorTiles(PrimitiveType::kF32, {3, 5}), {}), "");        // 4 KiB
}

}  // namespace
}  // namespace backplane::tpu
