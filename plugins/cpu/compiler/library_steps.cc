#include "plugins/cpu/compiler/library_steps.h"

namespace backplane::cpu {

absl::StatusOr<std::unique_ptr<Thunk>> MakeLibraryStep(const Instruction& instruction, const BufferAssignment& assignment,
                                                       std::vector<std::string>* log) {
  return std::unique_ptr<Thunk>();
}

}  // namespace backplane::cpu
