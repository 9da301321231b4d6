#include "sdk/engine/kernels/gemv_simd.h"

#include "sdk/engine/kernels/simd.h"

namespace backplane::engine::BP_SIMD {
namespace {

template <typename O>
BP_INLINE void Put(O* out, float x);
template <>
BP_INLINE void Put<float>(float* out, float x) {
  *out = x;
}
template <>
BP_INLINE void Put<F16>(F16* out, float x) {
  *out = static_cast<F16>(x);
}
template <>
BP_INLINE void Put<Bf16>(Bf16* out, float x) {
  *out = ToBf16(x);
}
BP_INLINE void Put(double* out, double x) { *out = x; }

// One row of the matrix at a time: more rows at once lose, because their streams share cache sets.
template <typename T, typename S, typename O, int kVectors>
void Dots(int64_t begin, int64_t end, int64_t k, const S* w, int64_t ws, const S* x, int64_t xs, O* out, int64_t out_r,
          int64_t out_i) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  constexpr int kSums = kVectors == 1 ? 8 : kVectors == 2 ? 4 : 2;
  for (int64_t i = begin; i < end; ++i) {
    const S* row = w + i * ws;
    Vec<T> sum[kVectors][kSums] = {};
    int64_t p = 0;
    for (; p + kSums * kLanes <= k; p += kSums * kLanes) {
#pragma GCC unroll 8
      for (int u = 0; u < kSums; ++u) {
        const Vec<T> a = LoadAs<T, S>(row + p + u * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kVectors; ++r) sum[r][u] += a * LoadAs<T, S>(x + r * xs + p + u * kLanes);
      }
    }
    for (; p + kLanes <= k; p += kLanes) {
      const Vec<T> a = LoadAs<T, S>(row + p);
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) sum[r][0] += a * LoadAs<T, S>(x + r * xs + p);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      Vec<T> all = sum[r][0];
#pragma GCC unroll 8
      for (int u = 1; u < kSums; ++u) all += sum[r][u];
      T value = HorizontalSum<T>(all);
      for (int64_t q = p; q < k; ++q) value += ToFloat(row[q]) * ToFloat(x[r * xs + q]);
      Put(out + r * out_r + i * out_i, value);
    }
  }
}

#if defined(BP_SIMD_AVX512BF16)
template <typename O, int kVectors>
void DotsBf16(int64_t begin, int64_t end, int64_t k, const Bf16* w, int64_t ws, const Bf16* x, int64_t xs, O* out,
              int64_t out_r, int64_t out_i) {
  constexpr int kLanes = 32;
  constexpr int kSums = kVectors == 1 ? 8 : kVectors == 2 ? 4 : 2;
  auto load = [](const Bf16* p) __attribute__((always_inline)) { return (__m512bh)_mm512_loadu_si512(p); };
  const int64_t rest = k % kLanes;
  const __mmask32 mask = static_cast<__mmask32>((uint64_t{1} << rest) - 1);
  for (int64_t i = begin; i < end; ++i) {
    const Bf16* row = w + i * ws;
    __m512 sum[kVectors][kSums];
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r)
#pragma GCC unroll 8
      for (int u = 0; u < kSums; ++u) sum[r][u] = _mm512_setzero_ps();
    int64_t p = 0;
    for (; p + kSums * kLanes <= k; p += kSums * kLanes) {
#pragma GCC unroll 8
      for (int u = 0; u < kSums; ++u) {
        const __m512bh a = load(row + p + u * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kVectors; ++r)
          sum[r][u] = _mm512_dpbf16_ps(sum[r][u], a, load(x + r * xs + p + u * kLanes));
      }
    }
    for (; p + kLanes <= k; p += kLanes) {
      const __m512bh a = load(row + p);
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) sum[r][0] = _mm512_dpbf16_ps(sum[r][0], a, load(x + r * xs + p));
    }
    if (rest != 0) {
      const __m512bh a = (__m512bh)_mm512_maskz_loadu_epi16(mask, row + p);
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        sum[r][0] = _mm512_dpbf16_ps(sum[r][0], a, (__m512bh)_mm512_maskz_loadu_epi16(mask, x + r * xs + p));
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      __m512 all = sum[r][0];
#pragma GCC unroll 8
      for (int u = 1; u < kSums; ++u) all = _mm512_add_ps(all, sum[r][u]);
      Put(out + r * out_r + i * out_i, HorizontalSum<float>((Vec<float>)all));
    }
  }
}
#endif

