#include "sdk/codegen/complex_math.h"

#include "sdk/codegen/vector_math_emitter.h"

namespace backplane::codegen {

using llvm::Value;

Value* ComplexMath::Fma(Value* x, Value* y, Value* z) {
  return b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {x->getType()}, {x, y, z});
}

Value* ComplexMath::Choose(const Scaled& s, double if_small, double if_large, double otherwise) {
  Value* like = s.x.v;
  return Select(s.small, Num(like, if_small), Select(s.large, Num(like, if_large), Num(like, otherwise)));
}

Value* ComplexMath::Larger(const Val& x) {
  Value *a = Abs(x.v), *b = Abs(x.im);
  return Select(b_.CreateFCmpOLT(a, b), b, a);
}

ComplexMath::Scaled ComplexMath::Rescale(const Val& x, double least, double up, double most, double down) {
  if (narrow_) {
    Value* no = llvm::Constant::getNullValue(llvm::CmpInst::makeCmpResultType(x.v->getType()));
    return {x, no, no};
  }
  Value* larger = Larger(x);
  Scaled s{x, b_.CreateFCmpOLT(larger, Num(larger, least)), b_.CreateFCmpOGT(larger, Num(larger, most))};
  Value* factor = Choose(s, up, down, 1);
  s.x = {b_.CreateFMul(x.v, factor), b_.CreateFMul(x.im, factor)};
  return s;
}

Value* ComplexMath::Modulus(const Val& x) {
  if (!narrow_) return M(Fn::kHypot, x.v, x.im);
  Value* size = M(Fn::kSqrt, Fma(x.v, x.v, b_.CreateFMul(x.im, x.im)));
  return Select(b_.CreateOr(Infinite(x.v), Infinite(x.im)), Inf(size), size);
}

Value* ComplexMath::SquareMinusOne(Value* a, Value* b) {
  if (narrow_) return Fma(a, b_.CreateFAdd(a, Num(a, 2)), b_.CreateFMul(b, b));
  MathEmitter e(b_, emitter_.module(), &emitter_.target(), a->getType());
  auto add = [&](Value* p, Value* q, Value*& rest) {  // and what the sum rounds away
    Value *s = b_.CreateFAdd(p, q), *t = b_.CreateFSub(s, p);
    rest = b_.CreateFAdd(rest, b_.CreateFAdd(b_.CreateFSub(p, b_.CreateFSub(s, t)), b_.CreateFSub(q, t)));
    return s;
  };
  const DoubleValue aa = TwoProduct(e, a, a), bb = TwoProduct(e, b, b);
  Value* rest = b_.CreateFAdd(aa.lo, bb.lo);
  Value* high = add(add(b_.CreateFMul(Num(a, 2), a), aa.hi, rest), bb.hi, rest);
  return b_.CreateFAdd(high, rest);
}

// One rounding fewer than two products and a sum, where the machine has the instruction.
Val ComplexMath::Mul(const Val& x, const Val& y) {
  const int lanes = std::max(std::max(ElementEmitter::GetLanes(x.v), ElementEmitter::GetLanes(x.im)),
                             std::max(ElementEmitter::GetLanes(y.v), ElementEmitter::GetLanes(y.im)));
  Value *a = emitter_.Splat(x.v, lanes), *b = emitter_.Splat(x.im, lanes);
  Value *c = emitter_.Splat(y.v, lanes), *d = emitter_.Splat(y.im, lanes);
  return {Fma(a, c, b_.CreateFNeg(b_.CreateFMul(b, d))), Fma(b, c, b_.CreateFMul(a, d))};
}

