// Where the elements of a matrix product are in shared memory: no two in one place, and no bank conflicts.
#include "plugins/hip/compiler/matrix_tile.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"

namespace backplane::hip {
namespace {

// The builder computes with constants.
class Layout {
 public:
  explicit Layout(const MatrixStep& step) : b_(context_), step_(step) {}
  int64_t Row(int64_t column) { return Value(PermuteColumns(b_, step_, Number(column))); }
  int64_t Position(int64_t row, int64_t chunk) { return Value(SwizzleChunk(b_, step_, Number(row), Number(chunk))); }

 private:
  llvm::Value* Number(int64_t n) { return b_.getInt32(static_cast<uint32_t>(n)); }
  static int64_t Value(llvm::Value* v) {
    return static_cast<int64_t>(llvm::cast<llvm::ConstantInt>(v)->getZExtValue());
  }

  llvm::LLVMContext context_;
  llvm::IRBuilder<> b_;
  const MatrixStep& step_;
};

// Of all families, for each type.
std::vector<const MatrixStep*> AllSteps() {
  std::vector<const MatrixStep*> steps;
  using Type = PrimitiveType;
  for (const char* target : {"gfx942", "gfx1100", "sm_90a"}) {
    for (const auto& [operand, sum] : {std::pair{Type::kF16, Type::kF32},
                                       {Type::kBF16, Type::kF32},
                                       {Type::kF32, Type::kF32},
                                       {Type::kF64, Type::kF64},
                                       {Type::kS8, Type::kS32}}) {
      const MatrixStep* s = FindMatrixStep(*FindGpuTarget(target), operand, sum, true);
      if (s == nullptr) continue;
      steps.push_back(s);
      if (const MatrixStep* group = FindGroupStep(*FindGpuTarget(target), *s)) steps.push_back(group);
    }
  }
  return steps;
}

TEST(MatrixTile, HasAPlaceForEveryChunk) {
  for (const MatrixStep* step : AllSteps()) {
    Layout layout(*step);
    std::set<int64_t> rows;
    for (int64_t column = 0; column < 128; ++column) rows.insert(layout.Row(column));
    EXPECT_EQ(rows.size(), 128u) << step->instruction;
    EXPECT_EQ(*rows.rbegin(), 127) << step->instruction;
    for (int64_t row = 0; row < 256; ++row) {
      std::set<int64_t> places;
      for (int64_t chunk = 0; chunk < kRowChunks; ++chunk) places.insert(layout.Position(row, chunk));
      EXPECT_EQ(places, (std::set<int64_t>{0, 16, 32, 48, 64, 80, 96, 112})) << step->instruction << " row " << row;
    }
  }
}

TEST(MatrixTile, SwizzleIsLinear) {
  for (const MatrixStep* step : AllSteps()) {
    Layout layout(*step);
    for (int64_t low = 0; low < 16; ++low) {
      for (int64_t high = 0; high < 256; high += 16)
        ASSERT_EQ(layout.Position(low, 3) ^ layout.Position(high, 4), layout.Position(low + high, 7))
            << step->instruction;
    }
  }
}

// Eight lanes at a time access 16 bytes each: all 32 banks if their chunks have different places.
void ExpectNoConflicts(const std::set<int64_t>& places, const std::string& what) {
  EXPECT_EQ(places.size(), 8u) << what;
}

TEST(MatrixTile, MmaReadsWithoutBankConflicts) {
  for (const MatrixStep* step : AllSteps()) {
    if (step->family != MatrixFamily::kMma) continue;
    Layout layout(*step);
    for (int64_t row = 0; row < 128; row += 8) {
      for (int64_t chunk = 0; chunk < kRowChunks; chunk += 4) {
        for (int64_t first = 0; first < 32; first += 8) {
          std::set<int64_t> places;
          for (int64_t lane = first; lane < first + 8; ++lane)
            places.insert(layout.Position(row + lane / 4, chunk + lane % 4));
          ExpectNoConflicts(places, absl::StrCat(step->instruction, " row ", row, " chunk ", chunk, " lane ", first));
        }
      }
    }
  }
}

// Blocks of elements that are neighbours along the rows, as MatrixSlice transposes them.
TEST(MatrixTile, MmaWritesTransposedBlocksWithoutBankConflicts) {
  for (const MatrixStep* step : AllSteps()) {
    if (step->family != MatrixFamily::kMma) continue;
    Layout layout(*step);
    const int64_t chunk = CountChunkElements(*step);
    for (const bool is_right : {false, true}) {
      for (int64_t tile = chunk * 8; tile <= 128; tile *= 2) {
        const int64_t across = tile / chunk;
        for (int64_t thread = 0; thread < across * kRowChunks; thread += 8) {
          for (int64_t i = 0; i < chunk; ++i) {
            std::set<int64_t> places;
            for (int64_t t = thread; t < thread + 8; ++t) {
              const int64_t row = t % across * chunk + i;
              places.insert(layout.Position(is_right ? layout.Row(row) : row, 5));
            }
            ExpectNoConflicts(places, absl::StrCat(step->instruction, is_right ? " right" : " left", " tile ", tile));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace backplane::hip
