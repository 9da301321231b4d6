// Interprets quantized tensor types (!quant.uniform).
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_QUANTIZED_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_QUANTIZED_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/import/stablehlo/source.h"
#include "core/types/primitive_type.h"

namespace backplane::to_hlo {

// Returns how the elements of a tensor are quantized, or null if they are not or the type is no tensor.
const stablehlo::SourceQuantization* FindQuantization(const stablehlo::SourceType* type);

// Returns the integer type that stores the elements, of 2 to 32 bits.
absl::StatusOr<PrimitiveType> StorageElementType(const stablehlo::SourceQuantization& q);

// Checks the constraints on a tensor of quantized elements. The labels [quantized_c3] to [quantized_c13] correspond to
// C3 to C13 of quantized types in the StableHLO specification.
absl::Status CheckQuantization(const stablehlo::SourceType* tensor);

// Whether an operand or a result is a tensor of quantized elements.
bool TouchesQuantized(const stablehlo::SourceOp& op);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_QUANTIZED_H_