Val ComplexMath::Div(const Val& x, const Val& y) {
  Value *a = x.v, *b = x.im, *c = y.v, *d = y.im, *re, *im;
  if (narrow_) {  // the products of floats are exact
    Value* size = Fma(c, c, b_.CreateFMul(d, d));
    re = b_.CreateFDiv(Fma(a, c, b_.CreateFMul(b, d)), size);
    im = b_.CreateFDiv(Fma(b, c, b_.CreateFNeg(b_.CreateFMul(a, d))), size);
  } else {
    // Smith's division by the larger part of the divisor, both operands brought away from the ends of the range.
    const Scaled top = Rescale(x, 0x1p-900, 0x1p100, 0x1p1018, 0x1p-4);
    const Scaled bottom = Rescale(y, 0x1p-900, 0x1p100, 0x1p1018, 0x1p-4);
    Value* swap = b_.CreateFCmpOLT(Abs(bottom.x.v), Abs(bottom.x.im));
    Value *big = Select(swap, bottom.x.im, bottom.x.v), *small = Select(swap, bottom.x.v, bottom.x.im);
    Value* ratio = b_.CreateFDiv(small, big);
    Value* denominator = Fma(small, ratio, big);
    Value *p = Select(swap, top.x.im, top.x.v), *q = Select(swap, top.x.v, top.x.im);
    // Not swapped: re = (p + q r) / d, im = (q - p r) / d. Swapped: p is the imaginary part, im has the other sign.
    re = b_.CreateFDiv(Fma(q, ratio, p), denominator);
    Value* plain = Fma(b_.CreateFNeg(p), ratio, q);
    im = b_.CreateFDiv(Select(swap, b_.CreateFNeg(plain), plain), denominator);
    // Scaled back in two steps: one alone may overflow where both together do not.
    auto back = [&](Value* v) {
      return b_.CreateFMul(b_.CreateFMul(v, Choose(top, 0x1p-100, 0x1p4, 1)), Choose(bottom, 0x1p100, 0x1p-4, 1));
    };
    re = back(re), im = back(im);
  }
  auto unit = [&](Value* v) { return M(Fn::kCopySign, Select(Infinite(v), Num(v, 1), Num(v, 0)), v); };
  Value* lost = b_.CreateAnd(b_.CreateFCmpUNO(re, re), b_.CreateFCmpUNO(im, im));
  Value *x_finite = b_.CreateAnd(Finite(a), Finite(b)), *y_finite = b_.CreateAnd(Finite(c), Finite(d));
  // A finite number by an infinite one is zero, the other way round infinite; the signs are those of the directions.
  Value* vanishes = b_.CreateAnd(lost, b_.CreateAnd(x_finite, b_.CreateOr(Infinite(c), Infinite(d))));
  Value* grows = b_.CreateAnd(lost, b_.CreateAnd(y_finite, b_.CreateOr(Infinite(a), Infinite(b))));
  Value *p = Select(grows, unit(a), a), *q = Select(grows, unit(b), b);
  Value *r = Select(vanishes, unit(c), c), *s = Select(vanishes, unit(d), d);
  Value* limit = Select(grows, Inf(re), Num(re, 0));
  Value* special = b_.CreateOr(vanishes, grows);
  re = Select(special, b_.CreateFMul(limit, b_.CreateFAdd(b_.CreateFMul(p, r), b_.CreateFMul(q, s))), re);
  im = Select(special, b_.CreateFMul(limit, b_.CreateFSub(b_.CreateFMul(q, r), b_.CreateFMul(p, s))), im);
  // A divisor of zero: each part over a zero with the sign of its real part, as IEEE would have it.
  Value* by_zero = b_.CreateAnd(IsZero(c), IsZero(d));
  Value* inf = M(Fn::kCopySign, Inf(c), c);
  return {Select(by_zero, b_.CreateFMul(inf, a), re), Select(by_zero, b_.CreateFMul(inf, b), im)};
}

Val ComplexMath::Exp(const Val& x) {
  // Far out the exponential overflows where its product with a small sine does not: two factors then.
  Value* far = b_.CreateFCmpOGT(x.v, Num(x.v, 700));
  Value* e = M(Fn::kExp, narrow_ ? x.v : Select(far, b_.CreateFMul(x.v, Num(x.v, 0.5)), x.v));
  auto times = [&](Value* v) {
    v = b_.CreateFMul(e, v);
    return narrow_ ? v : b_.CreateFMul(v, Select(far, e, Num(e, 1)));
  };
  // A real argument has a real result, also when the magnitude is infinite; and without an angle there still is one.
  Value *real = IsZero(x.im), *endless = b_.CreateAnd(Infinite(x.v), b_.CreateNot(Finite(x.im)));
  Value* limit = Select(b_.CreateFCmpOLT(x.v, Num(x.v, 0)), Num(x.v, 0), Inf(x.v));
  Value* re = times(Select(real, Num(e, 1), M(Fn::kCos, x.im)));
  Value* im = Select(real, x.im, times(M(Fn::kSin, x.im)));
  Value* im_limit = Select(b_.CreateFCmpOLT(x.v, Num(x.v, 0)), Num(x.v, 0), Nan(x.v));
  return {Select(endless, limit, re), Select(endless, im_limit, im)};
}

