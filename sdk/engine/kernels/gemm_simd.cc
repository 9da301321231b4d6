#include "sdk/engine/kernels/gemm_simd.h"

#include "sdk/engine/kernels/simd.h"

namespace backplane::engine::BP_SIMD {
namespace {

#if BP_VECTOR_BYTES == 64
constexpr int kTileRows = 8;  // 16 sums, 2 columns' registers, and broadcasts from memory
#elif BP_VECTOR_BYTES == 32
constexpr int kTileRows = 6;  // 12 sums of 16 registers
#else
constexpr int kTileRows = 4;
#endif

template <typename T, int kRows, int kVectors>
BP_INLINE void Tile(int64_t k, const T* a, int64_t am, int64_t ak, const T* b, int64_t bk, T* c, int64_t cm,
                    bool accumulate) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  Vec<T> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = accumulate ? Load(c + i * cm + v * kLanes) : Vec<T>{};
  }
  for (int64_t p = 0; p < k; ++p) {
    Vec<T> row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) row[v] = Load(b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vec<T> x = Broadcast(a[i * am]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[i][v] += x * row[v];
    }
    a += ak;
    b += bk;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) Store(c + i * cm + v * kLanes, sum[i][v]);
  }
}

template <typename T, int kVectors>
void RunTile(int64_t rows, int64_t k, const void* a, int64_t am, int64_t ak, const void* b, int64_t bk, void* c,
             int64_t cm, bool accumulate) {
  const T* ta = static_cast<const T*>(a);
  const T* tb = static_cast<const T*>(b);
  T* tc = static_cast<T*>(c);
  switch (rows) {
    case 1:
      return Tile<T, 1, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
    case 2:
      return Tile<T, 2, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
    case 3:
      return Tile<T, 3, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
    case 4:
      return Tile<T, 4, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
#if BP_VECTOR_BYTES >= 32
    case 5:
      return Tile<T, 5, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
    case 6:
      return Tile<T, 6, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
#endif
#if BP_VECTOR_BYTES >= 64
    case 7:
      return Tile<T, 7, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
    case 8:
      return Tile<T, 8, kVectors>(k, ta, am, ak, tb, bk, tc, cm, accumulate);
#endif
  }
}

template <typename T>
constexpr GemmTile MakeTile() {
  return {kTileRows, VectorOf<T>::kLanes, 2 * VectorOf<T>::kLanes, &RunTile<T, 1>, &RunTile<T, 2>};
}

template <typename D, typename S>
struct Cast {
  static BP_INLINE D Do(S x) { return static_cast<D>(x); }
};
template <typename D>
struct Cast<D, Bf16> {
  static BP_INLINE D Do(Bf16 x) { return static_cast<D>(ToFloat(x)); }
};
struct Pred {
  uint8_t value;
};
template <typename D>
struct Cast<D, Pred> {
  static BP_INLINE D Do(Pred x) { return static_cast<D>(x.value != 0); }
};

template <typename D, typename S>
void ConvertBlock(const S* src, int64_t si, int64_t sj, D* dst, int64_t di, int64_t dj, int64_t rows, int64_t cols) {
  if (sj == 1 && dj == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      const S* s = src + i * si;
      D* d = dst + i * di;
      for (int64_t j = 0; j < cols; ++j) d[j] = Cast<D, S>::Do(s[j]);
    }
  } else if (si == 1 && di == 1) {
    for (int64_t j = 0; j < cols; ++j) {
      const S* s = src + j * sj;
      D* d = dst + j * dj;
      for (int64_t i = 0; i < rows; ++i) d[i] = Cast<D, S>::Do(s[i]);
    }
  } else {
    // One side runs along i, the other along j: squares keep both within few lines.
    constexpr int64_t kSquare = 16;
    for (int64_t i0 = 0; i0 < rows; i0 += kSquare) {
      const int64_t i1 = Min(rows, i0 + kSquare);
      for (int64_t j0 = 0; j0 < cols; j0 += kSquare) {
        const int64_t j1 = Min(cols, j0 + kSquare);
        for (int64_t i = i0; i < i1; ++i)
          for (int64_t j = j0; j < j1; ++j) dst[i * di + j * dj] = Cast<D, S>::Do(src[i * si + j * sj]);
      }
    }
  }
}

