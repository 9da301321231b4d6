// Transposes one tile with registers of BP_TRANSPOSE_BYTES. Included by transpose_16.cc, transpose_32.cc and
// transpose_64.cc, which are compiled for different machines. Must not define or use functions that a linker could
// merge with those of another file, so the standard library is not used.
#ifndef BACKPLANE_CORE_RELAYOUT_TRANSPOSE_KERNELS_H_
#define BACKPLANE_CORE_RELAYOUT_TRANSPOSE_KERNELS_H_

#include <cstdint>

#include "core/relayout/transpose.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define BP_ALWAYS_INLINE inline __attribute__((always_inline))

namespace backplane {
namespace {

constexpr int64_t kLine = 64;  // bytes of a cache line
constexpr int64_t kVector = BP_TRANSPOSE_BYTES;

BP_ALWAYS_INLINE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }

template <int kWidth>
struct Element {
  char bytes[kWidth];
};

#ifdef __SSE2__

// A register consists of 128-bit lanes, and shuffles move elements only inside lanes.
#if BP_TRANSPOSE_BYTES == 16
using Vector = __m128i;
BP_ALWAYS_INLINE Vector Lanes(const char* p, int64_t) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
BP_ALWAYS_INLINE Vector Load(const char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
BP_ALWAYS_INLINE void Store(char* p, Vector v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
BP_ALWAYS_INLINE void StoreNonTemporal(char* p, Vector v) { _mm_stream_si128(reinterpret_cast<__m128i*>(p), v); }
#define BP_UNPACK(side, bits) _mm_unpack##side##_epi##bits(a, b)
#elif BP_TRANSPOSE_BYTES == 32
using Vector = __m256i;
// Loads lanes that are `step` bytes apart.
BP_ALWAYS_INLINE Vector Lanes(const char* p, int64_t step) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + step)), 1);
}
BP_ALWAYS_INLINE Vector Load(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
BP_ALWAYS_INLINE void Store(char* p, Vector v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
BP_ALWAYS_INLINE void StoreNonTemporal(char* p, Vector v) { _mm256_stream_si256(reinterpret_cast<__m256i*>(p), v); }
#define BP_UNPACK(side, bits) _mm256_unpack##side##_epi##bits(a, b)
#else
using Vector = __m512i;
BP_ALWAYS_INLINE Vector Lanes(const char* p, int64_t step) {
  Vector v = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  v = _mm512_inserti32x4(v, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + step)), 1);
  v = _mm512_inserti32x4(v, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 2 * step)), 2);
  return _mm512_inserti32x4(v, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 3 * step)), 3);
}
BP_ALWAYS_INLINE Vector Load(const char* p) { return _mm512_loadu_si512(p); }
BP_ALWAYS_INLINE void Store(char* p, Vector v) { _mm512_storeu_si512(p, v); }
BP_ALWAYS_INLINE void StoreNonTemporal(char* p, Vector v) { _mm512_stream_si512(reinterpret_cast<__m512i*>(p), v); }
#define BP_UNPACK(side, bits) _mm512_unpack##side##_epi##bits(a, b)
#endif

// Return the elements of the lower or upper halves of each 16 bytes of `a` and `b`, interleaved: a0, b0, a1, b1, ...
template <int kWidth>
BP_ALWAYS_INLINE Vector InterleaveLow(Vector a, Vector b) {
  if constexpr (kWidth == 1) return BP_UNPACK(lo, 8);
  if constexpr (kWidth == 2) return BP_UNPACK(lo, 16);
  if constexpr (kWidth == 4) return BP_UNPACK(lo, 32);
  return BP_UNPACK(lo, 64);
}
template <int kWidth>
BP_ALWAYS_INLINE Vector InterleaveHigh(Vector a, Vector b) {
  if constexpr (kWidth == 1) return BP_UNPACK(hi, 8);
  if constexpr (kWidth == 2) return BP_UNPACK(hi, 16);
  if constexpr (kWidth == 4) return BP_UNPACK(hi, 32);
  return BP_UNPACK(hi, 64);
}
#undef BP_UNPACK

// A block: 16 bytes of kVector / kWidth source rows become 16 / kWidth rows of one register each. Lane l holds rows [l
// * kRows, l * kRows + kRows) of the source. A perfect shuffle transposes the rows inside a lane, half of them at a
// time, because all at once would need too many registers.
template <int kWidth>
BP_ALWAYS_INLINE void Block(const char* source, int64_t pitch, char* target, int64_t target_pitch) {
  constexpr int kRows = 16 / kWidth, kHalf = kRows / 2;
  if constexpr (kRows == 1) {
    Store(target, Lanes(source, pitch));
  } else if constexpr (kRows == 2) {
    const Vector a = Lanes(source, 2 * pitch), b = Lanes(source + pitch, 2 * pitch);
    Store(target, InterleaveLow<8>(a, b));
    Store(target + target_pitch, InterleaveHigh<8>(a, b));
  } else {
    Vector v[2][kHalf];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 8
      for (int k = 0; k < kHalf; ++k) v[h][k] = Lanes(source + (h * kHalf + k) * pitch, kRows * pitch);
#pragma GCC unroll 3
      for (int done = 1; done < kHalf; done *= 2) {
        Vector next[kHalf];
#pragma GCC unroll 4
        for (int k = 0; k < kHalf / 2; ++k) {
          next[2 * k] = InterleaveLow<kWidth>(v[h][k], v[h][k + kHalf / 2]);
          next[2 * k + 1] = InterleaveHigh<kWidth>(v[h][k], v[h][k + kHalf / 2]);
        }
#pragma GCC unroll 8
        for (int k = 0; k < kHalf; ++k) v[h][k] = next[k];
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < kHalf; ++k) {
      Store(target + 2 * k * target_pitch, InterleaveLow<8>(v[0][k], v[1][k]));
      Store(target + (2 * k + 1) * target_pitch, InterleaveHigh<8>(v[0][k], v[1][k]));
    }
  }
}

