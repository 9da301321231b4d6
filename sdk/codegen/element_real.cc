// Arithmetic on floats, integers and pred.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/types/numeric.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/codegen/lanes.h"

namespace backplane::codegen {

using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;
using llvm::Intrinsic::ID;

namespace {

// The float constant that a value is in all lanes, or null.
const llvm::ConstantFP* FloatConstant(Value* v) {
  auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (!c) return nullptr;
  if (c->getType()->isVectorTy()) c = c->getSplatValue();
  return c ? llvm::dyn_cast<llvm::ConstantFP>(c) : nullptr;
}

}  // namespace

// NaN passes on, and -0 lies below +0. With a constant that is no NaN one compare and select do; of two zeros it is the
// constant that counts where it is +0 in a maximum or -0 in a minimum. Otherwise each order of the operands gives one
// of two equal ones, and the bits of both zeros together make the right one.
Value* ElementEmitter::MaxMin(bool max, Value* x, Value* y) {
  const auto wins = [&](Value* a, Value* b) { return max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b); };
  if (FloatConstant(x)) std::swap(x, y);
  if (const auto* c = FloatConstant(y); c && !c->isNaN()) {
    if (!c->isZero() || c->isNegative() == max) return b_.CreateSelect(wins(y, x), y, x);
    return b_.CreateSelect(max ? b_.CreateFCmpOGE(y, x) : b_.CreateFCmpOLE(y, x), y, x);
  }
  Type* type = x->getType();
  Type* bits = WithLanes(b_.getIntNTy(type->getScalarSizeInBits()), x);
  Value* one = b_.CreateBitCast(b_.CreateSelect(wins(x, y), x, y), bits);
  Value* other = b_.CreateBitCast(b_.CreateSelect(wins(y, x), y, x), bits);
  Value* both = b_.CreateBitCast(max ? b_.CreateAnd(one, other) : b_.CreateOr(one, other), type);
  return b_.CreateSelect(b_.CreateFCmpUNO(x, y), b_.CreateFAdd(x, y), both);
}

Val ElementEmitter::UnaryFloat(const Instruction& op, PrimitiveType t, const Val& in, bool rounded) {
  Value* x = in.v;
  Fn fn;
  bool exact = false;  // of a representable value the result is representable
  switch (op.opcode()) {
    case Opcode::kAbs:
      fn = Fn::kAbs;
      exact = true;
      break;
    case Opcode::kNegate:
      fn = Fn::kNegate;
      exact = true;
      break;
    case Opcode::kSign:
      fn = Fn::kSign;
      exact = true;
      break;
    case Opcode::kCeil:
      fn = Fn::kCeil;
      break;
    case Opcode::kFloor:
      fn = Fn::kFloor;
      break;
    case Opcode::kRoundNearestAfz:
      fn = Fn::kRoundAfz;
      break;
    case Opcode::kRoundNearestEven:
      fn = Fn::kRoundEven;
      break;
    case Opcode::kIsFinite: {
      Value* abs = M(Fn::kAbs, x);
      return {b_.CreateFCmpOLT(abs, ConstantFP::getInfinity(x->getType()))};
    }
    default:
      if (const std::optional<Fn> function = FindMathFn(op.opcode())) {
        fn = *function;
        break;
      }
      Fail(absl::UnimplementedError(
          absl::StrCat(op.name(), ": no kernel can compute ", OpName(op.opcode()), " of ", Name(t))));
      return in;
  }
  Value* y = M(fn, x);
  if (t == PrimitiveType::kF8E8M0FNU) exact = false;
  // Some small types have no -0, which is what a negation makes of 0.
  if (op.opcode() == Opcode::kNegate && IsSmallFloat(t) &&
      !std::signbit(SmallBitsToFloat(t, FloatToSmallBits(t, -0.0f)))) {
    exact = false;
  }
  if (exact || !rounded) return {y};
  const bool is_arithmetic = fn == Fn::kExp || fn == Fn::kTanh || fn == Fn::kLogistic || fn == Fn::kSqrt;
  return is_arithmetic ? RoundArithmetic(t, y) : Round(t, y);
}

