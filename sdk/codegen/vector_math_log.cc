// Logarithms, powers and roots.
#include "sdk/codegen/vector_math_emitter.h"

namespace backplane::codegen {
namespace {

// (log(1 + f) - f) / f^2 for f in [-0.25, 0.5], f32, error 2^-30 of the logarithm.
V LogTail32(MathEmitter& e, V f) {
  return e.Poly(f, {-0x1.fffffep-2, 0x1.55555cp-2, -0x1.0000c4p-2, 0x1.9997a2p-3, -0x1.5509d6p-3, 0x1.244a2ap-3,
                    -0x1.051fbp-3, 0x1.e18afp-4, -0x1.75e478p-4, 0x1.31c49ep-5});
}

// (log((1 + s) / (1 - s)) - 2 s) / s^3 in z = s^2 for s^2 < 0.0401, f64, error 2^-62 of the logarithm.
V LogTail64(MathEmitter& e, V z) {
  return e.Poly(z, {0x1.555555555554fp-1, 0x1.999999999c1d2p-2, 0x1.24924921df62ep-2, 0x1.c71c7493de33ep-3,
                    0x1.745c49ef089f9p-3, 0x1.3b35ddf851d2cp-3, 0x1.0dc9b8994dcf9p-3, 0x1.1b8de8fcf66fdp-3});
}

// exponent * ln 2 + log(1 + f)
V LogOf(MathEmitter& e, V f, V exponent) {
  if (!e.f64) {
    V square = e.Mul(f, f);
    V tail = e.Mul(square, LogTail32(e, f));
    tail = e.Fma(exponent, e.C(0x1.7f7d1cf79abcap-20), tail);
    return e.Fma(exponent, e.C(0x1.62e4p-1), e.Add(f, tail));
  }
  // log(1 + f) = f - (h - s (h + z L(z))) with s = f / (2 + f), z = s^2, h = f^2 / 2: f itself is not rounded.
  V s = e.Div(f, e.Add(e.C(2.0), f));
  V z = e.Mul(s, s);
  V h = e.Mul(e.Mul(f, f), e.C(0.5));
  V inner = e.Fma(s, e.Fma(z, LogTail64(e, z), h), e.Mul(exponent, e.C(0x1.a39ef35793c76p-33)));
  return e.Fma(exponent, e.C(0x1.62e42feep-1), e.Sub(f, e.Sub(h, inner)));
}

// What the logarithm of u must be where u is no positive finite number; `r` elsewhere.
V FixLog(MathEmitter& e, V u, V r) {
  r = e.Select(e.Eq(u, e.Inf()), u, r);
  r = e.Select(e.Eq(u, e.C(0.0)), e.Neg(e.Inf()), r);
  return e.Select(e.b.CreateFCmpULT(u, e.C(0.0)), e.NaN(), r);
}

// 2^-n for whole n in a float, |n| at most the exponent range less one.
V PowerOfTwoNegated(MathEmitter& e, V n) { return e.PowerOfTwo(e.Bits(e.Sub(e.GetRoundingConstant(), n))); }

}  // namespace

FractionAndExponent SplitPositive(MathEmitter& e, V x) {
  // Subnormals are scaled up first.
  const double smallest = e.f64 ? 0x1p-1022 : 0x1p-126;
  V tiny = e.Lt(x, e.C(smallest));
  V scaled = e.Select(tiny, e.Mul(x, e.C(e.f64 ? 0x1p54 : 0x1p24)), x);
  V correction = e.Select(tiny, e.C(e.f64 ? -54.0 : -24.0), e.C(0.0));
  // Relative to the bits of 0.75, the exponent field counts from there, and the fraction stays in [0.75, 1.5).
  V base = e.Bits(e.C(0.75));
  V offset = e.b.CreateSub(e.Bits(scaled), base);
  const int64_t mask = (int64_t{1} << e.mantissa_bits()) - 1;
  V fraction = e.Float(e.b.CreateAdd(e.b.CreateAnd(offset, e.I(mask)), base));
  // The field counted from one half: normal numbers have more than half an exponent's step in their bits.
  V field =
      e.b.CreateLShr(e.b.CreateSub(e.Bits(scaled), e.I(int64_t{1} << (e.mantissa_bits() - 1))), e.I(e.mantissa_bits()));
  // To floating point by way of the magic number's low bits.
  const double magic = e.f64 ? 6755399441055744.0 : 12582912.0;
  V exponent =
      e.Sub(e.Float(e.b.CreateAdd(field, e.Bits(e.GetRoundingConstant()))), e.C(magic + e.exponent_bias() - 1));
  return {fraction, e.Add(exponent, correction)};
}

namespace {

V EmitLog(MathEmitter& e, V x) {
  if (e.HasAvx512()) {
    // Zero, infinity, NaN and negative numbers come out right by themselves.
    V m = e.GetMant(x);
    V n = e.GetExp(x);
    n = e.Select(e.Lt(m, e.C(1.0)), e.Add(n, e.C(1.0)), n);
    return LogOf(e, e.Sub(m, e.C(1.0)), n);
  }
  FractionAndExponent s = SplitPositive(e, x);
  return FixLog(e, x, LogOf(e, e.Sub(s.fraction, e.C(1.0)), s.exponent));
}

V EmitLog2(MathEmitter& e, V x) {
  FractionAndExponent s = SplitPositive(e, x);
  V fraction = LogOf(e, e.Sub(s.fraction, e.C(1.0)), e.C(0.0));
  // log2 e in two parts, so that powers of two and their neighbours come out right.
  const double hi = e.f64 ? 0x1.71547652b82fep+0 : 0x1.715476p+0, lo = e.f64 ? 0x1.777d0ffda0d24p-56 : 0x1.4ae0cp-26;
  V r = e.Fma(fraction, e.C(hi), e.Fma(fraction, e.C(lo), s.exponent));
  return FixLog(e, x, r);
}

V EmitLog1p(MathEmitter& e, V x) {
  V u = e.Add(x, e.C(1.0));
  V m, n;
  if (e.HasAvx512()) {
    m = e.GetMant(u);
    n = e.GetExp(u);
    n = e.Select(e.Lt(m, e.C(1.0)), e.Add(n, e.C(1.0)), n);
  } else {
    FractionAndExponent s = SplitPositive(e, u);
    m = s.fraction;
    n = s.exponent;
  }
  // (1 + x) 2^-n - 1 without the rounding of 1 + x. For large x that rounding does not matter.
  V scale = PowerOfTwoNegated(e, n);
  V exact = e.Fma(x, scale, e.Sub(scale, e.C(1.0)));
  V ordinary = e.b.CreateAnd(e.Gt(x, e.C(-1.0)), e.Lt(x, e.C(e.f64 ? 0x1p60 : 0x1p30)));
  V r = LogOf(e, e.Select(ordinary, exact, e.Sub(m, e.C(1.0))), n);
  if (!e.HasAvx512()) r = FixLog(e, u, r);
  return e.Select(e.Eq(x, e.C(0.0)), x, r);
}

// Everything that C's Annex F says of pow beyond |x|^y for positive finite x.
V FixPow(MathEmitter& e, V x, V y, V magnitude) {
  auto round = [&](V v) { return e.Trunc(v); };
  V zero = e.C(0.0), one = e.C(1.0);
  V whole = e.Eq(round(y), y);
  V half = e.Mul(y, e.C(0.5));
  V odd = e.b.CreateAnd(whole, e.b.CreateFCmpUNE(round(half), half));
  V abs_x = e.Abs(x);
  V y_negative = e.Lt(y, zero);
  // |x| zero or infinite; y infinite.
  V toward_zero = e.Select(y_negative, e.Inf(), zero), toward_infinity = e.Select(y_negative, zero, e.Inf());
  V r = magnitude;
  r = e.Select(e.Eq(abs_x, zero), toward_zero, r);
  r = e.Select(e.Eq(abs_x, e.Inf()), toward_infinity, r);
  V y_infinite = e.Eq(e.Abs(y), e.Inf());
  V grows = e.b.CreateXor(e.Lt(abs_x, one), e.Gt(y, zero));
  r = e.Select(y_infinite, e.Select(e.Eq(abs_x, one), one, e.Select(grows, e.Inf(), zero)), r);
  // Negative x: the sign for odd y, NaN for fractional y (finite x only).
  V negative = e.b.CreateICmpSLT(e.Bits(x), e.I(0));
  r = e.Select(e.b.CreateAnd(negative, odd), e.Neg(r), r);
  V finite_negative = e.b.CreateAnd(e.Lt(x, zero), e.Lt(abs_x, e.Inf()));
  r = e.Select(e.b.CreateAnd(finite_negative, e.b.CreateNot(whole)), e.NaN(), r);
  r = e.Select(e.b.CreateOr(e.IsNaN(x), e.IsNaN(y)), e.NaN(), r);
  return e.Select(e.b.CreateOr(e.Eq(x, one), e.Eq(y, zero)), one, r);
}

// |x|^y in f64 for an f32 result: 2^(y log2 x) with logarithm and power good to 2^-34.
V PowMagnitude32(MathEmitter& e, V x, V y) {
  MathEmitter d = e.As(e.b.getDoubleTy());
  V dx = e.b.CreateFPExt(e.Abs(x), d.type), dy = e.b.CreateFPExt(y, d.type);
  FractionAndExponent s = SplitPositive(d, dx);
  V f = d.Sub(s.fraction, d.C(1.0));
  V t = d.Div(f, d.Add(f, d.C(2.0)));
  V z = d.Mul(t, t);
  // As LogTail64 with six terms: error 2^-49.
  V tail = d.Poly(z, {0x1.5555555549b69p-1, 0x1.999999c55be25p-2, 0x1.24922dbd04dcep-2, 0x1.c72c308fe82aap-3,
                      0x1.72167d68c78abp-3, 0x1.63fcdc3cd9d53p-3});
  V log = d.Fma(d.Mul(t, z), tail, d.Add(t, t));
  V log2 = d.Fma(log, d.C(0x1.71547652b82fep+0), s.exponent);
  V power = d.Mul(dy, log2);
  power = d.ClampBelow(d.ClampAbove(power, 1000.0), -1000.0);
  MathEmitter::Rounded n = d.RoundSmall(power);
  V fraction = d.Sub(power, n.value);
  // (2^f - 1) / f for |f| < 0.5, error 2^-34.
  V p = d.Poly(fraction, {0x1.62e42fef7cf97p-1, 0x1.ebfbe07e2bb74p-3, 0x1.c6b08deeb2143p-5, 0x1.3b29ed84422f6p-7,
                          0x1.5d872b9b17c5ap-10, 0x1.446166aa3763bp-13, 0x1.00eb6cf09ba8ep-16});
  p = d.Fma(p, fraction, d.C(1.0));
  return e.b.CreateFPTrunc(d.Mul(p, d.PowerOfTwo(n.bits)), e.type);
}

// |x|^y for f64: the logarithm in two doubles, good to about 2^-67.
V PowMagnitude64(MathEmitter& e, V x, V y) {
  FractionAndExponent split = SplitPositive(e, e.Abs(x));
  V f = e.Sub(split.fraction, e.C(1.0));
  // s = f / (2 + f) in two parts.
  DoubleValue denominator = FastTwoSum(e, e.C(2.0), f);
  V s_hi = e.Div(f, denominator.hi);
  DoubleValue back = TwoProduct(e, s_hi, denominator.hi);
  V rest = e.Sub(e.Sub(f, back.hi), back.lo);
  rest = e.Sub(rest, e.Mul(s_hi, denominator.lo));
  V s_lo = e.Div(rest, denominator.hi);
  // z = s^2, s^3 and 2/3 s^3 in two parts; the terms from s^5 on in one.
  DoubleValue z = TwoProduct(e, s_hi, s_hi);
  z.lo = e.Fma(e.Add(s_hi, s_hi), s_lo, z.lo);
  DoubleValue cube = TwoProduct(e, z.hi, s_hi);
  cube.lo = e.Add(cube.lo, e.Fma(z.hi, s_lo, e.Mul(z.lo, s_hi)));
  DoubleValue third = TwoProduct(e, cube.hi, e.C(0x1.5555555555555p-1));
  third.lo = e.Add(third.lo, e.Fma(cube.hi, e.C(0x1.5555555555555p-55), e.Mul(cube.lo, e.C(0x1.5555555555555p-1))));
  // (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in z: error 2^-76 of the logarithm.
  V tail = e.Poly(z.hi, {0x1.999999999999ap-2, 0x1.24924924922d6p-2, 0x1.c71c71c753f23p-3, 0x1.745d17289d901p-3,
                         0x1.3b13ba55108f3p-3, 0x1.110f4cc2a4c0cp-3, 0x1.e250473ea79c8p-4, 0x1.a6f41cab722ddp-4,
                         0x1.dbee7cca98428p-4});
  tail = e.Mul(tail, e.Mul(cube.hi, z.hi));
  // Sum: n ln2 + 2 s + 2/3 s^3 + tail, largest first.
  V n_hi = e.Mul(split.exponent, e.C(0x1.62e42feep-1));  // exact
  V n_lo = e.Mul(split.exponent, e.C(0x1.a39ef35793c76p-33));
  V n_lo2 = e.FmaNeg(split.exponent, e.C(0x1.a39ef35793c76p-33), n_lo);
  DoubleValue a = TwoSum(e, n_hi, e.Add(s_hi, s_hi));
  DoubleValue c = TwoSum(e, a.hi, third.hi);
  DoubleValue d = TwoSum(e, c.hi, n_lo);
  V low = e.Add(e.Add(a.lo, c.lo), d.lo);
  low = e.Add(low, e.Add(e.Add(s_lo, s_lo), third.lo));
  low = e.Add(low, tail);
  low = e.Sub(low, n_lo2);
  // What ln 2 lacks after its two parts.
  low = e.Fma(split.exponent, e.C(0x1.cc01f97b57a08p-87), low);
  DoubleValue log = FastTwoSum(e, d.hi, low);
  // y log x, and its exponential. Larger y than this saturate for every x but 1.
  y = e.ClampBelow(e.ClampAbove(y, 0x1p80), -0x1p80);
  V p = e.Mul(y, log.hi);
  V clamped = e.ClampBelow(e.ClampAbove(p, 720.0), -760.0);
  DoubleValue product = TwoProduct(e, y, log.hi);
  V p_lo = e.Fma(y, log.lo, product.lo);
  V safe = e.Eq(clamped, p);  // beyond, the low part may be anything, and does not matter
  p_lo = e.Select(safe, p_lo, e.C(0.0));
  MathEmitter::Rounded n = e.RoundSmallProduct(clamped, 0x1.71547652b82fep+0);
  V r = e.FmaNeg(n.value, e.C(0x1.62e42feep-1), clamped);  // exact
  V r_lo = e.FmaNeg(n.value, e.C(0x1.a39ef35793c76p-33), p_lo);
  DoubleValue reduced = TwoSum(e, r, r_lo);
  V t = reduced.hi;
  // As the tail of exp, error 2^-64.
  V q = e.Poly(t, {0x1.0000000000000p-1, 0x1.555555555555cp-3, 0x1.55555555554ffp-5, 0x1.111111110eb6fp-7,
                   0x1.6c16c16c317eap-10, 0x1.a01a01b3dc48bp-13, 0x1.a01a0131d9bcdp-16, 0x1.71ddef3184d15p-19,
                   0x1.27e5bc5f93d19p-22, 0x1.af6d8fb8767c1p-26, 0x1.1e331327b2ea7p-29});
  V small = e.Fma(e.Mul(t, t), q, e.Mul(reduced.lo, e.Add(t, e.C(1.0))));
  V value = e.Add(e.C(1.0), e.Add(t, small));
  return e.ScaleByRounded(value, n);
}

}  // namespace

V EmitPow(MathEmitter& e, V x, V y) {
  const int most = e.f64 ? 2 * e.target->F64Lanes() : e.target->F32Lanes();
  return e.CallOutOfLine("pow", {x, y}, most, [](MathEmitter& f, const std::vector<V>& a) {
    return FixPow(f, a[0], a[1], f.f64 ? PowMagnitude64(f, a[0], a[1]) : PowMagnitude32(f, a[0], a[1]));
  });
}

namespace {

V EmitCbrt(MathEmitter& e, V x) {
  const int most = e.f64 ? 2 * e.target->F64Lanes() : e.target->F32Lanes();
  return e.CallOutOfLine("cbrt", {x}, most, [](MathEmitter& f, const std::vector<V>& arguments) {
    V x = arguments[0];
    MathEmitter d = f.As(f.b.getDoubleTy());
    V a = f.Abs(x);
    if (!f.f64) a = f.b.CreateFPExt(a, d.type);
    // The smallest f64 first become larger, so that no part of their cubes is subnormal, and the largest numbers
    // smaller; the roots of 2^162 and 2^54 are 2^54 and 2^18.
    V tiny = d.Lt(a, d.C(0x1p-900)), huge = d.Gt(a, d.C(0x1p1000));
    V scaled = d.Mul(a, d.Select(tiny, d.C(0x1p162), d.Select(huge, d.C(0x1p-54), d.C(1.0))));
    // A third of the exponent, by a third of the bits as an integer: within 5 %. The division by three is a
    // multiplication in floating point, exact enough, because integer division is slow.
    V high = d.b.CreateLShr(d.Bits(scaled), d.I(32));
    V as_float = d.Sub(d.Float(d.b.CreateAdd(high, d.Bits(d.GetRoundingConstant()))), d.GetRoundingConstant());
    V third = d.RoundSmallProduct(as_float, 1.0 / 3).bits;
    third = d.b.CreateSub(third, d.Bits(d.GetRoundingConstant()));
    V guess = d.Float(d.b.CreateShl(d.b.CreateAdd(third, d.I(715094163)), d.I(32)));
    // Halley: each step triples the digits.
    const int steps = f.f64 ? 3 : 2;
    for (int i = 0; i < steps; ++i) {
      V cube = d.Mul(d.Mul(guess, guess), guess);
      V up = d.Add(cube, d.Add(scaled, scaled)), down = d.Add(d.Add(cube, cube), scaled);
      guess = d.Mul(guess, d.Div(up, down));
    }
    if (f.f64) {
      // One Newton step whose residual is exact enough to correct the last bit.
      DoubleValue square = TwoProduct(d, guess, guess);
      DoubleValue cube = TwoProduct(d, square.hi, guess);
      V residual = d.Sub(d.Sub(scaled, cube.hi), d.Fma(square.lo, guess, cube.lo));
      guess = d.Add(guess, d.Div(residual, d.Mul(d.C(3.0), square.hi)));
      guess = d.Mul(guess, d.Select(tiny, d.C(0x1p-54), d.Select(huge, d.C(0x1p18), d.C(1.0))));
    } else {
      guess = f.b.CreateFPTrunc(guess, f.type);
    }
    V r = f.CopySign(guess, x);
    // Zero, infinity and NaN are their own roots.
    V special = f.b.CreateFCmpUEQ(f.Abs(x), f.Inf());
    return f.Select(f.b.CreateOr(special, f.Eq(x, f.C(0.0))), x, r);
  });
}

constexpr MathFunction kLogFunctions[] = {
    {MathFn::kCbrt, EmitCbrt, {0.6, 1}},
    {MathFn::kLog, EmitLog, {1.5, 1.5}},
    {MathFn::kLog1p, EmitLog1p, {2, 1.5}},
    {MathFn::kLog2, EmitLog2, {2.5, 2.5}},
};

}  // namespace

absl::Span<const MathFunction> LogFunctions() { return kLogFunctions; }

}  // namespace backplane::codegen
