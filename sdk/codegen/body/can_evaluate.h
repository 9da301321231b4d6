// Tells what BodyEvaluator can evaluate and what ComputationCaller can call. These functions only inspect programs;
// they emit no IR.
//
// They return Unimplemented with the instruction, what was found and what is expected.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_CAN_EVALUATE_H_
#define BACKPLANE_SDK_CODEGEN_BODY_CAN_EVALUATE_H_

#include "absl/status/status.h"
#include "core/ir/computation.h"

namespace backplane::codegen {

// Checks an instruction as a part of a body, but not its operands. Supported are elementwise operations, data movement,
// reductions, windows, and loops and branches over single elements. Operations that update arrays, such as scatter, are
// not supported, because they have loops of their own.
absl::Status CanEvaluate(const Instruction& op);

// Checks a computation of single elements and all computations that it calls.
absl::Status CanCall(const Computation& computation);

// Checks that the instruction and its operands are dense row-major arrays of static size, or tuples of such arrays.
absl::Status CheckArrays(const Instruction& op);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_CAN_EVALUATE_H_
