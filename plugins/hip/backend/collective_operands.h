// Operands for the comparison of a library's collectives with copies between devices.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_COLLECTIVE_OPERANDS_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_COLLECTIVE_OPERANDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "plugins/hip/libraries/collective_library.h"

namespace backplane::hip {

enum class CollectiveTest : uint8_t {
  // Sums and products are exact in the type, in any order, so correct results are equal. They are not exact in narrower
  // types. Those of f16 and bf16 are such that a sum that is rounded more than once differs. Maxima and minima have
  // operands that are no number.
  kExact,
  kRounded,  // Numbers with all bits of the type, whose sums are rounded: for repeated runs.
};

// Returns the bytes of one member's operand.
std::string MakeCollectiveOperand(const ArrayCollective& collective, int64_t member, CollectiveTest test);

// Returns the position of the first element in which two results differ; -1 if there is none. Zeros are equal whatever
// their sign, and so are values that are no number.
int64_t FindMismatch(PrimitiveType type, absl::string_view a, absl::string_view b);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_COLLECTIVE_OPERANDS_H_
