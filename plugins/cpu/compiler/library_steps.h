// Steps for operations that a hand-written kernel runs: sort, top-k, FFT, random bits, factorizations.
#ifndef BACKPLANE_PLUGINS_CPU_COMPILER_LIBRARY_STEPS_H_
#define BACKPLANE_PLUGINS_CPU_COMPILER_LIBRARY_STEPS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "plugins/cpu/compiler/buffer_assignment.h"
#include "plugins/cpu/thunks/thunk.h"

namespace backplane::cpu {

// Null when there is no such kernel for this instruction; `log` (may be null) then says why.
absl::StatusOr<std::unique_ptr<Thunk>> MakeLibraryStep(const Instruction& instruction, const BufferAssignment& assignment,
                                                       std::vector<std::string>* log);

}  // namespace backplane::cpu

#endif  // BACKPLANE_PLUGINS_CPU_COMPILER_LIBRARY_STEPS_H_