template <typename D>
void ConvertTo(ElementType from, const void* src, int64_t si, int64_t sj, D* dst, int64_t di, int64_t dj, int64_t rows,
               int64_t cols) {
#define BP_CASE(kind, S)  \
  case ElementType::kind: \
    return ConvertBlock<D, S>(static_cast<const S*>(src), si, sj, dst, di, dj, rows, cols);
  switch (from) {
    BP_CASE(kPred, Pred)
    BP_CASE(kS8, int8_t)
    BP_CASE(kS16, int16_t)
    BP_CASE(kS32, int32_t)
    BP_CASE(kS64, int64_t)
    BP_CASE(kU8, uint8_t)
    BP_CASE(kU16, uint16_t)
    BP_CASE(kU32, uint32_t)
    BP_CASE(kU64, uint64_t)
    BP_CASE(kF16, F16)
    BP_CASE(kBF16, Bf16)
    BP_CASE(kF32, float)
    BP_CASE(kF64, double)
    case ElementType::kC64:  // the caller passes parts
    case ElementType::kC128:
      return;
  }
#undef BP_CASE
}

void Convert(ElementType from, const void* src, int64_t si, int64_t sj, ElementType to, void* dst, int64_t di,
             int64_t dj, int64_t rows, int64_t cols) {
  switch (to) {
    case ElementType::kF32:
      return ConvertTo(from, src, si, sj, static_cast<float*>(dst), di, dj, rows, cols);
    case ElementType::kF64:
      return ConvertTo(from, src, si, sj, static_cast<double*>(dst), di, dj, rows, cols);
    case ElementType::kS32:
      return ConvertTo(from, src, si, sj, static_cast<int32_t*>(dst), di, dj, rows, cols);
    default:
      return ConvertTo(from, src, si, sj, static_cast<int64_t*>(dst), di, dj, rows, cols);
  }
}

template <typename S>
void ConvertOutFrom(const S* src, int64_t si, ElementType to, void* dst, int64_t di, int64_t dj, int64_t rows,
                    int64_t cols) {
#define BP_CASE(kind, D, expression)         \
  case ElementType::kind: {                  \
    D* out = static_cast<D*>(dst);           \
    for (int64_t i = 0; i < rows; ++i) {     \
      if (dj == 1) {                         \
        for (int64_t j = 0; j < cols; ++j) { \
          const S x = src[i * si + j];       \
          out[i * di + j] = expression;      \
        }                                    \
      } else {                               \
        for (int64_t j = 0; j < cols; ++j) { \
          const S x = src[i * si + j];       \
          out[i * di + j * dj] = expression; \
        }                                    \
      }                                      \
    }                                        \
    return;                                  \
  }
  switch (to) {
    BP_CASE(kPred, uint8_t, x != 0)
    BP_CASE(kS8, int8_t, static_cast<int8_t>(x))
    BP_CASE(kS16, int16_t, static_cast<int16_t>(x))
    BP_CASE(kS32, int32_t, static_cast<int32_t>(x))
    BP_CASE(kS64, int64_t, static_cast<int64_t>(x))
    BP_CASE(kU8, uint8_t, static_cast<uint8_t>(x))
    BP_CASE(kU16, uint16_t, static_cast<uint16_t>(x))
    BP_CASE(kU32, uint32_t, static_cast<uint32_t>(x))
    BP_CASE(kU64, uint64_t, static_cast<uint64_t>(x))
    BP_CASE(kF16, F16, static_cast<F16>(x))
    BP_CASE(kBF16, Bf16, ToBf16(static_cast<float>(x)))
    BP_CASE(kF32, float, static_cast<float>(x))
    BP_CASE(kF64, double, static_cast<double>(x))
    case ElementType::kC64:
    case ElementType::kC128:
      return;
  }
#undef BP_CASE
}

