// Compares every matrix with the definition: all widths, sizes around the block sizes, all register widths, any pitch
// and alignment. Bytes outside the target must not change.
#include "core/relayout/transpose.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

struct Case {
  int64_t width, rows, columns;
  int64_t source_gap = 0, target_gap = 0;  // bytes between rows
  int64_t source_at = 0, target_at = 0;    // offset from the start of a cache line
  int64_t result_bytes = 0;                // 0: that of the matrix
  bool backwards = false;                  // reverses the rows of the source
};

std::string Text(const Case& c, const TransposePlan& p) {
  return absl::StrCat("width ", c.width, ", ", c.rows, " x ", c.columns, ", gaps ", c.source_gap, " ", c.target_gap,
                      ", at ", c.source_at, " ", c.target_at, ", backwards ", c.backwards, ", registers of ", p.vector,
                      ", tiles of ", p.tile_rows, " x ", p.tile_columns, ", pitch ", p.tile_pitch, ", copied ",
                      p.source_tile, ", non_temporal ", p.non_temporal, ", ahead ", p.ahead);
}

std::byte* Line(std::vector<std::byte>& memory, int64_t at) {
  return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) + at;
}

// Returns a description of the error, or "".
std::string Wrong(const Case& c, const TransposePlan& plan) {
  const int64_t source_pitch = c.rows * c.width + c.source_gap, target_pitch = c.columns * c.width + c.target_gap;
  constexpr int64_t kAround = 256;
  std::vector<std::byte> from(static_cast<size_t>(source_pitch * c.columns + 2 * kAround));
  std::vector<std::byte> to(static_cast<size_t>(target_pitch * c.rows + 2 * kAround), std::byte{0x5a});
  uint32_t state = 1;
  for (std::byte& b : from) b = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  std::byte *source = Line(from, c.source_at), *target = Line(to, c.target_at);
  std::vector<std::byte> expected = to;
  std::byte* wanted = expected.data() + (target - to.data());
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      const int64_t row = c.backwards ? c.columns - 1 - j : j;
      std::memcpy(wanted + i * target_pitch + j * c.width, source + row * source_pitch + i * c.width,
                  static_cast<size_t>(c.width));
    }
  }
  RunTranspose(plan, c.backwards ? source + (c.columns - 1) * source_pitch : source, target);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] != expected[i]) return absl::StrCat(Text(c, plan), ": byte ", i - (target - to.data()));
  }
  return "";
}

TransposePlan PlanOf(const Case& c, int64_t vector) {
  const int64_t pitch = c.rows * c.width + c.source_gap, bytes = c.rows * c.columns * c.width;
  return PlanTranspose(c.width, c.rows, c.columns, c.backwards ? -pitch : pitch, c.columns * c.width + c.target_gap,
                       c.result_bytes == 0 ? bytes : c.result_bytes, vector);
}

TEST(Transpose, AllSides) {
  for (int64_t vector : {16, 32, 64}) {
    for (int64_t width : {1, 2, 4, 8, 16}) {
      for (int64_t rows : {0, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 100}) {
        for (int64_t columns : {0, 1, 2, 5, 8, 15, 16, 31, 32, 33, 63, 65, 130}) {
          const Case c{.width = width, .rows = rows, .columns = columns};
          EXPECT_EQ(Wrong(c, PlanOf(c, vector)), "");
        }
      }
    }
  }
}

// Matrices that are parts of larger arrays: transposed directly, through scratch memory, and with non-temporal stores.
TEST(Transpose, AllRoads) {
  bool straight = false, staged = false, copied = false, non_temporal = false, ahead = false;
  for (int64_t vector : {16, 32, 64}) {
    for (int64_t width : {1, 2, 4, 8, 16}) {
      for (int64_t result_bytes : {int64_t{0}, int64_t{1} << 26}) {
        for (int64_t source_gap : {0, 1, 5, 64}) {
          for (auto [rows, columns] : {std::pair{128, 256}, {129, 255}, {300, 80}, {40, 700}}) {
            const Case c{.width = width,
                         .rows = rows,
                         .columns = columns,
                         .source_gap = source_gap == 64 ? (4096 - rows * width % 4096) % 4096 : source_gap,
                         .target_gap = source_gap == 1 ? 3 : 0,
                         .source_at = source_gap,
                         .target_at = (source_gap * 13) % 64,
                         .result_bytes = result_bytes,
                         .backwards = source_gap == 5};
            const TransposePlan plan = PlanOf(c, vector);
            EXPECT_EQ(Wrong(c, plan), "");
            straight = straight || plan.tile_pitch == 0;
            staged = staged || plan.tile_pitch != 0;
            copied = copied || plan.source_tile != 0;
            non_temporal = non_temporal || plan.non_temporal != 0;
            ahead = ahead || plan.ahead != 0;
          }
        }
      }
    }
  }
  EXPECT_TRUE(straight && staged && copied && non_temporal && ahead);
}

TEST(Transpose, AnyAddress) {
  for (int64_t width : {1, 2, 4, 8, 16}) {
    for (int64_t at : {0, 1, 4, 31, 36, 63}) {
      for (int64_t result_bytes : {int64_t{0}, int64_t{1} << 26}) {
        const Case c{.width = width, .rows = 75, .columns = 333, .target_at = at, .result_bytes = result_bytes};
        EXPECT_EQ(Wrong(c, PlanOf(c, 0)), "");
      }
    }
  }
}

// Tiles may run in any order: each writes its own part.
TEST(Transpose, TilesInAnyOrder) {
  for (int64_t width : {1, 4}) {
    const int64_t rows = 700, columns = 1501;
    const TransposePlan plan = PlanTranspose(width, rows, columns, rows * width, columns * width, int64_t{1} << 26);
    ASSERT_GT(plan.row_tiles() * plan.column_tiles(), 4);
    std::vector<std::byte> from(static_cast<size_t>(rows * columns * width)), a(from.size()), b(from.size());
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 2654435761u >> 11);
    RunTranspose(plan, from.data(), a.data());
    std::vector<std::byte> scratch(static_cast<size_t>(plan.scratch_bytes + 64));
    for (int64_t r = plan.row_tiles(); r-- > 0;) {
      for (int64_t c = plan.column_tiles(); c-- > 0;) {
        RunTransposeTile(&plan, from.data(), b.data(), r * plan.tile_rows, c * plan.tile_columns, Line(scratch, 0));
      }
    }
    EndTransposes();
    EXPECT_TRUE(a == b) << width;
  }
}

}  // namespace
}  // namespace backplane
