#include "sdk/codegen/element_emitter.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "sdk/codegen/lanes.h"

namespace backplane::codegen {

using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

bool IsSmallFloat(PrimitiveType t) { return IsFloat(t) && BitWidth(t) <= 8; }
bool IsNarrowFloat(PrimitiveType t) { return IsFloat(t) && BitWidth(t) <= 16; }

ElementEmitter::ElementEmitter(llvm::Module* module, const IrTarget* target)
    : module_(module),
      target_(target),
      context_(module->getContext()),
      b_(module->getContext()),
      math_(module, target) {}

Type* ElementEmitter::StorageType(PrimitiveType t) {
  switch (t) {
    case PrimitiveType::kF32:
      return b_.getFloatTy();
    case PrimitiveType::kF64:
      return b_.getDoubleTy();
    case PrimitiveType::kF16:
    case PrimitiveType::kBF16:
      return b_.getInt16Ty();
    case PrimitiveType::kC64:
      return llvm::ArrayType::get(b_.getFloatTy(), 2);
    case PrimitiveType::kC128:
      return llvm::ArrayType::get(b_.getDoubleTy(), 2);
    default:
      return b_.getIntNTy(ByteWidth(t) * 8);
  }
}

Type* ElementEmitter::ComputeType(PrimitiveType t) {
  if (t == PrimitiveType::kPred) return b_.getInt1Ty();
  if (IsComplex(t)) t = ComplexPart(t);
  if (t == PrimitiveType::kF64) return b_.getDoubleTy();
  if (IsFloat(t)) return b_.getFloatTy();
  return b_.getIntNTy(ByteWidth(t) * 8);
}

int ElementEmitter::GetLanes(Value* v) {
  auto* t = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return t ? static_cast<int>(t->getNumElements()) : 0;
}

Value* ElementEmitter::Splat(Value* v, int lanes) {
  if (lanes == 0 || v == nullptr || v->getType()->isVectorTy()) return v;
  return b_.CreateVectorSplat(lanes, v);
}

Val ElementEmitter::Splat(const Val& v, int lanes) {
  if (lanes == 0 || v.v->getType()->isVectorTy()) return v;
  return {Splat(v.v, lanes), Splat(v.im, lanes), Splat(v.stored, lanes)};
}

Val ElementEmitter::FromStorage(PrimitiveType t, Value* raw) {
  if (t == PrimitiveType::kPred) {
    return {b_.CreateICmpNE(raw, llvm::Constant::getNullValue(raw->getType())), nullptr, raw};
  }
  if (t == PrimitiveType::kBF16) {
    Value* wide = b_.CreateShl(b_.CreateZExt(raw, WithLanes(b_.getInt32Ty(), raw)), 16);
    return {b_.CreateBitCast(wide, WithLanes(b_.getFloatTy(), raw)), nullptr, raw};
  }
  if (t == PrimitiveType::kF16) {
    Value* half = b_.CreateBitCast(raw, WithLanes(b_.getHalfTy(), raw));
    return {math_.ConvertFloat(b_, half, b_.getFloatTy()), nullptr, raw};
  }
  if (IsSmallFloat(t)) return {DecodeSmall(t, raw), nullptr, raw};
  return {raw, nullptr, raw};
}

Value* ElementEmitter::ToStorage(PrimitiveType t, const Val& v) {
  if (v.stored) return v.stored;
  if (t == PrimitiveType::kPred) return b_.CreateZExt(v.v, WithLanes(b_.getInt8Ty(), v.v));
  if (t == PrimitiveType::kBF16) {  // representable already: cut off the lower half
    Value* bits = b_.CreateBitCast(v.v, WithLanes(b_.getInt32Ty(), v.v));
    return b_.CreateTrunc(b_.CreateLShr(bits, 16), WithLanes(b_.getInt16Ty(), v.v));
  }
  if (t == PrimitiveType::kF16) {
    return b_.CreateBitCast(math_.ConvertFloat(b_, v.v, b_.getHalfTy()), WithLanes(b_.getInt16Ty(), v.v));
  }
  if (IsSmallFloat(t)) return EncodeSmall(t, v.v);
  return v.v;
}

Val ElementEmitter::Round(PrimitiveType t, Value* v) {
  if (IsSubByte(t) && !IsFloat(t)) return {WrapInt(t, v)};
  if (!IsNarrowFloat(t)) return {v};
  Value* stored;
  if (IsSmallFloat(t)) {
    stored = EncodeSmall(t, v);
  } else {
    Type* narrow = t == PrimitiveType::kBF16 ? b_.getBFloatTy() : b_.getHalfTy();
    stored = b_.CreateBitCast(math_.ConvertFloat(b_, v, narrow), WithLanes(b_.getInt16Ty(), v));
  }
  return FromStorage(t, stored);
}

// Processors return the NaN of an operand, or one whose lower bits are zero. GPUs may return other ones.
Val ElementEmitter::RoundArithmetic(PrimitiveType t, Value* v) {
  const bool keeps_nan = target_->family == TargetFamily::kX86;
  if (t != PrimitiveType::kBF16 || !keeps_nan) return Round(t, v);
  return FromStorage(
      t, b_.CreateBitCast(math_.ConvertFloat(b_, v, b_.getBFloatTy(), true), WithLanes(b_.getInt16Ty(), v)));
}

Value* ElementEmitter::WrapInt(PrimitiveType t, Value* v) {
  int bits = BitWidth(t);
  if (bits >= 8) return v;
  if (IsSigned(t)) return b_.CreateAShr(b_.CreateShl(v, 8 - bits), 8 - bits);
  return b_.CreateAnd(v, (1 << bits) - 1);
}

Val ElementEmitter::Constant(const Literal& literal, int64_t i) {
  PrimitiveType t = literal.shape().element_type();
  if (t == PrimitiveType::kPred) return {b_.getInt1(literal.GetAsInt(i) != 0)};
  if (IsComplex(t)) {
    // Through the parts' bytes: a NaN's sign and payload stay.
    Type* part = ComputeType(t);
    if (t == PrimitiveType::kC64) {
      auto* p = reinterpret_cast<const float*>(literal.bytes()) + 2 * i;
      return {llvm::ConstantFP::get(context_, llvm::APFloat(p[0])),
              llvm::ConstantFP::get(context_, llvm::APFloat(p[1]))};
    }
    auto* p = reinterpret_cast<const double*>(literal.bytes()) + 2 * i;
    (void)part;
    return {llvm::ConstantFP::get(context_, llvm::APFloat(p[0])), llvm::ConstantFP::get(context_, llvm::APFloat(p[1]))};
  }
  if (t == PrimitiveType::kF32) {
    return {llvm::ConstantFP::get(context_, llvm::APFloat(reinterpret_cast<const float*>(literal.bytes())[i]))};
  }
  if (IsFloat(t)) {
    double d = literal.GetAsDouble(i);
    if (t == PrimitiveType::kF64) return {llvm::ConstantFP::get(context_, llvm::APFloat(d))};
    return {llvm::ConstantFP::get(context_, llvm::APFloat(static_cast<float>(d)))};
  }
  return {ConstantInt::get(ComputeType(t), static_cast<uint64_t>(literal.GetAsInt(i)), true)};
}

bool ElementEmitter::HasIdentity(Opcode op, PrimitiveType t) {
  switch (op) {
    case Opcode::kAdd:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
      return true;
    case Opcode::kMultiply:
      return !IsComplex(t);  // an infinite part times the identity's zero would be NaN
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      return !IsComplex(t) && !IsSmallFloat(t);  // some have no infinity
    default:
      return false;
  }
}

bool ElementEmitter::Identity(Opcode op, PrimitiveType t, Val* v) {
  if (!HasIdentity(op, t)) return false;
  Type* type = ComputeType(t);
  bool is_float = type->isFloatingPointTy();
  auto num = [&](double c) -> Value* {
    return is_float ? static_cast<Value*>(llvm::ConstantFP::get(type, c))
                    : ConstantInt::get(type, static_cast<uint64_t>(static_cast<int64_t>(c)), true);
  };
  *v = {};
  bool pred = t == PrimitiveType::kPred;
  switch (op) {
    case Opcode::kAdd:
      v->v = is_float ? llvm::ConstantFP::get(type, -0.0) : num(0);
      if (IsComplex(t)) v->im = v->v;
      return true;
    case Opcode::kMultiply:
      v->v = num(1);
      return true;
    case Opcode::kOr:
    case Opcode::kXor:
      v->v = num(0);
      return true;
    case Opcode::kAnd:
      v->v = ConstantInt::getAllOnesValue(type);
      if (IsUnsigned(t)) v->v = WrapInt(t, v->v);
      return true;
    case Opcode::kMaximum:
    case Opcode::kMinimum: {
      bool max = op == Opcode::kMaximum;
      if (is_float) {
        v->v = llvm::ConstantFP::getInfinity(type, max);
        return true;
      }
      int bits = pred ? 1 : BitWidth(t);
      bool is_signed = IsSigned(t);
      llvm::APInt value = is_signed
                              ? (max ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits))
                              : (max ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits));
      unsigned width = type->getIntegerBitWidth();
      v->v = ConstantInt::get(type, is_signed ? value.sext(width) : value.zext(width));
      return true;
    }
    default:
      return false;
  }
}

