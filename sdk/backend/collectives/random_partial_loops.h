// Generates random programs with sums that stay partial in nested loops, for tests of PartitionModule.
#ifndef BACKPLANE_SDK_BACKEND_COLLECTIVES_RANDOM_PARTIAL_LOOPS_H_
#define BACKPLANE_SDK_BACKEND_COLLECTIVES_RANDOM_PARTIAL_LOOPS_H_

#include <cstdint>
#include <string>

namespace backplane {

// Returns a module, as HLO text, for four partitions. A loop, which may contain another one, carries a matrix and a
// stack of matrices; in each iteration a product over a sharded dimension is annotated as partial, and goes through
// random operations, some of which allow partial operands. The same seed gives the same text. Arrays are f64, because
// the factors of partial sums must be floats; sums of whole numbers below 2^53 are exact in any order.
std::string MakeRandomPartialLoops(uint32_t seed);

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_COLLECTIVES_RANDOM_PARTIAL_LOOPS_H_
