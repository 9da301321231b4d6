#include "sdk/engine/library/matrix_blocks.h"

#include "sdk/engine/library/targets.h"

#define BP_INLINE inline __attribute__((always_inline))

namespace backplane::engine {
namespace {

// Registers of B bytes, the machine's own: accumulators in wider ones would not fit.
template <int B, typename T>
struct Register {
  typedef T type __attribute__((vector_size(B)));
  typedef T unaligned __attribute__((vector_size(B), aligned(alignof(T)), may_alias));
};
template <int B, typename T>
using V = typename Register<B, T>::type;
template <int B, typename T>
constexpr int64_t kWidth = B / static_cast<int64_t>(sizeof(T));

template <int B, typename T>
BP_INLINE V<B, T> Load(const T* p) {
  return *reinterpret_cast<const typename Register<B, T>::unaligned*>(p);
}
template <int B, typename T>
BP_INLINE void Store(T* p, V<B, T> v) {
  *reinterpret_cast<typename Register<B, T>::unaligned*>(p) = v;
}
BP_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

constexpr int64_t kDepth = 128;  // of a packed panel of b

// ---- Real numbers: six rows by two registers ----

template <int kRows, int B, typename T>
BP_INLINE void RealTile(int64_t k, const T* a, int64_t a_stride, const T* panel, T* c, int64_t c_stride) {
  constexpr int64_t w = kWidth<B, T>;
  V<B, T> acc[kRows][2];
  for (int i = 0; i < kRows; ++i) acc[i][0] = Load<B>(c + i * c_stride), acc[i][1] = Load<B>(c + i * c_stride + w);
  for (int64_t q = 0; q < k; ++q) {
    const V<B, T> b0 = Load<B>(panel + 2 * w * q), b1 = Load<B>(panel + 2 * w * q + w);
    for (int i = 0; i < kRows; ++i) {
      const V<B, T> f = V<B, T>{} + a[i * a_stride + q];
      acc[i][0] -= f * b0, acc[i][1] -= f * b1;
    }
  }
  for (int i = 0; i < kRows; ++i)
    Store<B, T>(c + i * c_stride, acc[i][0]), Store<B, T>(c + i * c_stride + w, acc[i][1]);
}

template <int B, typename T>
BP_INLINE void RealProduct(int64_t m, int64_t n, int64_t k, ConstBlock<T> a, ConstBlock<T> b, Block<T> c) {
  constexpr int64_t kColumns = 2 * kWidth<B, T>, kRows = 6;
  alignas(64) T panel[kDepth * kColumns];
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = Least(kDepth, k - k0);
    for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
      const int64_t columns = Least(kColumns, n - j0);
      for (int64_t q = 0; q < depth; ++q) {
        const T* from = b.data + (k0 + q) * b.stride + j0;
        T* to = panel + q * kColumns;
        if (columns == kColumns) {
          Store<B, T>(to, Load<B>(from)), Store<B, T>(to + kWidth<B, T>, Load<B>(from + kWidth<B, T>));
        } else {
          for (int64_t j = 0; j < kColumns; ++j) to[j] = j < columns ? from[j] : T(0);
        }
      }
      for (int64_t i0 = 0; i0 < m; i0 += kRows) {
        const int64_t rows = Least(kRows, m - i0);
        const T* left = a.data + i0 * a.stride + k0;
        T* tile = c.data + i0 * c.stride + j0;
        if (rows == kRows && columns == kColumns) {
          RealTile<kRows, B>(depth, left, a.stride, panel, tile, c.stride);
          continue;
        }
        alignas(64) T edge[kRows * kColumns];
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < kColumns; ++j) edge[i * kColumns + j] = j < columns ? tile[i * c.stride + j] : T(0);
        }
        if (rows == kRows) {
          RealTile<kRows, B>(depth, left, a.stride, panel, edge, kColumns);
        } else {
          for (int64_t i = 0; i < rows; ++i)
            RealTile<1, B>(depth, left + i * a.stride, a.stride, panel, edge + i * kColumns, kColumns);
        }
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) tile[i * c.stride + j] = edge[i * kColumns + j];
        }
      }
    }
  }
}

template <int kRegisters, int B, typename T>
BP_INLINE void RealSolve(int64_t rows, ConstBlock<T> l, bool unit, T* x, int64_t stride) {
  constexpr int64_t w = kWidth<B, T>;
  for (int64_t i = 0; i < rows; ++i) {
    V<B, T> acc[kRegisters];
    for (int v = 0; v < kRegisters; ++v) acc[v] = Load<B>(x + i * stride + v * w);
    for (int64_t k = 0; k < i; ++k) {
      const V<B, T> f = V<B, T>{} + l.data[i * l.stride + k];
      for (int v = 0; v < kRegisters; ++v) acc[v] -= f * Load<B>(x + k * stride + v * w);
    }
    const V<B, T> d = V<B, T>{} + l.data[i * l.stride + i];
    for (int v = 0; v < kRegisters; ++v) Store<B, T>(x + i * stride + v * w, unit ? acc[v] : acc[v] / d);
  }
}

