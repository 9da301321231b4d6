// Real transforms of one line in real arithmetic; see fft_passes.h.
//
// The spectrum X of n real numbers is packed into n numbers as in FFTPACK: the real part of X[0], the real and
// imaginary parts of X[1], X[2], ... and, for even n, the real part of X[n / 2].
#ifndef BACKPLANE_CORE_OPS_FAMILIES_FFT_REAL_H_
#define BACKPLANE_CORE_OPS_FAMILIES_FFT_REAL_H_

#include "core/ops/families/fft_passes.h"

namespace backplane::fft {

template <typename V, typename S>
class RealLine {
 public:
  explicit RealLine(int64_t n) : n_(n) {
    const Roots roots(n);
    int64_t l1 = 1;
    for (int64_t radix : n > 1 ? Factors(n, false) : std::vector<int64_t>()) {
      Pass pass{radix, n / (l1 * radix), l1, {}, {}};
      for (int64_t j = 1; j < radix; ++j) {
        for (int64_t i = 1; i <= (pass.ido - 1) / 2; ++i) {
          const Number<S> w = roots.template operator()<S>(j * l1 * i);
          pass.twiddles.push_back(w.r);
          pass.twiddles.push_back(w.i);
        }
        if (pass.ido % 2 == 0) pass.twiddles.push_back(S(0));  // rows are ido - 1 long
      }
      // Half of the circle is computed; the other half is its mirror image.
      for (int64_t j = 0; j < radix; ++j) {
        const Number<S> w = roots.template operator()<S>((2 * j <= radix ? j : radix - j) * (n / radix));
        pass.circle.push_back({w.r, 2 * j <= radix ? w.i : -w.i});
      }
      if (radix > 1) pass.circle[0] = {S(1), S(0)};
      passes_.push_back(std::move(pass));
      l1 *= radix;
    }
  }

  // Transforms x in place, without normalization. `work` has room for n numbers.
  void Forward(V* x, V* work) const {
    V *from = x, *to = work;
    for (size_t k = passes_.size(); k-- > 0;) {
      const Pass& p = passes_[k];
      switch (p.radix) {
        case 2:
          Forward2(p, from, to);
          break;
        case 3:
          Forward3(p, from, to);
          break;
        case 4:
          Forward4(p, from, to);
          break;
        case 5:
          Forward5(p, from, to);
          break;
        default:
          ForwardAny(p, from, to);
      }
      std::swap(from, to);
    }
    if (from != x) std::copy(from, from + n_, x);
  }

  void Backward(V* x, V* work) const {
    V *from = x, *to = work;
    for (const Pass& p : passes_) {
      switch (p.radix) {
        case 2:
          Backward2(p, from, to);
          break;
        case 3:
          Backward3(p, from, to);
          break;
        case 4:
          Backward4(p, from, to);
          break;
        case 5:
          Backward5(p, from, to);
          break;
        default:
          BackwardAny(p, from, to);
      }
      std::swap(from, to);
    }
    if (from != x) std::copy(from, from + n_, x);
  }

 private:
  struct Pass {
    int64_t radix, ido, l1;
    std::vector<S> twiddles;        // radix - 1 rows of ido - 1
    std::vector<Number<S>> circle;  // exp(2 pi i j / radix)
  };
  static constexpr S kSin3 = S(0.86602540378443864676);
  static constexpr S kRoot2 = S(1.414213562373095048801688724209698);
  static constexpr S kCos5 = S(0.3090169943749474241), kSin5 = S(0.95105651629515357212);
  static constexpr S kCos52 = S(-0.8090169943749474241), kSin52 = S(0.58778525229247312917);

  // Spectra of the subsequences are indexed [k][row][i], those of the complete line [row][k][i]. i runs over the ido
  // packed numbers of a half spectrum.
  struct Split {
    V* at;
    int64_t ido, rows;
    V& operator()(int64_t i, int64_t row, int64_t k) const { return at[i + ido * (row + rows * k)]; }
  };
  struct Whole {
    V* at;
    int64_t ido, l1;
    V& operator()(int64_t i, int64_t k, int64_t row) const { return at[i + ido * (k + l1 * row)]; }
  };