// The logarithm of the modulus: near one from what the square is more than one, elsewhere from the modulus, scaled for
// c128 where it would leave the range of normal numbers.
Val ComplexMath::Log(const Val& x) {
  Value *a = Abs(x.v), *b = Abs(x.im);
  Value* swap = b_.CreateFCmpOLT(a, b);
  Value *larger = Select(swap, b, a), *smaller = Select(swap, a, b);
  Value* near = b_.CreateAnd(b_.CreateFCmpOGE(larger, Num(a, 0.5)), b_.CreateFCmpOLE(larger, Num(a, 2)));
  Value *half = Num(a, 0.5), *far;
  if (narrow_) {
    far = b_.CreateFMul(half, M(Fn::kLog, Fma(a, a, b_.CreateFMul(b, b))));
    far = Select(b_.CreateOr(Infinite(a), Infinite(b)), Inf(a), far);
  } else {
    constexpr double kLn2 = 0.69314718055994530942;
    const Scaled s = Rescale(x, 0x1p-950, 0x1p100, 0x1p1020, 0x1p-2);
    far = b_.CreateFSub(M(Fn::kLog, Modulus(s.x)), Choose(s, 100 * kLn2, -2 * kLn2, 0));
  }
  Value* close = b_.CreateFMul(half, M(Fn::kLog1p, SquareMinusOne(b_.CreateFSub(larger, Num(a, 1)), smaller)));
  return {Select(near, close, far), M(Fn::kAtan2, x.im, x.v)};
}

Val ComplexMath::Sqrt(const Val& x) {
  const Scaled s = Rescale(x, 0x1p-960, 0x1p200, 0x1p1018, 0x1p-4);
  Value *zero = Num(x.v, 0), *half = Num(x.v, 0.5), *a = Abs(s.x.v);
  Value* root = M(Fn::kSqrt, b_.CreateFMul(half, b_.CreateFAdd(Modulus(s.x), a)));
  Value* other = b_.CreateFDiv(b_.CreateFMul(half, Abs(s.x.im)), root);
  other = Select(IsZero(root), zero, other);
  Value* back = Choose(s, 0x1p-100, 0x1p2, 1);
  root = b_.CreateFMul(root, back), other = b_.CreateFMul(other, back);
  Value* right = b_.CreateFCmpOGE(x.v, zero);
  Value *infinite = Infinite(x.im), *inf = Inf(x.v);
  Value *re = Select(infinite, inf, Select(right, root, other)),
        *im = Select(infinite, inf, Select(right, other, root));
  return {re, M(Fn::kCopySign, im, x.im)};
}

Val ComplexMath::Power(const Val& x, const Val& y) {
  const Val r = Exp(Mul(y, Log(x)));
  Value* zero = Num(x.v, 0);
  Value *base_zero = b_.CreateAnd(IsZero(x.v), IsZero(x.im)), *exponent_zero = b_.CreateAnd(IsZero(y.v), IsZero(y.im));
  // A power of zero: one, zero, or what has no direction.
  Value *vanishes = b_.CreateFCmpOGT(y.v, zero), *grows = b_.CreateFCmpOLT(y.v, zero);
  Value* pole = Select(grows, Inf(x.v), Nan(x.v));
  Value* of_zero = Select(exponent_zero, Num(x.v, 1), Select(vanishes, zero, pole));
  Value* of_zero_im = Select(b_.CreateOr(exponent_zero, vanishes), zero, Nan(x.v));
  return {Select(base_zero, of_zero, r.v), Select(base_zero, of_zero_im, r.im)};
}

