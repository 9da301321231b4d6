// Generates random programs on full arrays with random shardings, for tests of PartitionModule.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_RANDOM_SHARDED_PROGRAM_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_RANDOM_SHARDED_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "core/ir/module.h"

namespace backplane {

inline constexpr int64_t kRandomProgramPartitions = 4;

// Returns a module for kRandomProgramPartitions partitions. The same seed gives the same module. All arrays are s32,
// because integer sums are exact in any order.
std::unique_ptr<Module> MakeRandomShardedProgram(uint32_t seed);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_RANDOM_SHARDED_PROGRAM_H_
