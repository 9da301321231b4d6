// Numbers of reducers and types of NCCL and RCCL.
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_NCCL_NUMBERS_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_NCCL_NUMBERS_H_

#include <cstdint>

namespace backplane::hip::nccl {

using Enum = int32_t;  // all enumerations of the interface

inline constexpr Enum kSum = 0, kProduct = 1, kMaximum = 2, kMinimum = 3;
inline constexpr Enum kInt8 = 0, kUint8 = 1, kInt32 = 2, kUint32 = 3, kInt64 = 4, kUint64 = 5, kFloat16 = 6,
                      kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;

}  // namespace backplane::hip::nccl

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_NCCL_NUMBERS_H_
