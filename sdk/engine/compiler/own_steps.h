// Steps that a plugin makes itself, in place of the engine's: a matrix unit of its own, say.
//
// A plugin hands one OwnSteps to the passes (LowerForEngine) and to Program::Build (ProgramOptions). What it takes the
// passes leave as it is: no kernel contains it, no library call replaces it, its operands and its type stay what they
// are; only transposes before a dot may still become other dimension numbers. When steps are made the plugin is asked
// for one. Everything else of the program is the engine's.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_OWN_STEPS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_OWN_STEPS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "sdk/compiler/buffer_assignment.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

class OwnSteps {
 public:
  virtual ~OwnSteps() = default;

  // Whether the plugin runs this instruction: by its opcode, attributes and the types and sizes of its operands and
  // result, nothing else, so that the answer stays the same. Not asked about parameters, constants, tuples, aliases,
  // control flow and what is inside a kernel.
  virtual bool Takes(const Instruction& instruction) const = 0;

  // The step, for slots of `assignment`. Arrays are dense and row-major, unless the plugin itself put something else at
  // the address of an argument or a result (Program::Run takes addresses and never looks). `log` (may be null): a line
  // for the compile log. An error ends the compilation.
  virtual absl::StatusOr<std::unique_ptr<Thunk>> MakeStep(const Instruction& instruction,
                                                          const BufferAssignment& assignment,
                                                          std::vector<std::string>* log) const = 0;
};

inline bool TakenBy(const OwnSteps* own, const Instruction& instruction) {
  return own != nullptr && own->Takes(instruction);
}

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_OWN_STEPS_H_
