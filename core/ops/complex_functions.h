// Functions of complex numbers, for the formulas of elementwise operations.
#ifndef BACKPLANE_CORE_OPS_COMPLEX_FUNCTIONS_H_
#define BACKPLANE_CORE_OPS_COMPLEX_FUNCTIONS_H_

#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

namespace backplane::complex_functions {

template <typename P>
using Z = std::complex<P>;

// Multiplies with a fused multiply-add, which rounds once less than two products and a sum.
template <typename P>
Z<P> Multiply(Z<P> a, Z<P> b) {
  return Z<P>(std::fma(a.real(), b.real(), -(a.imag() * b.imag())), std::fma(a.imag(), b.real(), a.real() * b.imag()));
}

// c64 is computed in c128 where a formula's roundings would add up.
template <typename F>
Z<float> ComputeInDouble(F f, Z<float> a) {
  return Z<float>(f(Z<double>(a)));
}
template <typename F>
Z<double> ComputeInDouble(F f, Z<double> a) {
  return f(a);
}
// A type with more bits and a wider range, in which no formula here overflows or loses its last place.
template <typename P>
using Wider = std::conditional_t<std::is_same_v<P, float>, double, long double>;

// Divides as C's Annex G defines it. A division by zero divides each part by a zero with the sign of the divisor's real
// part. A finite number by an infinite one is zero, an infinite number by a finite one infinite; the signs are those of
// the directions.
template <typename P>
Z<P> Divide(Z<P> x, Z<P> y) {
  using W = Wider<P>;
  constexpr P kInf = std::numeric_limits<P>::infinity();
  const W a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  if (y == Z<P>(0)) {
    const P inf = std::copysign(kInf, y.real());
    return Z<P>(inf * x.real(), inf * x.imag());
  }
  const W size = c * c + d * d;
  const Z<P> r(static_cast<P>((a * c + b * d) / size), static_cast<P>((b * c - a * d) / size));
  if (!std::isnan(r.real()) || !std::isnan(r.imag())) return r;
  auto unit = [](W v) { return static_cast<P>(std::copysign(std::isinf(v) ? W(1) : W(0), v)); };
  const bool x_finite = std::isfinite(a) && std::isfinite(b), y_finite = std::isfinite(c) && std::isfinite(d);
  if (x_finite && (std::isinf(c) || std::isinf(d))) {
    const P e = unit(c), f = unit(d), p = x.real(), q = x.imag();
    return Z<P>(P(0) * (p * e + q * f), P(0) * (q * e - p * f));
  }
  if (y_finite && (std::isinf(a) || std::isinf(b))) {
    const P e = unit(a), f = unit(b), p = y.real(), q = y.imag();
    return Z<P>(kInf * (e * p + f * q), kInf * (f * p - e * q));
  }
  return r;
}

// Returns the principal cube root: its angle is a third of the argument's.
template <typename P>
Z<P> Cbrt(Z<P> a) {
  using W = Wider<P>;
  if (a == Z<P>(0)) return a;
  const W size = std::cbrt(std::hypot(W(a.real()), W(a.imag())));
  const W angle = std::atan2(W(a.imag()), W(a.real())) / 3;
  const W im = angle == 0 ? angle : size * std::sin(angle);
  return Z<P>(static_cast<P>(size * std::cos(angle)), static_cast<P>(im));
}

// e^a - 1 without cancellation near zero: the real part is expm1(x) cos(y) - 2 sin(y/2)^2. Without an angle both parts
// are NaN, as numpy and JAX define it.
inline Z<double> Expm1(Z<double> a) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(a.imag())) return Z<double>(nan, nan);
  if (a.real() > 40) return std::exp(a);
  const double s = std::sin(a.imag() / 2);
  const double e = std::expm1(a.real());
  return Z<double>(e * std::cos(a.imag()) - 2 * s * s, a.imag() == 0 ? a.imag() : (e + 1) * std::sin(a.imag()));
}

// Where a sine and a cosine of no angle are needed, both parts are NaN, as in C99 (C23 keeps the zero of the imaginary
// axis; JAX's tests do not).
inline Z<double> Tanh(Z<double> a) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return a.real() == 0 && !std::isfinite(a.imag()) ? Z<double>(nan, nan) : std::tanh(a);
}
inline Z<double> Tan(Z<double> a) {
  const Z<double> t = Tanh(Z<double>(-a.imag(), a.real()));
  return Z<double>(t.imag(), -t.real());
}

