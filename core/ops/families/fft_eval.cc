// Evaluation of fft, in the precision of its numbers; lengths with a large prime factor in c128, through a convolution
// (Bluestein).
#include <cmath>
#include <complex>

#include "core/ops/families/elements.h"
#include "core/ops/families/fft_passes.h"
#include "core/ops/families/fft_real.h"

namespace backplane {
namespace {

using Z = std::complex<double>;

Z Mul(Z a, Z b) { return Z(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()); }
Z Root(int64_t numerator, int64_t denominator) {  // exp(-2 pi i numerator / denominator)
  const double angle = -2 * M_PI * static_cast<double>(numerator) / static_cast<double>(denominator);
  return Z(std::cos(angle), std::sin(angle));
}

// Forward transforms of one length, without normalization.
class Bluestein {
 public:
  explicit Bluestein(int64_t n) : n_(n) {
    while (size_ < 2 * n - 1) size_ *= 2;
    chirp_.resize(static_cast<size_t>(n));
    // k^2 modulo 2n keeps the angle small, and so exact.
    for (int64_t k = 0; k < n; ++k)
      chirp_[static_cast<size_t>(k)] = Root(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n)), 2 * n);
    roots_.resize(static_cast<size_t>(size_ / 2));
    for (int64_t k = 0; k < size_ / 2; ++k) roots_[static_cast<size_t>(k)] = Root(k, size_);
    filter_.assign(static_cast<size_t>(size_), Z(0));
    for (int64_t k = 0; k < n; ++k) {
      filter_[static_cast<size_t>(k)] = std::conj(chirp_[static_cast<size_t>(k)]);
      if (k > 0) filter_[static_cast<size_t>(size_ - k)] = filter_[static_cast<size_t>(k)];
    }
    Radix2(filter_.data());
  }

  void Run(Z* x) {
    work_.assign(static_cast<size_t>(size_), Z(0));
    for (int64_t k = 0; k < n_; ++k) work_[static_cast<size_t>(k)] = Mul(x[k], chirp_[static_cast<size_t>(k)]);
    Radix2(work_.data());
    for (size_t k = 0; k < work_.size(); ++k) work_[k] = std::conj(Mul(work_[k], filter_[k]));
    Radix2(work_.data());  // the conjugate of the inverse transform, times the size
    const double scale = 1 / static_cast<double>(size_);
    for (int64_t k = 0; k < n_; ++k) {
      x[k] = Mul(std::conj(work_[static_cast<size_t>(k)]) * scale, chirp_[static_cast<size_t>(k)]);
    }
  }

 private:
  void Radix2(Z* x) const {
    for (int64_t i = 1, j = 0; i < size_; ++i) {
      int64_t bit = size_ >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(x[i], x[j]);
    }
    for (int64_t half = 1; half < size_; half *= 2) {
      const int64_t step = size_ / (2 * half);
      for (int64_t start = 0; start < size_; start += 2 * half) {
        for (int64_t k = 0; k < half; ++k) {
          const Z even = x[start + k], odd = Mul(x[start + half + k], roots_[static_cast<size_t>(k * step)]);
          x[start + k] = even + odd;
          x[start + half + k] = even - odd;
        }
      }
    }
  }

  int64_t n_, size_ = 1;
  std::vector<Z> roots_, chirp_, filter_, work_;
};

// A larger prime factor costs more than Bluestein's algorithm.
constexpr int64_t kLargestDirectPrime = 64;

template <typename S>
using Numbers = std::vector<fft::Number<S>>;

// All lines of one complex array along one axis, times `scale`.
template <typename S>
void AlongAxis(Numbers<S>& data, absl::Span<const int64_t> dims, int64_t axis, bool inverse, S scale) {
  const int64_t n = dims[axis];
  if (n == 0 || data.empty()) return;
  const bool direct = fft::FindLargestPrime(n) <= kLargestDirectPrime;
  const fft::ComplexLine<S, S> plan(direct ? n : 1);
  std::optional<Bluestein> detour;
  if (!direct) detour.emplace(n);
  const DimVector strides = RowMajorStrides(dims);
  DimVector outer(dims.begin(), dims.end());
  outer[axis] = 1;
  const int64_t step = strides[axis];
  Numbers<S> line(static_cast<size_t>(n)), work(static_cast<size_t>(n));
  std::vector<Z> wide(static_cast<size_t>(direct ? 0 : n));
  Odometer<1> at(outer, {strides});
  do {
    fft::Number<S>* x = data.data() + at.offset();
    if (direct) {
      for (int64_t k = 0; k < n; ++k) line[static_cast<size_t>(k)] = x[k * step];
      plan.Run(line.data(), work.data(), !inverse);
      for (int64_t k = 0; k < n; ++k) {
        const fft::Number<S> y = line[static_cast<size_t>(k)];
        x[k * step] = scale == 1 ? y : fft::Number<S>{y.r * scale, y.i * scale};
      }
      continue;
    }
    // The inverse is the conjugate of the transform of the conjugate.
    for (int64_t k = 0; k < n; ++k)
      wide[static_cast<size_t>(k)] = Z(x[k * step].r, inverse ? -x[k * step].i : x[k * step].i);
    detour->Run(wide.data());
    for (int64_t k = 0; k < n; ++k) {
      const Z y = wide[static_cast<size_t>(k)] * static_cast<double>(scale);
      x[k * step] = {static_cast<S>(y.real()), static_cast<S>(inverse ? -y.imag() : y.imag())};
    }
  } while (at.Next());
}

