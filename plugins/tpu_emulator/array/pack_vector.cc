// The inner loops for AVX2: vectors of eight floats.
#include <algorithm>
#include <cstring>

#include "base/cpu_features.h"
#include "plugins/tpu_emulator/array/pack.h"

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace backplane::tpu {
namespace {

inline __m256 RoundToBf16x8(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_blendv_epi8(near, nan, is_nan), high));
}

inline __m256 IsFinite8(__m256 x) {  // returns a mask
  const __m256i exponent = _mm256_set1_epi32(0x7f800000);
  const __m256i special = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(x), exponent), exponent);
  return _mm256_castsi256_ps(_mm256_xor_si256(special, _mm256_set1_epi32(-1)));
}

template <Part kPart>
inline __m256 Part8(__m256 x) {
  if (kPart == Part::kWhole) return x;
  __m256 rest = x, piece = RoundToBf16x8(rest);
  for (int p = 0; p < static_cast<int>(kPart); ++p) {
    rest = _mm256_and_ps(_mm256_sub_ps(rest, piece), _mm256_and_ps(IsFinite8(piece), IsFinite8(rest)));
    piece = RoundToBf16x8(rest);
  }
  return piece;
}

// Loads eight elements with a stride of `kStep`. A stride of two occurs in tiles (2,1), which interleave pairs of
// 16-bit rows.
template <PrimitiveType kType, int kStep>
struct Load {};
template <>
struct Load<PrimitiveType::kF32, 1> {
  using Element = float;
  static __m256 Eight(const Element* p) { return _mm256_loadu_ps(p); }
  static float LoadPart(const Element* p) { return *p; }
};
template <>
struct Load<PrimitiveType::kBF16, 1> {
  using Element = uint16_t;
  static __m256 Eight(const Element* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  static float LoadPart(const Element* p) {
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(static_cast<uint32_t>(*p) << 16))));
  }
};
template <>
struct Load<PrimitiveType::kF16, 1> {
  using Element = uint16_t;
  static __m256 Eight(const Element* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static float LoadPart(const Element* p) { return _cvtsh_ss(*p); }
};
inline __m256i LoadPairs(const uint16_t* p, bool* second) {
  *second = (reinterpret_cast<uintptr_t>(p) & 2) != 0;
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3}));
}
template <>
struct Load<PrimitiveType::kBF16, 2> : Load<PrimitiveType::kBF16, 1> {
  static __m256 Eight(const Element* p) {
    bool second;
    const __m256i pairs = LoadPairs(p, &second);
    return _mm256_castsi256_ps(second ? _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u)))
                                      : _mm256_slli_epi32(pairs, 16));
  }
};
template <>
struct Load<PrimitiveType::kF16, 2> : Load<PrimitiveType::kF16, 1> {
  static __m256 Eight(const Element* p) {
    bool second;
    const __m256i pairs = LoadPairs(p, &second);
    const __m256i wide = second ? _mm256_srli_epi32(pairs, 16) : _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff));
    const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(narrow));
  }
};

template <typename L, Part kPart>
inline float LoadPart(const typename L::Element* p) {
  return _mm_cvtss_f32(_mm256_castps256_ps128(Part8<kPart>(_mm256_set1_ps(L::LoadPart(p)))));
}

// Vectorizes the runs whose step is `kStep`.
template <typename L, int kStep, Part kPart>
void VectorRows(const PackSource& s, const int64_t* rows, int64_t count, float* to) {
  const auto* data = static_cast<const typename L::Element*>(s.data);
  for (int64_t r = 0; r < count; ++r, to += s.k_count) {
    for (int64_t n = 0; n < s.run_count; ++n) {
      const OffsetRun& run = s.runs[n];
      const auto* from = data + rows[r] + s.k[run.begin];
      float* out = to + run.begin;
      int64_t i = 0;
      if (run.step == kStep) {
        for (; i + 8 <= run.count; i += 8) _mm256_storeu_ps(out + i, Part8<kPart>(L::Eight(from + i * kStep)));
      }
      for (; i < run.count; ++i) out[i] = LoadPart<L, kPart>(from + i * run.step);
    }
  }
}

