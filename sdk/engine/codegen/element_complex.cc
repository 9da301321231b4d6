// Arithmetic on complex numbers, from the real functions.
#include "absl/strings/str_cat.h"
#include "sdk/engine/codegen/element_emitter.h"

namespace backplane::engine::codegen {

using llvm::ConstantFP;
using llvm::Value;

Val ElementEmitter::Rotate(const Val& x, bool back) {
  return back ? Val{x.im, b_.CreateFNeg(x.v)} : Val{b_.CreateFNeg(x.im), x.v};
}

Val ElementEmitter::ComplexMul(const Val& x, const Val& y) {
  // One rounding fewer than two products and a sum, where the machine has the instruction.
  auto add_product = [&](Value* a, Value* b, Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {a->getType()}, {a, b, c});
  };
  int lanes = std::max(std::max(LanesOf(x.v), LanesOf(x.im)), std::max(LanesOf(y.v), LanesOf(y.im)));
  Value *a = Splat(x.v, lanes), *b = Splat(x.im, lanes), *c = Splat(y.v, lanes), *d = Splat(y.im, lanes);
  return {add_product(a, c, b_.CreateFNeg(b_.CreateFMul(b, d))), add_product(b, c, b_.CreateFMul(a, d))};
}

// Smith's division: scaled by the larger part of the divisor, so that nothing overflows on the way.
Val ElementEmitter::ComplexDiv(const Val& x, const Val& y) {
  Value* swap = b_.CreateFCmpOLT(M(Fn::kAbs, y.v), M(Fn::kAbs, y.im));
  Value* big = b_.CreateSelect(swap, y.im, y.v);
  Value* small = b_.CreateSelect(swap, y.v, y.im);
  Value* ratio = b_.CreateFDiv(small, big);
  Value* denominator = b_.CreateFAdd(big, b_.CreateFMul(small, ratio));
  Value* a = b_.CreateSelect(swap, x.im, x.v);
  Value* c = b_.CreateSelect(swap, x.v, x.im);
  // Not swapped: re = (a + c r) / d, im = (c - a r) / d; swapped: re = (a + c r) / d with a = im, im = (a r - c) / d.
  Value* re = b_.CreateFDiv(b_.CreateFAdd(a, b_.CreateFMul(c, ratio)), denominator);
  Value* plain = b_.CreateFSub(c, b_.CreateFMul(a, ratio));
  Value* im = b_.CreateFDiv(b_.CreateSelect(swap, b_.CreateFNeg(plain), plain), denominator);
  // A divisor of zero: each part over a zero with the sign of its real part, as IEEE would have it.
  Value* zero = Num(y.v, 0);
  Value* by_zero = b_.CreateAnd(b_.CreateFCmpOEQ(y.v, zero), b_.CreateFCmpOEQ(y.im, zero));
  Value* inf = M(Fn::kCopySign, ConstantFP::getInfinity(y.v->getType()), y.v);
  return {b_.CreateSelect(by_zero, b_.CreateFMul(inf, x.v), re),
          b_.CreateSelect(by_zero, b_.CreateFMul(inf, x.im), im)};
}

Val ElementEmitter::ComplexExp(const Val& x) {
  Value* e = M(Fn::kExp, x.v);
  Value* im = b_.CreateFMul(e, M(Fn::kSin, x.im));
  // A real argument has a real result, also when the magnitude is infinite.
  Value* real = b_.CreateFCmpOEQ(x.im, Num(x.im, 0));
  return {b_.CreateSelect(real, e, b_.CreateFMul(e, M(Fn::kCos, x.im))), b_.CreateSelect(real, x.im, im)};
}

// The modulus may lie outside the range of normal numbers where its logarithm is harmless: scaled by a power of two.
Val ElementEmitter::ComplexLog(const Val& x) {
  const bool wide = x.v->getType()->getScalarType()->isDoubleTy();
  const double least = wide ? 0x1p-950 : 0x1p-80, most = wide ? 0x1p1020 : 0x1p125, ln2 = 0.69314718055994530942;
  Value* larger = M(Fn::kMaximum, M(Fn::kAbs, x.v), M(Fn::kAbs, x.im));
  Value *small = b_.CreateFCmpOLT(larger, Num(larger, least)), *large = b_.CreateFCmpOGT(larger, Num(larger, most));
  auto choose = [&](double if_small, double if_large, double otherwise) {
    return b_.CreateSelect(small, Num(larger, if_small),
                           b_.CreateSelect(large, Num(larger, if_large), Num(larger, otherwise)));
  };
  Value *factor = choose(0x1p100, 0x1p-2, 1), *shift = choose(100 * ln2, -2 * ln2, 0);
  Value* size = M(Fn::kHypot, b_.CreateFMul(x.v, factor), b_.CreateFMul(x.im, factor));
  return {b_.CreateFSub(M(Fn::kLog, size), shift), M(Fn::kAtan2, x.im, x.v)};
}

