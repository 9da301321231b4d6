// Conversions between element types, the 8-bit and narrower floats, reduced precision.
#include <algorithm>
#include <cmath>

#include "core/types/float_format.h"
#include "core/types/numeric.h"
#include "sdk/codegen/element_emitter.h"
#include "sdk/codegen/lanes.h"

namespace backplane::codegen {

using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

namespace {

// A small float format, read off the conversions of core/types.
struct SmallFormat {
  int bits = 0, mantissa = 0, exponent = 0, bias = 0;
  uint32_t max_finite = 0;  // pattern without sign
  uint32_t overflow = 0;    // pattern of what is too large, sign to be added unless `overflow_plain`
  uint32_t nan_positive = 0, nan_negative = 0;
  bool overflow_plain = false;
  bool has_minus_zero = true;
};

SmallFormat FormatOf(PrimitiveType t) {
  SmallFormat f;
  f.bits = BitWidth(t);
  switch (t) {
    case PrimitiveType::kF8E5M2:
    case PrimitiveType::kF8E5M2FNUZ:
      f.mantissa = 2;
      break;
    case PrimitiveType::kF8E3M4:
      f.mantissa = 4;
      break;
    case PrimitiveType::kF4E2M1FN:
      f.mantissa = 1;
      break;
    case PrimitiveType::kF6E3M2FN:
      f.mantissa = 2;
      break;
    default:
      f.mantissa = 3;
      break;
  }
  f.exponent = f.bits - 1 - f.mantissa;
  // The smallest normal number has exponent field 1; its value is 2^(1 - bias).
  float smallest = SmallBitsToFloat(t, static_cast<uint8_t>(1u << f.mantissa));
  f.bias = 1 - std::ilogb(smallest);
  float inf = __builtin_inff(), nan = __builtin_nanf("");
  uint32_t sign = 1u << (f.bits - 1);
  uint32_t plus = FloatToSmallBits(t, inf), minus = FloatToSmallBits(t, -inf);
  f.overflow = plus;
  f.overflow_plain = plus == minus;
  f.nan_positive = FloatToSmallBits(t, nan);
  f.nan_negative = FloatToSmallBits(t, -nan);
  f.has_minus_zero = FloatToSmallBits(t, -0.0f) != 0;
  for (uint32_t p = 0; p < sign; ++p) {
    float v = SmallBitsToFloat(t, static_cast<uint8_t>(p));
    if (v < inf) f.max_finite = p;
  }
  return f;
}

}  // namespace

Value* ElementEmitter::DecodeSmall(PrimitiveType t, Value* bits) {
  llvm::GlobalVariable*& table = decode_tables_[t];
  if (!table) {
    std::vector<float> values(256);
    for (int i = 0; i < 256; ++i) values[i] = SmallBitsToFloat(t, static_cast<uint8_t>(i));
    auto* data = llvm::ConstantDataArray::get(context_, values);
    table = new llvm::GlobalVariable(*module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data, "",
                                     nullptr, llvm::GlobalValue::NotThreadLocal, target_->constant_address_space);
    table->setAlignment(llvm::Align(64));
  }
  Value* index = b_.CreateZExt(bits, WithLanes(b_.getInt32Ty(), bits));
  Value* address = b_.CreateGEP(b_.getFloatTy(), table, index);
  int lanes = GetLanes(bits);
  if (lanes == 0) return b_.CreateLoad(b_.getFloatTy(), address);
  return b_.CreateMaskedGather(llvm::FixedVectorType::get(b_.getFloatTy(), lanes), address, llvm::Align(4));
}

Value* ElementEmitter::EncodeSmall(PrimitiveType t, Value* x) {
  Type* i32 = WithLanes(b_.getInt32Ty(), x);
  Type* i8 = WithLanes(b_.getInt8Ty(), x);
  auto c32 = [&](uint32_t c) { return ConstantInt::get(i32, c); };
  Value* u = b_.CreateBitCast(x, i32);
  if (t == PrimitiveType::kF8E8M0FNU) {
    Value* valid =
        b_.CreateAnd(b_.CreateFCmpOGT(x, Num(x, 0)), b_.CreateFCmpOLT(x, ConstantFP::getInfinity(x->getType())));
    Value* rounded = b_.CreateLShr(b_.CreateAdd(u, c32(0x00400000)), 23);
    Value* tiny = b_.CreateZExt(b_.CreateICmpUGT(u, c32(0x00400000)), i32);
    Value* r = b_.CreateSelect(b_.CreateICmpULT(u, c32(0x00800000)), tiny, rounded);
    return b_.CreateTrunc(b_.CreateSelect(valid, r, c32(0xff)), i8);
  }
  SmallFormat f = FormatOf(t);
  Value* sign = b_.CreateShl(b_.CreateLShr(u, 31), f.bits - 1);
  Value* magnitude = b_.CreateAnd(u, c32(0x7fffffff));
  Value* is_nan = b_.CreateICmpUGT(magnitude, c32(0x7f800000));
  // All formats end below 2^20: what lies above overflows all the same.
  magnitude = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, magnitude, c32((127 + 20) << 23));
  Value* a = b_.CreateBitCast(magnitude, x->getType());
  // Adding a power of two whose last place is one unit of the target rounds to nearest even.
  Value* exponent =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, b_.CreateLShr(magnitude, 23), c32(127 + 1 - f.bias));
  Value* magic = b_.CreateBitCast(b_.CreateShl(b_.CreateAdd(exponent, c32(23 - f.mantissa)), 23), x->getType());
  Value* rounded = b_.CreateFSub(b_.CreateFAdd(a, magic), magic);
  Value* r = b_.CreateBitCast(rounded, i32);
  Value* normal =
      b_.CreateSub(b_.CreateLShr(r, 23 - f.mantissa), c32(static_cast<uint32_t>(127 - f.bias) << f.mantissa));
  Value* units = b_.CreateFMul(rounded, Num(x, std::ldexp(1.0, f.mantissa - (1 - f.bias))));
  Value* is_small = b_.CreateFCmpOLT(rounded, Num(x, std::ldexp(1.0, 1 - f.bias)));
  Value* safe_units = b_.CreateSelect(is_small, units, Num(x, 0));
  Value* pattern = b_.CreateSelect(is_small, b_.CreateFPToUI(safe_units, i32), normal);
  Value* over = b_.CreateICmpUGT(pattern, c32(f.max_finite));
  Value* signed_pattern = b_.CreateOr(pattern, sign);
  Value* too_large = f.overflow_plain ? c32(f.overflow) : b_.CreateOr(c32(f.overflow), sign);
  Value* result = b_.CreateSelect(over, too_large, signed_pattern);
  if (!f.has_minus_zero) result = b_.CreateSelect(b_.CreateICmpEQ(pattern, c32(0)), c32(0), result);
  Value* nan = b_.CreateSelect(b_.CreateICmpSLT(u, c32(0)), c32(f.nan_negative), c32(f.nan_positive));
  return b_.CreateTrunc(b_.CreateSelect(is_nan, nan, result), i8);
}

