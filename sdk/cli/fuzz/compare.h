// Compares the result of a plugin with the meaning of a program, within its bounds.
#ifndef BACKPLANE_SDK_CLI_FUZZ_COMPARE_H_
#define BACKPLANE_SDK_CLI_FUZZ_COMPARE_H_

#include <optional>
#include <string>
#include <vector>

#include "sdk/cli/fuzz/bounds.h"

namespace backplane::cli::fuzz {

struct Mismatch {
  int64_t result = 0;     // index of the array among the program's results
  std::string shape;      // "f32[2,3]"; empty if the results do not have the program's types
  int64_t differing = 0;  // number of elements out of bounds
  int64_t element = 0;    // the first of them, row-major
  std::string expected, found;
  double bound = 0;                                                          // at that element; 0: the bits
  bool nan = false, infinite = false, zero_sign = false, subnormal = false;  // properties of those two values
  std::string ToString() const;
};

// How much of the results was compared.
struct Power {
  int64_t bitwise = 0, bounded = 0, undecided = 0;  // numbers of elements
};

// Whether element i of the result is within its bound.
bool IsWithin(const Literal& meant, const Literal& found, int64_t i, double bound);
// Returns the arrays of a result, in order.
std::vector<const BoundedValue*> Leaves(const BoundedValue& result);
std::optional<Mismatch> CompareResults(const BoundedValue& meant, const std::vector<Literal>& found,
                                       Power* power = nullptr);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_COMPARE_H_