Val ElementEmitter::BinaryFloat(Opcode op, PrimitiveType t, const Val& a, const Val& c, bool rounded) {
  Value *x = a.v, *y = c.v, *r = nullptr;
  switch (op) {
    case Opcode::kAdd:
      r = b_.CreateFAdd(x, y);
      break;
    case Opcode::kSubtract:
      r = b_.CreateFSub(x, y);
      break;
    case Opcode::kMultiply:
      r = b_.CreateFMul(x, y);
      break;
    case Opcode::kDivide:
      r = b_.CreateFDiv(x, y);
      break;
    case Opcode::kMaximum:
      return {MaxMin(true, x, y)};
    case Opcode::kMinimum:
      return {MaxMin(false, x, y)};
    case Opcode::kRemainder:
      r = M(Fn::kRemainder, x, y);
      break;
    case Opcode::kPower:
      r = M(Fn::kPow, x, y);
      break;
    case Opcode::kAtan2:
      r = M(Fn::kAtan2, x, y);
      break;
    default:
      Fail(absl::UnimplementedError(absl::StrCat("no kernel can compute ", OpName(op), " of ", Name(t))));
      return a;
  }
  // LLVM fuses a sum with a product if both are marked.
  const bool is_sum = op == Opcode::kAdd || op == Opcode::kSubtract;
  if (is_sum ? fuses_sums_ : op == Opcode::kMultiply && target_->fuses_sums_of_products) {
    if (auto* instruction = llvm::dyn_cast<llvm::Instruction>(r)) instruction->setHasAllowContract(true);
  }
  if (!rounded) return {r};
  return op == Opcode::kRemainder || op == Opcode::kPower || op == Opcode::kAtan2 ? Round(t, r) : RoundArithmetic(t, r);
}

Val ElementEmitter::UnaryInt(const Instruction& op, PrimitiveType t, const Val& in) {
  Value* x = in.v;
  Value* zero = llvm::Constant::getNullValue(x->getType());
  bool pred = t == PrimitiveType::kPred;
  int bits = BitWidth(t);
  switch (op.opcode()) {
    case Opcode::kNot:
      return pred ? Val{b_.CreateNot(x)} : Round(t, b_.CreateNot(x));
    case Opcode::kNegate:
      return Round(t, b_.CreateNeg(x));
    case Opcode::kAbs:
      if (!IsSigned(t)) return in;
      return Round(t, b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse()));
    case Opcode::kSign: {
      Value* one = ConstantInt::get(x->getType(), 1);
      Value* positive = b_.CreateSelect(IsSigned(t) ? b_.CreateICmpSGT(x, zero) : b_.CreateICmpNE(x, zero), one, zero);
      if (!IsSigned(t)) return {positive};
      return {b_.CreateSelect(b_.CreateICmpSLT(x, zero), ConstantInt::getAllOnesValue(x->getType()), positive)};
    }
    case Opcode::kPopcnt: {
      Value* v = bits < 8 ? b_.CreateAnd(x, (1 << bits) - 1) : x;
      return Round(t, b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, v));
    }
    case Opcode::kClz: {
      Value* v = bits < 8 ? b_.CreateAnd(x, (1 << bits) - 1) : x;
      Value* n = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, v, b_.getFalse());
      if (bits < 8) n = b_.CreateSub(n, ConstantInt::get(x->getType(), 8 - bits));
      return Round(t, n);
    }
    default:
      Fail(absl::UnimplementedError(
          absl::StrCat(op.name(), ": no kernel can compute ", OpName(op.opcode()), " of ", Name(t))));
      return in;
  }
}