Val ElementEmitter::Convert(const Val& v, PrimitiveType from, PrimitiveType to) {
  if (from == to) return v;
  Value* x = v.v;
  Type* type = WithLanes(ComputeType(to), x);
  if (IsComplex(to)) {
    PrimitiveType part = ComplexPart(to);
    if (IsComplex(from)) {
      return {Convert({v.v}, ComplexPart(from), part).v, Convert({v.im}, ComplexPart(from), part).v};
    }
    return {Convert(v, from, part).v, llvm::Constant::getNullValue(type)};
  }
  if (IsComplex(from))
    return Convert({v.v}, ComplexPart(from), to);  // the imaginary part does not count, for pred either
  if (to == PrimitiveType::kPred) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return {IsFloat(from) ? b_.CreateFCmpUNE(x, zero) : b_.CreateICmpNE(x, zero)};
  }
  if (from == PrimitiveType::kPred) {
    if (IsFloat(to)) {
      if (to == PrimitiveType::kF8E8M0FNU)
        return Round(to, b_.CreateSelect(x, ConstantFP::get(type, 1), ConstantFP::get(type, 0)));
      return {b_.CreateSelect(x, ConstantFP::get(type, 1), ConstantFP::get(type, 0))};
    }
    return Round(to, b_.CreateZExt(x, type));
  }
  if (!IsFloat(from)) {
    if (IsFloat(to)) return Round(to, IsSigned(from) ? b_.CreateSIToFP(x, type) : b_.CreateUIToFP(x, type));
    return Round(to, IsSigned(from) ? b_.CreateSExtOrTrunc(x, type) : b_.CreateZExtOrTrunc(x, type));
  }
  if (!IsFloat(to)) {
    Value* r = math_.FloatToInt(b_, x, type->getScalarType(), IsSigned(to));
    int bits = BitWidth(to);
    if (bits < 8) {
      int64_t hi = IsSigned(to) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, lo = IsSigned(to) ? -(1 << (bits - 1)) : 0;
      bool s = IsSigned(to);
      r = b_.CreateBinaryIntrinsic(s ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, r,
                                   ConstantInt::get(type, hi, true));
      if (s) r = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, r, ConstantInt::get(type, lo, true));
    }
    return {r};
  }
  if (to == PrimitiveType::kF64) return {b_.CreateFPExt(x, type)};
  if (from == PrimitiveType::kF64) {
    Value* f = b_.CreateFPTrunc(x, type);
    if (to == PrimitiveType::kF32) return {f};
    // To odd first, so that the second rounding sees that something was lost.
    Type* i32 = WithLanes(b_.getInt32Ty(), x);
    Value* back = b_.CreateFPExt(f, x->getType());
    Value* bits = b_.CreateBitCast(f, i32);
    Value* larger = b_.CreateFCmpOGT(M(Fn::kAbs, back), M(Fn::kAbs, x));
    Value* toward_zero = b_.CreateSub(bits, b_.CreateZExt(larger, i32));
    Value* odd = b_.CreateBitCast(b_.CreateOr(toward_zero, ConstantInt::get(i32, 1)), type);
    Value* inexact = b_.CreateFCmpONE(back, x);
    return Round(to, b_.CreateSelect(inexact, odd, f));
  }
  if (to == PrimitiveType::kF32) return {x};  // narrow floats are held in f32
  return Round(to, x);
}