// The real part is log|1+a|, near the unit circle log1p(2x + x^2 + y^2) / 2 with the sum in twice the precision, for
// its terms may cancel.
inline Z<double> Log1p(Z<double> a) {
  const double x = a.real(), y = a.imag();
  const double size = std::hypot(1 + x, y);
  double re = std::isinf(size) ? std::log(std::hypot(x / 2, y / 2)) + M_LN2 : std::log(size);
  if (size > 0.5 && size < 2) {
    const double xx = x * x, yy = y * y;
    const double low = std::fma(x, x, -xx) + std::fma(y, y, -yy);
    auto sum = [](double p, double q, double& rest) {
      const double s = p + q, t = s - p;
      rest += (p - (s - t)) + (q - t);
      return s;
    };
    double rest = low;
    const double high = sum(sum(2 * x, xx, rest), yy, rest);
    re = std::log1p(high + rest) / 2;
  }
  return Z<double>(re, std::atan2(y, 1 + x));
}

template <typename P>
Z<P> Sign(Z<P> a) {
  if (std::isnan(a.real()) || std::isnan(a.imag())) {
    return Z<P>(std::numeric_limits<P>::quiet_NaN(), std::numeric_limits<P>::quiet_NaN());
  }
  using W = Wider<P>;
  const W size = std::hypot(W(a.real()), W(a.imag()));
  return size == 0 ? Z<P>(0) : Z<P>(static_cast<P>(a.real() / size), static_cast<P>(a.imag() / size));
}

template <typename P>
Z<P> Power(Z<P> a, Z<P> b) {
  if (a == Z<P>(0)) {  // 1, 0, or an infinity without a direction
    constexpr P kNan = std::numeric_limits<P>::quiet_NaN();
    if (b == Z<P>(0)) return Z<P>(1);
    if (b.real() > 0) return Z<P>(0);
    return Z<P>(b.real() < 0 ? std::numeric_limits<P>::infinity() : kNan, kNan);
  }
  return Z<P>(std::pow(Z<Wider<P>>(a), Z<Wider<P>>(b)));
}

// 1 / (1 + e^-z) with t = e^-|x| and 1 + cos y = 2 cos^2(y/2): no term overflows, and near the poles, where z is an odd
// multiple of pi i, nothing cancels.
inline Z<double> Logistic(Z<double> z) {
  const double x = z.real(), y = z.imag();
  if (std::isinf(x) && !std::isfinite(y)) return Z<double>(x < 0 ? 0 : 1, 0);
  const double t = std::exp(-std::abs(x)), u = -std::expm1(-std::abs(x)), c = std::cos(y / 2), cc = 2 * c * c;
  const double size = u * u + 2 * t * cc;  // |1 + t e^iy|^2
  return Z<double>((x < 0 ? t * (cc - u) : u + t * cc) / size, t * std::sin(y) / size);
}

template <typename P>
Z<P> Atan2(Z<P> first, Z<P> second) {
  using W = Wider<P>;
  const Z<W> y(first), x(second), i(0, 1);
  return Z<P>(Multiply(-i, std::log((x + Multiply(i, y)) / std::sqrt(Multiply(x, x) + Multiply(y, y)))));
}

// Lexicographic on (real, imaginary): where the real parts differ, a NaN in the imaginary part does not matter.
template <typename P>
bool Less(Z<P> a, Z<P> b) {
  return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
}
template <typename P>
bool HasNan(Z<P> a) {
  return a.real() != a.real() || a.imag() != a.imag();
}

// A complex number with the six comparison operators of the lexicographic order.
template <typename P>
struct Ordered {
  Z<P> z;
  friend bool operator==(Ordered a, Ordered b) { return a.z == b.z; }
  friend bool operator!=(Ordered a, Ordered b) { return a.z != b.z; }
  friend bool operator<(Ordered a, Ordered b) { return Less(a.z, b.z); }
  friend bool operator>(Ordered a, Ordered b) { return Less(b.z, a.z); }
  friend bool operator<=(Ordered a, Ordered b) { return Less(a.z, b.z) || a.z == b.z; }
  friend bool operator>=(Ordered a, Ordered b) { return Less(b.z, a.z) || a.z == b.z; }
};

}  // namespace backplane::complex_functions

#endif  // BACKPLANE_CORE_OPS_COMPLEX_FUNCTIONS_H_
