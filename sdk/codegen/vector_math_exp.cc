// Exponentials and what is made of them. Coefficients are minimax fits; the interval and the error of each stand by it.
#include "sdk/codegen/vector_math_emitter.h"

namespace backplane::codegen {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep+0;

struct Reduced {
  MathEmitter::Rounded n;
  V r;  // x - n ln 2, |r| < 0.347
};

Reduced Reduce(MathEmitter& e, V x) {
  Reduced out;
  out.n = e.RoundSmallProduct(x, kLog2E);
  // The high part of ln 2 ends in zeros, so n times it is exact also without a fused multiply-add.
  const double hi = e.f64 ? 0x1.62e42feep-1 : 0x1.62e4p-1;
  const double lo = e.f64 ? 0x1.a39ef35793c76p-33 : 0x1.7f7d1cf79abcap-20;
  V r = e.FmaNeg(out.n.value, e.C(hi), x);
  out.r = e.FmaNeg(out.n.value, e.C(lo), r);
  return out;
}

// (e^r - 1 - r) / r^2 on |r| < 0.3476; relative to e^r the error is 2^-28 and 2^-57.9.
V ExpTail(MathEmitter& e, V r) {
  if (e.f64) {
    return e.Poly(r, {0x1.000000000000ap-1, 0x1.55555555554f5p-3, 0x1.55555555506a4p-5, 0x1.1111111128cf2p-7,
                      0x1.6c16c1849a43dp-10, 0x1.a01a01251a59cp-13, 0x1.a01998c8d9222p-16, 0x1.71df2fbc786fep-19,
                      0x1.28aeacd48eff0p-22, 0x1.ad71153e358dbp-26});
  }
  return e.Poly(r, {0x1.fffffcp-2, 0x1.55549p-3, 0x1.5558fcp-5, 0x1.123b9ap-7, 0x1.6a218ep-10});
}

// The same, relative to e^r - 1: 2^-26 and 2^-61.7.
V Expm1Tail(MathEmitter& e, V r) {
  if (e.f64) {
    return e.Poly(r, {0x1.0000000000000p-1, 0x1.5555555555559p-3, 0x1.555555555553ep-5, 0x1.111111110f63dp-7,
                      0x1.6c16c16c1f387p-10, 0x1.a01a01b01a769p-13, 0x1.a01a017b256eap-16, 0x1.71ddf7ba40c06p-19,
                      0x1.27e536d8ec23cp-22, 0x1.af5fe9496984ep-26, 0x1.1ee8826e45831p-29});
  }
  return e.Poly(r, {0x1.fffffep-2, 0x1.5554aep-3, 0x1.555678p-5, 0x1.122916p-7, 0x1.6beb94p-10});
}

// Beyond these the result is 0 or infinity in any case.
V ClampForExp(MathEmitter& e, V x) {
  x = e.ClampAbove(x, e.f64 ? 710.0 : 89.0);
  return e.ClampBelow(x, e.f64 ? -746.0 : -104.0);
}

// e^x as p * 2^n.
struct Scaled {
  V p;
  MathEmitter::Rounded n;
};
Scaled ExpParts(MathEmitter& e, V x) {
  Reduced reduced = Reduce(e, x);
  V p = e.Add(e.Fma(e.Mul(reduced.r, reduced.r), ExpTail(e, reduced.r), reduced.r), e.C(1.0));
  return {p, reduced.n};
}

// e^x - 1 for x in the range where it is finite or just not, clamped by the caller; loses the sign of zero.
V Expm1Clamped(MathEmitter& e, V x) {
  Reduced reduced = Reduce(e, x);
  V q = e.Fma(e.Mul(reduced.r, reduced.r), Expm1Tail(e, reduced.r), reduced.r);
  // 2^n q + (2^n - 1), at half size: 2^n itself may be infinite where the result is not.
  V half = e.PowerOfTwo(reduced.n.bits, -1);
  V sum = e.Fma(q, half, e.Sub(half, e.C(0.5)));
  return e.Add(sum, sum);
}

V EmitExp(MathEmitter& e, V x) {
  Scaled s = ExpParts(e, ClampForExp(e, x));
  return e.ScaleByRounded(s.p, s.n);
}

V EmitExp2(MathEmitter& e, V x) {
  x = e.ClampAbove(x, e.f64 ? 1025.0 : 129.0);
  x = e.ClampBelow(x, e.f64 ? -1076.0 : -151.0);
  MathEmitter::Rounded n = e.RoundSmall(x);
  // The fraction is exact; its product with ln 2 carries the rest along.
  V f = e.Sub(x, n.value);
  V hi = e.Mul(f, e.C(0x1.62e42fefa39efp-1));
  V p = e.Add(e.Fma(e.Mul(hi, hi), ExpTail(e, hi), hi), e.C(1.0));
  return e.ScaleByRounded(p, n);
}

V EmitExpm1(MathEmitter& e, V x) {
  V c = e.ClampAbove(x, e.f64 ? 710.0 : 89.0);
  c = e.ClampBelow(c, e.f64 ? -40.0 : -20.0);
  // Near zero it is its argument, which keeps the sign of zero and subnormal numbers.
  return e.Select(e.Lt(e.Abs(x), e.C(0x1p-60)), x, Expm1Clamped(e, c));
}

V EmitTanh(MathEmitter& e, V x) {
  V a = e.ClampAbove(e.Abs(x), e.f64 ? 20.0 : 10.0);  // one, to the last bit
  V t = Expm1Clamped(e, e.Add(a, a));
  return e.CopySign(e.Div(t, e.Add(t, e.C(2.0))), x);
}

V EmitSinh(MathEmitter& e, V x) {
  V a = e.Abs(x);
  // Small: from e^a - 1, which keeps the digits. Large: half of e^a, made at half size, so that it overflows late.
  V small = Expm1Clamped(e, e.ClampAbove(a, 20.0));
  small = e.Mul(e.C(0.5), e.Add(small, e.Div(small, e.Add(small, e.C(1.0)))));
  small = e.Select(e.Lt(a, e.C(0x1p-60)), a, small);  // half of a subnormal number may be none
  Scaled s = ExpParts(e, e.ClampAbove(a, e.f64 ? 712.0 : 91.0));
  V large = e.ScaleByRounded(e.Mul(s.p, e.C(0.5)), s.n);
  return e.CopySign(e.Select(e.Lt(a, e.C(20.0)), small, large), x);
}

V EmitCosh(MathEmitter& e, V x) {
  Scaled s = ExpParts(e, e.ClampAbove(e.Abs(x), e.f64 ? 712.0 : 91.0));
  V half = e.ScaleByRounded(e.Mul(s.p, e.C(0.5)), s.n);
  return e.Add(half, e.Div(e.C(0.25), half));
}

V EmitLogistic(MathEmitter& e, V x) {
  V z = e.Neg(e.Abs(x));
  Scaled s = ExpParts(e, e.ClampBelow(z, e.f64 ? -746.0 : -104.0));
  z = e.ScaleByRounded(s.p, s.n);
  return e.Div(e.Select(e.Ge(x, e.C(0.0)), e.C(1.0), z), e.Add(e.C(1.0), z));
}

V EmitErf(MathEmitter& e, V x) {
  V a = e.Abs(x);
  V z = e.Mul(a, a);
  V small, exponent;
  // Small: erf(x) / x - 1 in x^2, to 2^-31 and 2^-62. Large: -log(erfc(x)) in x, to 2^-34 and 2^-62 in erf itself.
  if (e.f64) {
    small = e.Poly(z, {0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042af3p-4, -0x1.b82ce31283bb9p-6,
                       0x1.565bcd0d8d4f6p-8, -0x1.c02db3d27be38p-11, 0x1.f9a320e05d5dfp-14, -0x1.f4d1d06c6fc8bp-17,
                       0x1.b9de2fe589a15p-20, -0x1.5f16aec99c994p-23, 0x1.f75cafe4c3039p-27, -0x1.378af927630b8p-30,
                       0x1.0314a548b8e41p-34});
    V c = e.ClampAbove(a, 5.95);
    exponent =
        e.Poly(c, {0x1.a4343cde14019p-26,  0x1.20dd715dab410p+0,   0x1.45f321c5e510cp-1,   0x1.a4f380dc50153p-4,
                   -0x1.3968de786d76cp-6,  -0x1.a534a63f9fe97p-13, 0x1.b6a3224a48f8cp-10,  -0x1.20c86042fd0f1p-11,
                   -0x1.8434139b620cbp-16, 0x1.d37061b214af4p-14,  -0x1.10f10e96dce47p-14, 0x1.995c29fe149a7p-16,
                   -0x1.c9bc1bed12f27p-18, 0x1.8cec0817755fap-20,  -0x1.0c471e82a92f0p-22, 0x1.16b712b6f35b9p-25,
                   -0x1.aef399926dd98p-29, 0x1.d384146a74868p-33,  -0x1.3d96f567b1c0fp-37, 0x1.9686d0881c70ap-43});
  } else {
    small = e.Poly(
        z, {0x1.06eba8p-3, -0x1.812742p-2, 0x1.ce2e0ap-4, -0x1.b80e9p-6, 0x1.54c7f6p-8, -0x1.aa3f3p-11, 0x1.5cd4bp-14});
    V c = e.ClampAbove(a, 3.95);
    exponent = e.Poly(c, {-0x1.70d63p-13, 0x1.212846p+0, 0x1.44447p-1, 0x1.bb9272p-4, -0x1.9bb52p-6, 0x1.1196f4p-8,
                          -0x1.c85c6ep-12, 0x1.630a18p-16});
  }
  V near = e.Fma(a, small, a);
  Scaled s = ExpParts(e, e.Neg(exponent));
  V far = e.Sub(e.C(1.0), e.Mul(s.p, e.PowerOfTwo(s.n.bits)));  // at least 2^-55: no underflow to care for
  return e.CopySign(e.Select(e.Lt(a, e.C(e.f64 ? 1.0 : 0.925)), near, far), x);
}

constexpr MathFunction kExpFunctions[] = {
    {MathFn::kCosh, EmitCosh, {2, 2}},     {MathFn::kErf, EmitErf, {1.5, 1.5}},
    {MathFn::kExp, EmitExp, {1.5, 1.5}},   {MathFn::kExp2, EmitExp2, {1.5, 1.5}},
    {MathFn::kExpm1, EmitExpm1, {2, 2}},   {MathFn::kLogistic, EmitLogistic, {2.5, 2.5}},
    {MathFn::kSinh, EmitSinh, {2.5, 2.5}}, {MathFn::kTanh, EmitTanh, {2.5, 2.5}},
};

}  // namespace

absl::Span<const MathFunction> ExpFunctions() { return kExpFunctions; }

}  // namespace backplane::codegen
