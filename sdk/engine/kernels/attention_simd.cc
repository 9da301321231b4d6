#include "sdk/engine/kernels/attention_simd.h"

#include "sdk/engine/kernels/simd.h"

namespace backplane::engine::BP_SIMD {
namespace {

constexpr int kLanes = VectorOf<float>::kLanes;
constexpr int kMostVectors = 2;  // of a row: the width of a wide tile

// exp(x) for x <= 0, within one unit in the last place. A NaN stays; exp(-inf) is 0.
BP_INLINE Vec<float> ExpOfNonPositive(Vec<float> x) {
  // The exponential of anything below is 0 in f32. It is not computed, because an underflow may take long.
  const Vec<int32_t> vanishes = x < Broadcast(-104.0f);
  const Vec<float> zero = {};
  x = vanishes != 0 ? zero : x;
  const Vec<float> shift = Broadcast(12582912.0f);  // 1.5 * 2^23: rounds to the nearest integer
  const Vec<float> n = (x * 1.44269504088896341f + shift) - shift;
  const Vec<float> r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vec<float> p = Broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
#if BP_VECTOR_BYTES == 64
  p = (Vec<float>)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  // 2^n in two factors, because n may be below the smallest exponent.
  const Vec<int32_t> whole = __builtin_convertvector(n, Vec<int32_t>);
  const Vec<int32_t> half = whole >> 1;
  const Vec<int32_t> first = (half + 127) << 23, second = (whole - half + 127) << 23;
  p = p * (Vec<float>)first * (Vec<float>)second;
#endif
  return vanishes != 0 ? zero : p;
}

void Scale(float* scores, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i += kLanes) Store(scores + i, Load(scores + i) * factor);
}

void Add(float* scores, const float* terms, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) Store(scores + i, Load(scores + i) + Load(terms + i));
}

void Select(float* scores, const float* mask, int64_t count, bool keep, float value) {
  const Vec<float> other = Broadcast(value), zero = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec<float> x = Load(scores + i);
    const Vec<float> m = Load(mask + i);
    Store(scores + i, keep ? (m != zero ? x : other) : (m != zero ? other : x));
  }
}

void RoundF16(float* scores, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
#if BP_VECTOR_BYTES == 64
    const __m256i half = _mm512_cvtps_ph((__m512)Load(scores + i), _MM_FROUND_TO_NEAREST_INT);
    Store(scores + i, (Vec<float>)_mm512_cvtph_ps(half));
#elif BP_VECTOR_BYTES == 32
    const __m128i half = _mm256_cvtps_ph((__m256)Load(scores + i), _MM_FROUND_TO_NEAREST_INT);
    Store(scores + i, (Vec<float>)_mm256_cvtph_ps(half));
#else
    for (int j = 0; j < kLanes; ++j) scores[i + j] = static_cast<float>(static_cast<F16>(scores[i + j]));
#endif
  }
}

void RoundBf16(float* scores, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec<float> x = Load(scores + i);
    const Vec<uint32_t> bits = (Vec<uint32_t>)x;
    const Vec<uint32_t> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    Store(scores + i, x == x ? (Vec<float>)rounded : x);
  }
}

void Band(float* scores, int64_t keys, int64_t lanes, int64_t first_key, int64_t first_query, int64_t low, int64_t high,
          float value) {
  const Vec<float> other = Broadcast(value);
  Vec<int32_t> lane;
  for (int c = 0; c < kLanes; ++c) lane[c] = c;
  for (int64_t r = 0; r < keys; ++r) {
    // A lane c is visible if first <= c <= last.
    const int64_t difference = first_key + r - first_query;
    const int64_t first = Max(-1, Min(difference - high, lanes)), last = Max(-1, Min(difference - low, lanes));
    for (int64_t c = 0; c < lanes; c += kLanes) {
      float* const s = scores + r * lanes + c;
      const Vec<int32_t> outside = (lane < static_cast<int32_t>(first - c)) | (lane > static_cast<int32_t>(last - c));
      Store(s, outside != 0 ? other : Load(s));
    }
  }
}

template <int kVectors>
BP_INLINE void MaxOf(const float* scores, int64_t keys, float* largest) {
  constexpr int kRow = kVectors * kLanes;
  Vec<float> m[kVectors];
  for (int v = 0; v < kVectors; ++v) m[v] = Load(largest + v * kLanes);
  for (int64_t r = 0; r < keys; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec<float> x = Load(scores + r * kRow + v * kLanes);
      m[v] = ((x > m[v]) | (x != x)) != 0 ? x : m[v];
    }
  }
  for (int v = 0; v < kVectors; ++v) Store(largest + v * kLanes, m[v]);
}

void MaxRows(const float* scores, int64_t keys, int64_t lanes, float* largest) {
  if (lanes == kLanes) return MaxOf<1>(scores, keys, largest);
  MaxOf<kMostVectors>(scores, keys, largest);
}

template <int kVectors>
BP_INLINE void ExpSumOf(float* scores, int64_t keys, const float* largest, float* sum) {
  constexpr int kRow = kVectors * kLanes;
  Vec<float> m[kVectors], total[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    m[v] = Load(largest + v * kLanes);
    total[v] = Load(sum + v * kLanes);
  }
  for (int64_t r = 0; r < keys; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* const s = scores + r * kRow + v * kLanes;
      const Vec<float> e = ExpOfNonPositive(Load(s) - m[v]);
      total[v] += e;
      Store(s, e);
    }
  }
  for (int v = 0; v < kVectors; ++v) Store(sum + v * kLanes, total[v]);
}

void ExpSum(float* scores, int64_t keys, int64_t lanes, const float* largest, float* sum) {
  if (lanes == kLanes) return ExpSumOf<1>(scores, keys, largest, sum);
  ExpSumOf<kMostVectors>(scores, keys, largest, sum);
}

