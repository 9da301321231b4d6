// Whether what a plugin returned is within the bounds of what a program means.
#ifndef BACKPLANE_SDK_CLI_FUZZ_COMPARE_H_
#define BACKPLANE_SDK_CLI_FUZZ_COMPARE_H_

#include <optional>
#include <string>
#include <vector>

#include "sdk/cli/fuzz/bounds.h"

namespace backplane::cli::fuzz {

struct Mismatch {
  int64_t result = 0;     // number of the array among the program's results
  std::string shape;      // "f32[2,3]"; empty when the results are not of the program's types
  int64_t differing = 0;  // elements out of bounds
  int64_t element = 0;    // the first of them, row-major
  std::string expected, found;
  double bound = 0;                                                          // at that element; 0: the bits
  bool nan = false, infinite = false, zero_sign = false, subnormal = false;  // what is special about those two values
  std::string ToString() const;
};

// How much the comparison could tell.
struct Power {
  int64_t bitwise = 0, bounded = 0, undecided = 0;  // elements
};

// Whether element i of what was found is within a bound of what is meant.
bool Within(const Literal& meant, const Literal& found, int64_t i, double bound);
// The arrays of a result, in the order of results.
std::vector<const Judged*> Leaves(const Judged& result);
std::optional<Mismatch> CompareResults(const Judged& meant, const std::vector<Literal>& found, Power* power = nullptr);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_COMPARE_H_
