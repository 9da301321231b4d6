// Random programs for tests of passes: chains of data movement, reductions, comparisons and conversions in which the
// patterns of SimplifyAlgebra are frequent, and loops, nested or with small trip counts, that contain loop-invariant
// work.
#ifndef BACKPLANE_CORE_PASSES_RANDOM_ARRAY_PROGRAM_H_
#define BACKPLANE_CORE_PASSES_RANDOM_ARRAY_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "core/ir/module.h"

namespace backplane {

// Returns the same program for the same seed. It verifies and terminates. No dimension is larger than 8. Passes that do
// not reorder float arithmetic keep its results bit by bit.
std::unique_ptr<Module> MakeRandomArrayProgram(uint32_t seed);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_RANDOM_ARRAY_PROGRAM_H_