  // Multiply (re, im) by the twiddle factor of row `row` at i, or by its conjugate.
  static Number<V> Times(const Pass& p, int64_t row, int64_t i, V re, V im) {
    const S c = p.twiddles[static_cast<size_t>(i - 2 + row * (p.ido - 1))],
            s = p.twiddles[static_cast<size_t>(i - 1 + row * (p.ido - 1))];
    return {c * re - s * im, c * im + s * re};
  }
  static Number<V> TimesConjugate(const Pass& p, int64_t row, int64_t i, V re, V im) {
    const S c = p.twiddles[static_cast<size_t>(i - 2 + row * (p.ido - 1))],
            s = p.twiddles[static_cast<size_t>(i - 1 + row * (p.ido - 1))];
    return {c * re + s * im, c * im - s * re};
  }

  static void Forward2(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Whole in{from, ido, p.l1};
    const Split out{to, ido, 2};
    for (int64_t k = 0; k < p.l1; ++k) {
      out(0, 0, k) = in(0, k, 0) + in(0, k, 1);
      out(ido - 1, 1, k) = in(0, k, 0) - in(0, k, 1);
    }
    if (ido % 2 == 0) {
      for (int64_t k = 0; k < p.l1; ++k) {
        out(0, 1, k) = -in(ido - 1, k, 1);
        out(ido - 1, 0, k) = in(ido - 1, k, 0);
      }
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        const Number<V> t = TimesConjugate(p, 0, i, in(i - 1, k, 1), in(i, k, 1));
        out(i - 1, 0, k) = in(i - 1, k, 0) + t.r, out(ic - 1, 1, k) = in(i - 1, k, 0) - t.r;
        out(i, 0, k) = t.i + in(i, k, 0), out(ic, 1, k) = t.i - in(i, k, 0);
      }
    }
  }