// -i log((y + i x) / sqrt(y^2 + x^2)); a common factor does not change it.
Val ComplexMath::Atan2(const Val& first, const Val& second) {
  Val x = first, y = second;
  if (!narrow_) {
    Value *p = Larger(x), *q = Larger(y);
    Value* larger = Select(b_.CreateFCmpOLT(p, q), q, p);
    Value* factor = Select(b_.CreateFCmpOGT(larger, Num(larger, 0x1p500)), Num(larger, 0x1p-600),
                           Select(b_.CreateFCmpOLT(larger, Num(larger, 0x1p-400)), Num(larger, 0x1p600),  //
                                  Num(larger, 1)));
    auto scaled = [&](const Val& z) { return Val{b_.CreateFMul(z.v, factor), b_.CreateFMul(z.im, factor)}; };
    x = scaled(x), y = scaled(y);
  }
  const Val sum{b_.CreateFSub(y.v, x.im), b_.CreateFAdd(y.im, x.v)};
  const Val xx = Mul(x, x), yy = Mul(y, y);
  const Val log = Log(Div(sum, Sqrt({b_.CreateFAdd(yy.v, xx.v), b_.CreateFAdd(yy.im, xx.im)})));
  return {log.im, b_.CreateFNeg(log.v)};
}

namespace {

// The functions behind Unary that no other one is made of.
class UnaryFunctions : public ComplexMath {
 public:
  explicit UnaryFunctions(const ComplexMath& math) : ComplexMath(math) {}