Val ElementEmitter::Select(Value* condition, const Val& x, const Val& y) {
  int lanes = std::max({GetLanes(condition), GetLanes(x), GetLanes(y)});
  if (x.v == y.v && x.im == y.im) return x;
  auto pick = [&](Value* a, Value* c) -> Value* {
    if (!a || !c) return nullptr;
    // A scalar condition chooses whole vectors.
    return b_.CreateSelect(condition, Splat(a, lanes), Splat(c, lanes));
  };
  return {pick(x.v, y.v), pick(x.im, y.im), pick(x.stored, y.stored)};
}

Val ElementEmitter::FromInteger(Value* index, PrimitiveType t) {
  Type* compute = WithLanes(ComputeType(t), index);
  if (t == PrimitiveType::kPred) {
    return {b_.CreateICmpNE(index, llvm::Constant::getNullValue(index->getType()))};
  }
  if (IsComplex(t)) return {b_.CreateSIToFP(index, compute), llvm::Constant::getNullValue(compute)};
  if (IsFloat(t)) return Round(t, b_.CreateSIToFP(index, compute));
  return Round(t, b_.CreateSExtOrTrunc(index, compute));
}

absl::Status ElementEmitter::CanEmit(const Instruction& op) {
  PrimitiveType t = op.operand_count() > 0 ? op.operand(0)->shape().element_type() : op.shape().element_type();
  PrimitiveType r = op.shape().element_type();
  auto no = [&](absl::string_view why) {
    return absl::UnimplementedError(absl::StrCat(op.name(), ": ", OpName(op.opcode()), " of ", Name(t), " ", why));
  };
  if (!IsArrayType(t) || !IsArrayType(r)) return no("has no elements");
  switch (op.opcode()) {
    case Opcode::kBitcastConvert:
      if ((IsComplex(t) || IsComplex(r)) && t != r) return no("to or from another complex type has no kernel");
      if (IsSubByte(t) != IsSubByte(r) || (IsSubByte(t) && BitWidth(t) != BitWidth(r))) {
        return no("between a type that is narrower than a byte and another width has no kernel");
      }
      return absl::OkStatus();
    default:
      if (op.info().Has(kResultAccuracy) && !VectorMath::GetErrorBound(*FindMathFn(op.opcode())))
        return no("has no code");
      return absl::OkStatus();
  }
}

