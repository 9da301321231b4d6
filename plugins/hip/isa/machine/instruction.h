// An instruction in the form that the interpreter executes: a function and operands, made once from the text that
// LLVM's disassembler prints (isa/code/parse.h).
#ifndef BACKPLANE_PLUGINS_HIP_ISA_MACHINE_INSTRUCTION_H_
#define BACKPLANE_PLUGINS_HIP_ISA_MACHINE_INSTRUCTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace backplane::hip::isa {

struct Wave;
struct Instruction;
// Accesses of one order complete in the order in which they were issued (outstanding.h).
enum class Order : uint8_t { kNone, kVectorMemory, kStore, kLds };

enum class Machine : uint8_t { kGfx942, kGfx1100 };

// How an operation reads an operand. 16-bit values are in the lower half of a register unless a modifier selects
// another.
enum class Type : uint8_t { kNone, k16, kF16, kBF16, k32, kF32, k64, kI64, kF64, k96, k128, kMask };

constexpr bool IsFloat(Type t) { return t == Type::kF16 || t == Type::kBF16 || t == Type::kF32 || t == Type::kF64; }
constexpr bool Is16Bit(Type t) { return t == Type::k16 || t == Type::kF16 || t == Type::kBF16; }
constexpr bool Is64Bit(Type t) { return t == Type::k64 || t == Type::kI64 || t == Type::kF64; }

enum class Select : uint8_t { kDword, kWord0, kWord1, kByte0, kByte1, kByte2, kByte3 };

struct Operand {
  enum class Kind : uint8_t { kNone, kVector, kScalar, kImmediate, kOff };
  Kind kind = Kind::kNone;
  Select select = Select::kDword;
  bool negate = false, absolute = false, sign_extend = false;
  bool is_float = false;     // an inline constant like 0.5, whose bits depend on the operation's type
  bool is_literal = false;   // 32 bits behind the instruction, printed as a hexadecimal number
  bool is_aperture = false;  // the upper halves of flat addresses
  uint8_t width = 1;         // registers
  uint16_t index = 0;        // of the first register, see Wave
  uint64_t value = 0;        // of an immediate: bits, after Bind() as the type of the operation wants them
  double number = 0;
  bool operator==(const Operand&) const = default;
};

// Lanes that read their first source from other lanes (DPP: data parallel primitives).
struct LaneShuffle {
  enum class Kind : uint8_t { kNone, kDpp16, kDpp8 };
  Kind kind = Kind::kNone;
  uint16_t control = 0;  // DPP16: the field dpp_ctrl
  uint8_t row_mask = 15, bank_mask = 15;
  bool bound_control = false;   // lanes without a source read zero instead of being disabled
  bool fetch_inactive = false;  // lanes that EXEC disables can be read
  uint32_t selects = 0;         // DPP8: 3 bits for each lane
};

// What an instruction's text says besides operands.
struct Modifiers {
  bool clamp = false;
  uint8_t output_scale = 0;  // 1: times 2, 2: times 4, 3: half
  bool returns = false;      // glc or sc0: an atomic returns the value before
  bool lds = false, gds = false;
  int32_t offset = 0, offset0 = 0, offset1 = 0;
  Select destination = Select::kDword;                                                 // SDWA, and op_sel's last bit
  enum class Unused : uint8_t { kPad, kSignExtend, kPreserve } unused = Unused::kPad;  // SDWA: the rest of the register
  bool has_destination_select = false;
  uint8_t op_sel = 0, op_sel_hi = 0, neg_lo = 0, neg_hi = 0;  // a bit for each source
  uint8_t cbsz = 0, abid = 0, blgp = 0;
  LaneShuffle shuffle;
};

// Registers that an instruction touches. Vector registers are numbered as in Operand; scalar ones follow behind.
struct RegisterRange {
  uint16_t first = 0;
  uint8_t count = 0;
  bool is_result = false;
};
inline constexpr uint16_t kVectorRegisters = 512;  // 256 and, from kAccumulators on, those named a0, a1, ...
inline constexpr uint16_t kAccumulators = 256;
inline constexpr uint16_t kScalarRegisters = 128;
inline constexpr uint16_t kVccLow = 106, kNull = 124, kM0 = 125, kExecLow = 126;

enum class Category : uint8_t {
  kScalar,
  kVector,
  kMatrix,
  kScalarLoad,
  kGlobalLoad,
  kGlobalStore,
  kLds,
  kBarrier,
  kOther
};

// One operation on all lanes of a wave: the rows that the sources were read into, and the row for the result. A row has
// an element for each lane: 4 bytes, 8 for 64-bit types.
struct LaneContext {
  const void* sources[4];
  void* result;
  uint64_t mask_in = 0, mask_out = 0;
  int lanes = 0;
};
using LaneFunction = void (*)(LaneContext&);
using Handler = void (*)(Wave&, const Instruction&);

enum class ShortImmediate : uint8_t { kNone, kSigned, kUnsigned };

// A row of the operation tables: what a mnemonic means. `types` are those of the operands in the order of the text.
struct Operation {
  absl::string_view mnemonic;
  Category category = Category::kOther;
  Handler execute = nullptr;
  LaneFunction lanes = nullptr;
  uint8_t results = 0, sources = 0;  // operands that are written, then operands that are read
  Type types[6] = {};
  // The result's register is a further source, after those of the text: v_fmac.
  bool accumulates = false;
  bool reads_vcc = false;
  bool keeps_upper_half = false;    // gfx942: a 16-bit result leaves the upper half of its register as it is
  Order load_order = Order::kNone;  // of what a load writes, which may be overwritten by a later load of the order
  bool packed = false;              // the function takes op_sel, op_sel_hi, neg_lo and neg_hi itself
  bool mixed = false;               // op_sel_hi is zero unless it stands in the text
  bool handles_clamp = false;       // the function takes the modifier itself
  bool variable_operands = false;
  // The operands of the text are not read: the function takes Instruction::simm16.
  bool uses_simm16 = false;
  ShortImmediate short_immediate = ShortImmediate::kNone;
  int64_t parameter = 0;
  // The one machine that has it by this meaning.
  enum Only : uint8_t { kBoth, kGfx942, kGfx1100 } machine = kBoth;
};

struct Instruction {
  Handler execute = nullptr;
  const Operation* operation = nullptr;
  Operand operands[7];
  uint8_t operand_count = 0;
  Modifiers modifiers;
  bool plain = true;    // no modifier that changes how rows are read or written
  uint32_t next = 0;    // index of the instruction behind
  uint32_t target = 0;  // of a branch
  uint64_t address = 0;
  uint8_t bytes = 0;
  uint16_t simm16 = 0;
  uint32_t words[3] = {};
  std::vector<RegisterRange> touched;
  std::vector<Instruction> pair;  // VOPD: the two halves
  std::string text, mnemonic, error;

  const Operand& Result(int i = 0) const { return operands[i]; }
  const Operand& Source(int i) const { return operands[operation->results + i]; }
  Type SourceType(int i) const { return operation->types[operation->results + i]; }
};

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_MACHINE_INSTRUCTION_H_
