// Helpers of the files that bound errors (bounds*.cc, compare.cc).
#ifndef BACKPLANE_SDK_CLI_FUZZ_BOUNDS_UTIL_H_
#define BACKPLANE_SDK_CLI_FUZZ_BOUNDS_UTIL_H_

#include <algorithm>
#include <complex>
#include <limits>

#include "absl/types/span.h"
#include "sdk/cli/fuzz/bounds.h"

namespace backplane::cli::fuzz {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Returns element i, with imaginary part zero if the type is not complex.
inline std::complex<double> NumberAt(const Literal& l, int64_t i) {
  return IsComplex(l.shape().element_type()) ? l.GetAsComplex(i) : std::complex<double>(l.GetAsDouble(i), 0);
}

inline bool AllExact(absl::Span<const BoundedValue* const> ops) {
  return std::all_of(ops.begin(), ops.end(), [](const BoundedValue* j) { return j->exact(); });
}

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_BOUNDS_UTIL_H_
