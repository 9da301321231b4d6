// Numbers of element types: cudaDataType of cuBLAS and cuBLASLt, which are those of hipDataType, too.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_CUDA_DATA_TYPE_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_CUDA_DATA_TYPE_H_

#include <cstdint>
#include <optional>

#include "core/types/primitive_type.h"

namespace backplane::hip::cuda_type {

inline constexpr int32_t kR32F = 0, kR64F = 1, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14;

// Returns nullopt for a type that the libraries do not multiply or sum.
std::optional<int32_t> FindNumber(PrimitiveType type);

}  // namespace backplane::hip::cuda_type

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_CUDA_DATA_TYPE_H_
