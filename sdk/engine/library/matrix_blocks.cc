#include "sdk/engine/library/matrix_blocks.h"

#include "sdk/engine/library/targets.h"

#define BP_INLINE inline __attribute__((always_inline))

namespace backplane::engine {
namespace {

template <typename T>
struct Register {
  typedef T type __attribute__((vector_size(64)));
  typedef T unaligned __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
};
template <typename T>
using V = typename Register<T>::type;
template <typename T>
constexpr int64_t kWidth = 64 / static_cast<int64_t>(sizeof(T));

template <typename T>
BP_INLINE V<T> Load(const T* p) {
  return *reinterpret_cast<const typename Register<T>::unaligned*>(p);
}
template <typename T>
BP_INLINE void Store(T* p, V<T> v) {
  *reinterpret_cast<typename Register<T>::unaligned*>(p) = v;
}
BP_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

constexpr int64_t kDepth = 128;  // of a packed panel of b

// ---- Real numbers: six rows by two registers ----

template <int kRows, typename T>
BP_INLINE void RealTile(int64_t k, const T* a, int64_t a_stride, const T* panel, T* c, int64_t c_stride) {
  constexpr int64_t w = kWidth<T>;
  V<T> acc[kRows][2];
  for (int i = 0; i < kRows; ++i) acc[i][0] = Load(c + i * c_stride), acc[i][1] = Load(c + i * c_stride + w);
  for (int64_t q = 0; q < k; ++q) {
    const V<T> b0 = Load(panel + 2 * w * q), b1 = Load(panel + 2 * w * q + w);
    for (int i = 0; i < kRows; ++i) {
      const V<T> f = V<T>{} + a[i * a_stride + q];
      acc[i][0] -= f * b0, acc[i][1] -= f * b1;
    }
  }
  for (int i = 0; i < kRows; ++i) Store(c + i * c_stride, acc[i][0]), Store(c + i * c_stride + w, acc[i][1]);
}

template <typename T>
BP_INLINE void RealProduct(int64_t m, int64_t n, int64_t k, ConstBlock<T> a, ConstBlock<T> b, Block<T> c) {
  constexpr int64_t kColumns = 2 * kWidth<T>, kRows = 6;
  alignas(64) T panel[kDepth * kColumns];
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = Least(kDepth, k - k0);
    for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
      const int64_t columns = Least(kColumns, n - j0);
      for (int64_t q = 0; q < depth; ++q) {
        const T* from = b.data + (k0 + q) * b.stride + j0;
        T* to = panel + q * kColumns;
        if (columns == kColumns) {
          Store(to, Load(from)), Store(to + kWidth<T>, Load(from + kWidth<T>));
        } else {
          for (int64_t j = 0; j < kColumns; ++j) to[j] = j < columns ? from[j] : T(0);
        }
      }
      for (int64_t i0 = 0; i0 < m; i0 += kRows) {
        const int64_t rows = Least(kRows, m - i0);
        const T* left = a.data + i0 * a.stride + k0;
        T* tile = c.data + i0 * c.stride + j0;
        if (rows == kRows && columns == kColumns) {
          RealTile<kRows>(depth, left, a.stride, panel, tile, c.stride);
          continue;
        }
        alignas(64) T edge[kRows * kColumns];
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < kColumns; ++j) edge[i * kColumns + j] = j < columns ? tile[i * c.stride + j] : T(0);
        }
        if (rows == kRows) {
          RealTile<kRows>(depth, left, a.stride, panel, edge, kColumns);
        } else {
          for (int64_t i = 0; i < rows; ++i)
            RealTile<1>(depth, left + i * a.stride, a.stride, panel, edge + i * kColumns, kColumns);
        }
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) tile[i * c.stride + j] = edge[i * kColumns + j];
        }
      }
    }
  }
}

