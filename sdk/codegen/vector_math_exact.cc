// What the short ways of the elementary functions do not reach: angles of any size, remainders of any quotient. Integer
// arithmetic on one number; vectors take their lanes through it one after another, for it is needed rarely.
#include <cmath>

#include "sdk/codegen/vector_math_emitter.h"

namespace backplane::codegen {
namespace {

// 2 over pi as a binary fraction. 64 zeros stand before the point, so that small exponents find digits, too.
llvm::GlobalVariable* TwoOverPi(MathEmitter& e) {
  constexpr const char* kName = "backplane.math.two_over_pi";
  if (llvm::GlobalVariable* table = e.module->getNamedGlobal(kName)) return table;
  static constexpr uint64_t kDigits[] = {0,
                                         0xa2f9836e4e441529,
                                         0xfc2757d1f534ddc0,
                                         0xdb6295993c439041,
                                         0xfe5163abdebbc561,
                                         0xb7246e3a424dd2e0,
                                         0x06492eea09d1921c,
                                         0xfe1deb1cb129a73e,
                                         0xe88235f52ebb4484,
                                         0xe99c7026b45f7e41,
                                         0x3991d639835339f4,
                                         0x9c845f8bbdf9283b,
                                         0x1ff897ffde05980f,
                                         0xef2f118b5a0a6d1f,
                                         0x6d367ecf27cb09b7,
                                         0x4f463f669e5fea2d,
                                         0x7527bac7ebe5f17b,
                                         0x3d0739f78a5292ea,
                                         0x6bfb5fb11f8d5d08,
                                         0x56033046fc7b6bab};
  auto* data = llvm::ConstantDataArray::get(e.module->getContext(), llvm::ArrayRef<uint64_t>(kDigits));
  auto* table =
      new llvm::GlobalVariable(*e.module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data, kName,
                               nullptr, llvm::GlobalValue::NotThreadLocal, e.target->constant_address_space);
  table->setAlignment(llvm::Align(64));
  return table;
}

// `count` words of 64 digits, from digit `start` of the table on.
std::vector<V> DigitsFrom(MathEmitter& e, V start, int count) {
  llvm::GlobalVariable* table = TwoOverPi(e);
  V word = e.b.CreateLShr(start, 6), shift = e.b.CreateAnd(start, 63);
  std::vector<V> words, digits;
  for (int i = 0; i <= count; ++i) {
    V address = e.b.CreateGEP(e.b.getInt64Ty(), table, e.b.CreateAdd(word, e.b.getInt64(i)));
    words.push_back(e.b.CreateAlignedLoad(e.b.getInt64Ty(), address, llvm::Align(8)));
  }
  for (int i = 0; i < count; ++i) {
    digits.push_back(e.b.CreateIntrinsic(llvm::Intrinsic::fshl, {e.b.getInt64Ty()}, {words[i], words[i + 1], shift}));
  }
  return digits;
}

// The significand as a whole number m and the digit of 2/pi from which on a product with m counts modulo 4: for
// |x| = m 2^k the digit with the weight 2^(1 - k).
struct Magnitude {
  V significand, first_digit;
};
Magnitude Split(MathEmitter& e, V x) {
  const int bits = e.mantissa_bits();
  V raw = e.b.CreateAnd(e.Bits(x), e.I(e.f64 ? INT64_MAX : INT32_MAX));
  V field = e.b.CreateZExtOrTrunc(e.b.CreateLShr(raw, bits), e.b.getInt64Ty());
  V m = e.b.CreateOr(e.b.CreateAnd(raw, e.I((int64_t{1} << bits) - 1)), e.I(int64_t{1} << bits));
  // k = field - bias - bits; digit j, counted from 1, is bit 63 + j of the table; wanted is j = k - 1. Numbers that
  // nobody asks about may be smaller than any that are.
  V first = e.b.CreateSub(field, e.b.getInt64(e.exponent_bias() + bits - 62));
  first = e.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, first, e.b.getInt64(0));
  return {e.b.CreateZExtOrTrunc(m, e.b.getInt64Ty()), first};
}

// The nearest quarter turn of a fraction that begins with two whole binary digits, and what is left, signed.
struct Quarters {
  V number, rest;
};
Quarters SplitQuarters(MathEmitter& e, V top) {
  V number = e.b.CreateLShr(e.b.CreateAdd(top, e.b.getInt64(int64_t{1} << 61)), 62);
  return {number, e.b.CreateSub(top, e.b.CreateShl(number, 62))};
}

V NegateIf(MathEmitter& e, V number, V all_ones) { return e.b.CreateSub(e.b.CreateXor(number, all_ones), all_ones); }

constexpr double kHalfPiHi = 0x1.921fb54442d18p+0, kHalfPiLo = 0x1.1a62633145c07p-54;

// f32: 62 binary places of x * 2/pi leave 28 good ones where it comes closest to a whole number.
ReducedAngle ReduceScalar32(MathEmitter& e, V x) {
  Magnitude x_parts = Split(e, x);
  std::vector<V> digits = DigitsFrom(e, x_parts.first_digit, 2);
  V low = e.b.CreateLShr(e.b.CreateMul(x_parts.significand, e.b.CreateLShr(digits[1], 32)), 32);
  Quarters quarters = SplitQuarters(e, e.b.CreateAdd(e.b.CreateMul(x_parts.significand, digits[0]), low));
  V sign = e.b.CreateAShr(e.Bits(x), 31);
  V fraction = e.b.CreateSIToFP(quarters.rest, e.b.getDoubleTy());
  V angle = e.b.CreateFMul(fraction, llvm::ConstantFP::get(e.b.getDoubleTy(), std::ldexp(kHalfPiHi, -62)));
  V hi = e.b.CreateFPTrunc(angle, e.type);
  hi = e.Float(e.b.CreateXor(e.Bits(hi), e.b.CreateShl(sign, 31)));
  hi = e.Select(e.Eq(e.Abs(x), e.Inf()), e.NaN(), hi);
  return {hi, e.C(0.0), NegateIf(e, e.b.CreateTrunc(quarters.number, e.int_type), sign)};
}

// f64: 190 binary places of x * 2/pi. Of them 137 are right, and the first 61 after the point may be zeros.
ReducedAngle ReduceScalar64(MathEmitter& e, V x) {
  auto& b = e.b;
  llvm::Type* wide = b.getInt128Ty();
  auto widened = [&](V v) { return b.CreateZExt(v, wide); };
  auto shifted = [&](V high, V low, V by) {
    return b.CreateIntrinsic(llvm::Intrinsic::fshl, {b.getInt64Ty()}, {high, low, by});
  };
  Magnitude x_parts = Split(e, x);
  std::vector<V> digits = DigitsFrom(e, x_parts.first_digit, 3);
  V m = widened(x_parts.significand);
  V last = b.CreateMul(m, widened(digits[2]));
  V middle = b.CreateAdd(b.CreateMul(m, widened(digits[1])), b.CreateLShr(last, 64));
  V carry = b.CreateTrunc(b.CreateLShr(middle, 64), b.getInt64Ty());
  Quarters quarters = SplitQuarters(e, b.CreateAdd(b.CreateMul(x_parts.significand, digits[0]), carry));
  // The magnitude of what is left, up to one unit of the last place, with its first digit at the top of a word.
  V negative = b.CreateAShr(quarters.rest, 63);
  V f0 = b.CreateXor(quarters.rest, negative);
  V f1 = b.CreateXor(b.CreateTrunc(middle, b.getInt64Ty()), negative);
  V f2 = b.CreateXor(b.CreateTrunc(last, b.getInt64Ty()), negative);
  V zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, f0, b.getFalse());
  V top = shifted(f0, f1, zeros), next = shifted(f1, f2, zeros);
  // 53 digits, exactly, and the 63 after them.
  V hi = b.CreateSIToFP(b.CreateLShr(top, 11), e.type);
  V lo = b.CreateSIToFP(b.CreateLShr(shifted(top, next, b.getInt64(53)), 1), e.type);
  V sign = b.CreateAShr(e.Bits(x), 63);
  V scale = b.CreateShl(b.CreateSub(b.getInt64(1023 - 51), zeros), 52);
  scale = e.Float(b.CreateXor(scale, b.CreateShl(b.CreateXor(sign, negative), 63)));
  hi = e.Mul(hi, scale);
  lo = e.Mul(e.Mul(lo, e.C(0x1p-63)), scale);
  // Times pi/2.
  DoubleValue angle = TwoProduct(e, hi, e.C(kHalfPiHi));
  V rest = e.Fma(hi, e.C(kHalfPiLo), angle.lo);
  rest = e.Fma(lo, e.C(kHalfPiHi), rest);
  angle = FastTwoSum(e, angle.hi, rest);
  V no_angle = e.Eq(e.Abs(x), e.Inf());
  return {e.Select(no_angle, e.NaN(), angle.hi), angle.lo, NegateIf(e, quarters.number, sign)};
}

