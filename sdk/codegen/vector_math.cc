#include "sdk/codegen/vector_math.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sdk/codegen/vector_math_emitter.h"

namespace backplane::codegen {
namespace {

V EmitRoundAfz(MathEmitter& e, V x) {
  // The largest number below a half: a half itself would carry 0.49999997 over.
  V half = e.CopySign(e.C(e.f64 ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2), x);
  return e.Trunc(e.Add(x, half));
}

V EmitSign(MathEmitter& e, V x) { return e.Select(e.b.CreateFCmpONE(x, e.C(0.0)), e.CopySign(e.C(1.0), x), x); }

V EmitMaximum(MathEmitter& e, V x, V y, bool minimum) {
  const bool x_is_number = llvm::isa<llvm::Constant>(x) && !llvm::cast<llvm::Constant>(x)->isNaN();
  const bool y_is_number = llvm::isa<llvm::Constant>(y) && !llvm::cast<llvm::Constant>(y)->isNaN();
  if (y_is_number && !x_is_number) std::swap(x, y);
  // One instruction; gives y where either is NaN.
  V chosen = e.Select(minimum ? e.Lt(x, y) : e.Gt(x, y), x, y);
  if (x_is_number || y_is_number) return chosen;
  return e.Select(e.IsNaN(x), x, chosen);
}

// The exact remainder by one division where the quotient fits the significand; lane by lane in integers where not.
V EmitRemainder(MathEmitter& e, V x, V y) {
  const int most = e.f64 ? 2 * e.target->F64Lanes() : 2 * e.target->F32Lanes();
  return e.CallOutOfLine("fmod", {x, y}, most, [](MathEmitter& f, const std::vector<V>& a) -> V {
    V x = a[0], y = a[1];
    llvm::Function* function = f.b.GetInsertBlock()->getParent();
    llvm::LLVMContext& context = f.module->getContext();
    V ax = f.Abs(x), ay = f.Abs(y);
    // Without a fused multiply-add f32 is divided in f64, whose product is exact, and f64 by a product in two parts.
    const bool fused = f.target->has_fma;
    MathEmitter w = fused ? f : f.As(f.b.getDoubleTy());
    const bool widened = f.f64 != w.f64;
    V dividend = widened ? f.b.CreateFPExt(ax, w.type) : ax, divisor = widened ? f.b.CreateFPExt(ay, w.type) : ay;
    V quotient = w.Trunc(w.Div(dividend, divisor));
    // Rounding the quotient can only have made it one too large; what is left is exact then, too.
    V r;
    if (fused || widened) {
      r = w.FmaNeg(quotient, divisor, dividend);
    } else {
      DoubleValue product = TwoProduct(w, quotient, divisor);
      r = w.Sub(w.Sub(dividend, product.hi), product.lo);
    }
    r = w.Select(w.Lt(r, w.C(0.0)), w.Add(r, divisor), r);
    if (widened) r = f.b.CreateFPTrunc(r, f.type);
    r = f.CopySign(r, x);
    V easy = w.Lt(quotient, w.C(widened ? 0x1p28 : w.f64 ? 0x1p52 : 0x1p23));
    if (!widened) easy = f.b.CreateAnd(easy, f.Ge(ay, f.C(f.f64 ? 0x1p-960 : 0x1p-100)));
    // Beyond, splitting the divisor into halves would overflow.
    if (!fused && !widened) easy = f.b.CreateAnd(easy, f.Le(ay, f.C(0x1p990)));
    V plain_case = f.b.CreateOr(easy, f.Lt(ax, ay));  // |x| < |y|: x itself
    r = f.Select(f.Lt(ax, ay), x, r);
    llvm::BasicBlock* before = f.b.GetInsertBlock();
    auto* slow = llvm::BasicBlock::Create(context, "each", function);
    auto* after = llvm::BasicBlock::Create(context, "done", function);
    f.b.CreateCondBr(f.Any(f.b.CreateNot(plain_case)), slow, after);
    f.b.SetInsertPoint(slow);
    V each = ExactRemainder(f, x, y);
    llvm::BasicBlock* slow_end = f.b.GetInsertBlock();
    f.b.CreateBr(after);
    f.b.SetInsertPoint(after);
    llvm::PHINode* phi = f.b.CreatePHI(f.type, 2);
    phi->addIncoming(r, before);
    phi->addIncoming(each, slow_end);
    return phi;
  });
}

V EmitHypot(MathEmitter& e, V x, V y) {
  V a = e.Abs(x), c = e.Abs(y);
  V infinite = e.b.CreateOr(e.Eq(a, e.Inf()), e.Eq(c, e.Inf()));
  V r;
  if (!e.f64) {
    MathEmitter d = e.As(e.b.getDoubleTy());
    V wide_x = e.b.CreateFPExt(x, d.type), wide_y = e.b.CreateFPExt(y, d.type);
    r = e.b.CreateFPTrunc(d.Sqrt(d.Fma(wide_x, wide_x, d.Mul(wide_y, wide_y))), e.type);
  } else {
    V larger = e.Select(e.Gt(a, c), a, c);
    V scale = e.Select(e.Gt(larger, e.C(0x1p500)), e.C(0x1p-600),
                       e.Select(e.Lt(larger, e.C(0x1p-450)), e.C(0x1p600), e.C(1.0)));
    V back = e.Select(e.Gt(larger, e.C(0x1p500)), e.C(0x1p600),
                      e.Select(e.Lt(larger, e.C(0x1p-450)), e.C(0x1p-600), e.C(1.0)));
    V sx = e.Mul(x, scale), sy = e.Mul(y, scale);
    r = e.Mul(e.Sqrt(e.Fma(sx, sx, e.Mul(sy, sy))), back);
  }
  return e.Select(infinite, e.Inf(), r);
}

bool IsBrainOrHalf(llvm::Type* element) { return element->isHalfTy() || element->isBFloatTy(); }

// f16 to f32 by its bits: the exponent field moves over, and a product with a power of two, which is exact, makes its
// bias that of f32, for subnormal numbers too.
V WidenHalf(llvm::IRBuilderBase& b, V bits, llvm::Type* f32, llvm::Type* i32) {
  auto constant = [&](uint32_t c) { return llvm::ConstantInt::get(i32, c); };
  V wide = b.CreateZExt(bits, i32);
  V magnitude = b.CreateShl(b.CreateAnd(wide, constant(0x7fff)), constant(13));
  V finite = b.CreateBitCast(b.CreateFMul(b.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0x1p112)), i32);
  V special = b.CreateOr(magnitude, constant(0x7f800000));
  special = b.CreateSelect(b.CreateICmpUGT(magnitude, constant(0x7c00u << 13)), b.CreateOr(special, constant(0x400000)),
                           special);
  V result = b.CreateSelect(b.CreateICmpUGE(magnitude, constant(0x7c00u << 13)), special, finite);
  V sign = b.CreateShl(b.CreateAnd(wide, constant(0x8000)), constant(16));
  return b.CreateBitCast(b.CreateOr(result, sign), f32);
}

// f32 to the bits of f16, to nearest even.
V NarrowToHalf(llvm::IRBuilderBase& b, V x, llvm::Type* f32, llvm::Type* i32) {
  auto constant = [&](uint32_t c) { return llvm::ConstantInt::get(i32, c); };
  V bits = b.CreateBitCast(x, i32);
  V magnitude = b.CreateAnd(bits, constant(0x7fffffff));
  V odd = b.CreateAnd(b.CreateLShr(magnitude, constant(13)), constant(1));
  // What is too large by less than a factor of two rounds up into infinity by itself.
  V normal = b.CreateAdd(magnitude, b.CreateAdd(odd, constant(0xfffu - (112u << 23))));
  normal = b.CreateLShr(normal, constant(13));
  // The last place of a half is that of subnormal numbers.
  V half = llvm::ConstantFP::get(f32, 0.5);
  V sum = b.CreateBitCast(b.CreateFAdd(b.CreateBitCast(magnitude, f32), half), i32);
  V subnormal = b.CreateSub(sum, constant(0x3f000000));
  V result = b.CreateSelect(b.CreateICmpULT(magnitude, constant(0x38800000)), subnormal, normal);
  V nan = b.CreateOr(b.CreateAnd(b.CreateLShr(magnitude, constant(13)), constant(0x3ff)), constant(0x7e00));
  V beyond = b.CreateSelect(b.CreateICmpUGT(magnitude, constant(0x7f800000)), nan, constant(0x7c00));
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, constant(0x47800000)), beyond, result);
  return b.CreateOr(result, b.CreateAnd(b.CreateLShr(bits, constant(16)), constant(0x8000)));
}

