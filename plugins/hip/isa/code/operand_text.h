// Operands as LLVM prints them: "v[0:3]", "-|s4|", "sext(v1)", "vcc_lo", "0.5", "0x40490fdb", "off".
#ifndef BACKPLANE_PLUGINS_HIP_ISA_CODE_OPERAND_TEXT_H_
#define BACKPLANE_PLUGINS_HIP_ISA_CODE_OPERAND_TEXT_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "plugins/hip/isa/machine/instruction.h"

namespace backplane::hip::isa {

// Returns nullopt if the text is no operand.
std::optional<Operand> ParseOperand(absl::string_view text);

// Returns the bits of an immediate for an operation that reads it as `type`: inline constants like 0.5 are floats of
// the operand's width, and a literal of 32 bits is the upper half of a double.
uint64_t EncodeImmediate(const Operand& immediate, Type type);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_CODE_OPERAND_TEXT_H_
