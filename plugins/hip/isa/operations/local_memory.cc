// LDS: loads, stores and atomics, by the names of both machines.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/machine/memory.h"
#include "plugins/hip/isa/machine/rows.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/atomics.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

// Lanes are served in groups whose data fill the 32 banks once, neighbours together. But loads of 16 bytes of gfx942
// take the first four lanes of eight with the last four of other eight, as AMD's "Understanding AMD GPU LDS and Bank
// Conflicts" lists them: 0 to 3 with 20 to 23, 4 to 7 with 16 to 19, and so on.
int LaneInGroups(const Wave& wave, int n, uint32_t bytes, bool is_load) {
  if (!is_load || bytes != 16 || wave.machine != Machine::kGfx942 || n % 8 < 4) return n;
  return n ^ 16;
}

// A group takes a pass for each different word of the bank that has most of them.
void CountBankConflicts(Wave& wave, const LanePointers& p, uint32_t bytes, bool is_load) {
  constexpr uint32_t kBanks = 32;
  const uint8_t* base = wave.group->lds.data();
  const int group = std::max(1, 128 / static_cast<int>(std::max(bytes, 4u)));
  for (int begin = 0; begin < wave.lanes; begin += group) {
    uint32_t words[kBanks][64];
    uint8_t counts[kBanks] = {};
    uint8_t passes = 1;
    for (int n = begin; n < std::min(begin + group, wave.lanes); ++n) {
      const int l = LaneInGroups(wave, n, bytes, is_load);
      if (p.at[l] == nullptr) continue;
      const uint32_t first = static_cast<uint32_t>(p.at[l] - base) / 4;
      for (uint32_t word = first; word < first + (bytes + 3) / 4; ++word) {
        const uint32_t bank = word % kBanks;
        uint32_t* const end = words[bank] + counts[bank];
        if (std::find(words[bank], end, word) != end) continue;
        *end = word;
        passes = std::max(passes, ++counts[bank]);
      }
    }
    wave.launch->statistics.lds_bank_conflicts += passes - 1;
  }
}

int64_t OffsetOf(const Instruction& i, AccessShape shape, int n) {
  if (shape.count == 1) return i.modifiers.offset;
  return int64_t{n == 0 ? i.modifiers.offset0 : i.modifiers.offset1} * shape.bytes * shape.stride;
}

// result, address
void LoadLocal(Wave& wave, const Instruction& i) {
  const AccessShape shape = AccessShape::Decode(i.operation->parameter);
  const uint32_t access = wave.group->lds.BeginAccess(wave.number);
  LanePointers p[2];
  for (int n = 0; n < shape.count; ++n) {
    if (!ResolveLocal(wave, i.operands[1], OffsetOf(i, shape, n), shape.bytes, LdsAccess::kRead, p[n])) return;
    CountBankConflicts(wave, p[n], shape.bytes, /*is_load=*/true);
  }
  for (int n = 0; n < shape.count; ++n) {
    const uint16_t reg = static_cast<uint16_t>(i.operands[0].index + n * shape.words());
    for (int l = 0; l < wave.lanes; ++l) {
      if (p[n].at[l] != nullptr) LoadLane(p[n].at[l], shape, wave, reg, l);
    }
  }
  wave.outstanding.Issue(Counter::kLgkm, Order::kLds, ResultRange(i.operands[0]), &i, access);
}

// address, data[, second data]
void StoreLocal(Wave& wave, const Instruction& i) {
  const AccessShape shape = AccessShape::Decode(i.operation->parameter);
  const uint32_t access = wave.group->lds.BeginAccess(wave.number);
  for (int n = 0; n < shape.count; ++n) {
    LanePointers p;
    if (!ResolveLocal(wave, i.operands[0], OffsetOf(i, shape, n), shape.bytes, LdsAccess::kWrite, p)) return;
    CountBankConflicts(wave, p, shape.bytes, /*is_load=*/false);
    for (int l = 0; l < wave.lanes; ++l) {
      if (p.at[l] != nullptr) StoreLane(p.at[l], shape, wave, i.operands[1 + n], l);
    }
  }
  wave.outstanding.Issue(Counter::kLgkm, Order::kLds, {}, &i, access);
}

