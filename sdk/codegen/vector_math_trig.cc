// Sine, cosine, tangent and the angle of a point. Arguments of every size are reduced correctly: ordinary ones by
// subtracting multiples of pi/2 given in three parts, larger ones by multiplying with just those digits of 2/pi that
// matter for their exponent (Payne and Hanek's method).
#include "sdk/codegen/vector_math_emitter.h"

namespace backplane::codegen {
namespace {

// For |x| below 2^20 pi/2, f64, also without a fused multiply-add: the products with the first two parts are exact.
ReducedAngle ReduceOrdinary64(MathEmitter& e, V x) {
  MathEmitter::Rounded n = e.RoundSmallProduct(x, 0x1.45f306dc9c883p-1);
  V first = e.FmaNeg(n.value, e.C(0x1.921fb544p+0), x);
  V w = e.Mul(n.value, e.C(0x1.0b4611a6p-34));
  V hi = e.Sub(first, w);
  V lo = e.Sub(e.Sub(first, hi), w);
  lo = e.FmaNeg(n.value, e.C(0x1.3198a2e037073p-69), lo);
  DoubleValue sum = TwoSum(e, hi, lo);
  return {sum.hi, sum.lo, n.bits};
}

// Returns the angle of the block from which control comes: `a` from `from_a`, `c` from `from_c`.
ReducedAngle MergeAngles(MathEmitter& e, const ReducedAngle& a, llvm::BasicBlock* from_a, const ReducedAngle& c,
                         llvm::BasicBlock* from_c) {
  auto merge = [&](V x, V y) -> V {
    llvm::PHINode* phi = e.b.CreatePHI(x->getType(), 2);
    phi->addIncoming(x, from_a);
    phi->addIncoming(y, from_c);
    return phi;
  };
  V hi = merge(a.hi, c.hi), lo = merge(a.lo, c.lo), quadrant = merge(a.quadrant, c.quadrant);
  return {hi, lo, quadrant};
}

// Runs `ordinary` for all lanes, and the other reduction too if any lane has |x| > limit; each lane gets its own.
ReducedAngle Choose(MathEmitter& e, V x, double limit, const std::function<ReducedAngle()>& ordinary) {
  llvm::Function* function = e.b.GetInsertBlock()->getParent();
  llvm::LLVMContext& context = e.module->getContext();
  ReducedAngle near = ordinary();
  V is_huge = e.Gt(e.Abs(x), e.C(limit));
  llvm::BasicBlock* before = e.b.GetInsertBlock();
  auto* slow = llvm::BasicBlock::Create(context, "huge", function);
  auto* after = llvm::BasicBlock::Create(context, "reduced", function);
  e.b.CreateCondBr(e.Any(is_huge), slow, after);
  e.b.SetInsertPoint(slow);
  ReducedAngle far = ReduceHugeAngle(e, x);
  ReducedAngle mixed = {e.Select(is_huge, far.hi, near.hi), e.Select(is_huge, far.lo, near.lo),
                        e.Select(is_huge, far.quadrant, near.quadrant)};
  llvm::BasicBlock* slow_end = e.b.GetInsertBlock();
  e.b.CreateBr(after);
  e.b.SetInsertPoint(after);
  return MergeAngles(e, near, before, mixed, slow_end);
}

// Scalars of the host are those of loops in which each iteration waits for the last. There the reduction is most of the
// time of a sine, and most angles need none: |x| < pi/4 is its own remainder, with the same bits. Vectors compute it
// for all lanes, because a branch must suit all of them; so do the threads of a GPU.
ReducedAngle SkipIfSmall(MathEmitter& e, V x, const std::function<ReducedAngle()>& reduce) {
  if (e.lanes != 0 || e.target->vector_bytes == 0) return reduce();
  llvm::Function* function = e.b.GetInsertBlock()->getParent();
  llvm::LLVMContext& context = e.module->getContext();
  llvm::BasicBlock* before = e.b.GetInsertBlock();
  auto* large = llvm::BasicBlock::Create(context, "large", function);
  auto* after = llvm::BasicBlock::Create(context, "small", function);
  e.b.CreateCondBr(e.Lt(e.Abs(x), e.C(0x1.921fb4p-1)), after, large);
  e.b.SetInsertPoint(large);
  const ReducedAngle reduced = reduce();
  llvm::BasicBlock* large_end = e.b.GetInsertBlock();
  e.b.CreateBr(after);
  e.b.SetInsertPoint(after);
  return MergeAngles(e, {x, e.C(0.0), e.I(0)}, before, reduced, large_end);
}

ReducedAngle Reduce64(MathEmitter& e, V x) {
  return Choose(e, x, 0x1p20, [&] { return ReduceOrdinary64(e, x); });
}

// An f64 reduction, narrowed.
ReducedAngle Narrow(MathEmitter& e, const ReducedAngle& wide) {
  V hi = e.b.CreateFPTrunc(wide.hi, e.type);
  return {hi, e.C(0.0), e.b.CreateTrunc(wide.quadrant, e.int_type)};
}

ReducedAngle Reduce32(MathEmitter& e, V x) {
  if (!e.target->has_fma) {
    // Without a fused multiply-add single precision does not reach; double does, easily.
    MathEmitter d = e.As(e.b.getDoubleTy());
    V wide = e.b.CreateFPExt(x, d.type);
    return Narrow(e, Reduce64(d, wide));
  }
  auto ordinary = [&]() -> ReducedAngle {
    MathEmitter::Rounded n = e.RoundSmallProduct(x, 0x1.45f306dc9c883p-1);
    V r = e.FmaNeg(n.value, e.C(0x1.921fb4p+0), x);
    r = e.FmaNeg(n.value, e.C(0x1.4442dp-24), r);
    r = e.FmaNeg(n.value, e.C(0x1.84698ap-48), r);
    return {r, e.C(0.0), n.bits};
  };
  return Choose(e, x, 0x1p16, ordinary);
}

ReducedAngle ReduceAngle(MathEmitter& e, V x) {
  return SkipIfSmall(e, x, [&] { return e.f64 ? Reduce64(e, x) : Reduce32(e, x); });
}

// Sine and cosine of hi + lo, |hi| <= pi/4.
struct SineCosine {
  V sine, cosine;
};
SineCosine ComputeSineCosine(MathEmitter& e, const ReducedAngle& r) {
  V z = e.Mul(r.hi, r.hi);
  if (!e.f64) {
    // (sin r - r) / r^3 to 2^-28 (2^-37 with the fourth term) and (cos r - 1 + r^2/2) / r^4 to 2^-33, in r^2.
    V s = e.Poly(z, {-0x1.555556p-3, 0x1.111108p-7, -0x1.a00f8ap-13, 0x1.6cd362p-19});
    V c = e.Poly(z, {0x1.55554ap-5, -0x1.6c0c78p-10, 0x1.99fc34p-16});
    V sine = e.Fma(e.Mul(z, r.hi), s, r.hi);
    V cosine = e.Fma(e.Mul(z, z), c, e.Fma(z, e.C(-0.5), e.C(1.0)));
    return {sine, cosine};
  }
  // The same, to 2^-68 and 2^-75.
  V s = e.Poly(z, {-0x1.5555555555555p-3, 0x1.111111111110bp-7, -0x1.a01a01a018a7cp-13, 0x1.71de3a5330d4ap-19,
                   -0x1.ae64528cd5511p-26, 0x1.61208b48ede09p-33, -0x1.aaa188169a8bfp-41});
  V c = e.Poly(z, {0x1.5555555555555p-5, -0x1.6c16c16c16c10p-10, 0x1.a01a01a018d90p-16, -0x1.27e4fb75f7620p-22,
                   0x1.1eed8c9cbd089p-29, -0x1.9393304fb55d7p-37, 0x1.aac20dec8f350p-45});
  // d sin = cos, d cos = -sin: the low part's share.
  V half_z = e.Mul(z, e.C(0.5));
  V sine = e.Fma(e.Mul(z, r.hi), s, e.Mul(r.lo, e.Sub(e.C(1.0), half_z)));
  sine = e.Add(r.hi, sine);
  V top = e.Sub(e.C(1.0), half_z);
  V lost = e.Sub(e.Sub(e.C(1.0), top), half_z);
  V cosine = e.Add(top, e.Add(lost, e.Fma(e.Mul(z, z), c, e.Neg(e.Mul(r.hi, r.lo)))));
  return {sine, cosine};
}

// Bit `bit` of the quadrant, as a lane mask or moved to the sign.
V QuadrantOdd(MathEmitter& e, V quadrant) { return e.b.CreateICmpNE(e.b.CreateAnd(quadrant, e.I(1)), e.I(0)); }
V FlipIfSecondBit(MathEmitter& e, V x, V quadrant) {
  const int to_sign = e.f64 ? 62 : 30;
  V sign = e.b.CreateAnd(e.b.CreateShl(quadrant, e.I(to_sign)), e.Bits(e.C(-0.0)));
  return e.Float(e.b.CreateXor(e.Bits(x), sign));
}

int TrigLanes(MathEmitter& e) { return e.f64 ? 2 * e.target->F64Lanes() : 2 * e.target->F32Lanes(); }

V EmitSin(MathEmitter& e, V x) {
  return e.CallOutOfLine("sin", {x}, TrigLanes(e), [](MathEmitter& f, const std::vector<V>& a) {
    ReducedAngle r = ReduceAngle(f, a[0]);
    SineCosine sc = ComputeSineCosine(f, r);
    V v = FlipIfSecondBit(f, f.Select(QuadrantOdd(f, r.quadrant), sc.cosine, sc.sine), r.quadrant);
    return f.Select(f.Eq(a[0], f.C(0.0)), a[0], v);
  });
}

V EmitCos(MathEmitter& e, V x) {
  return e.CallOutOfLine("cos", {x}, TrigLanes(e), [](MathEmitter& f, const std::vector<V>& a) {
    ReducedAngle r = ReduceAngle(f, a[0]);
    SineCosine sc = ComputeSineCosine(f, r);
    // cos x = sin(x + pi/2)
    V next = f.b.CreateAdd(r.quadrant, f.I(1));
    return FlipIfSecondBit(f, f.Select(QuadrantOdd(f, next), sc.cosine, sc.sine), next);
  });
}

V EmitTan(MathEmitter& e, V x) {
  // The quotient of two rounded f32 values would be 3 ulp off, so f32 goes through f64.
  const int most = e.f64 ? 2 * e.target->F64Lanes() : e.target->F32Lanes();
  return e.CallOutOfLine("tan", {x}, most, [](MathEmitter& f, const std::vector<V>& a) {
    MathEmitter d = f.As(f.b.getDoubleTy());
    ReducedAngle r = Reduce64(d, f.f64 ? a[0] : f.b.CreateFPExt(a[0], d.type));
    SineCosine sc = ComputeSineCosine(d, r);
    V odd = QuadrantOdd(d, r.quadrant);
    V v = d.Div(d.Select(odd, d.Neg(sc.cosine), sc.sine), d.Select(odd, sc.sine, sc.cosine));
    if (!f.f64) v = f.b.CreateFPTrunc(v, f.type);
    return f.Select(f.Eq(a[0], f.C(0.0)), a[0], v);
  });
}

constexpr MathFunction kTrigFunctions[] = {
    {MathFn::kCos, EmitCos, {2, 1.5}},
    {MathFn::kSin, EmitSin, {2, 1.5}},
    {MathFn::kTan, EmitTan, {0.6, 2.5}},
};

}  // namespace

absl::Span<const MathFunction> TrigFunctions() { return kTrigFunctions; }

V EmitAtan2(MathEmitter& e, V y, V x) {
  const int most = e.f64 ? 2 * e.target->F64Lanes() : 2 * e.target->F32Lanes();
  return e.CallOutOfLine("atan2", {y, x}, most, [](MathEmitter& f, const std::vector<V>& a) {
    V y = a[0], x = a[1];
    V ay = f.Abs(y), ax = f.Abs(x);
    V steep = f.Gt(ay, ax);
    V num = f.Select(steep, ax, ay), den = f.Select(steep, ay, ax);
    // Both infinite: 45 degrees. Both zero: 0 over 1.
    V both_infinite = f.b.CreateAnd(f.Eq(ax, f.Inf()), f.Eq(ay, f.Inf()));
    num = f.Select(both_infinite, f.C(1.0), num);
    den = f.Select(both_infinite, f.C(1.0), den);
    den = f.Select(f.Eq(den, f.C(0.0)), f.C(1.0), den);
    // Out of the subnormal and the overflowing range. A subnormal numerator over a denominator of at least one is a
    // subnormal angle.
    V big = f.Gt(den, f.C(f.f64 ? 0x1p900 : 0x1p90)), small = f.Lt(den, f.C(1.0));
    V scale = f.Select(big, f.C(f.f64 ? 0x1p-200 : 0x1p-40), f.Select(small, f.C(f.f64 ? 0x1p150 : 0x1p60), f.C(1.0)));
    V den_infinite = f.Eq(den, f.Inf());
    num = f.Select(den_infinite, f.C(0.0), f.Mul(num, scale));
    den = f.Select(den_infinite, f.C(1.0), f.Mul(den, scale));
    // Beyond tan(pi/8): atan t = pi/4 + atan((t - 1) / (t + 1)), formed from the two numbers, so that only one
    // division rounds.
    V upper = f.Gt(num, f.Mul(den, f.C(0.41421356)));
    V n2 = f.Select(upper, f.Sub(num, den), num), d2 = f.Select(upper, f.Add(num, den), den);
    V t = f.Div(n2, d2);
    // What the division (and the sum below it) left: num - t den, over den.
    DoubleValue product = TwoProduct(f, t, d2);
    V rest = f.Sub(f.Sub(n2, product.hi), product.lo);
    // The error of num + den itself.
    DoubleValue sum = FastTwoSum(f, den, num);
    DoubleValue difference = FastTwoSum(f, f.Neg(den), num);
    rest = f.Select(upper, f.Sub(f.Add(rest, difference.lo), f.Mul(t, sum.lo)), rest);
    // The residual of a very small numerator would underflow; such angles do without.
    V t_lo = f.Select(f.Ge(num, f.C(f.f64 ? 0x1p-900 : 0x1p-80)), f.Div(rest, d2), f.C(0.0));
    V z = f.Mul(t, t);
    // (atan t - t) / t^3 in t^2 for |t| < 0.4143: error 2^-30 and 2^-59.
    V tail = f.f64
                 ? f.Poly(z, {-0x1.555555555553dp-2, 0x1.99999999958bap-3, -0x1.24924922afdefp-3, 0x1.c71c70e71fb92p-4,
                              -0x1.745cf8fbeae34p-4, 0x1.3b111b4db8a35p-4, -0x1.10ebd0e08af78p-4, 0x1.df10a9237c987p-5,
                              -0x1.9cd8b82f79e17p-5, 0x1.37e4558d6cbc8p-5, -0x1.25895961473f1p-6})
                 : f.Poly(z, {-0x1.55554ap-2, 0x1.9991acp-3, -0x1.23b68ep-3, 0x1.b1ff6ap-4, -0x1.f24760p-5});
    V low = f.Fma(f.Mul(z, t), tail, t_lo);
    // Angle in the first octant as base + t + low, then mirrored about 45 degrees and about the vertical. Constants in
    // two parts.
    const double quarter_hi = f.f64 ? 0x1.921fb54442d18p-1 : 0x1.921fb6p-1,
                 quarter_lo = f.f64 ? 0x1.1a62633145c07p-55 : -0x1.777a5cp-26;
    V west = f.b.CreateICmpSLT(f.Bits(x), f.I(0));
    // angle = t_sign * (t + low) + base, base = 0, 1, 2, 3 or 4 quarters.
    V quarters = f.Select(upper, f.C(1.0), f.C(0.0));
    V t_sign = f.Select(steep, f.C(-1.0), f.C(1.0));
    quarters = f.Select(steep, f.Sub(f.C(2.0), quarters), quarters);
    t_sign = f.Select(west, f.Neg(t_sign), t_sign);
    quarters = f.Select(west, f.Sub(f.C(4.0), quarters), quarters);
    t = f.Mul(t, t_sign);
    low = f.Mul(low, t_sign);
    // Three quarters of pi is not a double times three: the product is taken exactly.
    DoubleValue base = TwoProduct(f, quarters, f.C(quarter_hi));
    V base_lo = f.Fma(quarters, f.C(quarter_lo), base.lo);
    DoubleValue top = TwoSum(f, base.hi, t);
    V angle = f.Add(top.hi, f.Add(top.lo, f.Add(low, base_lo)));
    angle = f.CopySign(angle, y);
    return f.Select(f.b.CreateFCmpUNO(x, y), f.NaN(), angle);
  });
}

}  // namespace backplane::codegen
