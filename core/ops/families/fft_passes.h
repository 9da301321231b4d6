// Fourier transforms of one line by the mixed-radix method of FFTPACK (P. N. Swarztrauber). Everything is computed in
// the precision of the input. Real transforms use real arithmetic, so values that are zero by symmetry are exactly
// zero.
//
// S is the scalar type, float or double. V is the type of an element: S, or a vector of S to transform several lines at
// once. A plan is immutable; many threads may use it at once.
#ifndef BACKPLANE_CORE_OPS_FAMILIES_FFT_PASSES_H_
#define BACKPLANE_CORE_OPS_FAMILIES_FFT_PASSES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace backplane::fft {

template <typename V>
struct Number {
  V r, i;
};
template <typename V>
Number<V> operator+(Number<V> a, Number<V> b) {
  return {a.r + b.r, a.i + b.i};
}
template <typename V>
Number<V> operator-(Number<V> a, Number<V> b) {
  return {a.r - b.r, a.i - b.i};
}

// Computes exp(2 pi i k / n) as the product of entries of two short tables.
class Roots {
 public:
  explicit Roots(int64_t n) : n_(n) {
    const int64_t needed = (n + 2) / 2;
    while ((int64_t{1} << shift_) * (int64_t{1} << shift_) < needed) ++shift_;
    const int64_t step = int64_t{1} << shift_;
    for (int64_t k = 0; k < step; ++k) fine_.push_back(At(k));
    for (int64_t k = 0; k * step < needed + step - 1; ++k) coarse_.push_back(At(k * step));
  }
  template <typename S>
  Number<S> operator()(int64_t k) const {
    const bool upper = 2 * k > n_;
    if (upper) k = n_ - k;
    const Number<double> a = fine_[static_cast<size_t>(k & ((int64_t{1} << shift_) - 1))];
    const Number<double> b = coarse_[static_cast<size_t>(k >> shift_)];
    const double i = a.r * b.i + a.i * b.r;
    return {static_cast<S>(a.r * b.r - a.i * b.i), static_cast<S>(upper ? -i : i)};
  }

 private:
  // Evaluates sine and cosine at an angle of at most pi / 4 only, and maps the result to the octant.
  Number<double> At(int64_t k) const {
    const double unit = static_cast<double>(0.25L * 3.141592653589793238462643383279502884197L / n_);
    k = 8 * (k % n_);
    const bool below = k >= 4 * n_;
    if (below) k = 8 * n_ - k;
    const bool left = k >= 2 * n_;
    if (left) k = 4 * n_ - k;
    const bool steep = k >= n_;
    const double angle = static_cast<double>(steep ? 2 * n_ - k : k) * unit;
    const double c = steep ? std::sin(angle) : std::cos(angle), s = steep ? std::cos(angle) : std::sin(angle);
    return {left ? -c : c, below ? -s : s};
  }
  int64_t n_;
  int shift_ = 1;
  std::vector<Number<double>> fine_, coarse_;
};

// Returns the largest prime factor; n >= 1.
inline int64_t FindLargestPrime(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return std::max(largest, n);
}

inline std::vector<int64_t> Factors(int64_t n, bool eights) {
  std::vector<int64_t> f;
  for (; eights && n % 8 == 0; n /= 8) f.push_back(8);
  for (; n % 4 == 0; n /= 4) f.push_back(4);
  if (n % 2 == 0) {
    n /= 2;
    f.push_back(2);
    std::swap(f.front(), f.back());
  }
  for (int64_t p = 3; p * p <= n; p += 2) {
    for (; n % p == 0; n /= p) f.push_back(p);
  }
  if (n > 1) f.push_back(n);
  return f;
}

template <typename V, typename S>
class ComplexLine {
 public:
  using C = Number<V>;

