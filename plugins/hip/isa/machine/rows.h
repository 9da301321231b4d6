// Reads and writes rows: a register of all lanes, with an instruction's modifiers.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_ROWS_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_ROWS_H_

#include <cstdint>

#include "plugins/hip/isa/machine/instruction.h"
#include "plugins/hip/isa/machine/wave.h"

namespace backplane::hip::isa {

// Room for a row of any type.
struct alignas(64) Row {
  union {
    uint32_t u32[kMaxLanes];
    uint64_t u64[kMaxLanes];
  };
};

// Returns the row of a source: the register itself if no modifier changes it, otherwise `buffer`. Elements have 4
// bytes, those of 64-bit types 8. Sign modifiers and mode bits that flush subnormals are applied; DPP is not.
const void* ReadRow(const Wave& wave, const Operand& source, Type type, Row& buffer);

// DPP: moves the row's elements among lanes. Returns the lanes that may write.
uint64_t ShuffleRow(Wave& wave, const LaneShuffle& shuffle, Type type, const void* row, Row& buffer);

// Writes the elements of lanes in `mask`, after the modifiers for results.
void WriteRow(Wave& wave, const Instruction& i, const Operand& result, Type type, Row& row, uint64_t mask);

// Words of registers, with no modifiers: for memory and cross-lane operations.
inline const uint32_t* VectorRow(const Wave& wave, const Operand& o, int word = 0) {
  return wave.vectors[o.index + word];
}
// The word of one lane of a vector register, scalar or constant.
inline uint32_t LaneWord(const Wave& wave, const Operand& o, int lane, int word = 0) {
  switch (o.kind) {
    case Operand::Kind::kVector:
      return wave.vectors[o.index + word][lane];
    case Operand::Kind::kScalar:
      return wave.scalars[o.index + word];
    case Operand::Kind::kImmediate:
      return static_cast<uint32_t>(o.value >> (32 * word));
    default:
      return 0;
  }
}

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_ROWS_H_