// [result, ]address, data[, second data]. kExpectedFirst: a comparison's operands are the expected and the new value,
// as on gfx942; gfx1100 has them the other way round.
template <AtomicKind kKind, class Bits, bool kReturns, bool kExpectedFirst>
void UpdateLocal(Wave& wave, const Instruction& i) {
  const Operand* o = i.operands + (kReturns ? 1 : 0);
  const uint32_t access = wave.group->lds.BeginAccess(wave.number);
  LanePointers p;
  if (!ResolveLocal(wave, o[0], i.modifiers.offset, sizeof(Bits), LdsAccess::kAtomic, p)) return;
  CountBankConflicts(wave, p, sizeof(Bits), /*is_load=*/false);
  auto data_of = [&](const Operand& operand, int lane) {
    Bits bits = LaneWord(wave, operand, lane);
    if constexpr (sizeof(Bits) == 8) bits |= static_cast<uint64_t>(LaneWord(wave, operand, lane, 1)) << 32;
    return bits;
  };
  for (int l = 0; l < wave.lanes; ++l) {
    if (p.at[l] == nullptr) continue;
    if ((p.at[l] - wave.group->lds.data()) % static_cast<int>(sizeof(Bits)) != 0) {
      return wave.Fail(absl::OutOfRangeError("the address of an LDS atomic is not aligned"), l);
    }
    Bits data = data_of(o[1], l), expected = 0;
    if constexpr (kKind == AtomicKind::kCompareSwap) {
      expected = data_of(o[2], l);
      if constexpr (kExpectedFirst) std::swap(data, expected);
    }
    Bits before;
    std::memcpy(&before, p.at[l], sizeof(before));
    const Bits after = ApplyAtomic<kKind, Bits>(before, data, expected);
    std::memcpy(p.at[l], &after, sizeof(after));
    if constexpr (kReturns) {
      wave.vectors[i.operands[0].index][l] = static_cast<uint32_t>(before);
      if constexpr (sizeof(Bits) == 8) wave.vectors[i.operands[0].index + 1][l] = static_cast<uint32_t>(before >> 32);
    }
  }
  wave.outstanding.Issue(Counter::kLgkm, Order::kLds, kReturns ? ResultRange(i.operands[0]) : RegisterRange{}, &i,
                         access);
}

constexpr Operation LocalLoad(absl::string_view mnemonic, uint8_t bytes, Packing packing, uint8_t count = 1,
                              uint16_t stride = 1) {
  Operation o = Custom(mnemonic, Category::kLds, LoadLocal, 1, Type::k32, Type::k32);
  o.parameter = AccessShape{bytes, packing, count, stride}.Encode();
  o.load_order = Order::kLds;
  return o;
}
constexpr Operation LocalStore(absl::string_view mnemonic, uint8_t bytes, Packing packing, uint8_t count = 1,
                               uint16_t stride = 1) {
  Operation o = count == 1 ? Custom(mnemonic, Category::kLds, StoreLocal, 0, Type::k32, Type::k32)
                           : Custom(mnemonic, Category::kLds, StoreLocal, 0, Type::k32, Type::k32, Type::k32);
  o.parameter = AccessShape{bytes, packing, count, stride}.Encode();
  return o;
}

#define BACKPLANE_LOCAL(NAME, TYPE, KIND, BITS)                                                                       \
  Custom("ds_" NAME "_" TYPE, Category::kLds, UpdateLocal<AtomicKind::KIND, BITS, false, false>, 0, Type::k32,        \
         Type::k32),                                                                                                  \
      Custom("ds_" NAME "_rtn_" TYPE, Category::kLds, UpdateLocal<AtomicKind::KIND, BITS, true, false>, 1, Type::k32, \
             Type::k32, Type::k32)
#define BACKPLANE_LOCAL_PAIR(NAME, TYPE, KIND) \
  BACKPLANE_LOCAL(NAME, TYPE "32", KIND, uint32_t), BACKPLANE_LOCAL(NAME, TYPE "64", KIND, uint64_t)
