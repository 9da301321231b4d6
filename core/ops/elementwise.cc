#include "core/ops/elementwise.h"

#include <algorithm>
#include <cstring>

#include "core/types/float_format.h"
#include "core/types/literal_convert.h"

namespace backplane {
namespace {

struct Bytes16 {
  uint64_t a, b;
};

template <typename T>
void Select(const void* const* in, void* out, int64_t n, const int64_t*) {
  const uint8_t* pred = static_cast<const uint8_t*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* r = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = pred[i] ? a[i] : b[i];
}

ElementwiseKernel::Loop SelectLoop(int width) {
  switch (width) {
    case 1:
      return &Select<uint8_t>;
    case 2:
      return &Select<uint16_t>;
    case 4:
      return &Select<uint32_t>;
    case 8:
      return &Select<uint64_t>;
    default:
      return &Select<Bytes16>;
  }
}

template <int kWidth>
void Move(const void* const* in, void* out, int64_t n, const int64_t*) {
  if (in[0] != out) std::memcpy(out, in[0], static_cast<size_t>(n) * kWidth);
}

ElementwiseKernel::Loop MoveLoop(int width) {
  switch (width) {
    case 1:
      return &Move<1>;
    case 2:
      return &Move<2>;
    case 4:
      return &Move<4>;
    case 8:
      return &Move<8>;
    default:
      return &Move<16>;
  }
}

void NotPred(const void* const* in, void* out, int64_t n, const int64_t*) {
  const uint8_t* a = static_cast<const uint8_t*>(in[0]);
  uint8_t* r = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = a[i] == 0;
}

// The type in which an operation on `t` is computed.
PrimitiveType ComputationTypeOf(PrimitiveType t) {
  if (t == PrimitiveType::kPred) return PrimitiveType::kU8;
  if (IsFloat(t)) return t == PrimitiveType::kF64 ? t : PrimitiveType::kF32;
  if (IsSubByte(t)) return IsSigned(t) ? PrimitiveType::kS8 : PrimitiveType::kU8;
  return t;
}

ElementwiseKernel::Loop FindLoop(Opcode opcode, const Attributes& attrs, PrimitiveType t) {
  if (IsFloat(t)) return SelectFloatLoop(opcode, attrs, t);
  if (IsComplex(t)) return SelectComplexLoop(opcode, attrs, t);
  return SelectIntegerLoop(opcode, attrs, t);
}

void WrapSmall(PrimitiveType t, uint8_t* data, int64_t n) {
  const int shift = 8 - BitWidth(t);
  if (IsSigned(t)) {
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<uint8_t>(static_cast<int8_t>(data[i] << shift) >> shift);
  } else {
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<uint8_t>(static_cast<uint8_t>(data[i] << shift) >> shift);
  }
}

}  // namespace

std::optional<ElementwiseKernel> ElementwiseKernel::Make(Opcode opcode, const Attributes& attrs,
                                                         absl::Span<const PrimitiveType> operands,
                                                         PrimitiveType result) {
  ElementwiseKernel k;
  if (operands.empty() || operands.size() > 3 || !IsArrayType(result)) return std::nullopt;
  for (PrimitiveType t : operands) {
    if (!IsArrayType(t)) return std::nullopt;
  }
  k.arity_ = static_cast<int>(operands.size());
  std::copy(operands.begin(), operands.end(), k.stored_);
  k.stored_result_ = result;
  PrimitiveType t = operands[0];
  switch (opcode) {
    case Opcode::kConvert:
      if (t == result) {
        k.loop_ = MoveLoop(ByteWidth(t));
      } else {
        k.convert_ = true;
        k.direct_ = false;
      }
      return k;
    case Opcode::kBitcastConvert:
      if (BitWidth(t) != BitWidth(result)) return std::nullopt;
      k.loop_ = MoveLoop(ByteWidth(t));
      // In its byte of storage s4 is sign-extended; u4 and f4 are not.
      if (IsSubByte(t)) k.direct_ = false, k.wrap_ = true, k.computed_[0] = t, k.computed_result_ = result;
      return k;
    case Opcode::kSelect:
      k.loop_ = SelectLoop(ByteWidth(result));
      return k;
    case Opcode::kCopy:
      k.loop_ = MoveLoop(ByteWidth(result));
      return k;
    case Opcode::kNot:
      if (t == PrimitiveType::kPred) {
        k.loop_ = &NotPred;
        return k;
      }
      break;
    case Opcode::kAdd:
    case Opcode::kMultiply:
      if (t == PrimitiveType::kPred) opcode = opcode == Opcode::kAdd ? Opcode::kOr : Opcode::kAnd;
      break;
    case Opcode::kReducePrecision:
      k.params_[0] = attrs.GetInt(AttrId::kExponentBits);
      k.params_[1] = attrs.GetInt(AttrId::kMantissaBits);
      // The type of the computation is wider than the stored one, whose exponent and mantissa bits bound the result's.
      if (IsFloat(t)) {
        const FloatFormat format = GetFloatFormat(t);
        if (k.params_[0] >= format.exponent_bits) {
          k.params_[0] = GetFloatFormat(PrimitiveType::kF64).exponent_bits;
          if (format.least > -126) k.params_[2] = format.least + 127;
        }
        if (k.params_[1] >= format.mantissa_bits) k.params_[1] = GetFloatFormat(PrimitiveType::kF64).mantissa_bits;
      }
      break;
    default:
      break;
  }
  for (int i = 0; i < k.arity_; ++i) {
    k.computed_[i] = ComputationTypeOf(k.stored_[i]);
    k.direct_ = k.direct_ && (k.computed_[i] == k.stored_[i] || k.stored_[i] == PrimitiveType::kPred);
  }
  k.loop_ = FindLoop(opcode, attrs, k.computed_[0]);
  if (k.loop_ == nullptr) return std::nullopt;
  // Comparisons and is-finite return pred for every operand type; other operations return the operands' type.
  const bool makes_pred = opcode == Opcode::kCompare || opcode == Opcode::kIsFinite;
  k.computed_result_ = makes_pred ? PrimitiveType::kPred : ComputationTypeOf(result);
  if (!makes_pred && result != PrimitiveType::kPred && k.computed_result_ != result) k.direct_ = false;
  k.wrap_ = IsIntegral(result) && IsSubByte(result);
  // The first operand without its sign extension; for the arithmetic shift of unsigned ones, with a sign extension.
  k.mask_ = IsSubByte(t) &&
            (IsSigned(t) ? opcode == Opcode::kShiftRightLogical || opcode == Opcode::kPopcnt || opcode == Opcode::kClz
                         : opcode == Opcode::kShiftRightArithmetic);
  if (k.mask_) k.direct_ = false;
  if (opcode == Opcode::kClz) k.params_[0] = 8 - BitWidth(t);
  return k;
}

void ElementwiseKernel::RunThroughBlocks(const void* const* in, void* out, int64_t n) const {
  if (convert_) {
    ConvertElements(stored_[0], static_cast<const std::byte*>(in[0]), stored_result_, static_cast<std::byte*>(out), n);
    return;
  }
  constexpr int64_t kBlock = 256;
  alignas(16) std::byte buffers[3][kBlock * 4];
  alignas(16) std::byte result[kBlock * 16];
  const int out_width = ByteWidth(stored_result_);
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    const void* pointers[3] = {};
    for (int k = 0; k < arity_; ++k) {
      const std::byte* source = static_cast<const std::byte*>(in[k]) + i * ByteWidth(stored_[k]);
      pointers[k] = source;
      if (IsFloat(stored_[k]) && stored_[k] != computed_[k] && !wrap_) {
        ConvertElements(stored_[k], source, computed_[k], buffers[k], m);
        pointers[k] = buffers[k];
      } else if (mask_ && k == 0) {
        const int spare = 8 - BitWidth(stored_[0]);
        if (IsSigned(stored_[0])) {
          for (int64_t e = 0; e < m; ++e) buffers[0][e] = source[e] << spare >> spare;
        } else {
          for (int64_t e = 0; e < m; ++e) {
            buffers[0][e] = static_cast<std::byte>(static_cast<int8_t>(source[e] << spare) >> spare);
          }
        }
        pointers[0] = buffers[0];
      }
    }
    std::byte* target = static_cast<std::byte*>(out) + i * out_width;
    const bool narrow = IsFloat(stored_result_) && computed_result_ != stored_result_ && !wrap_;
    loop_(pointers, narrow ? static_cast<void*>(result) : target, m, params_);
    if (narrow) ConvertElements(computed_result_, result, stored_result_, target, m);
    if (wrap_) {
      uint8_t* bytes = reinterpret_cast<uint8_t*>(target);
      if (params_[0] > 0) {  // leading zeros were counted in 8 bits
        for (int64_t e = 0; e < m; ++e) bytes[e] = static_cast<uint8_t>(bytes[e] - params_[0]);
      }
      WrapSmall(stored_result_, bytes, m);
    }
  }
}

}  // namespace backplane