// Long division of the significands, as many binary digits at a time as a word holds.
V RemainderScalar(MathEmitter& e, V x, V y) {
  auto& b = e.b;
  const int bits = e.mantissa_bits();
  llvm::Type* word = b.getInt64Ty();
  auto magnitude = [&](V v) {
    return b.CreateZExtOrTrunc(b.CreateAnd(e.Bits(v), e.I(e.f64 ? INT64_MAX : INT32_MAX)), word);
  };
  auto constant = [&](int64_t c) { return b.getInt64(c); };
  const int64_t infinity = (e.f64 ? int64_t{2047} : int64_t{255}) << bits;
  V ax = magnitude(x), ay = magnitude(y);
  V none = b.CreateOr(b.CreateICmpUGE(ax, constant(infinity)),
                      b.CreateOr(b.CreateICmpUGT(ay, constant(infinity)), b.CreateICmpEQ(ay, constant(0))));
  V less = b.CreateICmpULT(ax, ay);
  // Where there is nothing to divide, zero by one: the division must not trap, and ends at once.
  V idle = b.CreateOr(none, less);
  V dividend = b.CreateSelect(idle, constant(0), ax), divisor = b.CreateSelect(idle, constant(1), ay);
  // value = m 2^(exponent + a constant), also for subnormal numbers.
  auto significand = [&](V v) {
    V normal = b.CreateICmpUGE(v, constant(int64_t{1} << bits));
    V fraction = b.CreateAnd(v, constant((int64_t{1} << bits) - 1));
    return b.CreateOr(fraction, b.CreateSelect(normal, constant(int64_t{1} << bits), constant(0)));
  };
  auto exponent = [&](V v) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, b.CreateLShr(v, bits), constant(1));
  };
  V m = significand(divisor), ey = exponent(divisor);
  V start = significand(dividend), distance = b.CreateSub(exponent(dividend), ey);
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(e.module->getContext(), "digits", function);
  auto* done = llvm::BasicBlock::Create(e.module->getContext(), "divided", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode *rest = b.CreatePHI(word, 2), *step = b.CreatePHI(word, 2), *left = b.CreatePHI(word, 2);
  V r = b.CreateURem(b.CreateShl(rest, step), m);
  V next_step = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, constant(63 - bits));
  V next_left = b.CreateSub(left, next_step);
  rest->addIncoming(start, before), rest->addIncoming(r, loop);
  step->addIncoming(constant(0), before), step->addIncoming(next_step, loop);
  left->addIncoming(distance, before), left->addIncoming(next_left, loop);
  V more = b.CreateAnd(b.CreateICmpNE(next_step, constant(0)), b.CreateICmpNE(r, constant(0)));
  b.CreateCondBr(more, loop, done);
  b.SetInsertPoint(done);
  // r 2^ey as a float: the first digit up to its place, as far as the exponent allows.
  V zeros = b.CreateSub(b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, r, b.getFalse()), constant(63 - bits));
  V up = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, zeros, b.CreateSub(ey, constant(1)));
  V field = b.CreateShl(b.CreateSub(b.CreateSub(ey, constant(1)), up), bits);
  V raw = b.CreateAdd(b.CreateShl(r, up), field);
  raw = b.CreateSelect(b.CreateICmpEQ(r, constant(0)), constant(0), raw);
  V exact = e.CopySign(e.Float(b.CreateZExtOrTrunc(raw, e.int_type)), x);
  return e.Select(none, e.NaN(), e.Select(less, x, exact));
}