template <typename T, typename S, typename O>
void DotsBy(int vectors, int64_t begin, int64_t end, int64_t k, const void* w, int64_t ws, const void* x, int64_t xs,
            void* out, int64_t out_r, int64_t out_i) {
  const S* tw = static_cast<const S*>(w);
  const S* tx = static_cast<const S*>(x);
  O* to = static_cast<O*>(out);
  switch (vectors) {
    case 1:
      return Dots<T, S, O, 1>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
    case 2:
      return Dots<T, S, O, 2>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
    case 3:
      return Dots<T, S, O, 3>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
    default:
      return Dots<T, S, O, 4>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
  }
}

#if defined(BP_SIMD_AVX512BF16)
template <typename O>
void DotsBf16By(int vectors, int64_t begin, int64_t end, int64_t k, const void* w, int64_t ws, const void* x,
                int64_t xs, void* out, int64_t out_r, int64_t out_i) {
  const Bf16* tw = static_cast<const Bf16*>(w);
  const Bf16* tx = static_cast<const Bf16*>(x);
  O* to = static_cast<O*>(out);
  switch (vectors) {
    case 1:
      return DotsBf16<O, 1>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
    case 2:
      return DotsBf16<O, 2>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
    case 3:
      return DotsBf16<O, 3>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
    default:
      return DotsBf16<O, 4>(begin, end, k, tw, ws, tx, xs, to, out_r, out_i);
  }
}
#endif

void AllDots(GemvType type, int vectors, int64_t begin, int64_t end, int64_t k, const void* w, int64_t ws,
             const void* x, int64_t xs, void* out, int64_t out_r, int64_t out_i, bool wide_out) {
  switch (type) {
    case GemvType::kF32:
      return DotsBy<float, float, float>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
    case GemvType::kF64:
      return DotsBy<double, double, double>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
    case GemvType::kF16:
      if (wide_out) return DotsBy<float, F16, float>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
      return DotsBy<float, F16, F16>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
    case GemvType::kBF16:
#if defined(BP_SIMD_AVX512BF16)
      if (wide_out) return DotsBf16By<float>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
      return DotsBf16By<Bf16>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
#else
      if (wide_out) return DotsBy<float, Bf16, float>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
      return DotsBy<float, Bf16, Bf16>(vectors, begin, end, k, w, ws, x, xs, out, out_r, out_i);
#endif
  }
}

// Several rows at a time into sums that stay in L1.
template <typename T, typename S, int kVectors, int kRows>
BP_INLINE void ColumnRows(int64_t n, const S* w, int64_t ws, const S* x, int64_t xs, T* acc, int64_t accs, bool first) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  T scale[kVectors][kRows];
  for (int r = 0; r < kVectors; ++r)
    for (int q = 0; q < kRows; ++q) scale[r][q] = ToFloat(x[r * xs + q]);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Vec<T> row[kRows];
#pragma GCC unroll 8
    for (int q = 0; q < kRows; ++q) row[q] = LoadAs<T, S>(w + q * ws + j);
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      Vec<T> sum = first ? Vec<T>{} : Load(acc + r * accs + j);
#pragma GCC unroll 8
      for (int q = 0; q < kRows; ++q) sum += row[q] * Broadcast(scale[r][q]);
      Store(acc + r * accs + j, sum);
    }
  }
  for (; j < n; ++j) {
    for (int r = 0; r < kVectors; ++r) {
      T sum = first ? T{} : acc[r * accs + j];
      for (int q = 0; q < kRows; ++q) sum += scale[r][q] * ToFloat(w[q * ws + j]);
      acc[r * accs + j] = sum;
    }
  }
}