template <int B, typename T>
BP_INLINE void RealSolveRows(int64_t rows, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x) {
  constexpr int64_t w = kWidth<B, T>;
  int64_t j = 0;
  for (; j + 4 * w <= columns; j += 4 * w) RealSolve<4, B>(rows, l, unit, x.data + j, x.stride);
  for (; j + w <= columns; j += w) RealSolve<1, B>(rows, l, unit, x.data + j, x.stride);
  if (j == columns) return;
  alignas(64) T edge[kSolveRows * w];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < w; ++c) edge[i * w + c] = j + c < columns ? x.data[i * x.stride + j + c] : T(0);
  }
  RealSolve<1, B>(rows, l, unit, edge, w);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; j + c < columns; ++c) x.data[i * x.stride + j + c] = edge[i * w + c];
  }
}

template <int B, typename T>
BP_INLINE void RealSolveVector(int64_t n, ConstBlock<T> l, bool unit, T* x) {
  constexpr int64_t w = kWidth<B, T>;
  for (int64_t i = 0; i < n; ++i) {
    const T* row = l.data + i * l.stride;
    V<B, T> a = {}, b = {};
    int64_t k = 0;
    for (; k + 2 * w <= i; k += 2 * w)
      a += Load<B>(row + k) * Load<B>(x + k), b += Load<B>(row + k + w) * Load<B>(x + k + w);
    a += b;
    T sum = x[i];
    for (int64_t lane = 0; lane < w; ++lane) sum -= a[lane];
    for (; k < i; ++k) sum -= row[k] * x[k];
    x[i] = unit ? sum : sum / row[i];
  }
}

// ---- Complex numbers: four rows by one register of real and one of imaginary parts ----

template <int kRows, int B, typename T>
BP_INLINE void ComplexTile(int64_t k, const ComplexNumber<T>* a, int64_t a_stride, const T* panel, T* c) {
  constexpr int64_t w = kWidth<B, T>;
  V<B, T> re[kRows], im[kRows];
  for (int i = 0; i < kRows; ++i) re[i] = Load<B>(c + 2 * w * i), im[i] = Load<B>(c + 2 * w * i + w);
  for (int64_t q = 0; q < k; ++q) {
    const V<B, T> br = Load<B>(panel + 2 * w * q), bi = Load<B>(panel + 2 * w * q + w);
    for (int i = 0; i < kRows; ++i) {
      const V<B, T> ar = V<B, T>{} + a[i * a_stride + q].r, ai = V<B, T>{} + a[i * a_stride + q].i;
      re[i] -= ar * br;
      im[i] -= ar * bi;
      re[i] += ai * bi;
      im[i] -= ai * br;
    }
  }
  for (int i = 0; i < kRows; ++i) Store<B, T>(c + 2 * w * i, re[i]), Store<B, T>(c + 2 * w * i + w, im[i]);
}

// `columns` complex numbers to a register of real parts and one of imaginary parts, zeros after them; and back.
template <int B, typename T>
BP_INLINE void Part(const ComplexNumber<T>* from, int64_t columns, T* to) {
  for (int64_t j = 0; j < kWidth<B, T>; ++j) {
    to[j] = j < columns ? from[j].r : T(0);
    to[j + kWidth<B, T>] = j < columns ? from[j].i : T(0);
  }
}
template <int B, typename T>
BP_INLINE void Join(const T* from, int64_t columns, ComplexNumber<T>* to) {
  for (int64_t j = 0; j < columns; ++j) to[j] = {from[j], from[j + kWidth<B, T>]};
}

template <int B, typename T>
BP_INLINE void ComplexProduct(int64_t m, int64_t n, int64_t k, ConstBlock<ComplexNumber<T>> a,
                              ConstBlock<ComplexNumber<T>> b, Block<ComplexNumber<T>> c) {
  constexpr int64_t w = kWidth<B, T>, kRows = 4;
  alignas(64) T panel[kDepth * 2 * w];
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = Least(kDepth, k - k0);
    for (int64_t j0 = 0; j0 < n; j0 += w) {
      const int64_t columns = Least(w, n - j0);
      for (int64_t q = 0; q < depth; ++q) Part<B>(b.data + (k0 + q) * b.stride + j0, columns, panel + 2 * w * q);
      for (int64_t i0 = 0; i0 < m; i0 += kRows) {
        const int64_t rows = Least(kRows, m - i0);
        alignas(64) T tile[kRows * 2 * w];
        for (int64_t i = 0; i < rows; ++i) Part<B>(c.data + (i0 + i) * c.stride + j0, columns, tile + 2 * w * i);
        const ComplexNumber<T>* left = a.data + i0 * a.stride + k0;
        if (rows == kRows) {
          ComplexTile<kRows, B>(depth, left, a.stride, panel, tile);
        } else {
          for (int64_t i = 0; i < rows; ++i)
            ComplexTile<1, B>(depth, left + i * a.stride, a.stride, panel, tile + 2 * w * i);
        }
        for (int64_t i = 0; i < rows; ++i) Join<B>(tile + 2 * w * i, columns, c.data + (i0 + i) * c.stride + j0);
      }
    }
  }
}

