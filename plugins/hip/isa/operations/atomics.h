// The functions of atomic operations, on memory and on LDS.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_ATOMICS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_ATOMICS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "plugins/hip/isa/machine/number_formats.h"
#include "plugins/hip/isa/operations/float_functions.h"

namespace backplane::hip::isa {

// Replaces *p by f(*p) atomically among the threads of the host, and returns the value before.
template <class Bits, class F>
inline Bits UpdateAtomically(uint8_t* p, F f) {
  auto* at = reinterpret_cast<Bits*>(p);
  Bits before = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &before, f(before), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return before;
}

enum class AtomicKind : uint8_t {
  kSwap,
  kCompareSwap,
  kAdd,
  kSub,
  kReverseSub,
  kMinSigned,
  kMinUnsigned,
  kMaxSigned,
  kMaxUnsigned,
  kAnd,
  kOr,
  kXor,
  kIncrement,
  kDecrement,
  kAddFloat,
  kMinFloat,
  kMaxFloat,
  kAddHalves,
  kAddBf16s,
};

template <class Bits>
struct FloatOfBits {
  using Type = float;
};
template <>
struct FloatOfBits<uint64_t> {
  using Type = double;
};

template <auto F>
inline uint32_t ApplyToHalves(uint32_t a, uint32_t b) {
  return uint32_t{F(static_cast<uint16_t>(a), static_cast<uint16_t>(b))} |
         uint32_t{F(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16))} << 16;
}

// The new value from the one before and the operands: the data and, for a comparison, what is expected.
template <AtomicKind kKind, class Bits>
inline Bits ApplyAtomic(Bits before, Bits data, Bits expected) {
  using Signed = std::make_signed_t<Bits>;
  using Float = typename FloatOfBits<Bits>::Type;
  const auto f = [](Bits b) { return std::bit_cast<Float>(b); };
  const auto s = [](Bits b) { return static_cast<Signed>(b); };
  switch (kKind) {
    case AtomicKind::kSwap:
      return data;
    case AtomicKind::kCompareSwap:
      return before == expected ? data : before;
    case AtomicKind::kAdd:
      return before + data;
    case AtomicKind::kSub:
      return before - data;
    case AtomicKind::kReverseSub:
      return data - before;
    case AtomicKind::kMinSigned:
      return s(data) < s(before) ? data : before;
    case AtomicKind::kMinUnsigned:
      return std::min(before, data);
    case AtomicKind::kMaxSigned:
      return s(data) > s(before) ? data : before;
    case AtomicKind::kMaxUnsigned:
      return std::max(before, data);
    case AtomicKind::kAnd:
      return before & data;
    case AtomicKind::kOr:
      return before | data;
    case AtomicKind::kXor:
      return before ^ data;
    case AtomicKind::kIncrement:
      return before >= data ? Bits{0} : before + 1;
    case AtomicKind::kDecrement:
      return before == 0 || before > data ? data : before - 1;
    case AtomicKind::kAddFloat:
      return std::bit_cast<Bits>(f(before) + f(data));
    case AtomicKind::kMinFloat:
      return std::bit_cast<Bits>(ComputeMin(f(before), f(data)));
    case AtomicKind::kMaxFloat:
      return std::bit_cast<Bits>(ComputeMax(f(before), f(data)));
    case AtomicKind::kAddHalves:
      return ApplyToHalves<[](uint16_t a, uint16_t b) {
        return ConvertFloatToHalf(ConvertHalfToFloat(a) + ConvertHalfToFloat(b));
      }>(static_cast<uint32_t>(before), static_cast<uint32_t>(data));
    case AtomicKind::kAddBf16s:
      return ApplyToHalves<[](uint16_t a, uint16_t b) {
        return ConvertFloatToBf16(ConvertBf16ToFloat(a) + ConvertBf16ToFloat(b));
      }>(static_cast<uint32_t>(before), static_cast<uint32_t>(data));
  }
  return before;
}

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_OPERATIONS_ATOMICS_H_