Val ElementEmitter::BinaryInt(Opcode op, PrimitiveType t, const Val& a, const Val& c) {
  Value *x = a.v, *y = c.v;
  bool is_signed = IsSigned(t), pred = t == PrimitiveType::kPred;
  int bits = BitWidth(t);
  auto shift = [&](auto make, bool arithmetic) -> Val {
    // The amount counts as unsigned: a negative one is too large.
    Value* amount = y;
    if (bits < 8) amount = b_.CreateAnd(y, ConstantInt::get(y->getType(), 0xff));
    Value* limit = ConstantInt::get(y->getType(), bits);
    Value* fits = b_.CreateICmpULT(amount, limit);
    Value* safe = b_.CreateSelect(fits, amount, ConstantInt::get(y->getType(), arithmetic ? bits - 1 : 0));
    Value* r = make(safe);
    if (!arithmetic) r = b_.CreateSelect(fits, r, llvm::Constant::getNullValue(r->getType()));
    return Round(t, r);
  };
  switch (op) {
    case Opcode::kAdd:
      return pred ? Val{b_.CreateOr(x, y)} : Round(t, b_.CreateAdd(x, y));
    case Opcode::kSubtract:
      return pred ? Val{b_.CreateXor(x, y)} : Round(t, b_.CreateSub(x, y));
    case Opcode::kMultiply:
      return pred ? Val{b_.CreateAnd(x, y)} : Round(t, b_.CreateMul(x, y));
    case Opcode::kAnd:
      return {b_.CreateAnd(x, y)};
    case Opcode::kOr:
      return {b_.CreateOr(x, y)};
    case Opcode::kXor:
      return {b_.CreateXor(x, y)};
    case Opcode::kMaximum:
      if (pred) return {b_.CreateOr(x, y)};
      return {b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y)};
    case Opcode::kMinimum:
      if (pred) return {b_.CreateAnd(x, y)};
      return {b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y)};
    case Opcode::kDivide:
      return Round(t, DivideInt(t, x, y, false));
    case Opcode::kRemainder:
      return Round(t, DivideInt(t, x, y, true));
    case Opcode::kPower:
      return Round(t, PowerInt(t, x, y));
    case Opcode::kShiftLeft:
      return shift([&](Value* n) { return b_.CreateShl(x, n); }, false);
    case Opcode::kShiftRightArithmetic: {
      // The highest bit of an unsigned type narrower than its byte does not stand where the byte has its sign.
      Value* v = !is_signed && bits < 8 ? b_.CreateAShr(b_.CreateShl(x, 8 - bits), 8 - bits) : x;
      return shift([&](Value* n) { return b_.CreateAShr(v, n); }, true);
    }
    case Opcode::kShiftRightLogical: {
      Value* v = bits < 8 ? b_.CreateAnd(x, (1 << bits) - 1) : x;
      return shift([&](Value* n) { return b_.CreateLShr(v, n); }, false);
    }
    default:
      Fail(absl::UnimplementedError(absl::StrCat("no kernel can compute ", OpName(op), " of ", Name(t))));
      return a;
  }
}

// x / 0 is all ones, x % 0 is x, and the most negative number by -1 wraps; the hardware would trap on both.
Value* ElementEmitter::DivideInt(PrimitiveType t, Value* x, Value* y, bool remainder) {
  Type* type = x->getType();
  bool is_signed = IsSigned(t);
  int width = type->getScalarSizeInBits();
  Value* zero = llvm::Constant::getNullValue(type);
  Value* one = ConstantInt::get(type, 1);
  Value* by_zero = b_.CreateICmpEQ(y, zero);
  Value* quotient;
  if (width <= 32 && type->isVectorTy() && !llvm::isa<llvm::Constant>(y)) {
    // There is no vector division of integers, but a quotient of doubles is exact enough to truncate below 2^32.
    Type* wide = WithLanes(b_.getDoubleTy(), x);
    Value* safe = b_.CreateSelect(by_zero, one, y);
    auto to_double = [&](Value* v) { return is_signed ? b_.CreateSIToFP(v, wide) : b_.CreateUIToFP(v, wide); };
    Value* q = b_.CreateFDiv(to_double(x), to_double(safe));
    Type* i64 = WithLanes(b_.getInt64Ty(), x);
    if (width == 32) {
      quotient = b_.CreateTrunc(b_.CreateFPToSI(q, i64), type);
    } else {
      quotient = b_.CreateTrunc(b_.CreateFPToSI(q, WithLanes(b_.getInt32Ty(), x)), type);
    }
  } else {
    // Zeros are replaced by a selection of their own, which is a constant if `y` is one. LLVM takes a division by a
    // constant vector with a zero for undefined in all lanes, even if a selection never takes the lane of the zero.
    Value* safe = b_.CreateSelect(by_zero, one, y);
    if (is_signed) {
      Value* lowest = ConstantInt::get(type, llvm::APInt::getSignedMinValue(width));
      Value* wraps =
          b_.CreateAnd(b_.CreateICmpEQ(x, lowest), b_.CreateICmpEQ(safe, ConstantInt::getAllOnesValue(type)));
      safe = b_.CreateSelect(wraps, one, safe);  // the lowest by 1 is the wrapped result
    }
    quotient = is_signed ? b_.CreateSDiv(x, safe) : b_.CreateUDiv(x, safe);
  }
  if (!remainder) {
    return b_.CreateSelect(by_zero, ConstantInt::getAllOnesValue(type), quotient);
  }
  return b_.CreateSelect(by_zero, x, b_.CreateSub(x, b_.CreateMul(quotient, y)));
}