#endif

template <int kWidth>
void TransposeScalar(const char* source, int64_t pitch, char* target, int64_t target_pitch, int64_t rows,
                     int64_t columns) {
  using E = Element<kWidth>;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      E e;
      __builtin_memcpy(&e, source + j * pitch + i * kWidth, kWidth);
      __builtin_memcpy(target + i * target_pitch + j * kWidth, &e, kWidth);
    }
  }
}

// Transposes all rows of this many columns of the target. The last blocks of both sides may overlap their neighbours.
template <int kWidth>
BP_ALWAYS_INLINE bool HasBlocks(int64_t rows, int64_t columns) {
#ifdef __SSE2__
  return rows >= 16 / kWidth && columns >= kVector / kWidth;
#else
  (void)rows, (void)columns;
  return false;
#endif
}

#ifdef __SSE2__
// Transposes a register's columns of the rows [begin, end). Prefetches rows from `prefetch`, unless it is null, between
// blocks, because many prefetches at once would stall.
template <int kWidth>
__attribute__((noinline)) void TransposeColumns(const char* source, int64_t pitch, char* target, int64_t target_pitch,
                                                int64_t begin, int64_t end, const char* prefetch,
                                                int64_t prefetch_pitch) {
  constexpr int64_t kRows = 16 / kWidth, kColumns = kVector / kWidth, kLineRows = kLine / kWidth;
  int64_t i = begin;
  if (prefetch != nullptr) {
    for (; i + kLineRows <= end; i += kLineRows) {
      for (int64_t k = 0; k < kColumns; ++k) __builtin_prefetch(prefetch + k * prefetch_pitch + i * kWidth, 0, 2);
      for (int64_t part = i; part < i + kLineRows; part += kRows)
        Block<kWidth>(source + part * kWidth, pitch, target + part * target_pitch, target_pitch);
    }
  }
  for (; i + kRows <= end; i += kRows)
    Block<kWidth>(source + i * kWidth, pitch, target + i * target_pitch, target_pitch);
  if (i == end) return;
  i = end - kRows;
  Block<kWidth>(source + i * kWidth, pitch, target + i * target_pitch, target_pitch);
}
#endif

// Transposes directly to the target, in squares with a cache line's side, which stay in the L1 cache on both sides.
template <int kWidth>
void TransposeDirectly(const char* source, int64_t pitch, char* target, int64_t target_pitch, int64_t rows,
                       int64_t columns) {
#ifdef __SSE2__
  constexpr int64_t kRows = 16 / kWidth, kColumns = kVector / kWidth;
  constexpr int64_t kSquare = kLine / kWidth > kColumns ? kLine / kWidth : kColumns;
  if (HasBlocks<kWidth>(rows, columns)) {
    for (int64_t j0 = 0; j0 < columns; j0 += kSquare) {
      const int64_t j1 = Min(j0 + kSquare, columns);
      for (int64_t i0 = 0; i0 < rows; i0 += kSquare) {
        const int64_t i1 = Min(i0 + kSquare, rows), begin = i1 - i0 < kRows ? i1 - kRows : i0;
        for (int64_t j = j0; j < j1; j += kColumns) {
          const int64_t at = Min(j, columns - kColumns);
          TransposeColumns<kWidth>(source + at * pitch, pitch, target + at * kWidth, target_pitch, begin, i1, nullptr,
                                   0);
        }
      }
    }
    return;
  }
#endif
  TransposeScalar<kWidth>(source, pitch, target, target_pitch, rows, columns);
}

// Copies a run of bytes. Aligns all stores except at the ends, because stores that cross a cache line are slow.
BP_ALWAYS_INLINE void CopyBytes(const char* source, char* target, int64_t bytes) {
#ifdef __SSE2__
  if (bytes >= kVector) {
    const int64_t last = bytes - kVector;
    Store(target, Load(source));
    int64_t at = kVector - static_cast<int64_t>(reinterpret_cast<uint64_t>(target) % static_cast<uint64_t>(kVector));
    for (; at < last; at += kVector) Store(target + at, Load(source + at));
    Store(target + last, Load(source + last));
    return;
  }
#endif
  __builtin_memcpy(target, source, static_cast<uint64_t>(bytes));
}

