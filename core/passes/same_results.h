// Whether passes have kept what a program means: the module that they changed against the one that they have not
// touched, both by the evaluator's definitions. Functions of the host give what depends on all that they are given;
// collectives find the same on every device. For tests only.
#ifndef BACKPLANE_CORE_PASSES_SAME_RESULTS_H_
#define BACKPLANE_CORE_PASSES_SAME_RESULTS_H_

#include <cstdint>
#include <string>

#include "core/ir/module.h"

namespace backplane {

struct SameResultsOptions {
  uint32_t seed = 1;
  int runs = 3;          // each with arguments of its own; infinities, NaN and zeros of both signs among them
  double tolerance = 0;  // relative, of floats; 0: to the bit, but for which NaN it is
  int64_t int_low = -9, int_high = 9;  // of random integers
  int64_t max_iterations = 100000;     // of all loops of one run; more is an error
};

// "" when both give the same for all arguments, else what differs. An error where the untouched module cannot be
// evaluated: it needs a host, gives something else each time, or takes too many
// iterations.
absl::StatusOr<std::string> DifferenceOfResults(const Module& untouched, const Module& changed,
                                                const SameResultsOptions& options = {});

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_SAME_RESULTS_H_
