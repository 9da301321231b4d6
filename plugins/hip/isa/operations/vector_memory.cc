// Loads and stores of global, flat and private memory, by the names of both machines.
#include "plugins/hip/isa/machine/memory.h"
#include "plugins/hip/isa/machine/scalar.h"
#include "plugins/hip/isa/operations/operations.h"

namespace backplane::hip::isa {
namespace {

const Operand kNoBase = [] {
  Operand o;
  o.kind = Operand::Kind::kOff;
  return o;
}();

// result, address[, base]
template <Segment kSegment>
void LoadVectors(Wave& wave, const Instruction& i) {
  const AccessShape shape = AccessShape::Decode(i.operation->parameter);
  const Operand& base = kSegment == Segment::kFlat ? kNoBase : i.operands[2];
  LanePointers p;
  if (!ResolveLanes(wave, kSegment, i.operands[1], base, i.modifiers.offset, shape.bytes, LdsAccess::kRead, p)) return;
  int64_t loaded = 0;
  for (int l = 0; l < wave.lanes; ++l) {
    if (p.at[l] == nullptr) continue;
    LoadLane(p.at[l], shape, wave, i.operands[0].index, l);
    loaded += shape.bytes;
  }
  if (kSegment != Segment::kScratch) wave.launch->statistics.global_load_bytes += loaded;
  IssueVectorMemory(wave, i, kSegment, ResultRange(i.operands[0]), false);
}

// address, data[, base]
template <Segment kSegment>
void StoreVectors(Wave& wave, const Instruction& i) {
  const AccessShape shape = AccessShape::Decode(i.operation->parameter);
  const Operand& base = kSegment == Segment::kFlat ? kNoBase : i.operands[2];
  LanePointers p;
  if (!ResolveLanes(wave, kSegment, i.operands[0], base, i.modifiers.offset, shape.bytes, LdsAccess::kWrite, p)) return;
  int64_t stored = 0;
  for (int l = 0; l < wave.lanes; ++l) {
    if (p.at[l] == nullptr) continue;
    StoreLane(p.at[l], shape, wave, i.operands[1], l);
    stored += shape.bytes;
  }
  if (kSegment != Segment::kScratch) wave.launch->statistics.global_store_bytes += stored;
  IssueVectorMemory(wave, i, kSegment, {}, true);
}

constexpr Operation Load(absl::string_view mnemonic, Handler execute, bool has_base, uint8_t bytes, Packing packing) {
  Operation o = has_base ? Custom(mnemonic, Category::kGlobalLoad, execute, 1, Type::k32, Type::k64, Type::k64)
                         : Custom(mnemonic, Category::kGlobalLoad, execute, 1, Type::k32, Type::k64);
  o.parameter = AccessShape{bytes, packing}.Encode();
  if (has_base) o.load_order = Order::kVectorMemory;  // a flat load has none
  return o;
}
constexpr Operation Store(absl::string_view mnemonic, Handler execute, bool has_base, uint8_t bytes, Packing packing) {
  Operation o = has_base ? Custom(mnemonic, Category::kGlobalStore, execute, 0, Type::k64, Type::k32, Type::k64)
                         : Custom(mnemonic, Category::kGlobalStore, execute, 0, Type::k64, Type::k32);
  o.parameter = AccessShape{bytes, packing}.Encode();
  return o;
}

#define BACKPLANE_LOAD(NAME, BYTES, PACKING)                                                \
  Load("global_load_" NAME, LoadVectors<Segment::kGlobal>, true, BYTES, Packing::PACKING),  \
      Load("flat_load_" NAME, LoadVectors<Segment::kFlat>, false, BYTES, Packing::PACKING), \
      Load("scratch_load_" NAME, LoadVectors<Segment::kScratch>, true, BYTES, Packing::PACKING)
#define BACKPLANE_STORE(NAME, BYTES, PACKING)                                                  \
  Store("global_store_" NAME, StoreVectors<Segment::kGlobal>, true, BYTES, Packing::PACKING),  \
      Store("flat_store_" NAME, StoreVectors<Segment::kFlat>, false, BYTES, Packing::PACKING), \
      Store("scratch_store_" NAME, StoreVectors<Segment::kScratch>, true, BYTES, Packing::PACKING)

constexpr Operation kVectorMemory[] = {
    BACKPLANE_LOAD("b32", 4, kWords),
    BACKPLANE_LOAD("b64", 8, kWords),
    BACKPLANE_LOAD("b96", 12, kWords),
    BACKPLANE_LOAD("b128", 16, kWords),
    BACKPLANE_LOAD("u8", 1, kUnsigned),
    BACKPLANE_LOAD("i8", 1, kSigned),
    BACKPLANE_LOAD("u16", 2, kUnsigned),
    BACKPLANE_LOAD("i16", 2, kSigned),
    BACKPLANE_LOAD("d16_b16", 2, kLowHalf),
    BACKPLANE_LOAD("d16_hi_b16", 2, kHighHalf),
    BACKPLANE_LOAD("d16_u8", 1, kLowUnsigned),
    BACKPLANE_LOAD("d16_i8", 1, kLowSigned),
    BACKPLANE_LOAD("d16_hi_u8", 1, kHighUnsigned),
    BACKPLANE_LOAD("d16_hi_i8", 1, kHighSigned),
    BACKPLANE_LOAD("dword", 4, kWords),
    BACKPLANE_LOAD("dwordx2", 8, kWords),
    BACKPLANE_LOAD("dwordx3", 12, kWords),
    BACKPLANE_LOAD("dwordx4", 16, kWords),
    BACKPLANE_LOAD("ubyte", 1, kUnsigned),
    BACKPLANE_LOAD("sbyte", 1, kSigned),
    BACKPLANE_LOAD("ushort", 2, kUnsigned),
    BACKPLANE_LOAD("sshort", 2, kSigned),
    BACKPLANE_LOAD("short_d16", 2, kLowHalf),
    BACKPLANE_LOAD("short_d16_hi", 2, kHighHalf),
    BACKPLANE_LOAD("ubyte_d16", 1, kLowUnsigned),
    BACKPLANE_LOAD("sbyte_d16", 1, kLowSigned),
    BACKPLANE_LOAD("ubyte_d16_hi", 1, kHighUnsigned),
    BACKPLANE_LOAD("sbyte_d16_hi", 1, kHighSigned),
    BACKPLANE_STORE("b8", 1, kUnsigned),
    BACKPLANE_STORE("b16", 2, kUnsigned),
    BACKPLANE_STORE("b32", 4, kWords),
    BACKPLANE_STORE("b64", 8, kWords),
    BACKPLANE_STORE("b96", 12, kWords),
    BACKPLANE_STORE("b128", 16, kWords),
    BACKPLANE_STORE("d16_hi_b8", 1, kHighHalf),
    BACKPLANE_STORE("d16_hi_b16", 2, kHighHalf),
    BACKPLANE_STORE("byte", 1, kUnsigned),
    BACKPLANE_STORE("short", 2, kUnsigned),
    BACKPLANE_STORE("dword", 4, kWords),
    BACKPLANE_STORE("dwordx2", 8, kWords),
    BACKPLANE_STORE("dwordx3", 12, kWords),
    BACKPLANE_STORE("dwordx4", 16, kWords),
    BACKPLANE_STORE("byte_d16_hi", 1, kHighHalf),
    BACKPLANE_STORE("short_d16_hi", 2, kHighHalf),
};

#undef BACKPLANE_LOAD
#undef BACKPLANE_STORE

}  // namespace

absl::Span<const Operation> VectorMemory() { return kVectorMemory; }

}  // namespace backplane::hip::isa