Value* ElementEmitter::PowerInt(PrimitiveType t, Value* x, Value* y) {
  Type* type = x->getType();
  Value* one = ConstantInt::get(type, 1);
  Value* zero = llvm::Constant::getNullValue(type);
  Value *result = one, *base = x, *e = y;
  int bits = static_cast<int>(type->getScalarSizeInBits());
  for (int i = 0; i < bits; ++i) {
    Value* odd = b_.CreateICmpNE(b_.CreateAnd(e, one), zero);
    result = b_.CreateSelect(odd, b_.CreateMul(result, base), result);
    if (i + 1 == bits) break;
    base = b_.CreateMul(base, base);
    e = b_.CreateLShr(e, one);
  }
  if (!IsSigned(t)) return result;
  // A negative exponent: 1 stays, -1 alternates, the rest round to 0.
  Value* minus_one = ConstantInt::getAllOnesValue(type);
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(y, one), zero);
  Value* negative = b_.CreateSelect(b_.CreateICmpEQ(x, one), one, zero);
  negative = b_.CreateSelect(b_.CreateICmpEQ(x, minus_one), b_.CreateSelect(odd, minus_one, one), negative);
  return b_.CreateSelect(b_.CreateICmpSLT(y, zero), negative, result);
}

Val ElementEmitter::Compare(const Instruction& op, const Val& x, const Val& y) {
  PrimitiveType t = op.operand(0)->shape().element_type();
  ComparisonDirection d = op.direction();
  using D = ComparisonDirection;
  using P = llvm::CmpInst::Predicate;
  if (IsComplex(t)) {
    Value* same_real = b_.CreateFCmpOEQ(x.v, y.v);
    if (d == D::kEq || d == D::kNe) {
      Value* equal = b_.CreateAnd(same_real, b_.CreateFCmpOEQ(x.im, y.im));
      return {d == D::kNe ? b_.CreateNot(equal) : equal};
    }
    // By the real parts, and where they are equal by the imaginary ones.
    const bool less = d == D::kLt || d == D::kLe, strict = d == D::kLt || d == D::kGt;
    const P beyond = less ? P::FCMP_OLT : P::FCMP_OGT, last = strict ? beyond : less ? P::FCMP_OLE : P::FCMP_OGE;
    return {b_.CreateOr(b_.CreateFCmp(beyond, x.v, y.v), b_.CreateAnd(same_real, b_.CreateFCmp(last, x.im, y.im)))};
  }
  bool total = op.attrs().GetEnum<ComparisonType>(AttrId::kComparisonType) == ComparisonType::kTotalOrder &&
               op.attrs().Has(AttrId::kComparisonType);
  if (IsFloat(t) && !total) {
    P p = d == D::kEq   ? P::FCMP_OEQ
          : d == D::kNe ? P::FCMP_UNE
          : d == D::kGe ? P::FCMP_OGE
          : d == D::kGt ? P::FCMP_OGT
          : d == D::kLe ? P::FCMP_OLE
                        : P::FCMP_OLT;
    return {b_.CreateFCmp(p, x.v, y.v)};
  }
  Value *a = x.v, *c = y.v;
  bool is_signed = IsSigned(t);
  if (IsFloat(t)) {
    // As signed integers, the order of negative floats turned round.
    int bits = static_cast<int>(a->getType()->getScalarSizeInBits());
    Type* integer = WithLanes(b_.getIntNTy(bits), a);
    auto ordered = [&](Value* v) {
      Value* u = b_.CreateBitCast(v, integer);
      Value* flip = b_.CreateLShr(b_.CreateAShr(u, bits - 1), 1);
      return b_.CreateXor(u, flip);
    };
    a = ordered(a);
    c = ordered(c);
    is_signed = true;
  }
  P p = d == D::kEq   ? P::ICMP_EQ
        : d == D::kNe ? P::ICMP_NE
        : d == D::kGe ? (is_signed ? P::ICMP_SGE : P::ICMP_UGE)
        : d == D::kGt ? (is_signed ? P::ICMP_SGT : P::ICMP_UGT)
        : d == D::kLe ? (is_signed ? P::ICMP_SLE : P::ICMP_ULE)
                      : (is_signed ? P::ICMP_SLT : P::ICMP_ULT);
  return {b_.CreateICmp(p, a, c)};
}

}  // namespace backplane::codegen
