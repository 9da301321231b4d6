// Instructions that a plugin runs with thunks of its own, in place of the engine's: on a matrix unit, say.
//
// A plugin hands one CustomLowering to the passes (LowerForEngine) and to Program::Build (ProgramOptions). The passes
// leave an instruction that it claims as it is: no kernel contains it, no library call replaces it, its operands and
// its type do not change; only transposes before a dot may still become other dimension numbers. When thunks are made,
// the plugin makes those of the instructions it claims. Everything else of the program is the engine's.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_CUSTOM_LOWERING_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_CUSTOM_LOWERING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "sdk/compiler/buffer_assignment.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

class CustomLowering {
 public:
  virtual ~CustomLowering() = default;

  // Whether the plugin runs this instruction. The answer depends on its opcode, its attributes and the types and sizes
  // of its operands and result, nothing else, so that it stays the same from pass to pass. Not asked about parameters,
  // constants, tuples, aliases, control flow and what is inside a kernel.
  virtual bool Claims(const Instruction& instruction) const = 0;

  // Makes the thunk, for slots of `assignment`. Arrays are dense and row-major, unless the plugin itself put something
  // else at the address of an argument or a result (Program::Run takes addresses and does not look at them). `log`,
  // which may be null, gets lines for the compile log. An error ends the compilation.
  virtual absl::StatusOr<std::unique_ptr<Thunk>> MakeThunk(const Instruction& instruction,
                                                           const BufferAssignment& assignment,
                                                           std::vector<std::string>* log) const = 0;
};

// `lowering` may be null: then nothing is claimed.
inline bool IsClaimedBy(const CustomLowering* lowering, const Instruction& instruction) {
  return lowering != nullptr && lowering->Claims(instruction);
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_CUSTOM_LOWERING_H_
