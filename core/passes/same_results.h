// Checks that passes keep the meaning of a program: evaluates the transformed module and the original one. Host
// functions are replaced by hashes of their operands. Collectives act as if all devices held the same values. For tests
// only.
#ifndef BACKPLANE_CORE_PASSES_SAME_RESULTS_H_
#define BACKPLANE_CORE_PASSES_SAME_RESULTS_H_

#include <cstdint>
#include <string>

#include "core/ir/module.h"

namespace backplane {

struct SameResultsOptions {
  uint32_t seed = 1;
  int runs = 3;          // each with its own arguments, which include infinities, NaN and zeros of both signs
  double tolerance = 0;  // relative, for floats; 0: bitwise, except that all NaN are equal
  int64_t int_low = -9, int_high = 9;  // range of random integers
  int64_t max_iterations = 100000;     // of all loops of one run; exceeding it is an error
};

// Returns "" if both modules give the same results for all arguments, else a description of the difference. Returns an
// error if the original module cannot be evaluated: it needs a host, is not deterministic, or runs too many iterations.
absl::StatusOr<std::string> DescribeDifferenceOfResults(const Module& untouched, const Module& changed,
                                                        const SameResultsOptions& options = {});

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_SAME_RESULTS_H_
