#include "core/relayout/transpose.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "base/cpu_features.h"
#include "core/relayout/transpose_levels.h"
#include "core/types/integer_division.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace backplane {
namespace {

constexpr int64_t kLine = 64;  // bytes of a cache line
// Arrays larger than this do not stay in the caches until they are used.
constexpr int64_t kMaxCachedResultBytes = int64_t{4} << 20;
constexpr int64_t kL1WayBytes = 4096;          // bytes in one way of the L1 cache
constexpr int64_t kL2WayBytes = 65536;         // bytes in one way of the L2 cache
constexpr int64_t kPrefetchBytes = 32 * 1024;  // bytes of the source to prefetch: a part of the L2 cache
constexpr int64_t kPrefetchRows = 64;          // the same in rows, for short elements, whose blocks read many rows
constexpr int64_t kPrefetchRowsOfCopy = 16;    // the same for rows that are copied to scratch memory first
constexpr int64_t kManyTiles = 32;             // enough for all threads

// Returns a tile size close to `wanted` that splits `extent` almost evenly: a multiple of `multiple` unless it is all
// of it.
int64_t TileOf(int64_t extent, int64_t wanted, int64_t multiple) {
  wanted = std::max(wanted, multiple);
  return std::min(RoundUp(CeilDiv(extent, CeilDiv(extent, wanted)), multiple), extent);
}

// Whether the lines of a column of a square map to so few sets of the L1 cache that they evict each other: the pitch of
// the rows is close to a multiple of a large power of two.
bool CausesSetConflicts(int64_t pitch, int64_t lines) {
  constexpr int64_t kSets = kL1WayBytes / kLine, kHalfOfWays = 4;
  std::array<int8_t, kSets> used = {};
  int64_t most = 0;
  for (int64_t i = 0; i < lines; ++i) {
    const int64_t set = (((i * pitch) % kL1WayBytes + kL1WayBytes) % kL1WayBytes) / kLine;
    most = std::max<int64_t>(most, ++used[static_cast<size_t>(set)]);
  }
  return most > kHalfOfWays;
}

// Returns an odd number of lines, so that a column of such rows does not fill one set.
int64_t PadToOddLines(int64_t bytes) {
  const int64_t lines = CeilDiv(bytes, kLine);
  return (lines + (lines % 2 == 0 ? 1 : 0)) * kLine;
}

}  // namespace

int TransposeVectorBytes() {
  static const int bytes = DetectCpuVectorBytes();
  return bytes;
}

TransposePlan PlanTranspose(int64_t width, int64_t rows, int64_t columns, int64_t source_pitch, int64_t target_pitch,
                            int64_t result_bytes, int64_t vector) {
  TransposePlan p;
  p.width = width;
  p.rows = rows;
  p.columns = columns;
  p.source_pitch = source_pitch;
  p.target_pitch = target_pitch;
  p.tile_rows = p.tile_columns = 1;
  if (rows <= 0 || columns <= 0) return p;
  p.vector = std::min<int64_t>(TransposeVectorBytes(), vector == 0 ? 64 : vector);
  while (p.vector > 16 && columns * width < p.vector) p.vector /= 2;
  const int64_t row_multiple = rows * width >= kLine ? kLine / width : std::max<int64_t>(16 / width, 1);
  const int64_t column_multiple = columns * width >= kLine ? kLine / width : p.vector / width;
  const int64_t others = std::max<int64_t>(result_bytes / std::max<int64_t>(rows * columns * width, 1), 1);
  const bool far = result_bytes > kMaxCachedResultBytes;
  // Long pieces on both sides suit DRAM; small tiles keep their lines in the cache.
  int64_t row_bytes, column_bytes, least_bytes = 4 * kLine;
  const bool direct =
      !far && !CausesSetConflicts(source_pitch, kLine / width) && !CausesSetConflicts(target_pitch, kLine / width);
  if (direct) {
    row_bytes = 16 * kLine;  // reads ahead in the rows of the source while they are cached
    column_bytes = 2 * kLine;
  } else {
    row_bytes = far && width > 2 ? 8 * kLine : 4 * kLine;
    column_bytes = far && width > 2 ? 16 * kLine : 8 * kLine;
  }
  // With such rows a register's worth of columns does not stay in the L1 cache until all parts of its lines are read,
  // so lines are copied to scratch memory.
  const bool copied = !direct && width <= (far ? 2 : 1) && CausesSetConflicts(source_pitch, p.vector / width);
  if (copied && far) {
    // If pieces start inside cache lines, longer ones share fewer of them.
    const bool lines = source_pitch % kLine == 0;
    if (width == 2 && !lines) row_bytes = 8 * kLine;
    column_bytes = lines ? 4 * kLine : 8 * kLine;
  }
  for (;;) {
    p.tile_rows = TileOf(rows, row_bytes / width, row_multiple);
    p.tile_columns = TileOf(columns, column_bytes / width, column_multiple);
    int64_t& cut = direct ? row_bytes : column_bytes;
    if (p.row_tiles() * p.column_tiles() * others >= kManyTiles || cut <= least_bytes) break;
    cut /= 2;
  }
  if (direct) return p;
  p.non_temporal = far && columns * width >= 4 * kLine ? 1 : 0;
  p.tile_pitch = PadToOddLines(p.tile_columns * width + (p.non_temporal != 0 ? kLine : 0));
  p.scratch_bytes = p.tile_rows * p.tile_pitch + kLine;
  if (copied) {
    p.source_tile = PadToOddLines(p.tile_rows * width);
    p.scratch_bytes += p.source_tile * (p.vector / width);
  }
  p.scratch_bytes = RoundUp(p.scratch_bytes, kLine);
  if (far) {
    // Lines whose distance is a multiple of a large power of two share a few sets of the L2 cache. Prefetches at most
    // half of what eight ways of those sets hold, or the few lines that are copied next.
    const int64_t together = 8 * (kL2WayBytes / std::gcd(source_pitch, kL2WayBytes)) / 2;
    const int64_t step = p.vector / width;
    const int64_t wanted = width > 2 ? RoundUp(CeilDiv(kPrefetchBytes, p.tile_rows * width), step) : kPrefetchRows;
    p.ahead = copied ? kPrefetchRowsOfCopy : std::min({wanted, p.tile_columns, together});
    if (!copied && p.ahead < step) p.ahead = 0;
  }
  return p;
}

void RunTransposeTile(const TransposePlan* plan, const void* source, void* target, int64_t row, int64_t column,
                      void* scratch) {
  const char* from = static_cast<const char*>(source);
  char *to = static_cast<char*>(target), *tile = static_cast<char*>(scratch);
#ifdef __x86_64__
  if (plan->vector == 64) return transpose::Tile64(*plan, from, to, row, column, tile);
  if (plan->vector == 32) return transpose::Tile32(*plan, from, to, row, column, tile);
#endif
  transpose::Tile16(*plan, from, to, row, column, tile);
}

void EndTransposes() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

void RunTranspose(const TransposePlan& plan, const void* source, void* target) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> scratch(
      plan.scratch_bytes == 0 ? nullptr
                              : std::aligned_alloc(kLine, static_cast<size_t>(RoundUp(plan.scratch_bytes, kLine))));
  // Moves along the rows of the source, whose next elements are adjacent.
  for (int64_t c = 0; c < plan.columns; c += plan.tile_columns) {
    for (int64_t r = 0; r < plan.rows; r += plan.tile_rows) {
      RunTransposeTile(&plan, source, target, r, c, scratch.get());
    }
  }
  if (plan.non_temporal != 0) EndTransposes();
}

}  // namespace backplane
