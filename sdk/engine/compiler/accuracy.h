// What accuracy the code for elementary functions keeps, and whether that is enough for a program.
#ifndef BACKPLANE_SDK_ENGINE_COMPILER_ACCURACY_H_
#define BACKPLANE_SDK_ENGINE_COMPILER_ACCURACY_H_

#include <optional>

#include "core/ir/module.h"

namespace backplane::engine {

// The largest error of one of the functions that take a result accuracy, in units of the last place of a normal result
// of type `t`, as jit/vector_math_test.cc insists on it; more where the host has no fused multiply-add. Nullopt: none
// is known, as for complex numbers, whose parts may cancel.
std::optional<double> ErrorBound(Opcode opcode, PrimitiveType t, bool has_fma);

// Unimplemented for the first instruction, in the module's order, that asks for more (mode tolerance) than its code
// keeps.
absl::Status CheckAccuracy(const Module& module, bool has_fma);

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_COMPILER_ACCURACY_H_