// x in, hi, lo and quadrant out.
MathEmitter::ScalarFunction ReduceAngle(const MathEmitter& e) {
  return {"reduce_angle", 1, {e.type, e.type, e.int_type}, [](MathEmitter& s, const std::vector<V>& a) {
            const ReducedAngle r = s.f64 ? ReduceScalar64(s, a[0]) : ReduceScalar32(s, a[0]);
            return std::vector<V>{r.hi, r.lo, r.quadrant};
          }};
}

MathEmitter::ScalarFunction DivideForRemainder(const MathEmitter& e) {
  return {"remainder", 2, {e.type}, [](MathEmitter& s, const std::vector<V>& a) {
            return std::vector<V>{RemainderScalar(s, a[0], a[1])};
          }};
}

}  // namespace

ReducedAngle ReduceHugeAngle(MathEmitter& e, V x) {
  const std::vector<V> r = e.EachLane(ReduceAngle(e), {x});
  return {r[0], r[1], r[2]};
}

V ExactRemainder(MathEmitter& e, V x, V y) { return e.EachLane(DivideForRemainder(e), {x, y})[0]; }

void EmitExactMath(llvm::Module& module, const IrTarget& target) {
  IrTarget defining = target;
  defining.links_exact_math = false;
  llvm::IRBuilder<> b(module.getContext());
  for (llvm::Type* type : {b.getFloatTy(), b.getDoubleTy()}) {
    MathEmitter e(b, &module, &defining, type);
    for (const MathEmitter::ScalarFunction& f : {ReduceAngle(e), DivideForRemainder(e)}) {
      e.FindOrMake(f)->setLinkage(llvm::GlobalValue::ExternalLinkage);
    }
  }
}

}  // namespace backplane::codegen
