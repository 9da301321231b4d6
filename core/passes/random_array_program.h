// Random programs for tests of passes: chains of what moves, reduces, compares and converts arrays, made so that what
// the rules of SimplifyAlgebra look for occurs often; and loops, nested and of few turns or none, in which some work is
// the same in every turn.
#ifndef BACKPLANE_CORE_PASSES_RANDOM_ARRAY_PROGRAM_H_
#define BACKPLANE_CORE_PASSES_RANDOM_ARRAY_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "core/ir/module.h"

namespace backplane {

// The same program for the same seed; it verifies and it ends. No dimension is larger than 8. The results of passes
// that put no float arithmetic in another order are the same to the bit.
std::unique_ptr<Module> RandomArrayProgram(uint32_t seed);

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_RANDOM_ARRAY_PROGRAM_H_