  Val Cbrt(const Val& x);
  Val Expm1(const Val& x);
  Val Log1p(const Val& x);
  Val Logistic(const Val& x);
  Val Rsqrt(const Val& x);
  Val Sign(const Val& x);
  Val SinhOrCosh(const Val& x, bool cosh);
  Val Tanh(const Val& x);
  Val TimesI(const Val& x) { return {b_.CreateFNeg(x.im), x.v}; }
  Val TimesMinusI(const Val& x) { return {x.im, b_.CreateFNeg(x.v)}; }
};

Val UnaryFunctions::Expm1(const Val& x) {
  // expm1(a) cos b + (cos b - 1), the latter as -2 sin^2(b/2). Far out the one does not count.
  const Val e = Exp(x);
  Value* half_sine = M(Fn::kSin, b_.CreateFMul(x.im, Num(x.im, 0.5)));
  Value* shortfall = b_.CreateFMul(Num(x.v, -2), b_.CreateFMul(half_sine, half_sine));
  Value* near = b_.CreateFAdd(b_.CreateFMul(M(Fn::kExpm1, x.v), M(Fn::kCos, x.im)), shortfall);
  // Without an angle neither part has a value, also where the exponential is zero or infinite.
  Value* no_angle = b_.CreateNot(Finite(x.im));
  Value* re = Select(b_.CreateFCmpOGT(x.v, Num(x.v, 40)), e.v, near);
  return {Select(no_angle, Nan(x.v), re), Select(no_angle, Nan(x.v), e.im)};
}

Val UnaryFunctions::Log1p(const Val& x) {
  Value* shifted = b_.CreateFAdd(x.v, Num(x.v, 1));
  const Val far = Log({shifted, x.im});
  // By the parts of 1 + z, so that no square overflows; the annulus they bound lies within a factor of three of one.
  Value* larger = Larger({shifted, x.im});
  Value* near = b_.CreateAnd(b_.CreateFCmpOGE(larger, Num(larger, 0.5)), b_.CreateFCmpOLE(larger, Num(larger, 2)));
  Value* close = b_.CreateFMul(Num(x.v, 0.5), M(Fn::kLog1p, SquareMinusOne(x.v, x.im)));
  return {Select(near, close, far.v), far.im};
}

Val UnaryFunctions::Rsqrt(const Val& x) { return Div({Num(x.v, 1), Num(x.v, 0)}, Sqrt(x)); }

Val UnaryFunctions::Cbrt(const Val& x) {  // the root with a third of the angle
  const Scaled s = Rescale(x, 0x1p-960, 0x1p300, 0x1p1018, 0x1p-6);
  Value* size = b_.CreateFMul(M(Fn::kCbrt, Modulus(s.x)), Choose(s, 0x1p-100, 0x1p2, 1));
  Value* angle = b_.CreateFMul(M(Fn::kAtan2, x.im, x.v), Num(x.v, 1.0 / 3));
  Value* im = Select(IsZero(angle), angle, b_.CreateFMul(size, M(Fn::kSin, angle)));
  Value* zero = b_.CreateAnd(IsZero(x.v), IsZero(x.im));
  return {Select(zero, x.v, b_.CreateFMul(size, M(Fn::kCos, angle))), Select(zero, x.im, im)};
}

// sinh(a + bi) = sinh a cos b + i cosh a sin b; cosh(a + bi) = cosh a cos b + i sinh a sin b.
Val UnaryFunctions::SinhOrCosh(const Val& x, bool cosh) {
  Value *s = M(Fn::kSinh, x.v), *c = M(Fn::kCosh, x.v), *again = nullptr;
  if (!narrow_) {  // far out both are half the exponential, taken in two factors
    Value *size = Abs(x.v), *far = b_.CreateFCmpOGT(size, Num(size, 700));
    Value* e = M(Fn::kExp, b_.CreateFMul(size, Num(size, 0.5)));
    Value* half = b_.CreateFMul(Num(e, 0.5), e);
    s = Select(far, M(Fn::kCopySign, half, x.v), s);
    c = Select(far, half, c);
    again = Select(far, e, Num(e, 1));
  }
  auto product = [&](Value* p, Value* q) {
    p = b_.CreateFMul(p, q);
    return again ? b_.CreateFMul(p, again) : p;
  };
  Value *sine = M(Fn::kSin, x.im), *cosine = M(Fn::kCos, x.im);
  Value *re = product(cosh ? c : s, cosine), *im = product(cosh ? s : c, sine);
  // A real argument has a real result, an imaginary one keeps its kind where it has no angle, and an infinite one its
  // magnitude.
  Value* no_angle = b_.CreateNot(Finite(x.im));
  re = Select(b_.CreateAnd(no_angle, Infinite(x.v)), Inf(x.v), re);
  Value* zero_without_angle = b_.CreateAnd(no_angle, IsZero(x.v));
  if (cosh) {
    im = Select(zero_without_angle, x.v, im);
    im = Select(IsZero(x.im), b_.CreateFMul(x.im, M(Fn::kCopySign, Num(x.v, 1), x.v)), im);
  } else {
    re = Select(zero_without_angle, x.v, re);
    im = Select(IsZero(x.im), x.im, im);
  }
  return {re, im};
}

// With t = tan b: tanh(a + bi) = (sinh a cosh a (1 + t^2) + i t) / (1 + sinh^2 a (1 + t^2)).
Val UnaryFunctions::Tanh(const Val& x) {
  Value *one = Num(x.v, 1), *zero = Num(x.v, 0), *t = M(Fn::kTan, x.im), *s = M(Fn::kSinh, x.v);
  Value* beta = Fma(t, t, one);
  Value* c = M(Fn::kSqrt, Fma(s, s, one));
  Value* d = Fma(beta, b_.CreateFMul(s, s), one);
  Value* re = b_.CreateFDiv(b_.CreateFMul(beta, b_.CreateFMul(c, s)), d);
  Value* im = b_.CreateFDiv(t, d);
  // Far out the quotient is infinity over infinity: the limit is +-1, what is left of the angle vanishes.
  Value *size = Abs(x.v), *far = b_.CreateFCmpOGT(size, Num(x.v, 22)), *infinite = Infinite(x.v);
  Value* sine = b_.CreateFMul(M(Fn::kSin, x.im), M(Fn::kCos, x.im));  // half that of twice the angle
  Value* rest = b_.CreateFMul(b_.CreateFMul(Num(sine, 4), sine), M(Fn::kExp, b_.CreateFMul(Num(size, -2), size)));
  // But where the imaginary part has no angle there is no limit, unless the real part is infinite.
  Value* lost = b_.CreateAnd(b_.CreateNot(Finite(x.im)), b_.CreateNot(infinite));
  Value* re_far = Select(lost, Nan(x.v), M(Fn::kCopySign, one, x.v));
  Value* im_far = Select(infinite, M(Fn::kCopySign, zero, sine), rest);
  re = Select(far, re_far, re);
  im = Select(far, im_far, im);
  // A zero keeps its sign, on the imaginary axis only where there is an angle.
  Value* on_axis = b_.CreateAnd(IsZero(x.v), Finite(x.im));
  return {Select(on_axis, x.v, re), Select(IsZero(x.im), x.im, im)};
}

// 1 / (1 + e^-z) with t = e^-|a| and 1 + cos b = 2 cos^2(b/2): no term overflows, and near the poles, where z is an odd
// multiple of pi i, nothing cancels.
Val UnaryFunctions::Logistic(const Val& x) {
  Value *size = Abs(x.v), *minus = b_.CreateFNeg(size);
  Value *t = M(Fn::kExp, minus), *u = b_.CreateFNeg(M(Fn::kExpm1, minus));  // u = 1 - t
  Value* c = M(Fn::kCos, b_.CreateFMul(x.im, Num(x.im, 0.5)));
  Value* cc = b_.CreateFMul(Num(c, 2), b_.CreateFMul(c, c));
  Value* tcc = b_.CreateFMul(t, cc);
  Value* d = Fma(u, u, b_.CreateFAdd(tcc, tcc));  // |1 + t e^ib|^2
  Value* left = b_.CreateFCmpOLT(x.v, Num(x.v, 0));
  Value* top = Select(left, b_.CreateFMul(t, b_.CreateFSub(cc, u)), b_.CreateFAdd(u, tcc));
  Value* re = b_.CreateFDiv(top, d);
  Value* im = b_.CreateFDiv(b_.CreateFMul(t, M(Fn::kSin, x.im)), d);
  Value* endless = b_.CreateAnd(Infinite(x.v), b_.CreateNot(Finite(x.im)));
  return {Select(endless, Select(left, Num(x.v, 0), Num(x.v, 1)), re), Select(endless, Num(x.v, 0), im)};
}

Val UnaryFunctions::Sign(const Val& x) {
  const Scaled s = Rescale(x, 0x1p-960, 0x1p200, 0x1p1018, 0x1p-4);
  Value* size = Modulus(s.x);
  Value *zero = IsZero(size), *nan = b_.CreateOr(b_.CreateFCmpUNO(x.v, x.v), b_.CreateFCmpUNO(x.im, x.im));
  auto part = [&](Value* v) { return Select(nan, Nan(v), Select(zero, Num(v, 0), b_.CreateFDiv(v, size))); };
  return {part(s.x.v), part(s.x.im)};
}

}  // namespace

std::optional<Val> ComplexMath::Unary(Opcode opcode, const Val& x) {
  UnaryFunctions f(*this);
  switch (opcode) {
    case Opcode::kCbrt:
      return f.Cbrt(x);
    case Opcode::kCos:
      return f.SinhOrCosh(f.TimesI(x), true);
    case Opcode::kCosh:
      return f.SinhOrCosh(x, true);
    case Opcode::kExp:
      return Exp(x);
    case Opcode::kExpm1:
      return f.Expm1(x);
    case Opcode::kLog:
      return Log(x);
    case Opcode::kLog1p:
      return f.Log1p(x);
    case Opcode::kLogistic:
      return f.Logistic(x);
    case Opcode::kRsqrt:
      return f.Rsqrt(x);
    case Opcode::kSign:
      return f.Sign(x);
    case Opcode::kSin:
      return f.TimesMinusI(f.SinhOrCosh(f.TimesI(x), false));
    case Opcode::kSqrt:
      return Sqrt(x);
    case Opcode::kTan:
      return f.TimesMinusI(f.Tanh(f.TimesI(x)));
    case Opcode::kTanh:
      return f.Tanh(x);
    default:
      return std::nullopt;
  }
}

}  // namespace backplane::codegen