Val ElementEmitter::ComplexSqrt(const Val& x) {
  Value *zero = Num(x.v, 0), *half = Num(x.v, 0.5);
  Value* a = M(Fn::kAbs, x.v);
  Value* root = M(Fn::kSqrt, b_.CreateFMul(half, b_.CreateFAdd(M(Fn::kHypot, x.v, x.im), a)));
  Value* other = b_.CreateFDiv(b_.CreateFMul(half, M(Fn::kAbs, x.im)), root);
  Value* is_zero = b_.CreateFCmpOEQ(root, zero);
  other = b_.CreateSelect(is_zero, zero, other);
  Value* right = b_.CreateFCmpOGE(x.v, zero);
  Value* re = b_.CreateSelect(right, root, other);
  Value* im = b_.CreateSelect(right, other, root);
  Value* infinite = b_.CreateFCmpOEQ(M(Fn::kAbs, x.im), ConstantFP::getInfinity(x.v->getType()));
  re = b_.CreateSelect(infinite, M(Fn::kAbs, x.im), re);
  im = b_.CreateSelect(infinite, M(Fn::kAbs, x.im), im);
  return {re, M(Fn::kCopySign, im, x.im)};
}

// sinh(a + bi) = sinh a cos b + i cosh a sin b; cosh(a + bi) = cosh a cos b + i sinh a sin b.
Val ElementEmitter::ComplexSinh(const Val& x, bool cosh) {
  Value *s = M(Fn::kSinh, x.v), *c = M(Fn::kCosh, x.v), *sine = M(Fn::kSin, x.im), *cosine = M(Fn::kCos, x.im);
  return cosh ? Val{b_.CreateFMul(c, cosine), b_.CreateFMul(s, sine)}
              : Val{b_.CreateFMul(s, cosine), b_.CreateFMul(c, sine)};
}

// With t = tan b: tanh(a + bi) = (sinh a cosh a (1 + t^2) + i t) / (1 + sinh^2 a (1 + t^2)).
Val ElementEmitter::ComplexTanh(const Val& x) {
  Value *one = Num(x.v, 1), *t = M(Fn::kTan, x.im), *s = M(Fn::kSinh, x.v);
  Value* beta = b_.CreateFAdd(one, b_.CreateFMul(t, t));
  Value* c = M(Fn::kSqrt, b_.CreateFAdd(one, b_.CreateFMul(s, s)));
  Value* d = b_.CreateFAdd(one, b_.CreateFMul(beta, b_.CreateFMul(s, s)));
  Value* re = b_.CreateFDiv(b_.CreateFMul(beta, b_.CreateFMul(c, s)), d);
  Value* im = b_.CreateFDiv(t, d);
  // Far out the quotient is infinity over infinity; the limit is +-1.
  Value* far =
      b_.CreateFCmpOGT(M(Fn::kAbs, x.v), Num(x.v, x.v->getType()->getScalarType()->isDoubleTy() ? 22.0 : 11.0));
  // But where the imaginary part has no angle there is no limit, unless the real part is infinite.
  Value* sine = b_.CreateFMul(M(Fn::kSin, x.im), M(Fn::kCos, x.im));  // of twice the angle, but for a factor
  Value* finite = b_.CreateFCmpOLT(M(Fn::kAbs, x.v), ConstantFP::getInfinity(x.v->getType()));
  Value* lost = b_.CreateAnd(b_.CreateFCmpUNO(sine, sine), finite);
  Value* nan = ConstantFP::getNaN(x.v->getType());
  Value* re_far = b_.CreateSelect(lost, nan, M(Fn::kCopySign, one, x.v));
  Value* im_far = b_.CreateSelect(lost, nan, M(Fn::kCopySign, Num(x.v, 0), sine));
  return {b_.CreateSelect(far, re_far, re), b_.CreateSelect(far, im_far, im)};
}

