#include <bit>
#include <limits>
#include <type_traits>

#include "core/ops/elementwise_loops.h"

namespace backplane {
namespace {

// Arithmetic in an unsigned type of at least int's width wraps; the cast back takes the low bits.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;
template <typename T>
Wrapping<T> W(T a) {
  return static_cast<Wrapping<T>>(a);
}

BACKPLANE_OP1(AbsOp, static_cast<T>(a < T(0) ? Wrapping<T>(0) - W(a) : W(a)))
BACKPLANE_OP1(NegateOp, static_cast<T>(Wrapping<T>(0) - W(a)))
BACKPLANE_OP1(NotOp, static_cast<T>(~a))
BACKPLANE_OP1(SignOp, static_cast<T>(a == T(0) ? 0 : (a < T(0) ? -1 : 1)))
BACKPLANE_OP1(CopyOp, a)
BACKPLANE_OP1(ClzOp, static_cast<T>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(a))))
BACKPLANE_OP1(PopcntOp, static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(a))))

BACKPLANE_OP2(AddOp, static_cast<T>(W(a) + W(b)))
BACKPLANE_OP2(SubtractOp, static_cast<T>(W(a) - W(b)))
BACKPLANE_OP2(MultiplyOp, static_cast<T>(W(a) * W(b)))
BACKPLANE_OP2(AndOp, static_cast<T>(a& b))
BACKPLANE_OP2(OrOp, static_cast<T>(a | b))
BACKPLANE_OP2(XorOp, static_cast<T>(a ^ b))
BACKPLANE_OP2(MaximumOp, a < b ? b : a)
BACKPLANE_OP2(MinimumOp, b < a ? b : a)

// Division by zero gives all ones, its remainder the dividend; the overflow of lowest / -1 wraps to lowest, remainder
// 0.
struct DivideOp {
  template <typename T>
  static T Of(T a, T b) {
    if (b == T(0)) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return NegateOp::Of(a);
    return static_cast<T>(a / b);
  }
};
struct RemainderOp {
  template <typename T>
  static T Of(T a, T b) {
    if (b == T(0)) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T(0);
    return static_cast<T>(a % b);
  }
};
// Negative exponents: 1 and -1 have inverses, everything else gives 0.
struct PowerOp {
  template <typename T>
  static T Of(T a, T b) {
    if (std::is_signed_v<T> && b < T(0)) {
      if (a == T(1)) return T(1);
      if (a == static_cast<T>(-1)) return (b & 1) ? a : T(1);
      return T(0);
    }
    Wrapping<T> result = 1, base = W(a);
    for (auto e = static_cast<std::make_unsigned_t<T>>(b); e != 0; e >>= 1) {
      if (e & 1) result *= base;
      base *= base;
    }
    return static_cast<T>(result);
  }
};
// Shift amounts are unsigned: a shift by the type's width or more shifts all bits out.
template <typename T>
bool ShiftsOutAllBits(T b) {
  return static_cast<std::make_unsigned_t<T>>(b) >= sizeof(T) * 8;
}
struct ShiftLeftOp {
  template <typename T>
  static T Of(T a, T b) {
    return ShiftsOutAllBits(b) ? T(0) : static_cast<T>(W(a) << b);
  }
};
struct ShiftRightLogicalOp {
  template <typename T>
  static T Of(T a, T b) {
    return ShiftsOutAllBits(b) ? T(0) : static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) >> b);
  }
};
struct ShiftRightArithmeticOp {
  template <typename T>
  static T Of(T a, T b) {
    using S = std::make_signed_t<T>;
    const S s = static_cast<S>(a);
    return ShiftsOutAllBits(b) ? static_cast<T>(s < 0 ? -1 : 0) : static_cast<T>(s >> b);
  }
};
struct ClampOp {
  template <typename T>
  static T Of(T low, T x, T high) {
    return MinimumOp::Of(MaximumOp::Of(x, low), high);
  }
};

template <typename T>
ElementwiseKernel::Loop Find(Opcode opcode, const Attributes& attrs) {
  switch (opcode) {
    case Opcode::kAbs:
      return &Loop1<AbsOp, T>;
    case Opcode::kNegate:
      return &Loop1<NegateOp, T>;
    case Opcode::kNot:
      return &Loop1<NotOp, T>;
    case Opcode::kSign:
      return &Loop1<SignOp, T>;
    case Opcode::kCopy:
      return &Loop1<CopyOp, T>;
    case Opcode::kClz:
      return &Loop1<ClzOp, T>;
    case Opcode::kPopcnt:
      return &Loop1<PopcntOp, T>;
    case Opcode::kAdd:
      return &Loop2<AddOp, T>;
    case Opcode::kSubtract:
      return &Loop2<SubtractOp, T>;
    case Opcode::kMultiply:
      return &Loop2<MultiplyOp, T>;
    case Opcode::kDivide:
      return &Loop2<DivideOp, T>;
    case Opcode::kRemainder:
      return &Loop2<RemainderOp, T>;
    case Opcode::kPower:
      return &Loop2<PowerOp, T>;
    case Opcode::kAnd:
      return &Loop2<AndOp, T>;
    case Opcode::kOr:
      return &Loop2<OrOp, T>;
    case Opcode::kXor:
      return &Loop2<XorOp, T>;
    case Opcode::kMaximum:
      return &Loop2<MaximumOp, T>;
    case Opcode::kMinimum:
      return &Loop2<MinimumOp, T>;
    case Opcode::kShiftLeft:
      return &Loop2<ShiftLeftOp, T>;
    case Opcode::kShiftRightLogical:
      return &Loop2<ShiftRightLogicalOp, T>;
    case Opcode::kShiftRightArithmetic:
      return &Loop2<ShiftRightArithmeticOp, T>;
    case Opcode::kClamp:
      return &Loop3<ClampOp, T>;
    case Opcode::kCompare:
      return CompareLoop<T>(attrs.GetEnum<ComparisonDirection>(AttrId::kDirection));
    default:
      return nullptr;
  }
}

}  // namespace

ElementwiseKernel::Loop IntegerLoop(Opcode opcode, const Attributes& attrs, PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kS8:
      return Find<int8_t>(opcode, attrs);
    case PrimitiveType::kS16:
      return Find<int16_t>(opcode, attrs);
    case PrimitiveType::kS32:
      return Find<int32_t>(opcode, attrs);
    case PrimitiveType::kS64:
      return Find<int64_t>(opcode, attrs);
    case PrimitiveType::kU8:
      return Find<uint8_t>(opcode, attrs);
    case PrimitiveType::kU16:
      return Find<uint16_t>(opcode, attrs);
    case PrimitiveType::kU32:
      return Find<uint32_t>(opcode, attrs);
    default:
      return Find<uint64_t>(opcode, attrs);
  }
}

}  // namespace backplane
