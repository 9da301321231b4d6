// Atomic operations on global and flat memory. The returned value is that before.
#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/machine/memory.h"
#include "plugins/hip/isa/machine/rows.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/atomics.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

template <class Bits>
Bits DataOf(const Wave& wave, const Operand& o, int lane, int word) {
  if constexpr (sizeof(Bits) == 8) {
    return LaneWord(wave, o, lane, word) | static_cast<uint64_t>(LaneWord(wave, o, lane, word + 1)) << 32;
  } else {
    return LaneWord(wave, o, lane, word);
  }
}

// [result, ]address, data[, base]. A comparison has the new value, then the expected one, in the data.
template <Segment kSegment, AtomicKind kKind, class Bits>
void UpdateMemory(Wave& wave, const Instruction& i) {
  constexpr int kWords = sizeof(Bits) / 4;
  const bool has_base = kSegment == Segment::kGlobal;
  const bool returns = i.modifiers.returns;
  const int expected_operands = 2 + (has_base ? 1 : 0) + (returns ? 1 : 0);
  if (i.operand_count != expected_operands) {
    return wave.Fail(
        absl::UnimplementedError(absl::StrCat("an atomic with ", static_cast<int>(i.operand_count), " operands")));
  }
  const Operand* o = i.operands + (returns ? 1 : 0);
  Operand off;
  off.kind = Operand::Kind::kOff;
  LanePointers p;
  if (!ResolveLanes(wave, kSegment, o[0], has_base ? o[2] : off, i.modifiers.offset, sizeof(Bits), LdsAccess::kAtomic,
                    p))
    return;
  int64_t bytes = 0;
  for (int l = 0; l < wave.lanes; ++l) {
    if (p.at[l] == nullptr) continue;
    if (reinterpret_cast<uint64_t>(p.at[l]) % sizeof(Bits) != 0) {
      return wave.Fail(absl::OutOfRangeError("the address of an atomic is not aligned"), l);
    }
    const Bits data = DataOf<Bits>(wave, o[1], l, 0);
    const Bits expected = kKind == AtomicKind::kCompareSwap ? DataOf<Bits>(wave, o[1], l, kWords) : 0;
    const Bits before =
        UpdateAtomically<Bits>(p.at[l], [=](Bits b) { return ApplyAtomic<kKind, Bits>(b, data, expected); });
    bytes += sizeof(Bits);
    if (!returns) continue;
    wave.vectors[i.operands[0].index][l] = static_cast<uint32_t>(before);
    if constexpr (kWords == 2) wave.vectors[i.operands[0].index + 1][l] = static_cast<uint32_t>(before >> 32);
  }
  wave.launch->statistics.global_store_bytes += bytes;
  IssueVectorMemory(wave, i, kSegment, returns ? ResultRange(i.operands[0]) : RegisterRange{}, !returns);
}

constexpr Operation Atomic(absl::string_view mnemonic, Handler execute) {
  Operation o = Custom(mnemonic, Category::kGlobalStore, execute, 0);
  o.variable_operands = true;
  return o;
}

#define BACKPLANE_ATOMIC(NAME, KIND, BITS)                                               \
  Atomic("global_atomic_" NAME, UpdateMemory<Segment::kGlobal, AtomicKind::KIND, BITS>), \
      Atomic("flat_atomic_" NAME, UpdateMemory<Segment::kFlat, AtomicKind::KIND, BITS>)
// By the names of gfx1100 and gfx942.
#define BACKPLANE_ATOMIC_PAIR(NAME, TYPE, GFX9_NAME, KIND)                                                    \
  BACKPLANE_ATOMIC(NAME "_" TYPE "32", KIND, uint32_t), BACKPLANE_ATOMIC(NAME "_" TYPE "64", KIND, uint64_t), \
      BACKPLANE_ATOMIC(GFX9_NAME, KIND, uint32_t), BACKPLANE_ATOMIC(GFX9_NAME "_x2", KIND, uint64_t)

constexpr Operation kMemoryAtomics[] = {
    BACKPLANE_ATOMIC_PAIR("swap", "b", "swap", kSwap),
    BACKPLANE_ATOMIC_PAIR("cmpswap", "b", "cmpswap", kCompareSwap),
    BACKPLANE_ATOMIC_PAIR("add", "u", "add", kAdd),
    BACKPLANE_ATOMIC_PAIR("sub", "u", "sub", kSub),
    BACKPLANE_ATOMIC_PAIR("min", "i", "smin", kMinSigned),
    BACKPLANE_ATOMIC_PAIR("min", "u", "umin", kMinUnsigned),
    BACKPLANE_ATOMIC_PAIR("max", "i", "smax", kMaxSigned),
    BACKPLANE_ATOMIC_PAIR("max", "u", "umax", kMaxUnsigned),
    BACKPLANE_ATOMIC_PAIR("and", "b", "and", kAnd),
    BACKPLANE_ATOMIC_PAIR("or", "b", "or", kOr),
    BACKPLANE_ATOMIC_PAIR("xor", "b", "xor", kXor),
    BACKPLANE_ATOMIC_PAIR("inc", "u", "inc", kIncrement),
    BACKPLANE_ATOMIC_PAIR("dec", "u", "dec", kDecrement),
    BACKPLANE_ATOMIC("add_f32", kAddFloat, uint32_t),
    BACKPLANE_ATOMIC("min_f32", kMinFloat, uint32_t),
    BACKPLANE_ATOMIC("max_f32", kMaxFloat, uint32_t),
    BACKPLANE_ATOMIC("add_f64", kAddFloat, uint64_t),
    BACKPLANE_ATOMIC("min_f64", kMinFloat, uint64_t),
    BACKPLANE_ATOMIC("max_f64", kMaxFloat, uint64_t),
    BACKPLANE_ATOMIC("pk_add_f16", kAddHalves, uint32_t),
    BACKPLANE_ATOMIC("pk_add_bf16", kAddBf16s, uint32_t),
};

#undef BACKPLANE_ATOMIC
#undef BACKPLANE_ATOMIC_PAIR

}  // namespace

absl::Span<const Operation> MemoryAtomics() { return kMemoryAtomics; }

}  // namespace backplane::hip::isa