Val ElementEmitter::UnaryComplex(const Instruction& op, PrimitiveType t, const Val& x) {
  Val one{Num(x.v, 1), Num(x.v, 0)};
  switch (op.opcode()) {
    case Opcode::kAbs:
      return {M(Fn::kHypot, x.v, x.im)};
    case Opcode::kNegate:
      return {b_.CreateFNeg(x.v), b_.CreateFNeg(x.im)};
    case Opcode::kSign: {
      Value* r = M(Fn::kHypot, x.v, x.im);
      Value* zero = b_.CreateFCmpOEQ(r, Num(r, 0));
      Value* nan = b_.CreateOr(b_.CreateFCmpUNO(x.v, x.v), b_.CreateFCmpUNO(x.im, x.im));
      Value* both = ConstantFP::getNaN(x.v->getType());
      auto part = [&](Value* v) {
        return b_.CreateSelect(nan, both, b_.CreateSelect(zero, Num(v, 0), b_.CreateFDiv(v, r)));
      };
      return {part(x.v), part(x.im)};
    }
    case Opcode::kExp:
      return ComplexExp(x);
    case Opcode::kExpm1: {
      // expm1(a) cos b + (cos b - 1), the latter as -2 sin^2(b/2).
      Value* half_sine = M(Fn::kSin, b_.CreateFMul(x.im, Num(x.im, 0.5)));
      Value* shortfall = b_.CreateFMul(Num(x.v, -2), b_.CreateFMul(half_sine, half_sine));
      Value* re = b_.CreateFAdd(b_.CreateFMul(M(Fn::kExpm1, x.v), M(Fn::kCos, x.im)), shortfall);
      // A real argument has a real result, also when the magnitude is infinite.
      Value* real = b_.CreateFCmpOEQ(x.im, Num(x.im, 0));
      return {re, b_.CreateSelect(real, x.im, b_.CreateFMul(M(Fn::kExp, x.v), M(Fn::kSin, x.im)))};
    }
    case Opcode::kLog:
      return ComplexLog(x);
    case Opcode::kLog1p: {
      // Near the unit circle |1 + z|^2 - 1 = 2a + a^2 + b^2, whose terms may cancel, in twice the precision.
      Value *a = x.v, *sum;
      if (a->getType()->getScalarType()->isFloatTy()) {
        llvm::Type* wide = b_.getDoubleTy();
        if (int lanes = LanesOf(a)) wide = llvm::FixedVectorType::get(wide, lanes);
        Value *p = b_.CreateFPExt(a, wide), *q = b_.CreateFPExt(x.im, wide);
        sum = b_.CreateFAdd(b_.CreateFMul(p, b_.CreateFAdd(Num(p, 2), p)), b_.CreateFMul(q, q));
        sum = b_.CreateFPTrunc(sum, a->getType());
      } else {
        auto rest_of_square = [&](Value* v, Value* square) {
          return b_.CreateIntrinsic(llvm::Intrinsic::fma, {v->getType()}, {v, v, b_.CreateFNeg(square)});
        };
        auto add = [&](Value* p, Value* q, Value*& rest) {  // and what the sum rounds away
          Value *s = b_.CreateFAdd(p, q), *t = b_.CreateFSub(s, p);
          rest = b_.CreateFAdd(rest, b_.CreateFAdd(b_.CreateFSub(p, b_.CreateFSub(s, t)), b_.CreateFSub(q, t)));
          return s;
        };
        Value *aa = b_.CreateFMul(a, a), *bb = b_.CreateFMul(x.im, x.im);
        Value* rest = b_.CreateFAdd(rest_of_square(a, aa), rest_of_square(x.im, bb));
        Value* high = add(add(b_.CreateFMul(Num(a, 2), a), aa, rest), bb, rest);
        sum = b_.CreateFAdd(high, rest);
      }
      Value* near = b_.CreateFMul(Num(a, 0.5), M(Fn::kLog1p, sum));
      Value* shifted = b_.CreateFAdd(a, Num(a, 1));
      Value* size = M(Fn::kHypot, shifted, x.im);
      Value* far = M(Fn::kLog, size);
      Value* small = b_.CreateAnd(b_.CreateFCmpOGT(size, Num(a, 0.5)), b_.CreateFCmpOLT(size, Num(a, 2)));
      return {b_.CreateSelect(small, near, far), M(Fn::kAtan2, x.im, shifted)};
    }
    case Opcode::kSqrt:
      return ComplexSqrt(x);
    case Opcode::kCbrt: {  // the root with a third of the angle
      Value* third = Num(x.v, 1.0 / 3);
      Val log = ComplexLog(x);
      Val root = ComplexExp({b_.CreateFMul(log.v, third), b_.CreateFMul(log.im, third)});
      Value* zero = b_.CreateAnd(b_.CreateFCmpOEQ(x.v, Num(x.v, 0)), b_.CreateFCmpOEQ(x.im, Num(x.v, 0)));
      return Select(zero, x, root);
    }
    case Opcode::kRsqrt:
      return ComplexDiv(one, ComplexSqrt(x));
    case Opcode::kSin:
      return Rotate(ComplexSinh(Rotate(x, false), false), true);
    case Opcode::kCos:
      return ComplexSinh(Rotate(x, false), true);
    case Opcode::kCosh:
      return ComplexSinh(x, true);
    case Opcode::kTan:
      return Rotate(ComplexTanh(Rotate(x, false)), true);
    case Opcode::kTanh:
      return ComplexTanh(x);
    case Opcode::kLogistic: {
      // The exponential that does not overflow: of the side where the real part is negative.
      Value* left = b_.CreateFCmpOLT(x.v, Num(x.v, 0));
      Val e = ComplexExp({b_.CreateSelect(left, x.v, b_.CreateFNeg(x.v)),  //
                          b_.CreateSelect(left, x.im, b_.CreateFNeg(x.im))});
      Val top = {b_.CreateSelect(left, e.v, one.v), b_.CreateSelect(left, e.im, one.im)};
      return ComplexDiv(top, {b_.CreateFAdd(e.v, one.v), e.im});
    }
    default:
      Fail(absl::UnimplementedError(
          absl::StrCat(op.name(), ": no kernel can compute ", OpName(op.opcode()), " of ", Name(t))));
      return x;
  }
}

