// Which accuracy the code of approximated functions keeps, and whether that is enough for a program.
#ifndef BACKPLANE_SDK_CODEGEN_ACCURACY_H_
#define BACKPLANE_SDK_CODEGEN_ACCURACY_H_

#include <optional>

#include "core/ir/module.h"

namespace backplane::codegen {

// The greatest error of an operation that takes a result accuracy, in units of the last place of a normal result of
// type `t`. It comes from VectorMath::ErrorOf and is larger on a target without a fused multiply-add. Nullopt: no bound
// is known, as for complex numbers, whose parts may cancel.
std::optional<double> ErrorBound(Opcode opcode, PrimitiveType t, bool has_fma);

// Unimplemented for the first instruction, in the module's order, that asks for more (mode tolerance) than its code
// keeps.
absl::Status CheckAccuracy(const Module& module, bool has_fma);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_ACCURACY_H_