Val ElementEmitter::BitcastConvert(const Val& v, PrimitiveType from, PrimitiveType to) {
  if (from == to || IsComplex(from)) return v;
  Value* raw = ToStorage(from, v);
  if (IsSubByte(from)) {  // storage extends the bits by those of the sign or by zeros
    raw = b_.CreateAnd(raw, (1 << BitWidth(from)) - 1);
    raw = WrapInt(to, raw);
  }
  return FromStorage(to, b_.CreateBitCast(raw, WithLanes(StorageType(to), raw)));
}

Val ElementEmitter::ReducePrecision(PrimitiveType t, const Val& in, int exponent_bits, int mantissa_bits) {
  bool wide = t == PrimitiveType::kF64;
  // Bits beyond those of the type change nothing; the type that is computed in may have more of both.
  const FloatFormat format = GetFloatFormat(t);
  const bool all_exponents = exponent_bits >= format.exponent_bits;
  if (all_exponents && mantissa_bits >= format.mantissa_bits) return in;
  if (all_exponents) exponent_bits = 11;
  if (mantissa_bits >= format.mantissa_bits) mantissa_bits = 52;
  int bits = wide ? 64 : 32, src_mantissa = wide ? 52 : 23, src_exponent = wide ? 11 : 8;
  Type* type = WithLanes(b_.getIntNTy(bits), in.v);
  auto c = [&](uint64_t k) { return ConstantInt::get(type, k); };
  Value* original = b_.CreateBitCast(in.v, type);
  Value* u = original;
  if (mantissa_bits < src_mantissa) {
    int shift = src_mantissa - mantissa_bits;
    Value* last = b_.CreateAnd(b_.CreateLShr(u, shift), c(1));
    u = b_.CreateAdd(u, b_.CreateAdd(last, c((uint64_t{1} << (shift - 1)) - 1)));
    u = b_.CreateAnd(u, c(~((uint64_t{1} << shift) - 1)));
    if (all_exponents && format.least > -126) {  // subnormal numbers of the type: to a multiple of their last place
      Value* size = M(Fn::kAbs, in.v);
      Value* scale = Num(size, std::ldexp(1.5, format.least - mantissa_bits + src_mantissa));
      Value* rounded = M(Fn::kCopySign, b_.CreateFSub(b_.CreateFAdd(size, scale), scale), in.v);
      Value* subnormal = b_.CreateFCmpOLT(size, Num(size, std::ldexp(1.0, format.least)));
      u = b_.CreateSelect(subnormal, b_.CreateBitCast(rounded, type), u);
    }
  }
  uint64_t sign_mask = uint64_t{1} << (bits - 1);
  uint64_t exponent_mask = ((uint64_t{1} << src_exponent) - 1) << src_mantissa;
  if (exponent_bits < src_exponent) {
    uint64_t bias = (uint64_t{1} << (src_exponent - 1)) - 1, reduced = (uint64_t{1} << (exponent_bits - 1)) - 1;
    Value* e = b_.CreateAnd(u, c(exponent_mask));
    Value* sign = b_.CreateAnd(u, c(sign_mask));
    Value* over = b_.CreateICmpUGT(e, c((bias + reduced) << src_mantissa));
    Value* under = b_.CreateICmpULE(e, c((bias - reduced) << src_mantissa));
    u = b_.CreateSelect(over, b_.CreateOr(sign, c(exponent_mask)), u);
    u = b_.CreateSelect(under, sign, u);
  }
  Value* is_nan = b_.CreateFCmpUNO(in.v, in.v);
  // A format without mantissa has no NaN: it becomes infinity.
  Value* infinity = b_.CreateOr(b_.CreateAnd(original, c(sign_mask)), c(exponent_mask));
  u = b_.CreateSelect(is_nan, mantissa_bits == 0 ? infinity : original, u);
  return Round(t, b_.CreateBitCast(u, in.v->getType()));
}

}  // namespace backplane::codegen