// Rows of n real numbers to rows of n / 2 + 1 complex ones, and back, times `scale`.
template <typename S>
void RealRows(const S* in, int64_t rows, int64_t n, fft::Number<S>* out) {
  const int64_t bins = n / 2 + 1;
  if (fft::FindLargestPrime(n) > kLargestDirectPrime) {
    Bluestein detour(n);
    std::vector<Z> line(static_cast<size_t>(n));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < n; ++k) line[static_cast<size_t>(k)] = Z(in[r * n + k], 0);
      detour.Run(line.data());
      for (int64_t k = 0; k < bins; ++k) {
        const Z y = line[static_cast<size_t>(k)];
        const bool real = k == 0 || 2 * k == n;  // by symmetry
        out[r * bins + k] = {static_cast<S>(y.real()), real ? S(0) : static_cast<S>(y.imag())};
      }
    }
    return;
  }
  const fft::RealLine<S, S> plan(n);
  std::vector<S> line(static_cast<size_t>(n)), work(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows; ++r) {
    std::copy(in + r * n, in + (r + 1) * n, line.begin());
    plan.Forward(line.data(), work.data());
    for (int64_t k = 0; k < bins; ++k) {
      const bool real = k == 0 || 2 * k == n;
      out[r * bins + k] = {line[static_cast<size_t>(k == 0 ? 0 : 2 * k - 1)],
                           real ? S(0) : line[static_cast<size_t>(2 * k)]};
    }
  }
}

// Elements 0 and n / 2 of a real signal's spectrum are real: their imaginary parts do not count.
template <typename S>
void RowsToReal(const fft::Number<S>* in, int64_t rows, int64_t n, S scale, S* out) {
  const int64_t bins = n / 2 + 1;
  if (fft::FindLargestPrime(n) > kLargestDirectPrime) {
    Bluestein detour(n);
    std::vector<Z> line(static_cast<size_t>(n));
    for (int64_t r = 0; r < rows; ++r) {
      // The conjugate spectrum, transformed forward, is the conjugate of the real signal.
      for (int64_t k = 0; k < bins; ++k) {
        const fft::Number<S> x = in[r * bins + k];
        const bool real = k == 0 || 2 * k == n;
        line[static_cast<size_t>(k)] = Z(x.r, real ? 0 : -x.i);
        if (!real) line[static_cast<size_t>(n - k)] = Z(x.r, x.i);
      }
      detour.Run(line.data());
      for (int64_t k = 0; k < n; ++k)
        out[r * n + k] = static_cast<S>(line[static_cast<size_t>(k)].real() * static_cast<double>(scale));
    }
    return;
  }
  const fft::RealLine<S, S> plan(n);
  std::vector<S> line(static_cast<size_t>(n)), work(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < bins; ++k) {
      const fft::Number<S> x = in[r * bins + k];
      line[static_cast<size_t>(k == 0 ? 0 : 2 * k - 1)] = x.r;
      if (k > 0 && 2 * k != n) line[static_cast<size_t>(2 * k)] = x.i;
    }
    plan.Backward(line.data(), work.data());
    for (int64_t k = 0; k < n; ++k) out[r * n + k] = line[static_cast<size_t>(k)] * scale;
  }
}

// A forward real transform takes the innermost axis first, an inverse one takes it last. The inverse divides once.
template <typename S>
void Transform(FftType type, absl::Span<const int64_t> lengths, const Literal& x, Literal& y) {
  using N = fft::Number<S>;
  const int64_t axes = static_cast<int64_t>(lengths.size());
  auto numbers = [](const Literal& l) { return reinterpret_cast<const N*>(l.bytes()); };
  long double total = 1;
  for (int64_t n : lengths) total *= static_cast<long double>(n);
  const S scale = static_cast<S>(1 / total);
  const bool inverse = type == FftType::kIfft || type == FftType::kIrfft;
  const bool to_real = type == FftType::kIrfft;
  const Shape& complex = to_real ? x.shape() : y.shape();
  const int64_t rank = complex.rank(), n = lengths.back(), bins = n / 2 + 1, first = rank - axes;
  if (complex.num_elements() == 0 || n == 0) return;
  Numbers<S> data(static_cast<size_t>(complex.num_elements()));
  if (type == FftType::kRfft) {
    RealRows<S>(reinterpret_cast<const S*>(x.bytes()), complex.num_elements() / bins, n, data.data());
  } else {
    std::copy(numbers(x), numbers(x) + data.size(), data.begin());
  }
  const bool complex_only = type == FftType::kFft || type == FftType::kIfft;
  S pending = type == FftType::kIfft ? scale : S(1);
  for (int64_t axis = first; axis < (complex_only ? rank : rank - 1); ++axis) {
    AlongAxis<S>(data, complex.dimensions(), axis, inverse, pending);
    pending = S(1);
  }
  if (to_real) {
    RowsToReal<S>(data.data(), complex.num_elements() / bins, n, scale, reinterpret_cast<S*>(y.mutable_bytes()));
  } else {
    std::copy(data.begin(), data.end(), reinterpret_cast<N*>(y.mutable_bytes()));
  }
}

}  // namespace

absl::StatusOr<Literal> EvaluateFft(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, InferResultShape(op));
  const Literal& x = *args[0];
  const FftType type = op.attrs->GetEnum<FftType>(AttrId::kFftType);
  const Ints& lengths = op.attrs->GetInts(AttrId::kFftLength);
  ASSIGN_OR_RETURN(Literal out, AllocateLiteral(op, shape));
  if (out.num_elements() == 0 || lengths.empty()) return lengths.empty() ? x : out;
  if (ComplexPart(shape.element_type()) == PrimitiveType::kF64) {
    Transform<double>(type, lengths, x, out);
  } else {
    Transform<float>(type, lengths, x, out);
  }
  return out;
}

}  // namespace backplane
