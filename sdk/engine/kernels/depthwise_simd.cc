#include "sdk/engine/kernels/depthwise_simd.h"

#include "sdk/engine/kernels/simd.h"

namespace backplane::engine::BP_SIMD {
namespace {

BP_INLINE void Put(float* out, float x) { *out = x; }
BP_INLINE void Put(double* out, double x) { *out = x; }
BP_INLINE void Put(F16* out, float x) { *out = static_cast<F16>(x); }
BP_INLINE void Put(Bf16* out, float x) { *out = ToBf16(x); }

BP_INLINE void StoreAs(float* p, Vec<float> v) { Store(p, v); }
BP_INLINE void StoreAs(double* p, Vec<double> v) { Store(p, v); }
BP_INLINE void StoreAs(F16* p, Vec<float> v) {
#if BP_VECTOR_BYTES == 64
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif BP_VECTOR_BYTES == 32
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  for (int i = 0; i < VectorOf<float>::kLanes; ++i) p[i] = static_cast<F16>(v[i]);
#endif
}
BP_INLINE void StoreAs(Bf16* p, Vec<float> v) {
  typedef uint16_t Half __attribute__((vector_size(BP_VECTOR_BYTES / 2)));
  const Vec<uint32_t> bits = (Vec<uint32_t>)v;
  const Vec<uint32_t> rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const Vec<uint32_t> nan = (Vec<uint32_t>)(v != v);
  const Half half = __builtin_convertvector(((rounded & ~nan) | ((bits | 0x400000) & nan)) >> 16, Half);
  memcpy(p, &half, sizeof(half));
}

constexpr int kAtOnce = 4;  // outputs along the row that share one load of each weight

// One register of channels at `c`: all outputs of the row. kRows and kColumns are constants when they are not 0.
template <typename T, typename S, int kRows, int kColumns>
BP_INLINE void Channels(const DepthwiseRow& r, int64_t c) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  const int64_t rows = kRows ? kRows : r.kernel_rows, columns = kColumns ? kColumns : r.kernel_columns;
  const T* kernel = static_cast<const T*>(r.kernel) + c;
  S* out = static_cast<S*>(r.out) + c;
  Vec<T> held[kRows ? kRows * kColumns : 1];
  if (kRows) {
#pragma GCC unroll 9
    for (int i = 0; i < kRows * kColumns; ++i) held[i] = Load(kernel + i * r.channels);
  }
  auto weight = [&](int64_t ky, int64_t kx) __attribute__((always_inline)) {
    return kRows ? held[ky * kColumns + kx] : Load(kernel + (ky * columns + kx) * r.channels);
  };
  // Outputs whose whole window lies inside.
  const int64_t reach = (columns - 1) * r.dilation;
  int64_t inner_begin = (r.pad_low + r.stride - 1) / r.stride;
  if (r.pad_low < 0) inner_begin = 0;
  const int64_t last_start = r.in_columns - 1 - reach + r.pad_low;  // largest output * stride
  int64_t inner_end = last_start < 0 ? 0 : last_start / r.stride + 1;
  inner_end = Min(inner_end, r.out_columns);
  inner_begin = Min(inner_begin, inner_end);
  auto edge = [&](int64_t x) __attribute__((always_inline)) {
    Vec<T> sum = {};
    for (int64_t ky = 0; ky < rows; ++ky) {
      if (r.lhs_rows[ky] == nullptr) continue;
      const S* row = static_cast<const S*>(r.lhs_rows[ky]) + c;
      for (int64_t kx = 0; kx < columns; ++kx) {
        const int64_t i = x * r.stride + kx * r.dilation - r.pad_low;
        if (i >= 0 && i < r.in_columns)
          sum += LoadAs<T, S>(row + i * r.lhs_column_stride) * Load(kernel + (ky * columns + kx) * r.channels);
      }
    }
    StoreAs(out + x * r.out_column_stride, sum);
  };
  int64_t x = 0;
  for (; x < inner_begin; ++x) edge(x);
  for (; x + kAtOnce <= inner_end; x += kAtOnce) {
    Vec<T> sum[kAtOnce] = {};
    const int64_t start = (x * r.stride - r.pad_low) * r.lhs_column_stride;
    const int64_t step = r.stride * r.lhs_column_stride;
#pragma GCC unroll 3
    for (int64_t ky = 0; ky < rows; ++ky) {
      if (r.lhs_rows[ky] == nullptr) continue;
      const S* row = static_cast<const S*>(r.lhs_rows[ky]) + c + start;
#pragma GCC unroll 3
      for (int64_t kx = 0; kx < columns; ++kx) {
        const Vec<T> w = weight(ky, kx);
        const S* p = row + kx * r.dilation * r.lhs_column_stride;
#pragma GCC unroll 4
        for (int i = 0; i < kAtOnce; ++i) sum[i] += LoadAs<T, S>(p + i * step) * w;
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) StoreAs(out + (x + i) * r.out_column_stride, sum[i]);
  }
  for (; x < r.out_columns; ++x) edge(x);
  (void)kLanes;
}

template <typename T, typename S>
void ComputeRemainingChannels(const DepthwiseRow& r, int64_t begin) {
  const T* kernel = static_cast<const T*>(r.kernel);
  for (int64_t x = 0; x < r.out_columns; ++x) {
    for (int64_t c = begin; c < r.channels; ++c) {
      T sum = 0;
      for (int64_t ky = 0; ky < r.kernel_rows; ++ky) {
        if (r.lhs_rows[ky] == nullptr) continue;
        for (int64_t kx = 0; kx < r.kernel_columns; ++kx) {
          const int64_t i = x * r.stride + kx * r.dilation - r.pad_low;
          if (i < 0 || i >= r.in_columns) continue;
          sum += ToFloat(static_cast<const S*>(r.lhs_rows[ky])[i * r.lhs_column_stride + c]) *
                 kernel[(ky * r.kernel_columns + kx) * r.channels + c];
        }
      }
      Put(static_cast<S*>(r.out) + x * r.out_column_stride + c, sum);
    }
  }
}

template <typename T, typename S>
void Row(const DepthwiseRow& r) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  int64_t c = 0;
  if (r.kernel_rows == 3 && r.kernel_columns == 3) {
    for (; c + kLanes <= r.channels; c += kLanes) Channels<T, S, 3, 3>(r, c);
  } else {
    for (; c + kLanes <= r.channels; c += kLanes) Channels<T, S, 0, 0>(r, c);
  }
  if (c < r.channels) ComputeRemainingChannels<T, S>(r, c);
}

void AnyRow(DepthwiseType type, const DepthwiseRow& r) {
  switch (type) {
    case DepthwiseType::kF32:
      return Row<float, float>(r);
    case DepthwiseType::kF64:
      return Row<double, double>(r);
    case DepthwiseType::kF16:
      return Row<float, F16>(r);
    case DepthwiseType::kBF16:
      return Row<float, Bf16>(r);
  }
}

template <typename T, typename S>
void WidenFrom(const void* from, int64_t stride, void* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) static_cast<T*>(to)[i] = ToFloat(static_cast<const S*>(from)[i * stride]);
}

void Widen(DepthwiseType type, const void* from, int64_t stride, void* to, int64_t count) {
  switch (type) {
    case DepthwiseType::kF32:
      return WidenFrom<float, float>(from, stride, to, count);
    case DepthwiseType::kF64:
      return WidenFrom<double, double>(from, stride, to, count);
    case DepthwiseType::kF16:
      return WidenFrom<float, F16>(from, stride, to, count);
    case DepthwiseType::kBF16:
      return WidenFrom<float, Bf16>(from, stride, to, count);
  }
}

}  // namespace

const DepthwiseKernels depthwise_kernels = {&AnyRow, &Widen};

}  // namespace backplane::engine::BP_SIMD