void Multiply(float* scores, int64_t keys, int64_t lanes, const float* factors) {
  for (int64_t c = 0; c < lanes; c += kLanes) {
    const Vec<float> f = Load(factors + c);
    for (int64_t r = 0; r < keys; ++r) Store(scores + r * lanes + c, Load(scores + r * lanes + c) * f);
  }
}

// The first or the second halves of two registers, element by element in turn.
BP_INLINE Vec<float> InterleaveLow(Vec<float> a, Vec<float> b) {
#if BP_VECTOR_BYTES == 64
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#elif BP_VECTOR_BYTES == 32
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}
BP_INLINE Vec<float> InterleaveHigh(Vec<float> a, Vec<float> b) {
#if BP_VECTOR_BYTES == 64
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif BP_VECTOR_BYTES == 32
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}

// Transposes a square. Each round interleaves row i with row i + kLanes / 2.
BP_INLINE void TransposeSquare(Vec<float>* rows) {
  constexpr int kHalf = kLanes / 2;
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
    Vec<float> now[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kHalf; ++i) {
      now[2 * i] = InterleaveLow(rows[i], rows[i + kHalf]);
      now[2 * i + 1] = InterleaveHigh(rows[i], rows[i + kHalf]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = now[i];
  }
}

struct Pred {
  uint8_t value;
};
BP_INLINE float ToFloat(Pred x) { return x.value; }
template <typename S>
BP_INLINE Vec<float> LoadRow(const S* p) {
  return LoadAs<float, S>(p);
}
template <>
BP_INLINE Vec<float> LoadRow<Pred>(const Pred* p) {
#if BP_VECTOR_BYTES == 64
  return (Vec<float>)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)));
#elif BP_VECTOR_BYTES == 32
  return (Vec<float>)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#else
  Vec<float> v;
  for (int i = 0; i < kLanes; ++i) v[i] = ToFloat(p[i]);
  return v;
#endif
}

template <typename S>
void TransposeInOf(const S* from, int64_t stride, int64_t rows, int64_t cols, float* to, int64_t lanes) {
  for (int64_t r = 0; r < lanes; r += kLanes) {
    for (int64_t c = 0; c < cols; c += kLanes) {
      Vec<float> square[kLanes];
      if (r + kLanes <= rows && c + kLanes <= cols) {
        for (int i = 0; i < kLanes; ++i) square[i] = LoadRow<S>(from + (r + i) * stride + c);
      } else {
        float row[kLanes];
        for (int i = 0; i < kLanes; ++i) {
          for (int j = 0; j < kLanes; ++j)
            row[j] = r + i < rows && c + j < cols ? ToFloat(from[(r + i) * stride + c + j]) : 0.0f;
          square[i] = Load(row);
        }
      }
      TransposeSquare(square);
      if (c + kLanes <= cols) {
        for (int j = 0; j < kLanes; ++j) Store(to + (c + j) * lanes + r, square[j]);
      } else {
        for (int64_t j = 0; j < cols - c; ++j) Store(to + (c + j) * lanes + r, square[j]);
      }
    }
  }
}

void TransposeIn(ElementType type, const void* from, int64_t stride, int64_t rows, int64_t cols, float* to,
                 int64_t lanes) {
  switch (type) {
    case ElementType::kPred:
      return TransposeInOf(static_cast<const Pred*>(from), stride, rows, cols, to, lanes);
    case ElementType::kBF16:
      return TransposeInOf(static_cast<const Bf16*>(from), stride, rows, cols, to, lanes);
    case ElementType::kF16:
      return TransposeInOf(static_cast<const F16*>(from), stride, rows, cols, to, lanes);
    default:
      return TransposeInOf(static_cast<const float*>(from), stride, rows, cols, to, lanes);
  }
}

void TransposeOut(const float* from, int64_t lanes, float* to, int64_t stride, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; c += kLanes) {
    for (int64_t r = 0; r < rows; r += kLanes) {
      Vec<float> square[kLanes];
      if (c + kLanes <= cols) {
        for (int j = 0; j < kLanes; ++j) square[j] = Load(from + (c + j) * lanes + r);
      } else {
        for (int j = 0; j < kLanes; ++j) square[j] = c + j < cols ? Load(from + (c + j) * lanes + r) : Vec<float>{};
      }
      TransposeSquare(square);
      if (c + kLanes <= cols && r + kLanes <= rows) {
        for (int i = 0; i < kLanes; ++i) Store(to + (r + i) * stride + c, square[i]);
      } else {
        float row[kLanes];
        for (int64_t i = 0; i < Min(kLanes, rows - r); ++i) {
          Store(row, square[i]);
          for (int64_t j = 0; j < Min(kLanes, cols - c); ++j) to[(r + i) * stride + c + j] = row[j];
        }
      }
    }
  }
}

bool AllFinite(const float* values, int64_t stride, int64_t rows, int64_t cols) {
  Vec<float> sum = {};  // 0, or NaN as soon as an element is not finite
  float rest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* v = values + r * stride;
    int64_t c = 0;
    for (; c + kLanes <= cols; c += kLanes) sum += Load(v + c) * 0.0f;
    for (; c < cols; ++c) rest += v[c] * 0.0f;
  }
  rest += HorizontalSum<float>(sum);
  return rest == rest;
}

}  // namespace

const AttentionKernels attention_kernels = {&Scale,   &Add,    &Select,   &RoundF16,    &RoundBf16,    &Band,
                                            &MaxRows, &ExpSum, &Multiply, &TransposeIn, &TransposeOut, &AllFinite};

}  // namespace backplane::engine::BP_SIMD
