// Creates thunks for operations with a hand-written kernel: sort, top-k, FFT, random bits, factorizations.
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

// Whether the instruction is a sort whose comparator must be generated (codegen::EmitScalarFunctions) and passed to
// MakeLibraryThunk. This is so if the comparator is not a chain of plain comparisons and code can be generated for it.
bool NeedsComparator(const Instruction& instruction);

// Returns null if there is no such kernel for this instruction. `refusal` then receives the reason, or is not changed
// if the operation is none of these. `log`, which may be null, receives one line for a kernel that was found.
// `comparator` is null unless NeedsComparator is true.
absl::StatusOr<std::unique_ptr<Thunk>> MakeLibraryThunk(const Instruction& instruction,
                                                        const BufferAssignment& assignment,
                                                        std::vector<std::string>* log, codegen::ComparatorFn comparator,
                                                        std::string* refusal);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_LIBRARY_THUNKS_H_
