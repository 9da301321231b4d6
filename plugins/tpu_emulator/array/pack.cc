#include "plugins/tpu_emulator/array/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/types/literal_convert.h"
#include "plugins/tpu_emulator/array/array_product.h"

namespace backplane::tpu {
namespace {

float PartOf(float x, Part part) {
  if (part == Part::kWhole) return x;
  float rest = x, piece = RoundToBf16(rest);
  for (int p = 0; p < static_cast<int>(part); ++p) {
    rest = std::isfinite(piece) && std::isfinite(rest) ? rest - piece : 0.0f;
    piece = RoundToBf16(rest);
  }
  return piece;
}

float Element(const PackSource& s, int64_t place) {
  float x;
  if (s.type == PrimitiveType::kF32) {
    x = static_cast<const float*>(s.data)[place];
  } else if (s.type == PrimitiveType::kBF16) {
    const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(s.data)[place]) << 16;
    std::memcpy(&x, &bits, sizeof(x));
  } else {
    ConvertElements(s.type, reinterpret_cast<const std::byte*>(static_cast<const uint16_t*>(s.data) + place),
                    PrimitiveType::kF32, reinterpret_cast<std::byte*>(&x), 1);
  }
  return PartOf(x, s.part);
}

void PlainRows(const PackSource& s, const int64_t* rows, int64_t count, float* to) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < s.k_count; ++i) *to++ = Element(s, rows[r] + s.k[i]);
  }
}

void PlainPanel(const PackSource& s, const int64_t* lanes, int64_t count, int64_t width, float* to) {
  for (int64_t i = 0; i < s.k_count; ++i, to += width) {
    for (int64_t l = 0; l < width; ++l) to[l] = l < count ? Element(s, lanes[l] + s.k[i]) : 0.0f;
  }
}

// The definition, also for hosts without fused multiply-add.
template <int64_t kRows>
void PlainTile(const float* a, int64_t row_step, int64_t k_step, const float* panel, int64_t k_count, bool first,
               float* total, int64_t pitch) {
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kTileColumns; ++c) {
      float sum = 0;
      for (int64_t i = 0; i < k_count; ++i)
        sum = std::fma(a[r * row_step + i * k_step], panel[i * kTileColumns + c], sum);
      float& to = total[r * pitch + c];
      to = first ? sum : to + sum;
    }
  }
}

void PlainNarrow(const float* from, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = RoundToBf16(from[i]);
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    to[i] = static_cast<uint16_t>(bits >> 16);
  }
}

}  // namespace
}  // namespace backplane::tpu

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace backplane::tpu {
namespace {

inline __m256 Round8(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_blendv_epi8(near, nan, is_nan), high));
}

inline __m256 Finite8(__m256 x) {  // a mask
  const __m256i exponent = _mm256_set1_epi32(0x7f800000);
  const __m256i special = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(x), exponent), exponent);
  return _mm256_castsi256_ps(_mm256_xor_si256(special, _mm256_set1_epi32(-1)));
}

template <Part kPart>
inline __m256 Part8(__m256 x) {
  if (kPart == Part::kWhole) return x;
  __m256 rest = x, piece = Round8(rest);
  for (int p = 0; p < static_cast<int>(kPart); ++p) {
    rest = _mm256_and_ps(_mm256_sub_ps(rest, piece), _mm256_and_ps(Finite8(piece), Finite8(rest)));
    piece = Round8(rest);
  }
  return piece;
}

// How eight elements are read that are `kStep` apart. Of 16 bits, two apart: the rows of a tile (2,1) lie in pairs.
template <PrimitiveType kType, int kStep>
struct Load {};
template <>
struct Load<PrimitiveType::kF32, 1> {
  using Element = float;
  static __m256 Eight(const Element* p) { return _mm256_loadu_ps(p); }
  static float One(const Element* p) { return *p; }
};
template <>
struct Load<PrimitiveType::kBF16, 1> {
  using Element = uint16_t;
  static __m256 Eight(const Element* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  static float One(const Element* p) {
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(static_cast<uint32_t>(*p) << 16))));
  }
};
template <>
struct Load<PrimitiveType::kF16, 1> {
  using Element = uint16_t;
  static __m256 Eight(const Element* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static float One(const Element* p) { return _cvtsh_ss(*p); }
};
inline __m256i Pairs(const uint16_t* p, bool* second) {
  *second = (reinterpret_cast<uintptr_t>(p) & 2) != 0;
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3}));
}
template <>
struct Load<PrimitiveType::kBF16, 2> : Load<PrimitiveType::kBF16, 1> {
  static __m256 Eight(const Element* p) {
    bool second;
    const __m256i pairs = Pairs(p, &second);
    return _mm256_castsi256_ps(second ? _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u)))
                                      : _mm256_slli_epi32(pairs, 16));
  }
};
template <>
struct Load<PrimitiveType::kF16, 2> : Load<PrimitiveType::kF16, 1> {
  static __m256 Eight(const Element* p) {
    bool second;
    const __m256i pairs = Pairs(p, &second);
    const __m256i wide = second ? _mm256_srli_epi32(pairs, 16) : _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff));
    const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(narrow));
  }
};