  static void Backward2(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Split in{from, ido, 2};
    const Whole out{to, ido, p.l1};
    for (int64_t k = 0; k < p.l1; ++k) {
      out(0, k, 0) = in(0, 0, k) + in(ido - 1, 1, k);
      out(0, k, 1) = in(0, 0, k) - in(ido - 1, 1, k);
    }
    if (ido % 2 == 0) {
      for (int64_t k = 0; k < p.l1; ++k) {
        out(ido - 1, k, 0) = S(2) * in(ido - 1, 0, k);
        out(ido - 1, k, 1) = S(-2) * in(0, 1, k);
      }
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        out(i - 1, k, 0) = in(i - 1, 0, k) + in(ic - 1, 1, k);
        out(i, k, 0) = in(i, 0, k) - in(ic, 1, k);
        Store(out, i, k, 1, Times(p, 0, i, in(i - 1, 0, k) - in(ic - 1, 1, k), in(i, 0, k) + in(ic, 1, k)));
      }
    }
  }

  static void Forward3(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Whole in{from, ido, p.l1};
    const Split out{to, ido, 3};
    for (int64_t k = 0; k < p.l1; ++k) {
      const V sum = in(0, k, 1) + in(0, k, 2);
      out(0, 0, k) = in(0, k, 0) + sum;
      out(0, 2, k) = kSin3 * (in(0, k, 2) - in(0, k, 1));
      out(ido - 1, 1, k) = in(0, k, 0) + S(-0.5) * sum;
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        const Number<V> a = TimesConjugate(p, 0, i, in(i - 1, k, 1), in(i, k, 1));
        const Number<V> b = TimesConjugate(p, 1, i, in(i - 1, k, 2), in(i, k, 2));
        const V sr = a.r + b.r, si = a.i + b.i;
        out(i - 1, 0, k) = in(i - 1, k, 0) + sr;
        out(i, 0, k) = in(i, k, 0) + si;
        const V ur = in(i - 1, k, 0) + S(-0.5) * sr, ui = in(i, k, 0) + S(-0.5) * si;
        const V vr = kSin3 * (a.i - b.i), vi = kSin3 * (b.r - a.r);
        out(i - 1, 2, k) = ur + vr, out(ic - 1, 1, k) = ur - vr;
        out(i, 2, k) = vi + ui, out(ic, 1, k) = vi - ui;
      }
    }
  }

  static void Backward3(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Split in{from, ido, 3};
    const Whole out{to, ido, p.l1};
    for (int64_t k = 0; k < p.l1; ++k) {
      const V twice = S(2) * in(ido - 1, 1, k);
      const V u = in(0, 0, k) + S(-0.5) * twice, v = (S(2) * kSin3) * in(0, 2, k);
      out(0, k, 0) = in(0, 0, k) + twice;
      out(0, k, 2) = u + v, out(0, k, 1) = u - v;
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        const V sr = in(i - 1, 2, k) + in(ic - 1, 1, k), si = in(i, 2, k) - in(ic, 1, k);
        const V ur = in(i - 1, 0, k) + S(-0.5) * sr, ui = in(i, 0, k) + S(-0.5) * si;
        out(i - 1, k, 0) = in(i - 1, 0, k) + sr;
        out(i, k, 0) = in(i, 0, k) + si;
        const V vr = kSin3 * (in(i - 1, 2, k) - in(ic - 1, 1, k)), vi = kSin3 * (in(i, 2, k) + in(ic, 1, k));
        Store(out, i, k, 1, Times(p, 0, i, ur - vi, ui + vr));
        Store(out, i, k, 2, Times(p, 1, i, ur + vi, ui - vr));
      }
    }
  }

  static void Forward4(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Whole in{from, ido, p.l1};
    const Split out{to, ido, 4};
    const S half = kRoot2 / 2;
    for (int64_t k = 0; k < p.l1; ++k) {
      const V t1 = in(0, k, 3) + in(0, k, 1), t2 = in(0, k, 0) + in(0, k, 2);
      out(0, 2, k) = in(0, k, 3) - in(0, k, 1);
      out(ido - 1, 1, k) = in(0, k, 0) - in(0, k, 2);
      out(0, 0, k) = t2 + t1, out(ido - 1, 3, k) = t2 - t1;
    }
    if (ido % 2 == 0) {
      for (int64_t k = 0; k < p.l1; ++k) {
        const V ti = -half * (in(ido - 1, k, 1) + in(ido - 1, k, 3)),
                tr = half * (in(ido - 1, k, 1) - in(ido - 1, k, 3));
        out(ido - 1, 0, k) = in(ido - 1, k, 0) + tr, out(ido - 1, 2, k) = in(ido - 1, k, 0) - tr;
        out(0, 3, k) = ti + in(ido - 1, k, 2), out(0, 1, k) = ti - in(ido - 1, k, 2);
      }
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        const Number<V> b = TimesConjugate(p, 0, i, in(i - 1, k, 1), in(i, k, 1));
        const Number<V> c = TimesConjugate(p, 1, i, in(i - 1, k, 2), in(i, k, 2));
        const Number<V> d = TimesConjugate(p, 2, i, in(i - 1, k, 3), in(i, k, 3));
        const V tr1 = d.r + b.r, tr4 = d.r - b.r, ti1 = b.i + d.i, ti4 = b.i - d.i;
        const V tr2 = in(i - 1, k, 0) + c.r, tr3 = in(i - 1, k, 0) - c.r, ti2 = in(i, k, 0) + c.i,
                ti3 = in(i, k, 0) - c.i;
        out(i - 1, 0, k) = tr2 + tr1, out(ic - 1, 3, k) = tr2 - tr1;
        out(i, 0, k) = ti1 + ti2, out(ic, 3, k) = ti1 - ti2;
        out(i - 1, 2, k) = tr3 + ti4, out(ic - 1, 1, k) = tr3 - ti4;
        out(i, 2, k) = tr4 + ti3, out(ic, 1, k) = tr4 - ti3;
      }
    }
  }

  static void Backward4(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Split in{from, ido, 4};
    const Whole out{to, ido, p.l1};
    for (int64_t k = 0; k < p.l1; ++k) {
      const V t2 = in(0, 0, k) + in(ido - 1, 3, k), t1 = in(0, 0, k) - in(ido - 1, 3, k);
      const V t3 = S(2) * in(ido - 1, 1, k), t4 = S(2) * in(0, 2, k);
      out(0, k, 0) = t2 + t3, out(0, k, 2) = t2 - t3;
      out(0, k, 3) = t1 + t4, out(0, k, 1) = t1 - t4;
    }
    if (ido % 2 == 0) {
      for (int64_t k = 0; k < p.l1; ++k) {
        const V ti1 = in(0, 3, k) + in(0, 1, k), ti2 = in(0, 3, k) - in(0, 1, k);
        const V tr2 = in(ido - 1, 0, k) + in(ido - 1, 2, k), tr1 = in(ido - 1, 0, k) - in(ido - 1, 2, k);
        out(ido - 1, k, 0) = tr2 + tr2;
        out(ido - 1, k, 1) = kRoot2 * (tr1 - ti1);
        out(ido - 1, k, 2) = ti2 + ti2;
        out(ido - 1, k, 3) = -kRoot2 * (tr1 + ti1);
      }
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        const V tr2 = in(i - 1, 0, k) + in(ic - 1, 3, k), tr1 = in(i - 1, 0, k) - in(ic - 1, 3, k);
        const V ti1 = in(i, 0, k) + in(ic, 3, k), ti2 = in(i, 0, k) - in(ic, 3, k);
        const V tr4 = in(i, 2, k) + in(ic, 1, k), ti3 = in(i, 2, k) - in(ic, 1, k);
        const V tr3 = in(i - 1, 2, k) + in(ic - 1, 1, k), ti4 = in(i - 1, 2, k) - in(ic - 1, 1, k);
        out(i - 1, k, 0) = tr2 + tr3, out(i, k, 0) = ti2 + ti3;
        Store(out, i, k, 1, Times(p, 0, i, tr1 - tr4, ti1 + ti4));
        Store(out, i, k, 2, Times(p, 1, i, tr2 - tr3, ti2 - ti3));
        Store(out, i, k, 3, Times(p, 2, i, tr1 + tr4, ti1 - ti4));
      }
    }
  }

  static void Forward5(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Whole in{from, ido, p.l1};
    const Split out{to, ido, 5};
    for (int64_t k = 0; k < p.l1; ++k) {
      const V s1 = in(0, k, 4) + in(0, k, 1), d1 = in(0, k, 4) - in(0, k, 1);
      const V s2 = in(0, k, 3) + in(0, k, 2), d2 = in(0, k, 3) - in(0, k, 2);
      out(0, 0, k) = in(0, k, 0) + s1 + s2;
      out(ido - 1, 1, k) = in(0, k, 0) + kCos5 * s1 + kCos52 * s2;
      out(0, 2, k) = kSin5 * d1 + kSin52 * d2;
      out(ido - 1, 3, k) = in(0, k, 0) + kCos52 * s1 + kCos5 * s2;
      out(0, 4, k) = kSin52 * d1 - kSin5 * d2;
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        const Number<V> b = TimesConjugate(p, 0, i, in(i - 1, k, 1), in(i, k, 1));
        const Number<V> c = TimesConjugate(p, 1, i, in(i - 1, k, 2), in(i, k, 2));
        const Number<V> d = TimesConjugate(p, 2, i, in(i - 1, k, 3), in(i, k, 3));
        const Number<V> e = TimesConjugate(p, 3, i, in(i - 1, k, 4), in(i, k, 4));
        const V sr1 = e.r + b.r, dr1 = e.r - b.r, si1 = b.i + e.i, di1 = b.i - e.i;
        const V sr2 = d.r + c.r, dr2 = d.r - c.r, si2 = c.i + d.i, di2 = c.i - d.i;
        out(i - 1, 0, k) = in(i - 1, k, 0) + sr1 + sr2;
        out(i, 0, k) = in(i, k, 0) + si1 + si2;
        const V ur = in(i - 1, k, 0) + kCos5 * sr1 + kCos52 * sr2, ui = in(i, k, 0) + kCos5 * si1 + kCos52 * si2;
        const V wr = in(i - 1, k, 0) + kCos52 * sr1 + kCos5 * sr2, wi = in(i, k, 0) + kCos52 * si1 + kCos5 * si2;
        const V xr = kSin5 * di1 + kSin52 * di2, xi = kSin5 * dr1 + kSin52 * dr2;
        const V yr = kSin52 * di1 - kSin5 * di2, yi = kSin52 * dr1 - kSin5 * dr2;
        out(i - 1, 2, k) = ur + xr, out(ic - 1, 1, k) = ur - xr;
        out(i, 2, k) = xi + ui, out(ic, 1, k) = xi - ui;
        out(i - 1, 4, k) = wr + yr, out(ic - 1, 3, k) = wr - yr;
        out(i, 4, k) = yi + wi, out(ic, 3, k) = yi - wi;
      }
    }
  }

  static void Backward5(const Pass& p, V* from, V* to) {
    const int64_t ido = p.ido;
    const Split in{from, ido, 5};
    const Whole out{to, ido, p.l1};
    for (int64_t k = 0; k < p.l1; ++k) {
      const V ti5 = in(0, 2, k) + in(0, 2, k), ti4 = in(0, 4, k) + in(0, 4, k);
      const V tr2 = in(ido - 1, 1, k) + in(ido - 1, 1, k), tr3 = in(ido - 1, 3, k) + in(ido - 1, 3, k);
      out(0, k, 0) = in(0, 0, k) + tr2 + tr3;
      const V u = in(0, 0, k) + kCos5 * tr2 + kCos52 * tr3, w = in(0, 0, k) + kCos52 * tr2 + kCos5 * tr3;
      const V x = kSin5 * ti5 + kSin52 * ti4, y = kSin52 * ti5 - kSin5 * ti4;
      out(0, k, 4) = u + x, out(0, k, 1) = u - x;
      out(0, k, 3) = w + y, out(0, k, 2) = w - y;
    }
    for (int64_t k = 0; k < p.l1; ++k) {
      for (int64_t i = 2; i < ido; i += 2) {
        const int64_t ic = ido - i;
        const V tr2 = in(i - 1, 2, k) + in(ic - 1, 1, k), tr5 = in(i - 1, 2, k) - in(ic - 1, 1, k);
        const V ti5 = in(i, 2, k) + in(ic, 1, k), ti2 = in(i, 2, k) - in(ic, 1, k);
        const V tr3 = in(i - 1, 4, k) + in(ic - 1, 3, k), tr4 = in(i - 1, 4, k) - in(ic - 1, 3, k);
        const V ti4 = in(i, 4, k) + in(ic, 3, k), ti3 = in(i, 4, k) - in(ic, 3, k);
        out(i - 1, k, 0) = in(i - 1, 0, k) + tr2 + tr3;
        out(i, k, 0) = in(i, 0, k) + ti2 + ti3;
        const V ur = in(i - 1, 0, k) + kCos5 * tr2 + kCos52 * tr3, ui = in(i, 0, k) + kCos5 * ti2 + kCos52 * ti3;
        const V wr = in(i - 1, 0, k) + kCos52 * tr2 + kCos5 * tr3, wi = in(i, 0, k) + kCos52 * ti2 + kCos5 * ti3;
        const V xr = kSin5 * tr5 + kSin52 * tr4, xi = kSin5 * ti5 + kSin52 * ti4;
        const V yr = kSin52 * tr5 - kSin5 * tr4, yi = kSin52 * ti5 - kSin5 * ti4;
        Store(out, i, k, 1, Times(p, 0, i, ur - xi, ui + xr));
        Store(out, i, k, 2, Times(p, 1, i, wr - yi, wi + yr));
        Store(out, i, k, 3, Times(p, 2, i, wr + yi, wi - yr));
        Store(out, i, k, 4, Times(p, 3, i, ur + xi, ui - xr));
      }
    }
  }

  static void Store(const Whole& out, int64_t i, int64_t k, int64_t row, Number<V> z) {
    out(i - 1, k, row) = z.r;
    out(i, k, row) = z.i;
  }

  // Computes the sums over j of the even and odd parts, each multiplied by the roots of row l. Adds in blocks of four,
  // then of two, then singly.
  static void ComputeSums(const Pass& p, int64_t l, const V* parts, int64_t step, V* even, V* odd) {
    const int64_t n = p.radix, half = (n + 1) / 2;
    auto c = [&](int64_t j) { return p.circle[static_cast<size_t>(j * l % n)].r; };
    auto s = [&](int64_t j) { return p.circle[static_cast<size_t>(j * l % n)].i; };
    auto x = [&](int64_t j) { return parts[j * step]; };
    auto y = [&](int64_t j) { return parts[(n - j) * step]; };
    V a = x(0) + c(1) * x(1) + c(2) * x(2), b = s(1) * y(1) + s(2) * y(2);
    int64_t j = 3;
    for (; j < half - 3; j += 4) {
      a += c(j) * x(j) + c(j + 1) * x(j + 1) + c(j + 2) * x(j + 2) + c(j + 3) * x(j + 3);
      b += s(j) * y(j) + s(j + 1) * y(j + 1) + s(j + 2) * y(j + 2) + s(j + 3) * y(j + 3);
    }
    for (; j < half - 1; j += 2) {
      a += c(j) * x(j) + c(j + 1) * x(j + 1);
      b += s(j) * y(j) + s(j + 1) * y(j + 1);
    }
    for (; j < half; ++j) {
      a += c(j) * x(j);
      b += s(j) * y(j);
    }
    *even = a;
    *odd = b;
  }

  // Odd radices from seven on.
  static void ForwardAny(const Pass& p, V* from, V* to) {
    const int64_t n = p.radix, ido = p.ido, l1 = p.l1, half = (n + 1) / 2, all = ido * l1;
    const Whole in{from, ido, l1};
    for (int64_t j = 1; j < half; ++j) {
      const int64_t jc = n - j;
      for (int64_t k = 0; k < l1; ++k) {
        const V a = in(0, k, jc), b = in(0, k, j);
        in(0, k, jc) = a - b, in(0, k, j) = b + a;
        for (int64_t i = 2; i < ido; i += 2) {
          const Number<V> u = TimesConjugate(p, j - 1, i, in(i - 1, k, j), in(i, k, j));
          const Number<V> v = TimesConjugate(p, jc - 1, i, in(i - 1, k, jc), in(i, k, jc));
          in(i - 1, k, j) = u.r + v.r, in(i - 1, k, jc) = u.i - v.i;
          in(i, k, j) = u.i + v.i, in(i, k, jc) = v.r - u.r;
        }
      }
    }
    // Transforms of the sums and differences, element by element, into `to` as [row][element].
    for (int64_t e = 0; e < all; ++e) {
      V total = from[e];
      for (int64_t j = 1; j < half; ++j) total += from[e + j * all];
      to[e] = total;
      for (int64_t l = 1; l < half; ++l) ComputeSums(p, l, from + e, all, &to[e + l * all], &to[e + (n - l) * all]);
    }
    const Whole sums{to, ido, l1};
    const Split out{from, ido, n};
    for (int64_t k = 0; k < l1; ++k) {
      for (int64_t i = 0; i < ido; ++i) out(i, 0, k) = sums(i, k, 0);
      for (int64_t j = 1; j < half; ++j) {
        const int64_t jc = n - j;
        out(ido - 1, 2 * j - 1, k) = sums(0, k, j);
        out(0, 2 * j, k) = sums(0, k, jc);
        for (int64_t i = 2; i < ido; i += 2) {
          const int64_t ic = ido - i;
          out(i - 1, 2 * j, k) = sums(i - 1, k, j) + sums(i - 1, k, jc);
          out(ic - 1, 2 * j - 1, k) = sums(i - 1, k, j) - sums(i - 1, k, jc);
          out(i, 2 * j, k) = sums(i, k, jc) + sums(i, k, j);
          out(ic, 2 * j - 1, k) = sums(i, k, jc) - sums(i, k, j);
        }
      }
    }
    std::copy(from, from + n * all, to);
  }

  static void BackwardAny(const Pass& p, V* from, V* to) {
    const int64_t n = p.radix, ido = p.ido, l1 = p.l1, half = (n + 1) / 2, all = ido * l1;
    const Split in{from, ido, n};
    const Whole parts{to, ido, l1};
    for (int64_t k = 0; k < l1; ++k) {
      for (int64_t i = 0; i < ido; ++i) parts(i, k, 0) = in(i, 0, k);
      for (int64_t j = 1; j < half; ++j) {
        const int64_t jc = n - j;
        parts(0, k, j) = S(2) * in(ido - 1, 2 * j - 1, k);
        parts(0, k, jc) = S(2) * in(0, 2 * j, k);
        for (int64_t i = 2; i < ido; i += 2) {
          const int64_t ic = ido - i;
          parts(i - 1, k, j) = in(i - 1, 2 * j, k) + in(ic - 1, 2 * j - 1, k);
          parts(i - 1, k, jc) = in(i - 1, 2 * j, k) - in(ic - 1, 2 * j - 1, k);
          parts(i, k, j) = in(i, 2 * j, k) - in(ic, 2 * j - 1, k);
          parts(i, k, jc) = in(i, 2 * j, k) + in(ic, 2 * j - 1, k);
        }
      }
    }
    for (int64_t e = 0; e < all; ++e) {
      V total = to[e];
      for (int64_t j = 1; j < half; ++j) total += to[e + j * all];
      for (int64_t l = 1; l < half; ++l) ComputeSums(p, l, to + e, all, &from[e + l * all], &from[e + (n - l) * all]);
      from[e] = total;
    }
    const Whole sums{from, ido, l1};
    for (int64_t k = 0; k < l1; ++k) {
      for (int64_t i = 0; i < ido; ++i) parts(i, k, 0) = sums(i, k, 0);
      for (int64_t j = 1; j < half; ++j) {
        const int64_t jc = n - j;
        parts(0, k, jc) = sums(0, k, j) + sums(0, k, jc);
        parts(0, k, j) = sums(0, k, j) - sums(0, k, jc);
        for (int64_t i = 2; i < ido; i += 2) {
          // even + i odd at j, even - i odd at jc.
          Store(parts, i, k, j,
                Times(p, j - 1, i, sums(i - 1, k, j) - sums(i, k, jc), sums(i, k, j) + sums(i - 1, k, jc)));
          Store(parts, i, k, jc,
                Times(p, jc - 1, i, sums(i - 1, k, j) + sums(i, k, jc), sums(i, k, j) - sums(i - 1, k, jc)));
        }
      }
    }
  }

  int64_t n_;
  std::vector<Pass> passes_;
};

}  // namespace backplane::fft

#endif  // BACKPLANE_CORE_OPS_FAMILIES_FFT_REAL_H_