  explicit ComplexLine(int64_t n) : n_(n) {
    const Roots roots(n);
    int64_t l1 = 1;
    for (int64_t radix : n > 1 ? Factors(n, true) : std::vector<int64_t>()) {
      Pass pass{radix, n / (l1 * radix), l1, {}, {}};
      for (int64_t j = 1; j < radix; ++j) {
        for (int64_t i = 1; i < pass.ido; ++i) pass.twiddles.push_back(roots.template operator()<S>(j * l1 * i));
      }
      for (int64_t j = 0; j < radix; ++j) pass.circle.push_back(roots.template operator()<S>(j * (n / radix)));
      passes_.push_back(std::move(pass));
      l1 *= radix;
    }
  }

  // Transforms x in place, without normalization. `work` has room for n numbers.
  void Run(C* x, C* work, bool forward) const {
    C *from = x, *to = work;
    std::vector<C> wide;
    for (const Pass& p : passes_) {
      if (forward) {
        RunPass<true>(p, from, to, &wide);
      } else {
        RunPass<false>(p, from, to, &wide);
      }
      std::swap(from, to);
    }
    if (from != x) std::copy(from, from + n_, x);
  }

 private:
  struct Pass {
    int64_t radix, ido, l1;
    std::vector<Number<S>> twiddles, circle;
  };

  // Multiplies by w, in the forward transform by its conjugate.
  template <bool kForward>
  static C TimesTwiddle(C a, Number<S> w) {
    if (kForward) return {a.r * w.r + a.i * w.i, a.i * w.r - a.r * w.i};
    return {a.r * w.r - a.i * w.i, a.r * w.i + a.i * w.r};
  }
  // Multiplies by -i in the forward transform, by i in the inverse one.
  template <bool kForward>
  static C RotateByQuarter(C a) {
    if (kForward) return {a.i, -a.r};
    return {-a.i, a.r};
  }

