// Addresses of lanes, and the bytes behind them.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_MEMORY_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_MEMORY_H_

#include <cstdint>

#include "plugins/hip/isa/machine/instruction.h"
#include "plugins/hip/isa/machine/lds.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {

enum class Segment : uint8_t { kGlobal, kFlat, kScratch, kLocal };

// How a value in memory and one in registers correspond.
enum class Packing : uint8_t {
  kWords,
  kUnsigned,  // zero-extended
  kSigned,    // sign-extended
  kLowHalf,   // 16 bits of the register
  kHighHalf,
  kLowUnsigned,  // a byte extended to the lower half
  kLowSigned,
  kHighUnsigned,
  kHighSigned,
};

struct AccessShape {
  uint8_t bytes = 4;
  Packing packing = Packing::kWords;
  uint8_t count = 1;    // ds_read2: two values
  uint16_t stride = 1;  // of the offsets of the two, in values
  constexpr int64_t Encode() const {
    return bytes | static_cast<int>(packing) << 8 | count << 16 | int64_t{stride} << 24;
  }
  static constexpr AccessShape Decode(int64_t v) {
    return {static_cast<uint8_t>(v), static_cast<Packing>(v >> 8 & 255), static_cast<uint8_t>(v >> 16),
            static_cast<uint16_t>(v >> 24)};
  }
  int words() const { return bytes <= 4 ? 1 : bytes / 4; }
};

// The host's address for each lane of an access. Null where the lane does not take part.
struct LanePointers {
  uint8_t* at[kMaxLanes];
};

// Computes the addresses of lanes and checks them: by MemoryGuard, against LDS bounds and races, and against the size
// of private memory. `address` and `base` are the operands; `base` is a scalar or off. On an error the wave fails, and
// the result is false.
bool ResolveLanes(Wave& wave, Segment segment, const Operand& address, const Operand& base, int64_t offset,
                  uint32_t bytes, LdsAccess access, LanePointers& pointers);
// Does the same for LDS, whose addresses are one register.
bool ResolveLocal(Wave& wave, const Operand& address, int64_t offset, uint32_t bytes, LdsAccess access,
                  LanePointers& pointers);

// Whether the wave may access memory of the device, or memory of the launch itself.
bool CheckGlobal(Wave& wave, uint64_t address, uint64_t bytes, bool write, int lane);
// The same for a scalar load. One of at most 16 bytes, aligned to its size, may end behind an allocation, because no
// page ends within it: LLVM loads whole pieces of uniform memory of which a kernel needs a part.
bool CheckScalarLoad(Wave& wave, uint64_t address, uint64_t bytes);

void LoadLane(const uint8_t* from, AccessShape shape, Wave& wave, uint16_t reg, int lane);
void StoreLane(uint8_t* to, AccessShape shape, const Wave& wave, const Operand& source, int lane);

// Counts an access of vector memory that writes `registers` (none for a store).
void IssueVectorMemory(Wave& wave, const Instruction& i, Segment segment, RegisterRange registers,
                       bool counts_as_store);
RegisterRange ResultRange(const Operand& o);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_MEMORY_H_
