#include "plugins/hip/libraries/cuda_data_type.h"

namespace backplane::hip::cuda_type {

std::optional<int32_t> FindNumber(PrimitiveType type) {
  switch (type) {
    case PrimitiveType::kF16:
      return kR16F;
    case PrimitiveType::kBF16:
      return kR16BF;
    case PrimitiveType::kF32:
      return kR32F;
    case PrimitiveType::kF64:
      return kR64F;
    case PrimitiveType::kS8:
      return kR8I;
    case PrimitiveType::kS32:
      return kR32I;
    default:
      return std::nullopt;
  }
}

}  // namespace backplane::hip::cuda_type