template <int kRegisters, typename T>
BP_INLINE void RealSolve(int64_t rows, ConstBlock<T> l, bool unit, T* x, int64_t stride) {
  constexpr int64_t w = kWidth<T>;
  for (int64_t i = 0; i < rows; ++i) {
    V<T> acc[kRegisters];
    for (int v = 0; v < kRegisters; ++v) acc[v] = Load(x + i * stride + v * w);
    for (int64_t k = 0; k < i; ++k) {
      const V<T> f = V<T>{} + l.data[i * l.stride + k];
      for (int v = 0; v < kRegisters; ++v) acc[v] -= f * Load(x + k * stride + v * w);
    }
    const V<T> d = V<T>{} + l.data[i * l.stride + i];
    for (int v = 0; v < kRegisters; ++v) Store(x + i * stride + v * w, unit ? acc[v] : acc[v] / d);
  }
}

template <typename T>
BP_INLINE void RealSolveRows(int64_t rows, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x) {
  constexpr int64_t w = kWidth<T>;
  int64_t j = 0;
  for (; j + 4 * w <= columns; j += 4 * w) RealSolve<4>(rows, l, unit, x.data + j, x.stride);
  for (; j + w <= columns; j += w) RealSolve<1>(rows, l, unit, x.data + j, x.stride);
  if (j == columns) return;
  alignas(64) T edge[kSolveRows * w];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < w; ++c) edge[i * w + c] = j + c < columns ? x.data[i * x.stride + j + c] : T(0);
  }
  RealSolve<1>(rows, l, unit, edge, w);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; j + c < columns; ++c) x.data[i * x.stride + j + c] = edge[i * w + c];
  }
}

template <typename T>
BP_INLINE void RealSolveVector(int64_t n, ConstBlock<T> l, bool unit, T* x) {
  constexpr int64_t w = kWidth<T>;
  for (int64_t i = 0; i < n; ++i) {
    const T* row = l.data + i * l.stride;
    V<T> a = {}, b = {};
    int64_t k = 0;
    for (; k + 2 * w <= i; k += 2 * w) a += Load(row + k) * Load(x + k), b += Load(row + k + w) * Load(x + k + w);
    a += b;
    T sum = x[i];
    for (int64_t lane = 0; lane < w; ++lane) sum -= a[lane];
    for (; k < i; ++k) sum -= row[k] * x[k];
    x[i] = unit ? sum : sum / row[i];
  }
}

// ---- Complex numbers: four rows by one register of real and one of imaginary parts ----

template <int kRows, typename T>
BP_INLINE void ComplexTile(int64_t k, const ComplexNumber<T>* a, int64_t a_stride, const T* panel, T* c) {
  constexpr int64_t w = kWidth<T>;
  V<T> re[kRows], im[kRows];
  for (int i = 0; i < kRows; ++i) re[i] = Load(c + 2 * w * i), im[i] = Load(c + 2 * w * i + w);
  for (int64_t q = 0; q < k; ++q) {
    const V<T> br = Load(panel + 2 * w * q), bi = Load(panel + 2 * w * q + w);
    for (int i = 0; i < kRows; ++i) {
      const V<T> ar = V<T>{} + a[i * a_stride + q].r, ai = V<T>{} + a[i * a_stride + q].i;
      re[i] -= ar * br;
      im[i] -= ar * bi;
      re[i] += ai * bi;
      im[i] -= ai * br;
    }
  }
  for (int i = 0; i < kRows; ++i) Store(c + 2 * w * i, re[i]), Store(c + 2 * w * i + w, im[i]);
}

// `columns` complex numbers to a register of real parts and one of imaginary parts, zeros after them; and back.
template <typename T>
BP_INLINE void Part(const ComplexNumber<T>* from, int64_t columns, T* to) {
  for (int64_t j = 0; j < kWidth<T>; ++j) {
    to[j] = j < columns ? from[j].r : T(0);
    to[j + kWidth<T>] = j < columns ? from[j].i : T(0);
  }
}
template <typename T>
BP_INLINE void Join(const T* from, int64_t columns, ComplexNumber<T>* to) {
  for (int64_t j = 0; j < columns; ++j) to[j] = {from[j], from[j + kWidth<T>]};
}

