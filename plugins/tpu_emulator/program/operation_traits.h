// Properties of single operations that several passes of the emulator ask for: what an operation costs on the vector
// unit, which unit runs it, and whether it moves elements between tiles.
//
// The functions are pure and thread-safe.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_OPERATION_TRAITS_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_OPERATION_TRAITS_H_

#include "core/ir/instruction.h"

namespace backplane::tpu {

// The cost of an elementwise operation, in vector-unit operations per register of results: 1, 2, 4 or 8 (see VectorOp
// in clock.h).
double ComputeVectorCost(Opcode opcode);

// Whether the scalar unit runs this operation. It runs elementwise arithmetic, reshapes and bitcasts whose operands and
// result are all single integers or predicates. Such an operation belongs to no kernel.
bool IsScalarUnitOp(const Instruction& i);

// Whether the operation is a matrix product or a convolution, which the matrix unit computes.
bool IsContraction(const Instruction& i);

// Whether the operation reduces the elements of an array, or of windows of it. A scatter does not: its indices say
// which elements it combines.
bool IsReduction(const Instruction& i);

// Whether `type` is a floating-point type narrower than 32 bits: bf16, f16, the 8-bit floats and below.
bool IsNarrowFloat(PrimitiveType type);

// Whether a reshape from `from` to `to` leaves every element at its position within its tile, for any order of the
// major dimensions. That holds if the two most minor dimensions other than 1 stay the same, or if only dimensions above
// whole tiles are split and merged.
bool KeepsTiles(const Shape& from, const Shape& to);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_PROGRAM_OPERATION_TRAITS_H_
