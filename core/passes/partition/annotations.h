// The custom calls by which a program says where its values lie.
#ifndef BACKPLANE_CORE_PASSES_PARTITION_ANNOTATIONS_H_
#define BACKPLANE_CORE_PASSES_PARTITION_ANNOTATIONS_H_

#include "core/ir/instruction.h"

namespace backplane {

// Custom calls that say where a value lies and otherwise are the value.
bool IsAnnotation(const Instruction* i);
// Custom calls that lead into and out of a manual region.
bool IsBoundary(const Instruction* i);
// Annotations that the importer made of a result's own sharding: the host holds the program to it.
bool IsOfResult(const Instruction* annotation);
// "unspecified_dims=[0,2]" of an annotation or boundary: dimensions that it
// leaves open.
Ints OpenDimensions(const Instruction* annotation);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PARTITION_ANNOTATIONS_H_