template <typename T, typename S, int kVectors>
void Columns(int64_t begin, int64_t end, int64_t n, const S* w, int64_t ws, const S* x, int64_t xs, T* acc,
             int64_t accs) {
  // Wide outputs in strips whose sums fit half of L1.
  constexpr int64_t kStrip = 16384 / (static_cast<int64_t>(sizeof(T)) * kVectors);
  for (int64_t j = 0; j < n; j += kStrip) {
    const int64_t width = Min(kStrip, n - j);
    int64_t p = begin;
    for (; p + 8 <= end; p += 8)
      ColumnRows<T, S, kVectors, 8>(width, w + p * ws + j, ws, x + p, xs, acc + j, accs, p == begin);
    for (; p < end; ++p) ColumnRows<T, S, kVectors, 1>(width, w + p * ws + j, ws, x + p, xs, acc + j, accs, p == begin);
    if (begin == end) {
      for (int r = 0; r < kVectors; ++r) memset(acc + r * accs + j, 0, width * sizeof(T));
    }
  }
}

template <typename T, typename S>
void ColumnsBy(int vectors, int64_t begin, int64_t end, int64_t n, const void* w, int64_t ws, const void* x, int64_t xs,
               void* acc, int64_t accs) {
  const S* tw = static_cast<const S*>(w);
  const S* tx = static_cast<const S*>(x);
  T* ta = static_cast<T*>(acc);
  switch (vectors) {
    case 1:
      return Columns<T, S, 1>(begin, end, n, tw, ws, tx, xs, ta, accs);
    case 2:
      return Columns<T, S, 2>(begin, end, n, tw, ws, tx, xs, ta, accs);
    case 3:
      return Columns<T, S, 3>(begin, end, n, tw, ws, tx, xs, ta, accs);
    default:
      return Columns<T, S, 4>(begin, end, n, tw, ws, tx, xs, ta, accs);
  }
}

void AllColumns(GemvType type, int vectors, int64_t begin, int64_t end, int64_t n, const void* w, int64_t ws,
                const void* x, int64_t xs, void* acc, int64_t accs) {
  switch (type) {
    case GemvType::kF32:
      return ColumnsBy<float, float>(vectors, begin, end, n, w, ws, x, xs, acc, accs);
    case GemvType::kF64:
      return ColumnsBy<double, double>(vectors, begin, end, n, w, ws, x, xs, acc, accs);
    case GemvType::kF16:
      return ColumnsBy<float, F16>(vectors, begin, end, n, w, ws, x, xs, acc, accs);
    case GemvType::kBF16:
      return ColumnsBy<float, Bf16>(vectors, begin, end, n, w, ws, x, xs, acc, accs);
  }
}

template <typename T, typename O>
void ReduceTo(int64_t parts, int64_t part_stride, const void* acc, int64_t begin, int64_t end, void* out,
              int64_t out_stride) {
  const T* a = static_cast<const T*>(acc);
  O* o = static_cast<O*>(out);
  for (int64_t j = begin; j < end; ++j) {
    T sum = a[j];
    for (int64_t c = 1; c < parts; ++c) sum += a[c * part_stride + j];
    Put(o + j * out_stride, sum);
  }
}

void Reduce(GemvType type, int64_t parts, int64_t part_stride, const void* acc, int64_t begin, int64_t end, void* out,
            int64_t out_stride, bool wide_out) {
  if (type == GemvType::kF64) return ReduceTo<double, double>(parts, part_stride, acc, begin, end, out, out_stride);
  if (type == GemvType::kF32 || wide_out)
    return ReduceTo<float, float>(parts, part_stride, acc, begin, end, out, out_stride);
  if (type == GemvType::kF16) return ReduceTo<float, F16>(parts, part_stride, acc, begin, end, out, out_stride);
  return ReduceTo<float, Bf16>(parts, part_stride, acc, begin, end, out, out_stride);
}

}  // namespace

const GemvKernels gemv_kernels = {&AllDots, &AllColumns, &Reduce};

}  // namespace backplane::engine::BP_SIMD
