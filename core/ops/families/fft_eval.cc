// Evaluation of fft, in c128: powers of two by the radix-2 algorithm, other lengths through a convolution (Bluestein).
#include <cmath>
#include <complex>

#include "core/ops/families/elements.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

using Z = std::complex<double>;

Z Mul(Z a, Z b) { return Z(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()); }
Z Root(int64_t numerator, int64_t denominator) {  // exp(-2 pi i numerator / denominator)
  const double angle = -2 * M_PI * static_cast<double>(numerator) / static_cast<double>(denominator);
  return Z(std::cos(angle), std::sin(angle));
}

// Forward transforms of one length, without normalization.
class Transform {
 public:
  explicit Transform(int64_t n) : n_(n) {
    size_ = 1;
    if ((n & (n - 1)) == 0) {
      size_ = std::max<int64_t>(n, 1);
    } else {
      while (size_ < 2 * n - 1) size_ *= 2;
      chirp_.resize(static_cast<size_t>(n));
      // k^2 modulo 2n keeps the angle small, and so exact.
      for (int64_t k = 0; k < n; ++k) chirp_[static_cast<size_t>(k)] = Root(static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n)), 2 * n);
    }
    roots_.resize(static_cast<size_t>(size_ / 2));
    for (int64_t k = 0; k < size_ / 2; ++k) roots_[static_cast<size_t>(k)] = Root(k, size_);
    if (chirp_.empty()) return;
    filter_.assign(static_cast<size_t>(size_), Z(0));
    for (int64_t k = 0; k < n; ++k) {
      filter_[static_cast<size_t>(k)] = std::conj(chirp_[static_cast<size_t>(k)]);
      if (k > 0) filter_[static_cast<size_t>(size_ - k)] = filter_[static_cast<size_t>(k)];
    }
    Radix2(filter_.data());
  }

  void Run(Z* x) {
    if (chirp_.empty()) return Radix2(x);
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

  int64_t n_, size_;
  std::vector<Z> roots_, chirp_, filter_, work_;
};

// All lines along one axis. The inverse is the conjugate of the forward transform of the conjugate, over n.
void AlongAxis(std::vector<Z>& data, absl::Span<const int64_t> dims, int64_t axis, bool inverse) {
  const int64_t n = dims[axis];
  if (n == 0 || data.empty()) return;
  Transform transform(n);
  const DimVector strides = RowMajorStrides(dims);
  DimVector outer(dims.begin(), dims.end());
  outer[axis] = 1;
  const int64_t step = strides[axis];
  const double scale = 1 / static_cast<double>(n);
  std::vector<Z> line(static_cast<size_t>(n));
  Odometer<1> at(outer, {strides});
  do {
    Z* x = data.data() + at.offset();
    for (int64_t k = 0; k < n; ++k) line[static_cast<size_t>(k)] = inverse ? std::conj(x[k * step]) : x[k * step];
    transform.Run(line.data());
    for (int64_t k = 0; k < n; ++k) {
      x[k * step] = inverse ? std::conj(line[static_cast<size_t>(k)]) * scale : line[static_cast<size_t>(k)];
    }
  } while (at.Next());
}

}  // namespace

absl::StatusOr<Literal> EvaluateFft(const OpContext& op, Args args, EvalEnv& env) {
  ASSIGN_OR_RETURN(Shape shape, ResultShape(op));
  const Literal& x = *args[0];
  const FftType type = op.attrs->GetEnum<FftType>(AttrId::kFftType);
  const int64_t rank = shape.rank(), axes = static_cast<int64_t>(op.attrs->GetInts(AttrId::kFftLength).size());
  DimVector dims = x.shape().dimensions();
  std::vector<Z> data(static_cast<size_t>(x.num_elements()));
  ReadElements(x.shape().element_type(), x.bytes(), 0, x.num_elements(), data.data());
  // Changes the size of the innermost dimension; `fill` gives the elements that are not there.
  auto resize = [&](int64_t size, auto fill) {
    const int64_t old = dims.back(), rows = old == 0 ? 0 : static_cast<int64_t>(data.size()) / old;
    std::vector<Z> out(static_cast<size_t>(rows * size));
    for (int64_t r = 0; r < rows; ++r) {
      const Z* row = data.data() + r * old;
      for (int64_t k = 0; k < size; ++k) out[static_cast<size_t>(r * size + k)] = k < old ? row[k] : fill(row, k);
    }
    data = std::move(out);
    dims.back() = size;
  };
  const int64_t last = rank - 1, first = rank - axes;
  switch (type) {
    case FftType::kFft: case FftType::kIfft:
      for (int64_t axis = last; axis >= first; --axis) AlongAxis(data, dims, axis, type == FftType::kIfft);
      break;
    case FftType::kRfft:
      AlongAxis(data, dims, last, false);
      resize(shape.dimensions(last), [](const Z*, int64_t) { return Z(0); });
      for (int64_t axis = last - 1; axis >= first; --axis) AlongAxis(data, dims, axis, false);
      break;
    case FftType::kIrfft: {
      for (int64_t axis = first; axis < last; ++axis) AlongAxis(data, dims, axis, true);
      const int64_t n = shape.dimensions(last);
      // Elements 0 and n/2 of a real signal's spectrum are real: their imaginary parts do not count.
      for (size_t i = 0; i < data.size(); ++i) {
        const int64_t k = static_cast<int64_t>(i) % std::max<int64_t>(dims.back(), 1);
        if (k == 0 || 2 * k == n) data[i] = Z(data[i].real(), 0);
      }
      resize(n, [n](const Z* row, int64_t k) { return std::conj(row[n - k]); });
      AlongAxis(data, dims, last, true);
      break;
    }
  }
  ASSIGN_OR_RETURN(Literal out, NewLiteral(op, shape));
  WriteElements(shape.element_type(), out.mutable_bytes(), 0, out.num_elements(), data.data());
  return out;
}

}  // namespace backplane