// 1 / z without overflow on the way.
template <typename T>
BP_INLINE ComplexNumber<T> Inverse(ComplexNumber<T> z) {
  const T ar = z.r < 0 ? -z.r : z.r, ai = z.i < 0 ? -z.i : z.i;
  if (ar >= ai) {
    const T q = z.i / z.r, d = z.r + z.i * q;
    return {1 / d, -q / d};
  }
  const T q = z.r / z.i, d = z.i + z.r * q;
  return {q / d, -1 / d};
}

template <int B, typename T>
BP_INLINE void ComplexSolveRows(int64_t rows, int64_t columns, ConstBlock<ComplexNumber<T>> l, bool unit,
                                Block<ComplexNumber<T>> x) {
  constexpr int64_t w = kWidth<B, T>;
  alignas(64) T part[kSolveRows * 2 * w];
  for (int64_t j = 0; j < columns; j += w) {
    const int64_t count = Least(w, columns - j);
    for (int64_t i = 0; i < rows; ++i) Part<B>(x.data + i * x.stride + j, count, part + 2 * w * i);
    for (int64_t i = 0; i < rows; ++i) {
      const ComplexNumber<T>* row = l.data + i * l.stride;
      V<B, T> re = Load<B>(part + 2 * w * i), im = Load<B>(part + 2 * w * i + w);
      for (int64_t k = 0; k < i; ++k) {
        const V<B, T> fr = V<B, T>{} + row[k].r, fi = V<B, T>{} + row[k].i, xr = Load<B>(part + 2 * w * k),
                      xi = Load<B>(part + 2 * w * k + w);
        re -= fr * xr;
        im -= fr * xi;
        re += fi * xi;
        im -= fi * xr;
      }
      if (!unit) {
        const ComplexNumber<T> d = Inverse(row[i]);
        const V<B, T> t = re * d.r - im * d.i;
        im = re * d.i + im * d.r;
        re = t;
      }
      Store<B, T>(part + 2 * w * i, re), Store<B, T>(part + 2 * w * i + w, im);
    }
    for (int64_t i = 0; i < rows; ++i) Join<B>(part + 2 * w * i, count, x.data + i * x.stride + j);
  }
}

template <int B, typename T>
BP_INLINE void ComplexSolveVector(int64_t n, ConstBlock<ComplexNumber<T>> l, bool unit, ComplexNumber<T>* x) {
  constexpr int kLanes = 4;
  for (int64_t i = 0; i < n; ++i) {
    const ComplexNumber<T>* row = l.data + i * l.stride;
    T re[kLanes] = {x[i].r}, im[kLanes] = {x[i].i};
    for (int64_t k = 0; k < i; ++k) {
      re[k % kLanes] -= row[k].r * x[k].r - row[k].i * x[k].i;
      im[k % kLanes] -= row[k].r * x[k].i + row[k].i * x[k].r;
    }
    const T r = (re[0] + re[1]) + (re[2] + re[3]), s = (im[0] + im[1]) + (im[2] + im[3]);
    const ComplexNumber<T> d = unit ? ComplexNumber<T>{1, 0} : Inverse(row[i]);
    x[i] = unit ? ComplexNumber<T>{r, s} : ComplexNumber<T>{r * d.r - s * d.i, r * d.i + s * d.r};
  }
}

#define BP_DEFINE(Name, T, Kind)                                                                                   \
  BP_TARGETS(void, Name##Product, (int64_t m, int64_t n, int64_t k, ConstBlock<T> a, ConstBlock<T> b, Block<T> c), \
             (m, n, k, a, b, c), { Kind##Product<kTargetBytes>(m, n, k, a, b, c); })                               \
  BP_TARGETS(void, Name##Rows, (int64_t rows, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x),            \
             (rows, columns, l, unit, x), { Kind##SolveRows<kTargetBytes>(rows, columns, l, unit, x); })           \
  BP_TARGETS(void, Name##Vector, (int64_t n, ConstBlock<T> l, bool unit, T* x), (n, l, unit, x),                   \
             { Kind##SolveVector<kTargetBytes>(n, l, unit, x); })
BP_DEFINE(F32, float, Real)
BP_DEFINE(F64, double, Real)
BP_DEFINE(Complex64, C64, Complex)
BP_DEFINE(Complex128, C128, Complex)
#undef BP_DEFINE

}  // namespace

#define BP_EXPORT(Name, T)                                                                              \
  void SubtractProduct(int64_t m, int64_t n, int64_t k, ConstBlock<T> a, ConstBlock<T> b, Block<T> c) { \
    if (m > 0 && n > 0 && k > 0) Name##Product(m, n, k, a, b, c);                                       \
  }                                                                                                     \
  void SolveRows(int64_t rows, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x) {               \
    Name##Rows(rows, columns, l, unit, x);                                                              \
  }                                                                                                     \
  void SolveVector(int64_t n, ConstBlock<T> l, bool unit, T* x) { Name##Vector(n, l, unit, x); }
BP_EXPORT(F32, float)
BP_EXPORT(F64, double)
BP_EXPORT(Complex64, C64)
BP_EXPORT(Complex128, C128)
#undef BP_EXPORT

}  // namespace backplane::engine
