#include "plugins/hip/isa/machine/memory.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "plugins/hip/isa/code/loaded_code.h"
#include "plugins/hip/isa/machine/rows.h"

namespace backplane::hip::isa {
namespace {

bool Within(uint64_t address, uint64_t bytes, const void* base, uint64_t size) {
  const uint64_t begin = reinterpret_cast<uint64_t>(base);
  return base != nullptr && address >= begin && bytes <= size && address - begin <= size - bytes;
}

bool IsGlobal(const LaunchState& launch, uint64_t address, uint64_t bytes, bool write) {
  if (!write && (launch.code->Owns(address, bytes) || Within(address, bytes, launch.kernarg, launch.kernarg_bytes) ||
                 Within(address, bytes, launch.dispatch_packet, launch.dispatch_packet_bytes))) {
    return true;
  }
  return launch.guard == nullptr || launch.guard->IsAccessible(address, bytes, write);
}

uint8_t* ResolveScratch(Wave& wave, uint64_t address, uint32_t bytes, int lane) {
  if (address > wave.scratch_bytes || bytes > wave.scratch_bytes - address) {
    wave.Fail(
        absl::OutOfRangeError(absl::StrCat("private memory of ", wave.scratch_bytes, " bytes is accessed at byte ",
                                           static_cast<int64_t>(address), ", ", bytes, " bytes")),
        lane);
    return nullptr;
  }
  return wave.scratch + static_cast<uint64_t>(lane) * wave.scratch_bytes + address;
}

uint8_t* ResolveLds(Wave& wave, uint32_t address, uint32_t bytes, LdsAccess access, int lane) {
  LdsState& lds = wave.group->lds;
  if (address > lds.size() || bytes > lds.size() - address) {
    wave.Fail(absl::OutOfRangeError(
                  absl::StrCat("LDS of ", lds.size(), " bytes is accessed at byte ", address, ", ", bytes, " bytes")),
              lane);
    return nullptr;
  }
  if (absl::Status s = lds.Record(wave.number, address, bytes, access); !s.ok()) {
    wave.Fail(std::move(s), lane);
    return nullptr;
  }
  return lds.data() + address;
}

}  // namespace

bool CheckGlobal(Wave& wave, uint64_t address, uint64_t bytes, bool write, int lane) {
  if (IsGlobal(*wave.launch, address, bytes, write)) return true;
  wave.Fail(absl::OutOfRangeError(absl::StrCat("the address 0x", absl::Hex(address), ", ", bytes, " bytes, is ",
                                               write ? "written" : "read", " and is no memory of the device")),
            lane);
  return false;
}

bool CheckScalarLoad(Wave& wave, uint64_t address, uint64_t bytes) {
  if (bytes <= 16 && address % bytes == 0) {
    for (uint64_t inside = bytes; inside > 0; --inside) {
      if (IsGlobal(*wave.launch, address, inside, false)) return true;
    }
  }
  return CheckGlobal(wave, address, bytes, false, -1);
}

bool ResolveLanes(Wave& wave, Segment segment, const Operand& address, const Operand& base, int64_t offset,
                  uint32_t bytes, LdsAccess access, LanePointers& pointers) {
  const uint64_t exec = wave.exec();
  const bool write = access != LdsAccess::kRead;
  if (segment == Segment::kScratch) {
    for (int l = 0; l < wave.lanes; ++l) {
      pointers.at[l] = nullptr;
      if ((exec >> l & 1) == 0) continue;
      const uint32_t at = LaneWord(wave, address, l) + LaneWord(wave, base, l) + static_cast<uint32_t>(offset);
      if ((pointers.at[l] = ResolveScratch(wave, at, bytes, l)) == nullptr) return false;
    }
    return true;
  }
  uint64_t addresses[kMaxLanes];
  const bool has_base = base.kind == Operand::Kind::kScalar;
  const uint64_t scalar = has_base ? wave.Scalar64(base) : 0;
  uint64_t low = ~0ull, high = 0;
  for (int l = 0; l < wave.lanes; ++l) {
    if ((exec >> l & 1) == 0) continue;
    uint64_t at = LaneWord(wave, address, l);
    if (!has_base) at |= static_cast<uint64_t>(LaneWord(wave, address, l, 1)) << 32;
    at += scalar + static_cast<uint64_t>(offset);
    addresses[l] = at;
    low = std::min(low, at);
    high = std::max(high, at);
  }
  // One question for all lanes, when their addresses are near each other.
  constexpr uint64_t kNear = 1 << 16;
  const bool known = high >= low && high - low < kNear && (segment != Segment::kFlat || high < kSharedAperture) &&
                     IsGlobal(*wave.launch, low, high - low + bytes, write);
  for (int l = 0; l < wave.lanes; ++l) {
    pointers.at[l] = nullptr;
    if ((exec >> l & 1) == 0) continue;
    const uint64_t at = addresses[l];
    if (segment == Segment::kFlat && (at & kApertureMask) == kSharedAperture) {
      pointers.at[l] = ResolveLds(wave, static_cast<uint32_t>(at), bytes, access, l);
    } else if (segment == Segment::kFlat && (at & kApertureMask) == kPrivateAperture) {
      pointers.at[l] = ResolveScratch(wave, static_cast<uint32_t>(at), bytes, l);
    } else if (known || CheckGlobal(wave, at, bytes, write, l)) {
      pointers.at[l] = reinterpret_cast<uint8_t*>(at);
    }
    if (wave.state == Wave::State::kFailed) return false;
  }
  return true;
}

bool ResolveLocal(Wave& wave, const Operand& address, int64_t offset, uint32_t bytes, LdsAccess access,
                  LanePointers& pointers) {
  const uint64_t exec = wave.exec();
  for (int l = 0; l < wave.lanes; ++l) {
    pointers.at[l] = nullptr;
    if ((exec >> l & 1) == 0) continue;
    const uint32_t at = LaneWord(wave, address, l) + static_cast<uint32_t>(offset);
    if ((pointers.at[l] = ResolveLds(wave, at, bytes, access, l)) == nullptr) return false;
  }
  return true;
}

void LoadLane(const uint8_t* from, AccessShape shape, Wave& wave, uint16_t reg, int lane) {
  if (shape.packing == Packing::kWords) {
    for (int w = 0; w < shape.words(); ++w) std::memcpy(&wave.vectors[reg + w][lane], from + 4 * w, 4);
    return;
  }
  uint16_t half = from[0];
  if (shape.bytes == 2) std::memcpy(&half, from, 2);
  const int16_t extended = shape.bytes == 1 ? static_cast<int8_t>(half) : static_cast<int16_t>(half);
  uint32_t& word = wave.vectors[reg][lane];
  // With error correction, which gfx942 has, a load of half a register clears the other half.
  const uint32_t before = wave.machine == Machine::kGfx942 ? 0 : word;
  switch (shape.packing) {
    case Packing::kUnsigned:
      word = half;
      break;
    case Packing::kSigned:
      word = static_cast<uint32_t>(static_cast<int32_t>(extended));
      break;
    case Packing::kLowHalf:
    case Packing::kLowUnsigned:
      word = (before & 0xffff0000u) | half;
      break;
    case Packing::kLowSigned:
      word = (before & 0xffff0000u) | static_cast<uint16_t>(extended);
      break;
    case Packing::kHighHalf:
    case Packing::kHighUnsigned:
      word = (before & 0xffffu) | static_cast<uint32_t>(half) << 16;
      break;
    case Packing::kHighSigned:
      word = (before & 0xffffu) | static_cast<uint32_t>(static_cast<uint16_t>(extended)) << 16;
      break;
    case Packing::kWords:
      break;
  }
}

void StoreLane(uint8_t* to, AccessShape shape, const Wave& wave, const Operand& source, int lane) {
  if (shape.packing == Packing::kWords) {
    for (int w = 0; w < shape.words(); ++w) {
      const uint32_t word = LaneWord(wave, source, lane, w);
      std::memcpy(to + 4 * w, &word, 4);
    }
    return;
  }
  const uint32_t word = LaneWord(wave, source, lane) >> (shape.packing == Packing::kHighHalf ? 16 : 0);
  std::memcpy(to, &word, shape.bytes);
}

RegisterRange ResultRange(const Operand& o) {
  RegisterRange r;
  r.first = o.kind == Operand::Kind::kScalar ? static_cast<uint16_t>(kVectorRegisters + o.index) : o.index;
  r.count = o.kind == Operand::Kind::kScalar && o.index == kNull ? 0 : o.width;
  r.is_result = true;
  return r;
}

void IssueVectorMemory(Wave& wave, const Instruction& i, Segment segment, RegisterRange registers,
                       bool counts_as_store) {
  if (segment == Segment::kFlat) {
    wave.outstanding.IssueFlat(registers, &i);
  } else if (counts_as_store && wave.machine == Machine::kGfx1100) {
    wave.outstanding.Issue(Counter::kStore, Order::kStore, registers, &i);
  } else {
    wave.outstanding.Issue(Counter::kVector, Order::kVectorMemory, registers, &i);
  }
}

}  // namespace backplane::hip::isa
