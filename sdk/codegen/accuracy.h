// Compares the accuracy of the code for approximated functions with the accuracy that a program requests.
#ifndef BACKPLANE_SDK_CODEGEN_ACCURACY_H_
#define BACKPLANE_SDK_CODEGEN_ACCURACY_H_

#include <optional>

#include "core/ir/module.h"

namespace backplane::codegen {

// Returns the largest error of an operation that takes a result accuracy, in units in the last place of a normal result
// of type `t`. It comes from VectorMath::GetErrorBound and is larger on a target without a fused multiply-add. Nullopt:
// no bound is known, as for complex numbers, whose parts may cancel.
std::optional<double> FindErrorBound(Opcode opcode, PrimitiveType t, bool has_fma);

// Returns Unimplemented for the first instruction, in the module's order, that requests a higher accuracy (mode
// tolerance) than its code has.
absl::Status CheckAccuracy(const Module& module, bool has_fma);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_ACCURACY_H_