inline void Transpose8(__m256* v) {
  const __m256 a0 = _mm256_unpacklo_ps(v[0], v[1]), a1 = _mm256_unpackhi_ps(v[0], v[1]);
  const __m256 a2 = _mm256_unpacklo_ps(v[2], v[3]), a3 = _mm256_unpackhi_ps(v[2], v[3]);
  const __m256 a4 = _mm256_unpacklo_ps(v[4], v[5]), a5 = _mm256_unpackhi_ps(v[4], v[5]);
  const __m256 a6 = _mm256_unpacklo_ps(v[6], v[7]), a7 = _mm256_unpackhi_ps(v[6], v[7]);
  const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44), b1 = _mm256_shuffle_ps(a0, a2, 0xee);
  const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44), b3 = _mm256_shuffle_ps(a1, a3, 0xee);
  const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44), b5 = _mm256_shuffle_ps(a4, a6, 0xee);
  const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44), b7 = _mm256_shuffle_ps(a5, a7, 0xee);
  v[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
  v[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
  v[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
  v[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
  v[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
  v[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
  v[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
  v[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}

template <typename L, int kStep, Part kPart>
void VectorPanel(const PackSource& s, const int64_t* lanes, int64_t count, int64_t width, float* to) {
  const auto* data = static_cast<const typename L::Element*>(s.data);
  bool even = count == width;
  for (int64_t l = 1; l < count && even; ++l) even = lanes[l] - lanes[l - 1] == kStep;
  if (even && width == kTileColumns) {
    const auto* from = data + lanes[0];
    for (int64_t i = 0; i < s.k_count; ++i) {
      const auto* p = from + s.k[i];
      _mm256_storeu_ps(to + i * kTileColumns, Part8<kPart>(L::Eight(p)));
      _mm256_storeu_ps(to + i * kTileColumns + 8, Part8<kPart>(L::Eight(p + 8 * kStep)));
    }
    return;
  }
  if (even && kStep == 1) {  // six lanes; what is stored past them is overwritten by the next term
    const auto* from = data + lanes[0];
    alignas(32) typename L::Element six[8] = {};
    for (int64_t i = 0; i < s.k_count; ++i) {
      std::memcpy(six, from + s.k[i], kTileRows * sizeof(six[0]));
      _mm256_storeu_ps(to + i * kTileRows, Part8<kPart>(L::Eight(six)));
    }
    return;
  }
  if (count < width) {
    for (int64_t i = 0; i < s.k_count; ++i) std::fill(to + i * width + count, to + (i + 1) * width, 0.0f);
  }
  for (int64_t n = 0; n < s.run_count; ++n) {
    const OffsetRun& run = s.runs[n];
    const auto* from = data + s.k[run.begin];
    float* out = to + run.begin * width;
    int64_t whole = 0;  // lanes done by 8x8 transposes
    const int64_t squares = run.step == kStep ? run.count / 8 * 8 : 0;
    for (; squares > 0 && whole + 8 <= count; whole += 8) {
      for (int64_t i = 0; i < squares; i += 8) {
        __m256 v[8];
        for (int64_t l = 0; l < 8; ++l) v[l] = L::Eight(from + lanes[whole + l] + i * kStep);
        Transpose8(v);
        for (int64_t j = 0; j < 8; ++j) _mm256_storeu_ps(out + (i + j) * width + whole, Part8<kPart>(v[j]));
      }
    }
    for (int64_t i = 0; i < run.count; ++i) {
      for (int64_t l = i < squares ? whole : 0; l < count; ++l)
        out[i * width + l] = LoadPart<L, kPart>(from + lanes[l] + i * run.step);
    }
  }
}

template <int kStep>
bool AreContiguous(const int64_t* lanes, int64_t count) {
  for (int64_t l = 1; l < count; ++l) {
    if (lanes[l] - lanes[l - 1] != kStep) return false;
  }
  return true;
}

constexpr int64_t kPrefetchDistance = 8;  // how many terms ahead memory is prefetched

// Reads each row of memory from one end to the other before the next one.
template <typename L, int kStep, Part kPart>
void VectorPanels(const PackSource& s, const int64_t* lanes, int64_t count, float* to) {
  const auto* data = static_cast<const typename L::Element*>(s.data);
  int64_t done = 0;
  while (done + kTileColumns <= count) {
    // Handle as many full panels at once as have contiguous lanes.
    int64_t side_by_side = 1;
    while (done + side_by_side < count && lanes[done + side_by_side] - lanes[done + side_by_side - 1] == kStep)
      ++side_by_side;
    const int64_t panels = side_by_side / kTileColumns;
    if (panels < 2) {
      VectorPanel<L, kStep, kPart>(s, lanes + done, kTileColumns, kTileColumns, to + done * s.k_count);
      done += kTileColumns;
      continue;
    }
    const auto* from = data + lanes[done];
    float* panel = to + done * s.k_count;
    for (int64_t i = 0; i < s.k_count; ++i) {
      const auto* p = from + s.k[i];
      float* out = panel + i * kTileColumns;
      const auto* ahead = from + s.k[std::min(i + kPrefetchDistance, s.k_count - 1)];
      for (int64_t n = 0; n < panels; ++n, out += kTileColumns * s.k_count) {
        _mm_prefetch(reinterpret_cast<const char*>(ahead + n * kTileColumns * kStep), _MM_HINT_T0);
        _mm256_storeu_ps(out, Part8<kPart>(L::Eight(p + n * kTileColumns * kStep)));
        _mm256_storeu_ps(out + 8, Part8<kPart>(L::Eight(p + (n * kTileColumns + 8) * kStep)));
      }
    }
    done += panels * kTileColumns;
  }
  if (done < count) VectorPanel<L, kStep, kPart>(s, lanes + done, count - done, kTileColumns, to + done * s.k_count);
}

template <typename L, int kStep, Part kPart, int64_t kVectors>
void FewColumns(const PackSource& s, const typename L::Element* from, const float* a, bool first, float* to) {
  __m256 sum[kVectors];
  for (int64_t v = 0; v < kVectors; ++v) sum[v] = _mm256_setzero_ps();
  for (int64_t i = 0; i < s.k_count; ++i) {
    const auto* p = from + s.k[i];
    const auto* ahead = from + s.k[std::min(i + kPrefetchDistance, s.k_count - 1)];
    const __m256 x = _mm256_broadcast_ss(a + i);
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      if (v % 2 == 0) _mm_prefetch(reinterpret_cast<const char*>(ahead + v * 8 * kStep), _MM_HINT_T0);
      sum[v] = _mm256_fmadd_ps(x, Part8<kPart>(L::Eight(p + v * 8 * kStep)), sum[v]);
    }
  }
  for (int64_t v = 0; v < kVectors; ++v) {
    if (!first) sum[v] = _mm256_add_ps(_mm256_loadu_ps(to + v * 8), sum[v]);
    _mm256_storeu_ps(to + v * 8, sum[v]);
  }
}

template <typename L, int kStep, Part kPart>
bool VectorFewRows(const PackSource& s, const int64_t* lanes, int64_t count, const float* a, int64_t rows, bool first,
                   float* total, int64_t pitch) {
  const auto* data = static_cast<const typename L::Element*>(s.data);
  const int64_t whole = count / 8 * 8;
  for (int64_t c = 0; c < whole; c += 8) {
    if (!AreContiguous<kStep>(lanes + c, 8)) return false;
  }
  for (int64_t c = 0; c < whole;) {
    int64_t wide = 64;
    while (wide > 8 && (c + wide > whole || !AreContiguous<kStep>(lanes + c, wide))) wide /= 2;
    for (int64_t r = 0; r < rows; ++r) {
      const auto* from = data + lanes[c];
      const float* row = a + r * s.k_count;
      float* to = total + r * pitch + c;
      if (wide == 64) {
        FewColumns<L, kStep, kPart, 8>(s, from, row, first, to);
      } else if (wide == 32) {
        FewColumns<L, kStep, kPart, 4>(s, from, row, first, to);
      } else if (wide == 16) {
        FewColumns<L, kStep, kPart, 2>(s, from, row, first, to);
      } else {
        FewColumns<L, kStep, kPart, 1>(s, from, row, first, to);
      }
    }
    c += wide;
  }
  for (int64_t c = whole; c < count; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      __m128 sum = _mm_setzero_ps();
      for (int64_t i = 0; i < s.k_count; ++i) {
        sum = _mm_fmadd_ss(_mm_load_ss(a + r * s.k_count + i), _mm_set_ss(LoadPart<L, kPart>(data + lanes[c] + s.k[i])),
                           sum);
      }
      float& to = total[r * pitch + c];
      to = first ? _mm_cvtss_f32(sum) : to + _mm_cvtss_f32(sum);
    }
  }
  return true;
}

template <PrimitiveType kType, int kStep>
void PanelsOf(const PackSource& s, const int64_t* lanes, int64_t count, float* to) {
  using L = Load<kType, kStep>;
  switch (s.part) {
    case Part::kWhole:
      return VectorPanels<L, kStep, Part::kWhole>(s, lanes, count, to);
    case Part::kFirst:
      return VectorPanels<L, kStep, Part::kFirst>(s, lanes, count, to);
    case Part::kSecond:
      return VectorPanels<L, kStep, Part::kSecond>(s, lanes, count, to);
    case Part::kThird:
      return VectorPanels<L, kStep, Part::kThird>(s, lanes, count, to);
  }
}
template <PrimitiveType kType, int kStep>
bool FewRowsOf(const PackSource& s, const int64_t* lanes, int64_t count, const float* a, int64_t rows, bool first,
               float* total, int64_t pitch) {
  using L = Load<kType, kStep>;
  switch (s.part) {
    case Part::kWhole:
      return VectorFewRows<L, kStep, Part::kWhole>(s, lanes, count, a, rows, first, total, pitch);
    case Part::kFirst:
      return VectorFewRows<L, kStep, Part::kFirst>(s, lanes, count, a, rows, first, total, pitch);
    case Part::kSecond:
      return VectorFewRows<L, kStep, Part::kSecond>(s, lanes, count, a, rows, first, total, pitch);
    case Part::kThird:
      return VectorFewRows<L, kStep, Part::kThird>(s, lanes, count, a, rows, first, total, pitch);
  }
  return false;
}

template <PrimitiveType kType, int kStep>
void RowsOf(const PackSource& s, const int64_t* rows, int64_t count, float* to) {
  using L = Load<kType, kStep>;
  switch (s.part) {
    case Part::kWhole:
      return VectorRows<L, kStep, Part::kWhole>(s, rows, count, to);
    case Part::kFirst:
      return VectorRows<L, kStep, Part::kFirst>(s, rows, count, to);
    case Part::kSecond:
      return VectorRows<L, kStep, Part::kSecond>(s, rows, count, to);
    case Part::kThird:
      return VectorRows<L, kStep, Part::kThird>(s, rows, count, to);
  }
}
template <PrimitiveType kType, int kStep>
void PanelOf(const PackSource& s, const int64_t* lanes, int64_t count, int64_t width, float* to) {
  using L = Load<kType, kStep>;
  switch (s.part) {
    case Part::kWhole:
      return VectorPanel<L, kStep, Part::kWhole>(s, lanes, count, width, to);
    case Part::kFirst:
      return VectorPanel<L, kStep, Part::kFirst>(s, lanes, count, width, to);
    case Part::kSecond:
      return VectorPanel<L, kStep, Part::kSecond>(s, lanes, count, width, to);
    case Part::kThird:
      return VectorPanel<L, kStep, Part::kThird>(s, lanes, count, width, to);
  }
}

bool HasMostlyStrideTwo(const PackSource& s) {
  int64_t two = 0;
  for (int64_t n = 0; n < s.run_count; ++n) two += s.runs[n].step == 2 ? s.runs[n].count : 0;
  return 2 * two > s.k_count;
}

bool HasStrideTwo(const PackSource& s, const int64_t* lanes, int64_t count) {
  return (count > 1 && lanes[1] - lanes[0] == 2) || HasMostlyStrideTwo(s);
}

void HostRows(const PackSource& s, const int64_t* rows, int64_t count, float* to) {
  if (s.type == PrimitiveType::kF32) return RowsOf<PrimitiveType::kF32, 1>(s, rows, count, to);
  const bool two = HasMostlyStrideTwo(s);
  if (s.type == PrimitiveType::kBF16) {
    return two ? RowsOf<PrimitiveType::kBF16, 2>(s, rows, count, to)
               : RowsOf<PrimitiveType::kBF16, 1>(s, rows, count, to);
  }
  return two ? RowsOf<PrimitiveType::kF16, 2>(s, rows, count, to) : RowsOf<PrimitiveType::kF16, 1>(s, rows, count, to);
}

void HostPanel(const PackSource& s, const int64_t* lanes, int64_t count, int64_t width, float* to) {
  if (s.type == PrimitiveType::kF32) return PanelOf<PrimitiveType::kF32, 1>(s, lanes, count, width, to);
  const bool two = HasStrideTwo(s, lanes, count);
  if (s.type == PrimitiveType::kBF16) {
    return two ? PanelOf<PrimitiveType::kBF16, 2>(s, lanes, count, width, to)
               : PanelOf<PrimitiveType::kBF16, 1>(s, lanes, count, width, to);
  }
  return two ? PanelOf<PrimitiveType::kF16, 2>(s, lanes, count, width, to)
             : PanelOf<PrimitiveType::kF16, 1>(s, lanes, count, width, to);
}

void HostPanels(const PackSource& s, const int64_t* lanes, int64_t count, float* to) {
  if (s.type == PrimitiveType::kF32) return PanelsOf<PrimitiveType::kF32, 1>(s, lanes, count, to);
  const bool two = HasStrideTwo(s, lanes, count);
  if (s.type == PrimitiveType::kBF16) {
    return two ? PanelsOf<PrimitiveType::kBF16, 2>(s, lanes, count, to)
               : PanelsOf<PrimitiveType::kBF16, 1>(s, lanes, count, to);
  }
  return two ? PanelsOf<PrimitiveType::kF16, 2>(s, lanes, count, to)
             : PanelsOf<PrimitiveType::kF16, 1>(s, lanes, count, to);
}

bool HostFewRows(const PackSource& s, const int64_t* lanes, int64_t count, const float* a, int64_t rows, bool first,
                 float* total, int64_t pitch) {
  if (s.type == PrimitiveType::kF32)
    return FewRowsOf<PrimitiveType::kF32, 1>(s, lanes, count, a, rows, first, total, pitch);
  const bool two = count > 1 && lanes[1] - lanes[0] == 2;
  if (s.type == PrimitiveType::kBF16) {
    return two ? FewRowsOf<PrimitiveType::kBF16, 2>(s, lanes, count, a, rows, first, total, pitch)
               : FewRowsOf<PrimitiveType::kBF16, 1>(s, lanes, count, a, rows, first, total, pitch);
  }
  return two ? FewRowsOf<PrimitiveType::kF16, 2>(s, lanes, count, a, rows, first, total, pitch)
             : FewRowsOf<PrimitiveType::kF16, 1>(s, lanes, count, a, rows, first, total, pitch);
}

template <int64_t kRows, int64_t kKStep>
inline void VectorTileOf(const float* a, int64_t row_step, const float* panel, int64_t k_count, bool first,
                         float* total, int64_t pitch) {
  __m256 sum[kRows][2];
  for (int64_t r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  for (int64_t i = 0; i < k_count; ++i) {
    const __m256 b0 = _mm256_loadu_ps(panel + i * kTileColumns), b1 = _mm256_loadu_ps(panel + i * kTileColumns + 8);
#pragma GCC unroll 6
    for (int64_t r = 0; r < kRows; ++r) {
      const __m256 x = _mm256_broadcast_ss(a + r * (kKStep == 1 ? row_step : 1) + i * kKStep);
      sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int64_t r = 0; r < kRows; ++r) {
    float* to = total + r * pitch;
    if (!first) {
      sum[r][0] = _mm256_add_ps(_mm256_loadu_ps(to), sum[r][0]);
      sum[r][1] = _mm256_add_ps(_mm256_loadu_ps(to + 8), sum[r][1]);
    }
    _mm256_storeu_ps(to, sum[r][0]);
    _mm256_storeu_ps(to + 8, sum[r][1]);
  }
}
template <int64_t kRows>
void VectorTile(const float* a, int64_t row_step, int64_t k_step, const float* panel, int64_t k_count, bool first,
                float* total, int64_t pitch) {
  if (k_step == 1) return VectorTileOf<kRows, 1>(a, row_step, panel, k_count, first, total, pitch);
  VectorTileOf<kRows, kTileRows>(a, row_step, panel, k_count, first, total, pitch);
}

void VectorNarrow(const float* from, int64_t count, uint16_t* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i bits = _mm256_srli_epi32(_mm256_castps_si256(RoundToBf16x8(_mm256_loadu_ps(from + i))), 16);
    const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_castsi256_si128(narrow));
  }
  PlainKernels().narrow_bf16(from + i, count - i, to + i);
}

}  // namespace
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const ArrayKernels* VectorKernels() {
  static constexpr ArrayKernels kVector = {
      HostRows,
      HostPanel,
      HostPanels,
      HostFewRows,
      {nullptr, VectorTile<1>, VectorTile<2>, VectorTile<3>, VectorTile<4>, VectorTile<5>, VectorTile<6>},
      VectorNarrow};
  return DetectCpuVectorBytes() >= 32 ? &kVector : nullptr;
}

}  // namespace backplane::tpu

#else

namespace backplane::tpu {
const ArrayKernels* VectorKernels() { return nullptr; }
}  // namespace backplane::tpu

#endif