template <typename T>
BP_INLINE void ComplexProduct(int64_t m, int64_t n, int64_t k, ConstBlock<ComplexNumber<T>> a,
                              ConstBlock<ComplexNumber<T>> b, Block<ComplexNumber<T>> c) {
  constexpr int64_t w = kWidth<T>, kRows = 4;
  alignas(64) T panel[kDepth * 2 * w];
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = Least(kDepth, k - k0);
    for (int64_t j0 = 0; j0 < n; j0 += w) {
      const int64_t columns = Least(w, n - j0);
      for (int64_t q = 0; q < depth; ++q) Part(b.data + (k0 + q) * b.stride + j0, columns, panel + 2 * w * q);
      for (int64_t i0 = 0; i0 < m; i0 += kRows) {
        const int64_t rows = Least(kRows, m - i0);
        alignas(64) T tile[kRows * 2 * w];
        for (int64_t i = 0; i < rows; ++i) Part(c.data + (i0 + i) * c.stride + j0, columns, tile + 2 * w * i);
        const ComplexNumber<T>* left = a.data + i0 * a.stride + k0;
        if (rows == kRows) {
          ComplexTile<kRows>(depth, left, a.stride, panel, tile);
        } else {
          for (int64_t i = 0; i < rows; ++i)
            ComplexTile<1>(depth, left + i * a.stride, a.stride, panel, tile + 2 * w * i);
        }
        for (int64_t i = 0; i < rows; ++i) Join(tile + 2 * w * i, columns, c.data + (i0 + i) * c.stride + j0);
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

template <typename T>
BP_INLINE void ComplexSolveRows(int64_t rows, int64_t columns, ConstBlock<ComplexNumber<T>> l, bool unit,
                                Block<ComplexNumber<T>> x) {
  constexpr int64_t w = kWidth<T>;
  alignas(64) T part[kSolveRows * 2 * w];
  for (int64_t j = 0; j < columns; j += w) {
    const int64_t count = Least(w, columns - j);
    for (int64_t i = 0; i < rows; ++i) Part(x.data + i * x.stride + j, count, part + 2 * w * i);
    for (int64_t i = 0; i < rows; ++i) {
      const ComplexNumber<T>* row = l.data + i * l.stride;
      V<T> re = Load(part + 2 * w * i), im = Load(part + 2 * w * i + w);
      for (int64_t k = 0; k < i; ++k) {
        const V<T> fr = V<T>{} + row[k].r, fi = V<T>{} + row[k].i, xr = Load(part + 2 * w * k),
                   xi = Load(part + 2 * w * k + w);
        re -= fr * xr;
        im -= fr * xi;
        re += fi * xi;
        im -= fi * xr;
      }
      if (!unit) {
        const ComplexNumber<T> d = Inverse(row[i]);
        const V<T> t = re * d.r - im * d.i;
        im = re * d.i + im * d.r;
        re = t;
      }
      Store(part + 2 * w * i, re), Store(part + 2 * w * i + w, im);
    }
    for (int64_t i = 0; i < rows; ++i) Join(part + 2 * w * i, count, x.data + i * x.stride + j);
  }
}

template <typename T>
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
             (m, n, k, a, b, c), { Kind##Product(m, n, k, a, b, c); })                                             \
  BP_TARGETS(void, Name##Rows, (int64_t rows, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x),            \
             (rows, columns, l, unit, x), { Kind##SolveRows(rows, columns, l, unit, x); })                         \
  BP_TARGETS(void, Name##Vector, (int64_t n, ConstBlock<T> l, bool unit, T* x), (n, l, unit, x),                   \
             { Kind##SolveVector(n, l, unit, x); })
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
