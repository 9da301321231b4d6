// Assigns a slot to each array of a program: an argument, an output, a constant, or a range of one block of temporary
// memory.
//
// The instructions of each computation run in their order. One timeline numbers every instruction, loop bodies nested
// inside their loop. The live interval of a value is from its definition to its last use. Values whose live intervals
// do not overlap can share a slot. Slots are shared for three reasons, in this order:
//   - a result is computed in the output's buffer, loop state is updated in place, a donated argument becomes
//     an output;
//   - an instruction that can work in place (InPlaceOracle) writes over an operand whose last use it is;
//   - temporaries are packed, the largest first, each at the lowest free offset.
// Where the first is not possible, a copy is added: at the start of a loop, at the end of a body or branch, or at the
// end of the program. All arrays are dense and row-major, so reshapes and bitcasts are aliases. Pure and thread-safe.
#ifndef BACKPLANE_SDK_COMPILER_BUFFER_ASSIGNMENT_H_
#define BACKPLANE_SDK_COMPILER_BUFFER_ASSIGNMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/module.h"

namespace backplane::compiler {

// An index into BufferAssignment::slots. kNoSlot: a token, which has no memory.
using SlotId = int32_t;
constexpr SlotId kNoSlot = -1;

// Bytes past the end of an array of temporary memory that vector code may read and write.
constexpr int64_t kTailPadding = 64;

struct Slot {
  enum class Kind : uint8_t { kArgument, kOutput, kConstant, kTemporary };
  Kind kind = Kind::kTemporary;
  int32_t index = 0;   // argument leaf, output leaf or constant number
  int64_t offset = 0;  // temporary: bytes from the start of the block, a multiple of 64
  int64_t bytes = 0;
  bool operator==(const Slot&) const = default;
};

struct SlotCopy {
  SlotId from = kNoSlot, to = kNoSlot;
  int64_t bytes = 0;
};

struct BufferAssignment {
  std::vector<Slot> slots;
  int64_t temporary_bytes = 0;
  // The slots of the leaves of the result of an instruction, in order. An array has one leaf.
  absl::flat_hash_map<const Instruction*, std::vector<SlotId>> instruction_slots;
  // The copies before a loop, of initial values to its state.
  absl::flat_hash_map<const Instruction*, std::vector<SlotCopy>> loop_entry_copies;
  // The copies after the last instruction of a body, a branch or the entry. They can be executed in order: none
  // overwrites a source of a later one.
  absl::flat_hash_map<const Computation*, std::vector<SlotCopy>> end_copies;
  // The slots of the outputs of the entry, and the constants by number.
  std::vector<SlotId> output_slots;
  std::vector<const Instruction*> constants;
  // For each output leaf the argument leaf whose memory it reuses, or -1. Only pairs that the config of the module
  // names are used.
  std::vector<int32_t> output_alias;

  SlotId slot(const Instruction* instruction, int64_t leaf = 0) const {
    return instruction_slots.at(instruction)[leaf];
  }
  std::string ToString() const;
};

// Returns whether output leaf `output` of `instruction` may reuse the memory of an operand. `operand` is its position
// in operands(). Called only for operands that are at least as large as the output and are not used after the
// instruction.
using InPlaceOracle = std::function<bool(const Instruction* instruction, int64_t operand, int64_t output)>;

// Assigns the slots of a module that has been through all passes. The module must outlive the result.
absl::StatusOr<BufferAssignment> AssignBuffers(const Module& module, const InPlaceOracle& in_place);

}  // namespace backplane::compiler

#endif  // BACKPLANE_SDK_COMPILER_BUFFER_ASSIGNMENT_H_
