// Hyperbolic and inverse functions. The complex arcsine and arccosine follow Hull, Fairgrieve and Tang, "Implementing
// the complex arcsine and arccosine functions using exception handling", ACM TOMS 23 (1997), with their cases as
// selections; the others are the same values turned around.
#include <cmath>
#include <limits>

#include "core/import/to_hlo/chlo_functions.h"

namespace backplane::to_hlo {

namespace {

constexpr double kLog2 = 0.693147180559945309417;
constexpr double kHalfPi = 1.57079632679489661923;

bool IsComplexTerm(Term x) { return IsComplex(x.formula->GetType(x)); }

// For x, y >= 0: `height` is the imaginary part of asin(x + iy), and its real part is atan2(x, width), that of acos
// atan2(width, x).
struct Arc {
  Term width, height;
};

Arc MakeArc(Term x, Term y) {
  FloatLimits limits = GetLimits(x.formula->GetType(x));
  // Distances from the branch points and, a, half their sum. What follows never subtracts numbers that are close.
  Term up = x + 1.0, down = x - 1.0;
  Term r = Hypot(up, y), s = Hypot(down, y);
  Term a = (r + s) * 0.5;
  Term half = (a + x) * 0.5, far = r + up;
  Term inside = Less(x, 1.0);
  Term near = s + Abs(down);  // from the nearer branch point, of either side
  // width^2 = (a - x)(a + x); a - 1 is y^2 q inside and half of y^2 / far + near outside.
  Term width_low = Sqrt(half * (y * (y / far) + near));
  Term width_high = y * Sqrt(half / far + half / near);
  Term q = (1.0 / far + 1.0 / near) * 0.5;
  Term twice = y * (y / far) + near;
  Term excess = Select(inside, y * (y * q), twice * 0.5);
  Term root = Select(inside, y * Sqrt(q * (a + 1.0)), Sqrt(twice * ((a + 1.0) * 0.5)));
  Arc arc;
  arc.width = Select(LessEqual(x, 1.0), width_low, width_high);
  arc.height = Log1p(excess + root);
  // Where squares overflow: asin z is near log(2z).
  Term large = Maximum(x, y), small = Minimum(x, y);
  Term ratio = Select(Equal(large, small), 1.0, small / large);
  Term logarithm = kLog2 + Log(large) + Log1p(ratio * ratio) * 0.5;
  Term big = GreaterEqual(large, std::sqrt(limits.max) / 8);
  arc.width = Select(big, y, arc.width);
  arc.height = Select(big, logarithm, arc.height);
  arc.height = Select(Equal(x, kInfinity) | Equal(y, kInfinity), kInfinity, arc.height);
  return arc;
}

// For x, y >= 0: atanh(x + iy), both parts >= 0.
Term AtanhQuadrant(Term x, Term y) {
  FloatLimits limits = GetLimits(x.formula->GetType(x));
  Term gap = 1.0 - x;
  Term re = Log1p(4.0 * x / (gap * gap + y * y)) * 0.25;
  // Above the branch point the square of y may vanish.
  Term above = (Log(Hypot(x.formula->Number(2, x.formula->GetType(x)), y)) - Log(y)) * 0.5;
  re = Select(Equal(x, 1.0) & Less(y, 1.0), above, re);
  Term im = Atan2(2.0 * y, gap * (1.0 + x) - y * y) * 0.5;
  // Where squares overflow: atanh z is near 1/z + i pi/2.
  Term large = Maximum(x, y);
  Term u = x / large, v = y / large;
  Term inverse = u / (u * u + v * v) / large;
  inverse = Select(Equal(large, kInfinity), 0.0, inverse);
  Term big = GreaterEqual(large, std::sqrt(limits.max) / 8);
  return Complex(Select(big, inverse, re), Select(big, kHalfPi, im));
}

}  // namespace

Term AsinAcosKernel(Term z) {
  Arc arc = MakeArc(Abs(Real(z)), Abs(Imag(z)));
  return Complex(arc.width, arc.height);
}

Term Asin(Term x) {
  if (!IsComplexTerm(x)) return Atan2(x, Sqrt((1.0 - x) * (1.0 + x)));
  Term re = Real(x), im = Imag(x);
  Arc arc = MakeArc(Abs(re), Abs(im));
  return Complex(Atan2(re, arc.width), CopySign(arc.height, im));
}

Term Acos(Term x) {
  if (!IsComplexTerm(x)) return Atan2(Sqrt((1.0 - x) * (1.0 + x)), x);
  Term re = Real(x), im = Imag(x);
  Arc arc = MakeArc(Abs(re), Abs(im));
  return Complex(Atan2(arc.width, re), CopySign(arc.height, -im));
}

Term Acosh(Term x) {
  if (IsComplexTerm(x)) {
    Term re = Real(x), im = Imag(x);
    Arc arc = MakeArc(Abs(re), Abs(im));
    return Complex(arc.height, CopySign(Atan2(arc.width, re), im));
  }
  // log(x + sqrt((x - 1)(x + 1))); for huge x, log x + log 2.
  Term low = x - 1.0;
  Term square = low * (x + 1.0);
  Term small = Log1p(low + Sqrt(square));
  Term y = Select(Equal(square, kInfinity), Log(x) + kLog2, small);
  return Select(Less(x, 1.0), std::numeric_limits<double>::quiet_NaN(), y);
}

Term Asinh(Term x) {
  if (IsComplexTerm(x)) {
    // -i asin(iz)
    Term re = Real(x), im = Imag(x);
    Arc arc = MakeArc(Abs(im), Abs(re));
    return Complex(CopySign(arc.height, re), Atan2(im, arc.width));
  }
  // log1p(|x| + x^2 / (1 + sqrt(1 + x^2))); for huge |x|, where x^2 overflows, log|x| + log 2.
  Term size = Abs(x), square = x * x;
  Term small = Log1p(size + square / (1.0 + Sqrt(1.0 + square)));
  return CopySign(Select(Equal(square, kInfinity), Log(size) + kLog2, small), x);
}

Term Atan(Term x) {
  if (!IsComplexTerm(x)) return Atan2(x, x.formula->Number(1, x.formula->GetType(x)));
  // -i atanh(iz)
  Term re = Real(x), im = Imag(x);
  Term turned = AtanhQuadrant(Abs(im), Abs(re));
  return Complex(CopySign(Imag(turned), re), CopySign(Real(turned), im));
}

Term Atanh(Term x) {
  if (!IsComplexTerm(x)) return (Log1p(x) - Log1p(-x)) * 0.5;
  Term re = Real(x), im = Imag(x);
  Term first = AtanhQuadrant(Abs(re), Abs(im));
  return Complex(CopySign(Real(first), re), CopySign(Imag(first), im));
}

Term Sinh(Term x) {
  if (IsComplexTerm(x)) {
    Term re = Real(x), im = Imag(x);
    Term cosh = re.formula->Op(Opcode::kCosh, {re});
    // On the real axis the result is real, also where cosh overflows.
    return Complex(Sinh(re) * Cos(im), Select(Equal(im, 0.0), im, cosh * Sin(im)));
  }
  // With u = expm1(|x|): (u + u / (u + 1)) / 2; where e^|x| overflows but sinh may not, e^(|x|/2) squared and halved.
  Term size = Abs(x);
  Term u = Expm1(size);
  Term small = (u + u / (u + 1.0)) * 0.5;
  Term root = Exp(size * 0.5);
  return CopySign(Select(Equal(u, kInfinity), root * 0.5 * root, small), x);
}

Term Square(Term x) {
  if (!IsComplexTerm(x)) return x * x;
  // (a - b)(a + b) keeps the digits a^2 - b^2 loses; of equal parts it is zero also where their sum overflows.
  Term re = Real(x), im = Imag(x);
  Term difference = re - im, sum = re + im;
  Term zero = Equal(difference, 0.0) | Equal(sum, 0.0);
  return Complex(Select(zero, 0.0, difference * sum), re * im * 2.0);
}

}  // namespace backplane::to_hlo
