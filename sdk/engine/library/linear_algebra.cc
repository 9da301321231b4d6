// Everything is brought to one form, a lower triangle solved from the left, and split in halves until a block is small:
// nearly all work is then in SubtractProduct.
#include "sdk/engine/library/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sdk/engine/library/matrix_blocks.h"
#include "sdk/engine/library/parallel.h"

namespace backplane::engine {
namespace {

constexpr int64_t kFactorRows = 16;       // blocks up to this size are factorized by the definition
constexpr int64_t kMinParallelSize = 96;  // smaller blocks are one thread's
constexpr int64_t kFewColumns = 3;        // right sides solved one at a time

template <typename T>
struct Traits {
  using Real = T;
  static T Conj(T x) { return x; }
  static T Of(Real r) { return r; }
  static Real RealPart(T x) { return x; }
  static Real Norm(T x) { return x * x; }
  static T MultiplyConj(T x, T y) { return x * y; }
  static T Minus(T x, T y) { return x - y; }
  static T Over(T x, Real d) { return x / d; }
};
template <typename R>
struct Traits<ComplexNumber<R>> {
  using T = ComplexNumber<R>;
  using Real = R;
  static T Conj(T x) { return {x.r, -x.i}; }
  static T Of(Real r) { return {r, r == r ? Real(0) : r}; }
  static Real RealPart(T x) { return x.r; }
  static Real Norm(T x) { return x.r * x.r + x.i * x.i; }
  static T MultiplyConj(T x, T y) { return {x.r * y.r + x.i * y.i, x.i * y.r - x.r * y.i}; }
  static T Minus(T x, T y) { return {x.r - y.r, x.i - y.i}; }
  static T Over(T x, Real d) { return {x.r / d, x.i / d}; }
};

int64_t Half(int64_t n, int64_t unit) { return (n / 2 + unit - 1) / unit * unit; }

// l x = b in place, x having `columns` columns.
template <typename T>
void SolveLower(int64_t n, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x) {
  if (n <= kSolveRows) return SolveRows(n, columns, l, unit, x);
  const int64_t h = Half(n, kSolveRows);
  SolveLower(h, columns, l, unit, x);
  SubtractProduct(n - h, columns, h, l.At(h, 0), x, x.At(h, 0));
  SolveLower(n - h, columns, l.At(h, h), unit, x.At(h, 0));
}

template <typename T>
void SolveLowerInParallel(int64_t n, int64_t columns, ConstBlock<T> l, bool unit, Block<T> x, ThreadPool* pool) {
  const int64_t grain = std::max<int64_t>(32, (1 << 17) / (n * n + 1));
  ForRange(pool, (columns + 31) / 32, (grain + 31) / 32, [&](int64_t begin, int64_t end, int) {
    SolveLower(n, std::min(columns, 32 * end) - 32 * begin, l, unit, x.At(0, 32 * begin));
  });
}

// The numbers that Factor needs room for: those of its largest lower left block. Halves are rounded up, so the block of
// a half may be larger than that of the whole.
int64_t CountFactorBuffer(int64_t n) {
  if (n <= kFactorRows) return 0;
  const int64_t h = Half(n, kFactorRows);
  return std::max({h * (n - h), CountFactorBuffer(h), CountFactorBuffer(n - h)});
}

// The lower triangle of a to l with a = l l^H. `buffer` holds CountFactorBuffer(n) numbers.
template <typename T>
bool Factor(int64_t n, Block<T> a, T* buffer, ThreadPool* pool) {
  using Tr = Traits<T>;
  if (n <= kFactorRows) {
    for (int64_t j = 0; j < n; ++j) {
      T* row = a.data + j * a.stride;
      auto d = Tr::RealPart(row[j]);
      for (int64_t k = 0; k < j; ++k) d -= Tr::Norm(row[k]);
      if (!(d > 0)) return false;
      d = std::sqrt(d);
      row[j] = Tr::Of(d);
      for (int64_t i = j + 1; i < n; ++i) {
        T* other = a.data + i * a.stride;
        T sum = other[j];
        for (int64_t k = 0; k < j; ++k) sum = Tr::Minus(sum, Tr::MultiplyConj(other[k], row[k]));
        other[j] = Tr::Over(sum, d);
      }
    }
    return true;
  }
  const int64_t h = Half(n, kFactorRows), rest = n - h;
  if (!Factor(h, a, buffer, pool)) return false;
  // The lower left block: x l^H = a, that is l y = a^H with y = x^H.
  const Block<T> below = a.At(h, 0), y{buffer, rest};
  for (int64_t i = 0; i < rest; ++i) {
    for (int64_t k = 0; k < h; ++k) y.data[k * rest + i] = Tr::Conj(below.data[i * below.stride + k]);
  }
  ThreadPool* threads = n >= kMinParallelSize ? pool : nullptr;
  SolveLowerInParallel<T>(h, rest, a, false, y, threads);
  for (int64_t i = 0; i < rest; ++i) {
    for (int64_t k = 0; k < h; ++k) below.data[i * below.stride + k] = Tr::Conj(y.data[k * rest + i]);
  }
  const Block<T> corner = a.At(h, h);
  constexpr int64_t kRows = 48;
  // The last rows are the longest: hand them out first.
  const int64_t pieces = (rest + kRows - 1) / kRows;
  ForChunks(threads, pieces, [&](int64_t piece, int) {
    const int64_t begin = (pieces - 1 - piece) * kRows, end = std::min(rest, begin + kRows);
    SubtractProduct(end - begin, end, h, below.At(begin, 0), y, corner.At(begin, 0));
  });
  return Factor(rest, corner, buffer, pool);
}

template <typename T>
void CholeskyOne(const CholeskyProblem& p, const T* a, T* out, T* buffer, ThreadPool* pool) {
  using Tr = Traits<T>;
  const int64_t n = p.n;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) out[i * n + j] = p.lower ? a[i * n + j] : Tr::Conj(a[j * n + i]);
  }
  if (!Factor(n, Block<T>{out, n}, buffer, pool)) {
    std::fill(out, out + n * n, Tr::Of(std::numeric_limits<typename Tr::Real>::quiet_NaN()));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      T &low = out[i * n + j], &up = out[j * n + i];
      up = p.lower ? Tr::Of(0) : Tr::Conj(low);
      if (!p.lower) low = Tr::Of(0);
    }
  }
}

