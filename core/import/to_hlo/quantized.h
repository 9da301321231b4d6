// Quantized tensor types (!quant.uniform) in the core's terms.
#ifndef BACKPLANE_CORE_IMPORT_TO_HLO_QUANTIZED_H_
#define BACKPLANE_CORE_IMPORT_TO_HLO_QUANTIZED_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/import/stablehlo/source.h"
#include "core/types/primitive_type.h"

namespace backplane::to_hlo {

// How the elements of a tensor are quantized; null when they are not, and for any other type.
const stablehlo::SourceQuantization* QuantizationOf(const stablehlo::SourceType* type);

// The integer type that holds the elements: 2 to 32 bits.
absl::StatusOr<PrimitiveType> StorageElementType(const stablehlo::SourceQuantization& q);

// The constraints on a tensor of quantized elements, labelled [quantized_c3] ... [quantized_c13] after the StableHLO
// specification's C3 to C13 of quantized types. `tensor` has quantized elements.
absl::Status CheckQuantization(const stablehlo::SourceType* tensor);

// Whether an operand or a result is a tensor of quantized elements.
bool TouchesQuantized(const stablehlo::SourceOp& op);

}  // namespace backplane::to_hlo

#endif  // BACKPLANE_CORE_IMPORT_TO_HLO_QUANTIZED_H_
