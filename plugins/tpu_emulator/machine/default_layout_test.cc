#include "plugins/tpu_emulator/machine/default_layout.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace backplane::tpu {
namespace {

std::string Text(PrimitiveType type, std::vector<int64_t> dims) { return DefaultLayout(type, dims).ToString(); }

// Compares with the recorded answers of a real compiler.
TEST(DefaultLayout, EqualsTheRecordedAnswers) {
  std::ifstream table(absl::StrCat(BACKPLANE_SOURCE_DIR, "/plugins/tpu_emulator/machine/testdata/default_layouts.tsv"));
  ASSERT_TRUE(table.is_open());
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '\t');
    ASSERT_GE(cells.size(), 4u) << line;
    const std::optional<PrimitiveType> type = PrimitiveTypeFromName(cells[0]);
    ASSERT_TRUE(type.has_value()) << line;
    std::vector<int64_t> dims;
    if (cells[1] != "-") {
      for (const std::string& size : std::vector<std::string>(absl::StrSplit(cells[1], 'x'))) {
        ASSERT_TRUE(absl::SimpleAtoi(size, &dims.emplace_back())) << line;
      }
    }
    EXPECT_EQ(DefaultLayout(*type, dims).ToString(), cells[2]) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 240);
}

TEST(DefaultLayout, ScalarsTakeOneRowOfLanes) {
  EXPECT_EQ(Text(PrimitiveType::kF32, {}), "{:T(128)}");
  EXPECT_EQ(Text(PrimitiveType::kBF16, {}), "{:T(256)}");
  EXPECT_EQ(Text(PrimitiveType::kPred, {}), "{:T(512)}");
  EXPECT_EQ(Text(PrimitiveType::kS4, {}), "{:T(1024)E(4)}");
  EXPECT_EQ(Text(PrimitiveType::kS2, {}), "{:T(2048)E(2)}");
}

TEST(DefaultLayout, MinorDimensionsNeedLeastPadding) {
  EXPECT_EQ(Text(PrimitiveType::kBF16, {500, 700}), "{0,1:T(8,128)(2,1)}");
  EXPECT_EQ(Text(PrimitiveType::kF32, {300, 1}), "{0,1:T(1,128)}");
  EXPECT_EQ(Text(PrimitiveType::kF32, {4, 128, 8, 64}), "{1,3,2,0:T(8,128)}");
  EXPECT_EQ(Text(PrimitiveType::kF32, {3, 5, 7}), "{2,0,1:T(4,128)}");
  EXPECT_EQ(Text(PrimitiveType::kF32, {2, 2, 2, 2, 2}), "{4,3,2,1,0:T(2,128)}");
}

TEST(DefaultLayout, SixBitsTakeAByte) {
  for (PrimitiveType type : {PrimitiveType::kF6E2M3FN, PrimitiveType::kF6E3M2FN}) {
    EXPECT_EQ(Text(type, {}), Text(PrimitiveType::kS8, {}));
    EXPECT_EQ(Text(type, {300, 500}), "{1,0:T(8,128)(4,1)}");
  }
}

TEST(DefaultLayout, HugeDimensionsDoNotOverflow) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_EQ(Text(PrimitiveType::kF32, {huge, huge, huge, 3, 5}).substr(0, 11), "{2,1,4,3,0:");
}

// A user-defined machine has its own tile.
TEST(DefaultLayout, SupportsAnotherTile) {
  const TileShape tile{16, 256};
  const auto text = [&](PrimitiveType type, std::vector<int64_t> dims) {
    return DefaultLayout(type, dims, tile).ToString();
  };
  EXPECT_EQ(text(PrimitiveType::kF32, {300, 500}), "{1,0:T(16,256)}");
  EXPECT_EQ(text(PrimitiveType::kF32, {3, 500}), "{1,0:T(4,256)}");
  EXPECT_EQ(text(PrimitiveType::kBF16, {300, 500}), "{1,0:T(16,256)(2,1)}");
  EXPECT_EQ(text(PrimitiveType::kS8, {64, 256}), "{1,0:T(64,256)(4,1)}");
  EXPECT_EQ(text(PrimitiveType::kF32, {}), "{:T(256)}");
  EXPECT_EQ(text(PrimitiveType::kF32, {100000}), "{0:T(4096)}");
  // 256 lanes pad 300 to 512 and 257 rows to 272; the other way round 257 to 512 and 300 to 304: 300 stays minor.
  EXPECT_EQ(text(PrimitiveType::kF32, {257, 300}), "{1,0:T(16,256)}");
  EXPECT_EQ(text(PrimitiveType::kF32, {256, 300}), "{0,1:T(16,256)}");
}

TEST(DefaultLayout, ArraysWithoutElementsAreNotTiled) {
  EXPECT_EQ(Text(PrimitiveType::kS4, {5, 0, 3}), "{2,1,0}");
  EXPECT_EQ(Text(PrimitiveType::kF32, {0}), "{0}");
}

}  // namespace
}  // namespace backplane::tpu