  template <bool kForward>
  void RunPass(const Pass& p, const C* from, C* to, std::vector<C>* wide) const {
    const int64_t ido = p.ido, radix = p.radix;
    if (radix > 8 || radix == 6 || radix == 7) wide->resize(static_cast<size_t>(2 * radix));
    C in[8], out[8];
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 0; i < ido; ++i) {
        const C* a = from + i + ido * radix * k;
        C* results = out;
        switch (radix) {
          case 2:
            out[0] = a[0] + a[ido], out[1] = a[0] - a[ido];
            break;
          case 3:
            Transform3<kForward>(a[0], a[ido], a[2 * ido], out);
            break;
          case 4:
            Transform4<kForward>(a[0], a[ido], a[2 * ido], a[3 * ido], out);
            break;
          case 5:
            for (int64_t j = 0; j < 5; ++j) in[j] = a[j * ido];
            Transform5<kForward>(in, out);
            break;
          case 8:
            for (int64_t j = 0; j < 8; ++j) in[j] = a[j * ido];
            Transform8<kForward>(in, out);
            break;
          default:
            results = wide->data() + radix;
            for (int64_t j = 0; j < radix; ++j) (*wide)[static_cast<size_t>(j)] = a[j * ido];
            TransformOdd<kForward>(p, wide->data(), results);
        }
        to[i + ido * k] = results[0];
        for (int64_t j = 1; j < radix; ++j) {
          const C y = results[j];
          to[i + ido * (k + p.l1 * j)] =
              i == 0 ? y : TimesTwiddle<kForward>(y, p.twiddles[static_cast<size_t>((j - 1) * (ido - 1) + i - 1)]);
        }
      }
    }
  }

  template <bool kForward>
  static void Transform3(C a, C b, C c, C* y) {
    const S wr = S(-0.5), wi = (kForward ? -1 : 1) * S(0.86602540378443864676);
    const C t1 = b + c, t2 = b - c;
    y[0] = a + t1;
    const C u{a.r + t1.r * wr, a.i + t1.i * wr}, v{-(t2.i * wi), t2.r * wi};
    y[1] = u + v, y[2] = u - v;
  }

  template <bool kForward>
  static void Transform4(C a, C b, C c, C d, C* y) {
    const C t1 = a - c, t2 = a + c, t3 = b + d, t4 = RotateByQuarter<kForward>(b - d);
    y[0] = t2 + t3, y[2] = t2 - t3, y[1] = t1 + t4, y[3] = t1 - t4;
  }

  template <bool kForward>
  static void Transform5(const C* x, C* y) {
    const S sign = kForward ? -1 : 1;
    const S r1 = S(0.3090169943749474241), i1 = sign * S(0.95105651629515357212);
    const S r2 = S(-0.8090169943749474241), i2 = sign * S(0.58778525229247312917);
    const C t1 = x[1] + x[4], t4 = x[1] - x[4], t2 = x[2] + x[3], t3 = x[2] - x[3];
    y[0] = {x[0].r + t1.r + t2.r, x[0].i + t1.i + t2.i};
    const C u{x[0].r + r1 * t1.r + r2 * t2.r, x[0].i + r1 * t1.i + r2 * t2.i};
    const C v{-(i1 * t4.i + i2 * t3.i), i1 * t4.r + i2 * t3.r};
    y[1] = u + v, y[4] = u - v;
    const C s{x[0].r + r2 * t1.r + r1 * t2.r, x[0].i + r2 * t1.i + r1 * t2.i};
    const C t{-(i2 * t4.i - i1 * t3.i), i2 * t4.r - i1 * t3.r};
    y[2] = s + t, y[3] = s - t;
  }

  template <bool kForward>
  static void Transform8(const C* x, C* y) {
    const S half = S(0.707106781186547524400844362104849);
    const C a1 = x[1] + x[5], a5 = x[1] - x[5], a3 = x[3] + x[7], a7 = RotateByQuarter<kForward>(x[3] - x[7]);
    const C b1 = a1 + a3, b3 = RotateByQuarter<kForward>(a1 - a3);
    const C p = a5 + a7, q = a5 - a7;
    C b5, b7;
    if (kForward) {
      b5 = {half * (p.r + p.i), half * (p.i - p.r)};
      b7 = {half * (q.i - q.r), half * (-q.r - q.i)};
    } else {
      b5 = {half * (p.r - p.i), half * (p.i + p.r)};
      b7 = {half * (-q.r - q.i), half * (q.r - q.i)};
    }
    const C a0 = x[0] + x[4], a4 = x[0] - x[4], a2 = x[2] + x[6], a6 = RotateByQuarter<kForward>(x[2] - x[6]);
    const C b0 = a0 + a2, b2 = a0 - a2, b4 = a4 + a6, b6 = a4 - a6;
    y[0] = b0 + b1, y[4] = b0 - b1, y[2] = b2 + b3, y[6] = b2 - b3;
    y[1] = b4 + b5, y[5] = b4 - b5, y[3] = b6 + b7, y[7] = b6 - b7;
  }

  // Transforms of any odd radix. Sums and differences of opposite elements halve the number of products.
  template <bool kForward>
  static void TransformOdd(const Pass& p, C* x, C* y) {
    const int64_t n = p.radix, half = (n + 1) / 2;
    C total = x[0];
    for (int64_t j = 1; j < half; ++j) {
      const C a = x[j], b = x[n - j];
      x[j] = a + b, x[n - j] = a - b;
      total = total + x[j];
    }
    y[0] = total;
    for (int64_t l = 1; l < half; ++l) {
      C even = x[0], odd{};
      for (int64_t j = 1; j < half; ++j) {
        const Number<S> w = p.circle[static_cast<size_t>(j * l % n)];
        even.r = even.r + x[j].r * w.r, even.i = even.i + x[j].i * w.r;
        odd.r = odd.r + x[n - j].r * w.i, odd.i = odd.i + x[n - j].i * w.i;
      }
      const C turned{-odd.i, odd.r};
      y[l] = kForward ? even - turned : even + turned;
      y[n - l] = kForward ? even + turned : even - turned;
    }
  }

  int64_t n_;
  std::vector<Pass> passes_;
};

}  // namespace backplane::fft

#endif  // BACKPLANE_CORE_OPS_FAMILIES_FFT_PASSES_H_