template <typename T>
void CholeskyAll(const CholeskyProblem& p, const void* a, void* out, std::byte* workspace, ThreadPool* pool) {
  const int64_t slot_bytes = AlignTo64(CountFactorBuffer(p.n) * static_cast<int64_t>(sizeof(T)));
  auto one = [&](int64_t b, int slot, ThreadPool* threads) {
    CholeskyOne(p, static_cast<const T*>(a) + b * p.n * p.n, static_cast<T*>(out) + b * p.n * p.n,
                reinterpret_cast<T*>(workspace + slot * slot_bytes), threads);
  };
  if (p.batch < PoolThreads(pool)) {
    for (int64_t b = 0; b < p.batch; ++b) one(b, 0, pool);
    return;
  }
  ForRange(pool, p.batch, std::max<int64_t>(1, 32768 / (p.n * p.n * p.n + 1)),
           [&](int64_t begin, int64_t end, int slot) {
             for (int64_t b = begin; b < end; ++b) one(b, slot, nullptr);
           });
}

// ---- Triangular solve ----

struct TriangularForm {
  bool copy_a;    // a is not as it stands the lower triangle that is solved with
  bool swapped;   // element (i, j) is a's (j, i)
  bool reversed;  // both indices and the rows of x run backwards
};

TriangularForm FormOf(const TriangularProblem& p) {
  TriangularForm f;
  f.swapped = p.left == p.transpose;  // from the right: op(a)^T x^T = b^T
  f.reversed = p.lower == f.swapped;
  f.copy_a = f.swapped || f.reversed || (p.conjugate && p.type >= MatrixType::kC64);
  return f;
}

struct TriangularSizes {
  int64_t a = 0, x = 0, column = 0;
  int64_t total() const { return a + x + column; }
};

TriangularSizes ComputeSizes(const TriangularProblem& p, int64_t element) {
  TriangularSizes s;
  if (FormOf(p).copy_a) s.a = AlignTo64(p.n * p.n * element);
  if (!p.left) s.x = AlignTo64(p.n * p.others * element);
  if (p.others <= kFewColumns) s.column = AlignTo64(p.n * element);
  return s;
}

