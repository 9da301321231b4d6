// Recognizes the custom calls by which a program states shardings.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_ANNOTATIONS_H_
#define BACKPLANE_CORE_PASSES_PARTITION_ANNOTATIONS_H_

#include "core/ir/instruction.h"

namespace backplane {

// Whether `i` is an identity that states a sharding: a custom call "Sharding" or "ShardingGroup".
bool IsShardingAnnotation(const Instruction* i);
// Whether `i` enters or leaves a manual region: a custom call "SPMDFullToShardShape" or "SPMDShardToFullShape".
bool IsManualBoundary(const Instruction* i);
// Whether the importer made the annotation from the sharding of a program result. Such a sharding is binding: the host
// relies on it.
bool IsResultAnnotation(const Instruction* annotation);
// Whether a result or an operand has a dynamic size. A shard would not know how much of it is used.
bool HasDynamicArray(const Instruction* i);
// Returns the dimensions that an annotation or boundary leaves to propagation ("unspecified_dims=[0,2]").
Ints GetUnspecifiedDims(const Instruction* annotation);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_ANNOTATIONS_H_