V EmitSqrt(MathEmitter& e, V x) { return e.Sqrt(x); }
V EmitRsqrt(MathEmitter& e, V x) { return e.Div(e.C(1.0), e.Sqrt(x)); }

constexpr MathFunction kShortFunctions[] = {
    {MathFn::kRsqrt, EmitRsqrt, {1.5, 1.5}},
    {MathFn::kSqrt, EmitSqrt, {0.51, 0.51}},
};

const MathFunction* FindFunction(MathFn fn) {
  for (absl::Span<const MathFunction> functions :
       {absl::MakeConstSpan(kShortFunctions), ExpFunctions(), LogFunctions(), TrigFunctions()}) {
    for (const MathFunction& function : functions) {
      if (function.fn == fn) return &function;
    }
  }
  return nullptr;
}

}  // namespace

VectorMath::VectorMath(llvm::Module* module, const IrTarget* target) : module_(module), target_(target) {}

std::optional<MathFn> FindMathFn(Opcode opcode) {
  switch (opcode) {
#define OP_FUNCTION(e, text, types, stablehlo, since, accuracy_since, builder) \
  case Opcode::e:                                                              \
    return MathFn::e;
#include "core/ops/op_table.def"
    default:
      return std::nullopt;
  }
}

std::optional<MathError> VectorMath::GetErrorBound(MathFn fn) {
  const MathFunction* function = FindFunction(fn);
  return function == nullptr ? std::nullopt : std::optional(function->error);
}