Val ElementEmitter::BinaryComplex(Opcode op, PrimitiveType t, const Val& x, const Val& y) {
  switch (op) {
    case Opcode::kAdd:
      return {b_.CreateFAdd(x.v, y.v), b_.CreateFAdd(x.im, y.im)};
    case Opcode::kSubtract:
      return {b_.CreateFSub(x.v, y.v), b_.CreateFSub(x.im, y.im)};
    case Opcode::kMultiply:
      return ComplexMul(x, y);
    case Opcode::kDivide:
      return ComplexDiv(x, y);
    case Opcode::kPower: {
      // The exponent multiplies the logarithm's error, so c64 is computed in f64.
      const bool narrow = x.v->getType()->getScalarType()->isFloatTy();
      auto in = [&](const Val& z, llvm::Type* element) {
        auto part = [&](Value* v) {
          const int lanes = LanesOf(v);
          return b_.CreateFPCast(v, lanes ? llvm::FixedVectorType::get(element, lanes) : element);
        };
        return narrow ? Val{part(z.v), part(z.im)} : z;
      };
      Val r = in(ComplexExp(ComplexMul(in(y, b_.getDoubleTy()), ComplexLog(in(x, b_.getDoubleTy())))), b_.getFloatTy());
      Value* zero = Num(x.v, 0);
      Value* base_zero = b_.CreateAnd(b_.CreateFCmpOEQ(x.v, zero), b_.CreateFCmpOEQ(x.im, zero));
      Value* exponent_zero = b_.CreateAnd(b_.CreateFCmpOEQ(y.v, zero), b_.CreateFCmpOEQ(y.im, zero));
      // A power of zero: one, zero, or what has no direction.
      Value *vanishes = b_.CreateFCmpOGT(y.v, zero), *grows = b_.CreateFCmpOLT(y.v, zero);
      Value *one = Num(x.v, 1), *nan = ConstantFP::getNaN(x.v->getType());
      Value* pole = b_.CreateSelect(grows, ConstantFP::getInfinity(x.v->getType()), nan);
      Value* of_zero = b_.CreateSelect(exponent_zero, one, b_.CreateSelect(vanishes, zero, pole));
      Value* of_zero_im = b_.CreateSelect(b_.CreateOr(exponent_zero, vanishes), zero, nan);
      return {b_.CreateSelect(base_zero, of_zero, r.v), b_.CreateSelect(base_zero, of_zero_im, r.im)};
    }
    case Opcode::kAtan2: {  // -i log((y + i x) / sqrt(y^2 + x^2)), the first operand being x
      Val sum{b_.CreateFSub(y.v, x.im), b_.CreateFAdd(y.im, x.v)};
      Val xx = ComplexMul(x, x), yy = ComplexMul(y, y);
      Val log = ComplexLog(ComplexDiv(sum, ComplexSqrt({b_.CreateFAdd(yy.v, xx.v), b_.CreateFAdd(yy.im, xx.im)})));
      return Rotate(log, true);
    }
    case Opcode::kMaximum:
    case Opcode::kMinimum: {
      // Lexicographic; a number with a NaN wins, the first of two.
      auto has_nan = [&](const Val& v) { return b_.CreateFCmpUNO(v.v, v.im); };
      auto less = [&](const Val& a, const Val& c) {
        return b_.CreateOr(b_.CreateFCmpOLT(a.v, c.v),
                           b_.CreateAnd(b_.CreateFCmpOEQ(a.v, c.v), b_.CreateFCmpOLT(a.im, c.im)));
      };
      Value* second = op == Opcode::kMaximum ? less(x, y) : less(y, x);
      return Select(has_nan(x), x, Select(b_.CreateOr(has_nan(y), second), y, x));
    }
    default:
      Fail(absl::UnimplementedError(absl::StrCat("no kernel can compute ", OpName(op), " of ", Name(t))));
      return x;
  }
}

}  // namespace backplane::engine::codegen