template <typename L, Part kPart>
inline float One(const typename L::Element* p) {
  return _mm_cvtss_f32(_mm256_castps256_ps128(Part8<kPart>(_mm256_set1_ps(L::One(p)))));
}

// All runs of k that matter are `step` apart.
template <typename L, int kStep, Part kPart>
void VectorRows(const PackSource& s, const int64_t* rows, int64_t count, float* to) {
  const auto* data = static_cast<const typename L::Element*>(s.data);
  for (int64_t r = 0; r < count; ++r, to += s.k_count) {
    for (int64_t n = 0; n < s.run_count; ++n) {
      const PlaceRun& run = s.runs[n];
      const auto* from = data + rows[r] + s.k[run.begin];
      float* out = to + run.begin;
      int64_t i = 0;
      if (run.step == kStep) {
        for (; i + 8 <= run.count; i += 8) _mm256_storeu_ps(out + i, Part8<kPart>(L::Eight(from + i * kStep)));
      }
      for (; i < run.count; ++i) out[i] = One<L, kPart>(from + i * run.step);
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
  if (even && kStep == 1) {  // six lanes; what is written behind them is overwritten by the next term
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
    const PlaceRun& run = s.runs[n];
    const auto* from = data + s.k[run.begin];
    float* out = to + run.begin * width;
    int64_t whole = 0;  // lanes that are done by squares of eight
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
        out[i * width + l] = One<L, kPart>(from + lanes[l] + i * run.step);
    }
  }
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

bool MostlyTwoApart(const PackSource& s) {
  int64_t two = 0;
  for (int64_t n = 0; n < s.run_count; ++n) two += s.runs[n].step == 2 ? s.runs[n].count : 0;
  return 2 * two > s.k_count;
}

void HostRows(const PackSource& s, const int64_t* rows, int64_t count, float* to) {
  if (s.type == PrimitiveType::kF32) return RowsOf<PrimitiveType::kF32, 1>(s, rows, count, to);
  const bool two = MostlyTwoApart(s);
  if (s.type == PrimitiveType::kBF16) {
    return two ? RowsOf<PrimitiveType::kBF16, 2>(s, rows, count, to)
               : RowsOf<PrimitiveType::kBF16, 1>(s, rows, count, to);
  }
  return two ? RowsOf<PrimitiveType::kF16, 2>(s, rows, count, to) : RowsOf<PrimitiveType::kF16, 1>(s, rows, count, to);
}

void HostPanel(const PackSource& s, const int64_t* lanes, int64_t count, int64_t width, float* to) {
  if (s.type == PrimitiveType::kF32) return PanelOf<PrimitiveType::kF32, 1>(s, lanes, count, width, to);
  const bool two = (count > 1 && lanes[1] - lanes[0] == 2) || MostlyTwoApart(s);
  if (s.type == PrimitiveType::kBF16) {
    return two ? PanelOf<PrimitiveType::kBF16, 2>(s, lanes, count, width, to)
               : PanelOf<PrimitiveType::kBF16, 1>(s, lanes, count, width, to);
  }
  return two ? PanelOf<PrimitiveType::kF16, 2>(s, lanes, count, width, to)
             : PanelOf<PrimitiveType::kF16, 1>(s, lanes, count, width, to);
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
    const __m256i bits = _mm256_srli_epi32(_mm256_castps_si256(Round8(_mm256_loadu_ps(from + i))), 16);
    const __m256i narrow = _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_castsi256_si128(narrow));
  }
  PlainNarrow(from + i, count - i, to + i);
}

}  // namespace
}  // namespace backplane::tpu
#pragma GCC pop_options
#endif

namespace backplane::tpu {

const ArrayKernels& PlainKernels() {
  static constexpr ArrayKernels kKernels = {
      PlainRows,
      PlainPanel,
      {nullptr, PlainTile<1>, PlainTile<2>, PlainTile<3>, PlainTile<4>, PlainTile<5>, PlainTile<6>},
      PlainNarrow};
  return kKernels;
}

const ArrayKernels& HostKernels() {
#if defined(__x86_64__)
  static constexpr ArrayKernels kVector = {
      HostRows,
      HostPanel,
      {nullptr, VectorTile<1>, VectorTile<2>, VectorTile<3>, VectorTile<4>, VectorTile<5>, VectorTile<6>},
      VectorNarrow};
  static const bool vector =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (vector) return kVector;
#endif
  return PlainKernels();
}

}  // namespace backplane::tpu
