// Turns a called computation into a program over scalars, where it is no more than elementwise operations on scalars.
#ifndef BACKPLANE_CORE_EVAL_SCALAR_COMPILER_H_
#define BACKPLANE_CORE_EVAL_SCALAR_COMPILER_H_

#include <memory>

#include "core/ir/computation.h"
#include "core/ops/scalar_program.h"

namespace backplane {

// Null when an instruction is not elementwise, or a value is no scalar. Calls are followed; the root may be a tuple.
std::unique_ptr<ScalarProgram> CompileScalarProgram(const Computation& computation);

// The binary operation that the computation is, on its two scalar parameters in order (or swapped, if it commutes).
std::optional<Opcode> AsBinaryOp(const Computation& computation);

}  // namespace backplane

#endif  // BACKPLANE_CORE_EVAL_SCALAR_COMPILER_H_
