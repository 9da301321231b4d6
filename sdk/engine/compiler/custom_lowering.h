// Lets a plugin run instructions with thunks of its own in place of the engine's, for example on a matrix unit.
//
// A plugin passes one CustomLowering to the passes (LowerForEngine) and to Program::Build (ProgramOptions). The passes
// do not change an instruction that it claims: no kernel contains it, no library call replaces it, and its operands and
// its type stay the same. Only transposes before a dot may still be absorbed into its dimension numbers. The plugin
// makes the thunks of the instructions that it claims; the engine makes all others. Must be thread-safe if several
// compilations share it.
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

  // Whether the plugin runs this instruction. The answer must depend only on the opcode, the attributes, and the types
  // and sizes of operands and result, so that it stays the same from pass to pass. Not called for parameters,
  // constants, tuples, aliases, control flow and instructions inside kernels.
  virtual bool Claims(const Instruction& instruction) const = 0;

  // Creates the thunk of an instruction for the slots of `assignment`. Arrays are dense and row-major, unless the
  // plugin itself passes other addresses of arguments or results to Program::Run, which does not examine them. `log`,
  // which may be null, receives lines for the compile log. An error ends the compilation.
  virtual absl::StatusOr<std::unique_ptr<Thunk>> MakeThunk(const Instruction& instruction,
                                                           const BufferAssignment& assignment,
                                                           std::vector<std::string>* log) const = 0;
};

// Returns false if `lowering` is null.
inline bool IsClaimedBy(const CustomLowering* lowering, const Instruction& instruction) {
  return lowering != nullptr && lowering->Claims(instruction);
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_CUSTOM_LOWERING_H_