V VectorMath::Emit(llvm::IRBuilderBase& b, MathFn fn, V x, V y) {
  llvm::Type* element = x->getType()->getScalarType();
  if (IsBrainOrHalf(element)) {
    // Signs are bits; everything else goes through f32.
    if (fn == MathFn::kNegate || fn == MathFn::kAbs) {
      auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
      llvm::Type* bits = b.getInt16Ty();
      if (vector != nullptr) bits = llvm::FixedVectorType::get(bits, vector->getNumElements());
      V raw = b.CreateBitCast(x, bits);
      raw = fn == MathFn::kAbs ? b.CreateAnd(raw, llvm::ConstantInt::get(bits, 0x7fff))
                               : b.CreateXor(raw, llvm::ConstantInt::get(bits, 0x8000));
      return b.CreateBitCast(raw, x->getType());
    }
    V wide_x = ConvertFloat(b, x, b.getFloatTy());
    V wide_y = y == nullptr ? nullptr : ConvertFloat(b, y, b.getFloatTy());
    return ConvertFloat(b, Emit(b, fn, wide_x, wide_y), element);
  }
  MathEmitter e(b, module_, target_, x->getType());
  if (const MathFunction* function = FindFunction(fn)) return function->emit(e, x);
  switch (fn) {
    case MathFn::kFloor:
      return e.Floor(x);
    case MathFn::kCeil:
      return e.Ceil(x);
    case MathFn::kRoundEven:
      return e.RoundEven(x);
    case MathFn::kRoundAfz:
      return EmitRoundAfz(e, x);
    case MathFn::kTrunc:
      return e.Trunc(x);
    case MathFn::kAbs:
      return e.Abs(x);
    case MathFn::kNegate:
      return e.Neg(x);
    case MathFn::kSign:
      return EmitSign(e, x);
    case MathFn::kPow:
      return EmitPow(e, x, y);
    case MathFn::kAtan2:
      return EmitAtan2(e, x, y);
    case MathFn::kRemainder:
      return EmitRemainder(e, x, y);
    case MathFn::kMaximum:
      return EmitMaximum(e, x, y, false);
    case MathFn::kMinimum:
      return EmitMaximum(e, x, y, true);
    case MathFn::kCopySign:
      return e.CopySign(x, y);
    case MathFn::kHypot:
      return EmitHypot(e, x, y);
    default:
      return nullptr;
  }
}