Val ElementEmitter::Emit(const Instruction& op, absl::Span<const Val> operands, bool rounded) {
  int lanes = 0;
  for (const Val& v : operands) lanes = std::max(lanes, GetLanes(v));
  PrimitiveType t = op.operand_count() > 0 ? op.operand(0)->shape().element_type() : op.shape().element_type();
  PrimitiveType r = op.shape().element_type();
  switch (op.opcode()) {
    case Opcode::kCopy:
    case Opcode::kBitcast:
    case Opcode::kReshape:
    case Opcode::kBroadcast:
    case Opcode::kOptimizationBarrier:
    case Opcode::kDomain:
      return operands[0];
    case Opcode::kSelect:
      return Select(operands[0].v, operands[1], operands[2]);
    case Opcode::kClamp: {
      t = r;
      Val low = Splat(operands[0], lanes), x = Splat(operands[1], lanes), high = Splat(operands[2], lanes);
      return Binary(Opcode::kMinimum, t, Binary(Opcode::kMaximum, t, x, low), high);
    }
    case Opcode::kConvert:
      return Convert(operands[0], t, r);
    case Opcode::kBitcastConvert:
      return BitcastConvert(operands[0], t, r);
    case Opcode::kReducePrecision:
      return ReducePrecision(t, operands[0], static_cast<int>(op.attrs().GetInt(AttrId::kExponentBits)),
                             static_cast<int>(op.attrs().GetInt(AttrId::kMantissaBits)));
    case Opcode::kCompare:
      return Compare(op, Splat(operands[0], lanes), Splat(operands[1], lanes));
    case Opcode::kComplex:
      return {Splat(operands[0].v, lanes), Splat(operands[1].v, lanes)};
    case Opcode::kReal:
      return IsComplex(t) ? Val{operands[0].v} : operands[0];
    case Opcode::kImag:
      return {IsComplex(t) ? operands[0].im : llvm::Constant::getNullValue(operands[0].v->getType())};
    default:
      break;
  }
  if (operands.size() == 2) return Binary(op.opcode(), t, operands[0], operands[1], rounded);
  if (operands.size() == 1) {
    if (IsComplex(t)) return UnaryComplex(op, t, operands[0]);
    if (IsFloat(t)) return UnaryFloat(op, t, operands[0], rounded);
    return UnaryInt(op, t, operands[0]);
  }
  Fail(absl::UnimplementedError(absl::StrCat(op.name(), ": no kernel can compute ", OpName(op.opcode()))));
  return operands.empty() ? Val{llvm::PoisonValue::get(ComputeType(r))} : operands[0];
}

Val ElementEmitter::Binary(Opcode op, PrimitiveType t, Val x, Val y, bool rounded) {
  // An operation of a scalar and a vector: the splat is one instruction, which the code generator often merges into a
  // memory operand.
  int lanes = std::max(GetLanes(x), GetLanes(y));
  x = Splat(x, lanes);
  y = Splat(y, lanes);
  if (IsComplex(t)) return BinaryComplex(op, t, x, y);
  if (IsFloat(t)) return BinaryFloat(op, t, x, y, rounded);
  return BinaryInt(op, t, x, y);
}

}  // namespace backplane::codegen
