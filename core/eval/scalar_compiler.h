// Compiles a computation that consists of elementwise operations on scalars to a scalar program.
#ifndef BACKPLANE_CORE_EVAL_SCALAR_COMPILER_H_
#define BACKPLANE_CORE_EVAL_SCALAR_COMPILER_H_

#include <memory>

#include "core/ir/computation.h"
#include "core/ops/scalar_program.h"

namespace backplane {

// Returns null if an instruction is not elementwise or a value is not a scalar. Inlines calls. The root may be a tuple.
std::unique_ptr<ScalarProgram> CompileScalarProgram(const Computation& computation);

// Returns the binary operation that the computation applies to its two scalar parameters, in order or, if it commutes,
// swapped. Returns nullopt for any other computation.
std::optional<Opcode> AsBinaryOp(const Computation& computation);

}  // namespace backplane

#endif  // BACKPLANE_CORE_EVAL_SCALAR_COMPILER_H_
