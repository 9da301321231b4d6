// Thunks for operations that a hand-written kernel runs: sort, top-k, FFT, random bits, factorizations.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_THUNKS_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_THUNKS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/compiler/buffer_assignment.h"
#include "sdk/engine/codegen/kernel.h"
#include "sdk/engine/thunks/thunk.h"

namespace backplane::engine {

// A sort whose comparator must be generated (codegen::EmitScalarFunctions) to be passed to MakeLibraryThunk: it is no
// chain of plain comparisons, and code can be generated for it.
bool NeedsComparator(const Instruction& instruction);

// Null when there is no such kernel for this instruction; `refusal` then says why, or is left alone where the operation
// is none of these. `log` (may be null) gets one line for a kernel that was found. `comparator`: null unless
// NeedsComparator.
absl::StatusOr<std::unique_ptr<Thunk>> MakeLibraryThunk(const Instruction& instruction,
                                                        const BufferAssignment& assignment,
                                                        std::vector<std::string>* log, codegen::ComparatorFn comparator,
                                                        std::string* refusal);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_THUNKS_H_