V VectorMath::ConvertFloat(llvm::IRBuilderBase& b, V x, llvm::Type* to, bool nan_is_bf16) {
  llvm::Type* from = x->getType()->getScalarType();
  if (from == to) return x;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  auto shaped = [&](llvm::Type* element) -> llvm::Type* {
    return vector == nullptr ? element : llvm::FixedVectorType::get(element, vector->getNumElements());
  };
  llvm::Type* f32 = shaped(b.getFloatTy());
  llvm::Type* i32 = shaped(b.getInt32Ty());
  llvm::Type* i16 = shaped(b.getInt16Ty());
  if (from->isBFloatTy()) {
    V bits = b.CreateShl(b.CreateZExt(b.CreateBitCast(x, i16), i32), llvm::ConstantInt::get(i32, 16));
    return ConvertFloat(b, b.CreateBitCast(bits, f32), to);
  }
  if (from->isHalfTy()) {
    V wide = target_->has_f16_conversions ? b.CreateFPExt(x, f32) : WidenHalf(b, b.CreateBitCast(x, i16), f32, i32);
    return ConvertFloat(b, wide, to);
  }
  if (from->isDoubleTy() && !to->isFloatTy()) {
    // Two roundings could differ from one. Rounding to odd first (towards zero, and the last bit set if anything was
    // lost) keeps what the second one needs to know.
    V narrow = b.CreateFPTrunc(x, f32);
    V back = b.CreateFPExt(narrow, x->getType());
    V inexact = b.CreateFCmpONE(back, x);  // not for NaN
    V grew = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                             b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x));
    V bits = b.CreateBitCast(narrow, i32);
    bits = b.CreateSub(bits, b.CreateZExt(grew, i32));
    bits = b.CreateOr(bits, b.CreateZExt(inexact, i32));
    return ConvertFloat(b, b.CreateBitCast(bits, f32), to);
  }
  if (to->isHalfTy() && !target_->has_f16_conversions) {
    return b.CreateBitCast(b.CreateTrunc(NarrowToHalf(b, x, f32, i32), i16), shaped(to));
  }
  if (to->isBFloatTy() && !target_->has_bf16_conversions) {
    V bits = b.CreateBitCast(x, i32);
    auto constant = [&](uint32_t c) { return llvm::ConstantInt::get(i32, c); };
    V odd = b.CreateAnd(b.CreateLShr(bits, constant(16)), constant(1));
    V rounded = b.CreateAdd(bits, b.CreateAdd(odd, constant(0x7fff)));
    // A NaN stays, because the sum of zeros and 0x7fff + odd does not reach the upper half; others might overflow.
    V quiet = b.CreateOr(bits, constant(0x400000));
    V chosen = nan_is_bf16 ? rounded : b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded);
    V top = b.CreateTrunc(b.CreateLShr(chosen, constant(16)), i16);
    return b.CreateBitCast(top, shaped(to));
  }
  const bool widens = from->getPrimitiveSizeInBits() < to->getPrimitiveSizeInBits();
  return widens ? b.CreateFPExt(x, shaped(to)) : b.CreateFPTrunc(x, shaped(to));
}

V VectorMath::FloatToInt(llvm::IRBuilderBase& b, V x, llvm::Type* to, bool is_signed) {
  if (IsBrainOrHalf(x->getType()->getScalarType())) x = ConvertFloat(b, x, b.getFloatTy());
  MathEmitter e(b, module_, target_, x->getType());
  const int bits = static_cast<int>(to->getIntegerBitWidth());
  // Narrow results go through 32 bits, which the hardware converts to.
  llvm::Type* via = bits < 32 ? b.getInt32Ty() : to;
  const bool via_signed = is_signed || bits < 32;
  auto shaped = [&](llvm::Type* element) -> llvm::Type* {
    return e.lanes == 0 ? element : llvm::FixedVectorType::get(element, e.lanes);
  };
  const double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  const double beyond = std::ldexp(1.0, is_signed ? bits - 1 : bits);  // first value that does not fit
  // The largest float below that; where whole numbers are exact it is beyond - 1, and a fraction above it truncates.
  V top_float;
  if (bits <= (e.f64 ? 53 : 24)) {
    top_float = e.C(beyond - 1);
  } else {
    top_float = e.C(e.f64 ? std::nextafter(beyond, 0.0)
                          : static_cast<double>(std::nextafterf(static_cast<float>(beyond), 0.0f)));
  }
  V in_range = e.Select(e.b.CreateFCmpOGT(e.C(low), x), e.C(low), x);
  in_range = e.Select(e.Lt(top_float, in_range), top_float, in_range);
  in_range = e.Select(e.IsNaN(x), e.C(0.0), in_range);
  V result = via_signed ? b.CreateFPToSI(in_range, shaped(via)) : b.CreateFPToUI(in_range, shaped(via));
  if (bits > (e.f64 ? 53 : 24)) {
    const llvm::APInt most = is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
    result = e.Select(e.Ge(x, e.C(beyond)), llvm::ConstantInt::get(shaped(via), most), result);
  }
  return via == to ? result : b.CreateTrunc(result, shaped(to));
}

}  // namespace backplane::codegen
