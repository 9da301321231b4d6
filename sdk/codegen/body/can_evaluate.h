// What BodyEvaluator can evaluate and ComputationCaller can call. Facts about programs; no IR is written here.
//
// The errors are Unimplemented and name the instruction, what was found and what is expected.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_CAN_EVALUATE_H_
#define BACKPLANE_SDK_CODEGEN_BODY_CAN_EVALUATE_H_

#include "absl/status/status.h"
#include "core/ir/computation.h"

namespace backplane::codegen {

// Of an instruction as part of a body, its operands excepted: element operations, movement, reductions, windows, and
// loops and branches over single elements. Updates of arrays (scatter and the like) have loops of their own.
absl::Status CanEvaluate(const Instruction& op);

// Of a computation of single elements, and of all that it calls.
absl::Status CanCall(const Computation& computation);

// That the instruction and its operands are dense row-major arrays of static size, or tuples of them.
absl::Status CheckArrays(const Instruction& op);

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_CAN_EVALUATE_H_
