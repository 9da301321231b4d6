// dot and convolution on the matrix unit (array_product.h).
//
// A dot is one product of [batch, free, contracting] by [batch, contracting, free]. A convolution is one of rows of
// windows by the kernel: contracting runs over the window's positions, the last one fastest, and within a position over
// the input features. Precision of f32 operands: the higher of the two `operand_precision` entries, or what a dot
// `algorithm` asks for; narrower operands take one pass whatever it says. Sums are f32, rounded once to the result.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_CONTRACTION_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_CONTRACTION_H_

#include "absl/status/statusor.h"
#include "core/ir/instruction.h"
#include "core/types/literal.h"

namespace backplane::tpu {

// OK when the unit computes this dot or convolution: operands of f32 or narrower floating types, and a result of such
// a type. Unimplemented, with the reason, otherwise (integers are exact wherever they are computed; f64 and complex
// numbers are no type of the unit).
absl::Status TakenByArray(const Instruction& op);

// Passes that the operation asks for: 0 (as they are), 1, 3 or 6. Of an operation that TakenByArray accepts.
int PassesOf(const Instruction& op);

// `side` 128 or 256, `threads` at least 1. The operands have the instruction's operand shapes, row-major. Dimensions
// are static.
absl::StatusOr<Literal> RunOnArray(const Instruction& op, const Literal& lhs, const Literal& rhs, int64_t side,
                                   int threads);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_ARRAY_CONTRACTION_H_