#define BACKPLANE_LOCAL_COMPARE(NAME, TYPE, BITS, EXPECTED_FIRST)                                                    \
  Custom("ds_" NAME "_" TYPE, Category::kLds, UpdateLocal<AtomicKind::kCompareSwap, BITS, false, EXPECTED_FIRST>, 0, \
         Type::k32, Type::k32, Type::k32),                                                                           \
      Custom("ds_" NAME "_rtn_" TYPE, Category::kLds,                                                                \
             UpdateLocal<AtomicKind::kCompareSwap, BITS, true, EXPECTED_FIRST>, 1, Type::k32, Type::k32, Type::k32,  \
             Type::k32)

constexpr Operation kLocalMemory[] = {
    LocalLoad("ds_load_b32", 4, Packing::kWords),
    LocalLoad("ds_load_b64", 8, Packing::kWords),
    LocalLoad("ds_load_b96", 12, Packing::kWords),
    LocalLoad("ds_load_b128", 16, Packing::kWords),
    LocalLoad("ds_load_2addr_b32", 4, Packing::kWords, 2),
    LocalLoad("ds_load_2addr_b64", 8, Packing::kWords, 2),
    LocalLoad("ds_load_2addr_stride64_b32", 4, Packing::kWords, 2, 64),
    LocalLoad("ds_load_2addr_stride64_b64", 8, Packing::kWords, 2, 64),
    LocalLoad("ds_load_u8", 1, Packing::kUnsigned),
    LocalLoad("ds_load_i8", 1, Packing::kSigned),
    LocalLoad("ds_load_u16", 2, Packing::kUnsigned),
    LocalLoad("ds_load_i16", 2, Packing::kSigned),
    LocalLoad("ds_load_u8_d16", 1, Packing::kLowUnsigned),
    LocalLoad("ds_load_u8_d16_hi", 1, Packing::kHighUnsigned),
    LocalLoad("ds_load_i8_d16", 1, Packing::kLowSigned),
    LocalLoad("ds_load_i8_d16_hi", 1, Packing::kHighSigned),
    LocalLoad("ds_load_u16_d16", 2, Packing::kLowHalf),
    LocalLoad("ds_load_u16_d16_hi", 2, Packing::kHighHalf),
    LocalLoad("ds_read_b32", 4, Packing::kWords),
    LocalLoad("ds_read_b64", 8, Packing::kWords),
    LocalLoad("ds_read_b96", 12, Packing::kWords),
    LocalLoad("ds_read_b128", 16, Packing::kWords),
    LocalLoad("ds_read2_b32", 4, Packing::kWords, 2),
    LocalLoad("ds_read2_b64", 8, Packing::kWords, 2),
    LocalLoad("ds_read2st64_b32", 4, Packing::kWords, 2, 64),
    LocalLoad("ds_read2st64_b64", 8, Packing::kWords, 2, 64),
    LocalLoad("ds_read_u8", 1, Packing::kUnsigned),
    LocalLoad("ds_read_i8", 1, Packing::kSigned),
    LocalLoad("ds_read_u16", 2, Packing::kUnsigned),
    LocalLoad("ds_read_i16", 2, Packing::kSigned),
    LocalLoad("ds_read_u8_d16", 1, Packing::kLowUnsigned),
    LocalLoad("ds_read_u8_d16_hi", 1, Packing::kHighUnsigned),
    LocalLoad("ds_read_i8_d16", 1, Packing::kLowSigned),
    LocalLoad("ds_read_i8_d16_hi", 1, Packing::kHighSigned),
    LocalLoad("ds_read_u16_d16", 2, Packing::kLowHalf),
    LocalLoad("ds_read_u16_d16_hi", 2, Packing::kHighHalf),
    LocalStore("ds_store_b8", 1, Packing::kUnsigned),
    LocalStore("ds_store_b16", 2, Packing::kUnsigned),
    LocalStore("ds_store_b32", 4, Packing::kWords),
    LocalStore("ds_store_b64", 8, Packing::kWords),
    LocalStore("ds_store_b96", 12, Packing::kWords),
    LocalStore("ds_store_b128", 16, Packing::kWords),
    LocalStore("ds_store_b8_d16_hi", 1, Packing::kHighHalf),
    LocalStore("ds_store_b16_d16_hi", 2, Packing::kHighHalf),
    LocalStore("ds_store_2addr_b32", 4, Packing::kWords, 2),
    LocalStore("ds_store_2addr_b64", 8, Packing::kWords, 2),
    LocalStore("ds_store_2addr_stride64_b32", 4, Packing::kWords, 2, 64),
    LocalStore("ds_store_2addr_stride64_b64", 8, Packing::kWords, 2, 64),
    LocalStore("ds_write_b8", 1, Packing::kUnsigned),
    LocalStore("ds_write_b16", 2, Packing::kUnsigned),
    LocalStore("ds_write_b32", 4, Packing::kWords),
    LocalStore("ds_write_b64", 8, Packing::kWords),
    LocalStore("ds_write_b96", 12, Packing::kWords),
    LocalStore("ds_write_b128", 16, Packing::kWords),
    LocalStore("ds_write_b8_d16_hi", 1, Packing::kHighHalf),
    LocalStore("ds_write_b16_d16_hi", 2, Packing::kHighHalf),
    LocalStore("ds_write2_b32", 4, Packing::kWords, 2),
    LocalStore("ds_write2_b64", 8, Packing::kWords, 2),
    LocalStore("ds_write2st64_b32", 4, Packing::kWords, 2, 64),
    LocalStore("ds_write2st64_b64", 8, Packing::kWords, 2, 64),
    BACKPLANE_LOCAL_PAIR("add", "u", kAdd),
    BACKPLANE_LOCAL_PAIR("sub", "u", kSub),
    BACKPLANE_LOCAL_PAIR("rsub", "u", kReverseSub),
    BACKPLANE_LOCAL_PAIR("inc", "u", kIncrement),
    BACKPLANE_LOCAL_PAIR("dec", "u", kDecrement),
    BACKPLANE_LOCAL_PAIR("min", "i", kMinSigned),
    BACKPLANE_LOCAL_PAIR("max", "i", kMaxSigned),
    BACKPLANE_LOCAL_PAIR("min", "u", kMinUnsigned),
    BACKPLANE_LOCAL_PAIR("max", "u", kMaxUnsigned),
    BACKPLANE_LOCAL_PAIR("and", "b", kAnd),
    BACKPLANE_LOCAL_PAIR("or", "b", kOr),
    BACKPLANE_LOCAL_PAIR("xor", "b", kXor),
    BACKPLANE_LOCAL_PAIR("min", "f", kMinFloat),
    BACKPLANE_LOCAL_PAIR("max", "f", kMaxFloat),
    BACKPLANE_LOCAL_PAIR("add", "f", kAddFloat),
    BACKPLANE_LOCAL("pk_add", "f16", kAddHalves, uint32_t),
    BACKPLANE_LOCAL("pk_add", "bf16", kAddBf16s, uint32_t),
    Custom("ds_storexchg_rtn_b32", Category::kLds, UpdateLocal<AtomicKind::kSwap, uint32_t, true, false>, 1, Type::k32,
           Type::k32, Type::k32),
    Custom("ds_storexchg_rtn_b64", Category::kLds, UpdateLocal<AtomicKind::kSwap, uint64_t, true, false>, 1, Type::k32,
           Type::k32, Type::k32),
    Custom("ds_wrxchg_rtn_b32", Category::kLds, UpdateLocal<AtomicKind::kSwap, uint32_t, true, false>, 1, Type::k32,
           Type::k32, Type::k32),
    Custom("ds_wrxchg_rtn_b64", Category::kLds, UpdateLocal<AtomicKind::kSwap, uint64_t, true, false>, 1, Type::k32,
           Type::k32, Type::k32),
    BACKPLANE_LOCAL_COMPARE("cmpst", "b32", uint32_t, true),
    BACKPLANE_LOCAL_COMPARE("cmpst", "b64", uint64_t, true),
    BACKPLANE_LOCAL_COMPARE("cmpstore", "b32", uint32_t, false),
    BACKPLANE_LOCAL_COMPARE("cmpstore", "b64", uint64_t, false),
};

#undef BACKPLANE_LOCAL
#undef BACKPLANE_LOCAL_PAIR
#undef BACKPLANE_LOCAL_COMPARE

}  // namespace

absl::Span<const Operation> LocalMemory() { return kLocalMemory; }

}  // namespace backplane::hip::isa