// Transposes through scratch memory: reads long pieces and writes long runs.
template <int kWidth>
void TransposeStaged(const TransposePlan& plan, const char* source, char* target, int64_t rows, int64_t columns,
                     int64_t columns_left, bool first, bool more_rows, char* tile) {
  const int64_t pitch = plan.source_pitch, tile_pitch = plan.tile_pitch;
  // If the target's lines are not aligned with the tile, the tile writes all lines that start in it.
  const bool non_temporal = plan.non_temporal != 0;
  int64_t staged = columns;
  if (non_temporal && (plan.target_pitch % kLine != 0 || reinterpret_cast<uint64_t>(target) % kLine != 0))
    staged = Min(columns + kLine / kWidth, columns_left);
  const int64_t row_bytes = rows * kWidth;
#ifdef __SSE2__
  constexpr int64_t kColumns = kVector / kWidth;
  if (HasBlocks<kWidth>(rows, staged)) {
    char* copies = tile + plan.tile_rows * tile_pitch;
    for (int64_t j0 = 0; j0 < staged; j0 += kColumns) {
      const int64_t j = Min(j0, staged - kColumns);
      const char* from = source + j * pitch;
      const char* prefetch = source + Min(j + plan.ahead, staged - kColumns) * pitch;
      if (plan.source_tile != 0) {
        for (int64_t k = 0; k < kColumns; ++k) {
          if (plan.ahead > 0) {
            for (int64_t at = 0; at < row_bytes; at += kLine) __builtin_prefetch(prefetch + k * pitch + at, 0, 2);
          }
          CopyBytes(from + k * pitch, copies + k * plan.source_tile, row_bytes);
        }
        TransposeColumns<kWidth>(copies, plan.source_tile, tile + j * kWidth, tile_pitch, 0, rows, nullptr, 0);
      } else {
        TransposeColumns<kWidth>(from, pitch, tile + j * kWidth, tile_pitch, 0, rows,
                                 plan.ahead > 0 ? prefetch : nullptr, pitch);
      }
    }
  } else {
    TransposeScalar<kWidth>(source, pitch, tile, tile_pitch, rows, staged);
  }
#else
  TransposeScalar<kWidth>(source, pitch, tile, tile_pitch, rows, staged);
#endif
  // Meanwhile prefetches the first lines of the next tile.
  const int64_t next_rows = more_rows && plan.ahead > 0 ? (plan.ahead + rows - 1) / rows : 0;
  const int64_t bytes = columns * kWidth;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = i * next_rows; k < Min((i + 1) * next_rows, columns); ++k) {
      const char* next = source + k * pitch + row_bytes;
      for (int64_t at = 0; at < row_bytes; at += kLine) __builtin_prefetch(next + at, 0, 2);
    }
    const char* from = tile + i * tile_pitch;
    char* to = target + i * plan.target_pitch;
#ifdef __SSE2__
    if (non_temporal) {
      // Lines that start before the tile belong to its neighbour, except at the beginning of a row.
      const auto before_line = [](const char* p) {
        return static_cast<int64_t>(-reinterpret_cast<uint64_t>(p) % static_cast<uint64_t>(kLine));
      };
      const int64_t end = Min(bytes + before_line(to + bytes), columns_left * kWidth);
      int64_t at = Min(before_line(to), end);
      if (first) CopyBytes(from, to, at);
      for (; at + kLine <= end; at += kLine) {
        for (int64_t k = 0; k < kLine; k += kVector) StoreNonTemporal(to + at + k, Load(from + at + k));
      }
      if (at < end) CopyBytes(from + at, to + at, end - at);
      continue;
    }
#endif
    CopyBytes(from, to, bytes);
  }
}

template <int kWidth>
void Tile(const TransposePlan& plan, const char* source, char* target, int64_t row, int64_t column, char* scratch) {
  const int64_t rows = Min(plan.tile_rows, plan.rows - row), left = plan.columns - column;
  const int64_t columns = Min(plan.tile_columns, left);
  source += row * kWidth + column * plan.source_pitch;
  target += row * plan.target_pitch + column * kWidth;
  if (plan.tile_pitch == 0)
    return TransposeDirectly<kWidth>(source, plan.source_pitch, target, plan.target_pitch, rows, columns);
  TransposeStaged<kWidth>(plan, source, target, rows, columns, left, column == 0,
                          row + rows + plan.tile_rows <= plan.rows, scratch);
}

BP_ALWAYS_INLINE void TransposeTileOfAnyWidth(const TransposePlan& plan, const char* source, char* target, int64_t row,
                                              int64_t column, char* scratch) {
  switch (plan.width) {
    case 1:
      return Tile<1>(plan, source, target, row, column, scratch);
    case 2:
      return Tile<2>(plan, source, target, row, column, scratch);
    case 4:
      return Tile<4>(plan, source, target, row, column, scratch);
    case 8:
      return Tile<8>(plan, source, target, row, column, scratch);
    default:
      return Tile<16>(plan, source, target, row, column, scratch);
  }
}

}  // namespace
}  // namespace backplane

#endif  // BACKPLANE_CORE_RELAYOUT_TRANSPOSE_KERNELS_H_