void ConvertOut(ElementType from, const void* src, int64_t si, ElementType to, void* dst, int64_t di, int64_t dj,
                int64_t rows, int64_t cols) {
  switch (from) {
    case ElementType::kF32:
      return ConvertOutFrom(static_cast<const float*>(src), si, to, dst, di, dj, rows, cols);
    case ElementType::kF64:
      return ConvertOutFrom(static_cast<const double*>(src), si, to, dst, di, dj, rows, cols);
    case ElementType::kS32:
      return ConvertOutFrom(static_cast<const int32_t*>(src), si, to, dst, di, dj, rows, cols);
    default:
      return ConvertOutFrom(static_cast<const int64_t*>(src), si, to, dst, di, dj, rows, cols);
  }
}

constexpr int kPrefetchRows = 6;  // the rows of a panel lie far apart, where no hardware prefetcher looks

template <typename T, typename S>
void PackPanelsOf(const S* src, int64_t src_stride, T* dst, int64_t panel_step, int64_t depth, int64_t panels) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  for (int64_t x = 0; x < depth; ++x) {
    for (int64_t p = 0; p < panels; ++p) {
      const S* s = src + p * 2 * kLanes;
      T* d = dst + p * panel_step + x * 2 * kLanes;
      __builtin_prefetch(s + kPrefetchRows * src_stride);
      Store(d, LoadAs<T, S>(s));
      Store(d + kLanes, LoadAs<T, S>(s + kLanes));
    }
    src += src_stride;
  }
}

void PackPanels(ElementType from, const void* src, int64_t src_stride, void* dst, int64_t panel_step, int64_t depth,
                int64_t panels) {
  switch (from) {
    case ElementType::kF64:
      return PackPanelsOf(static_cast<const double*>(src), src_stride, static_cast<double*>(dst), panel_step, depth,
                          panels);
    case ElementType::kBF16:
      return PackPanelsOf(static_cast<const Bf16*>(src), src_stride, static_cast<float*>(dst), panel_step, depth,
                          panels);
    case ElementType::kF16:
      return PackPanelsOf(static_cast<const F16*>(src), src_stride, static_cast<float*>(dst), panel_step, depth,
                          panels);
    default:
      return PackPanelsOf(static_cast<const float*>(src), src_stride, static_cast<float*>(dst), panel_step, depth,
                          panels);
  }
}

template <typename T, typename S>
void PackRowsOf(const S* src, int64_t src_stride, T* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
  constexpr int kLanes = VectorOf<T>::kLanes;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t j = 0;
    for (; j + kLanes <= cols; j += kLanes) Store(dst + j, LoadAs<T, S>(src + j));
    for (; j < cols; ++j) dst[j] = Cast<T, S>::Do(src[j]);
    src += src_stride;
    dst += dst_stride;
  }
}

void PackRows(ElementType from, const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
              int64_t cols) {
  switch (from) {
    case ElementType::kF64:
      return PackRowsOf(static_cast<const double*>(src), src_stride, static_cast<double*>(dst), dst_stride, rows, cols);
    case ElementType::kBF16:
      return PackRowsOf(static_cast<const Bf16*>(src), src_stride, static_cast<float*>(dst), dst_stride, rows, cols);
    case ElementType::kF16:
      return PackRowsOf(static_cast<const F16*>(src), src_stride, static_cast<float*>(dst), dst_stride, rows, cols);
    default:
      return PackRowsOf(static_cast<const float*>(src), src_stride, static_cast<float*>(dst), dst_stride, rows, cols);
  }
}

}  // namespace

// Integers wrap, so the tiles of signed types run in unsigned arithmetic.
const GemmKernels gemm_kernels = {
    MakeTile<float>(), MakeTile<double>(), MakeTile<uint32_t>(), MakeTile<uint64_t>(), &Convert,
    &PackPanels,       &PackRows,          &ConvertOut};

}  // namespace backplane::engine::BP_SIMD
