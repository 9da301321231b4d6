// Evaluation of cholesky and triangular-solve, in f64 or c128.
#include <cmath>
#include <complex>
#include <limits>

#include "core/ops/families/elements.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

double Conj(double x) { return x; }
std::complex<double> Conj(std::complex<double> x) { return std::conj(x); }
double Real(double x) { return x; }
double Real(std::complex<double> x) { return x.real(); }

// In place: `lower` makes a = l l^H, otherwise a = u^H u. Not positive definite: NaN throughout.
template <typename T>
void Factor(T* a, int64_t n, bool lower) {
  auto at = [&](int64_t i, int64_t j) -> T& { return lower ? a[i * n + j] : a[j * n + i]; };  // i >= j
  bool good = true;
  for (int64_t j = 0; good && j < n; ++j) {
    double d = Real(at(j, j));
    for (int64_t k = 0; k < j; ++k) d -= std::norm(at(j, k));
    good = d > 0;
    const double root = std::sqrt(d);
    at(j, j) = root;
    for (int64_t i = j + 1; i < n; ++i) {
      T s = at(i, j);
      for (int64_t k = 0; k < j; ++k) s -= lower ? at(i, k) * Conj(at(j, k)) : Conj(at(j, k)) * at(i, k);
      at(i, j) = s / root;
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (!good)
        a[i * n + j] = std::numeric_limits<double>::quiet_NaN();
      else if (lower ? j > i : j < i)
        a[i * n + j] = 0;
    }
  }
}

// Solves op(a) x = b in place of b (n x k), a being a triangle of n x n.
template <typename T>
void SolveLeft(const T* a, int64_t n, T* b, int64_t k, bool lower, bool unit, TriangularTranspose transpose) {
  const bool flip = transpose == TriangularTranspose::kTranspose || transpose == TriangularTranspose::kAdjoint;
  auto at = [&](int64_t i, int64_t j) {
    const T v = flip ? a[j * n + i] : a[i * n + j];
    return transpose == TriangularTranspose::kAdjoint ? Conj(v) : v;
  };
  const bool forward = lower != flip;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = forward ? step : n - 1 - step;
    if (!unit) {
      const T d = at(i, i);
      for (int64_t c = 0; c < k; ++c) b[i * k + c] /= d;
    }
    for (int64_t r = forward ? i + 1 : 0; r < (forward ? n : i); ++r) {
      const T f = at(r, i);
      for (int64_t c = 0; c < k; ++c) b[r * k + c] -= f * b[i * k + c];
    }
  }
}

// x op(a) = b is op(a)^T x^T = b^T.
template <typename T>
void Solve(const T* a, int64_t n, T* b, int64_t rows, int64_t columns, bool left, bool lower, bool unit,
           TriangularTranspose transpose) {
  if (left) return SolveLeft(a, n, b, columns, lower, unit, transpose);
  std::vector<T> turned(static_cast<size_t>(rows * columns)), conj;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) turned[static_cast<size_t>(j * rows + i)] = b[i * columns + j];
  }
  TriangularTranspose other = transpose == TriangularTranspose::kNoTranspose ? TriangularTranspose::kTranspose
                                                                             : TriangularTranspose::kNoTranspose;
  if (transpose == TriangularTranspose::kAdjoint) {  // (a^H)^T is the conjugate of a
    for (int64_t i = 0; i < n * n; ++i) conj.push_back(Conj(a[i]));
    a = conj.data();
  }
  SolveLeft(a, n, turned.data(), rows, lower, unit, other);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) b[i * columns + j] = turned[static_cast<size_t>(j * rows + i)];
  }
}

template <typename T>
absl::StatusOr<Literal> Run(const OpContext& op, Args args, PrimitiveType wide) {
  const Shape& s = args[0]->shape();
  const int64_t n = s.dimensions(s.rank() - 1);
  const bool lower = op.attrs->GetBool(AttrId::kLower);
  ASSIGN_OR_RETURN(Literal a, args[0]->Convert(wide));
  if (op.opcode == Opcode::kCholesky) {
    T* data = a.mutable_data<T>().data();
    for (int64_t i = 0; n > 0 && i < a.num_elements() / (n * n); ++i) Factor(data + i * n * n, n, lower);
    return a.Convert(s.element_type());
  }
  const Shape& t = args[1]->shape();
  const int64_t rows = t.dimensions(t.rank() - 2), columns = t.dimensions(t.rank() - 1);
  ASSIGN_OR_RETURN(Literal b, args[1]->Convert(wide));
  T* x = b.mutable_data<T>().data();
  const T* m = a.data<T>().data();
  for (int64_t i = 0; rows * columns > 0 && i < b.num_elements() / (rows * columns); ++i) {
    Solve(m + i * n * n, n, x + i * rows * columns, rows, columns, op.attrs->GetBool(AttrId::kLeftSide), lower,
          op.attrs->GetBool(AttrId::kUnitDiagonal),
          op.attrs->GetEnum<TriangularTranspose>(AttrId::kTransposeA, TriangularTranspose::kNoTranspose));
  }
  return b.Convert(t.element_type());
}

}  // namespace

absl::StatusOr<Literal> EvaluateLinearAlgebra(const OpContext& op, Args args, EvalEnv& env) {
  if (IsComplex(args[0]->shape().element_type())) return Run<std::complex<double>>(op, args, PrimitiveType::kC128);
  return Run<double>(op, args, PrimitiveType::kF64);
}

}  // namespace backplane