template <typename T>
void SolveOne(const TriangularProblem& p, const T* a, const T* b, T* x, std::byte* memory, ThreadPool* pool) {
  const int64_t n = p.n, m = p.others;
  if (n == 0 || m == 0) return;
  const TriangularForm form = FormOf(p);
  const TriangularSizes sizes = ComputeSizes(p, sizeof(T));
  ConstBlock<T> l{a, n};
  if (form.copy_a) {
    T* copy = reinterpret_cast<T*>(memory);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        const int64_t r = form.reversed ? n - 1 - i : i, c = form.reversed ? n - 1 - j : j;
        const T v = form.swapped ? a[c * n + r] : a[r * n + c];
        copy[i * n + j] = p.conjugate ? Traits<T>::Conj(v) : v;
      }
    }
    l.data = copy;
  }
  T* work = x;
  if (p.left) {
    std::copy(b, b + n * m, x);
  } else {
    work = reinterpret_cast<T*>(memory + sizes.a);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) work[j * m + i] = b[i * n + j];
    }
  }
  const Block<T> rows = form.reversed ? Block<T>{work + (n - 1) * m, -m} : Block<T>{work, m};
  if (m <= kFewColumns) {
    T* column = reinterpret_cast<T*>(memory + sizes.a + sizes.x);
    for (int64_t c = 0; c < m; ++c) {
      for (int64_t i = 0; i < n; ++i) column[i] = rows.data[i * rows.stride + c];
      SolveVector(n, l, p.unit, column);
      for (int64_t i = 0; i < n; ++i) rows.data[i * rows.stride + c] = column[i];
    }
  } else {
    SolveLowerInParallel(n, m, l, p.unit, rows, pool);
  }
  if (p.left) return;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) x[i * n + j] = work[j * m + i];
  }
}

template <typename T>
void SolveAll(const TriangularProblem& p, const void* a, const void* b, void* x, std::byte* workspace,
              ThreadPool* pool) {
  const int64_t slot_bytes = ComputeSizes(p, sizeof(T)).total();
  auto one = [&](int64_t k, int slot, ThreadPool* threads) {
    SolveOne(p, static_cast<const T*>(a) + k * p.n * p.n, static_cast<const T*>(b) + k * p.n * p.others,
             static_cast<T*>(x) + k * p.n * p.others, workspace + slot * slot_bytes, threads);
  };
  if (p.batch < PoolThreads(pool)) {
    for (int64_t k = 0; k < p.batch; ++k) one(k, 0, pool);
    return;
  }
  ForRange(pool, p.batch, std::max<int64_t>(1, 32768 / (p.n * p.n * p.others + 1)),
           [&](int64_t begin, int64_t end, int slot) {
             for (int64_t k = begin; k < end; ++k) one(k, slot, nullptr);
           });
}

int64_t ElementBytes(MatrixType type) { return type == MatrixType::kF32 ? 4 : type == MatrixType::kC128 ? 16 : 8; }
double FlopsPerMicrosecond(MatrixType type) {
  return type == MatrixType::kF32 ? 6e4 : type == MatrixType::kF64 ? 3e4 : type == MatrixType::kC64 ? 1e4 : 5e3;
}

}  // namespace

int64_t ComputeCholeskyWorkspaceBytes(const CholeskyProblem& problem, int num_threads) {
  return AlignTo64(CountFactorBuffer(problem.n) * ElementBytes(problem.type)) * (problem.batch == 1 ? 1 : num_threads);
}

void Cholesky(const CholeskyProblem& problem, const void* a, void* out, std::byte* workspace, ThreadPool* pool) {
  switch (problem.type) {
    case MatrixType::kF32:
      return CholeskyAll<float>(problem, a, out, workspace, pool);
    case MatrixType::kF64:
      return CholeskyAll<double>(problem, a, out, workspace, pool);
    case MatrixType::kC64:
      return CholeskyAll<C64>(problem, a, out, workspace, pool);
    case MatrixType::kC128:
      return CholeskyAll<C128>(problem, a, out, workspace, pool);
  }
}

double EstimateCholeskyMicroseconds(const CholeskyProblem& problem) {
  const double n = static_cast<double>(problem.n);
  return 0.1 + static_cast<double>(problem.batch) *
                   (0.05 + n * n * 0.002 + n * n * n / 3 / FlopsPerMicrosecond(problem.type));
}

int64_t ComputeTriangularWorkspaceBytes(const TriangularProblem& problem, int num_threads) {
  return ComputeSizes(problem, ElementBytes(problem.type)).total() * (problem.batch == 1 ? 1 : num_threads);
}

void TriangularSolve(const TriangularProblem& problem, const void* a, const void* b, void* x, std::byte* workspace,
                     ThreadPool* pool) {
  switch (problem.type) {
    case MatrixType::kF32:
      return SolveAll<float>(problem, a, b, x, workspace, pool);
    case MatrixType::kF64:
      return SolveAll<double>(problem, a, b, x, workspace, pool);
    case MatrixType::kC64:
      return SolveAll<C64>(problem, a, b, x, workspace, pool);
    case MatrixType::kC128:
      return SolveAll<C128>(problem, a, b, x, workspace, pool);
  }
}

double EstimateTriangularMicroseconds(const TriangularProblem& problem) {
  const double n = static_cast<double>(problem.n), m = static_cast<double>(problem.others);
  return 0.1 + static_cast<double>(problem.batch) *
                   (0.05 + n * (n + m) * 0.0003 + n * n * m / FlopsPerMicrosecond(problem.type));
}

}  // namespace backplane::engine
