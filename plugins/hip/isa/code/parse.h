// Converts the text of an instruction, as LLVM's disassembler prints it, to the form that is executed.
#ifndef BACKPLANE_PLUGINS_HIP_ISA_CODE_PARSE_H_
#define BACKPLANE_PLUGINS_HIP_ISA_CODE_PARSE_H_

#include "absl/status/status.h"
#include "plugins/hip/isa/machine/instruction.h"

namespace backplane::hip::isa {

// Fills in operation, operands, modifiers and touched registers from `i.text` and `i.words`. Returns Unimplemented,
// with the text, for an operation, operand or modifier that the interpreter does not know.
absl::Status ParseInstruction(Machine machine, Instruction& i);

}  // namespace backplane::hip::isa

#endif  // BACKPLANE_PLUGINS_HIP_ISA_CODE_PARSE_H_
