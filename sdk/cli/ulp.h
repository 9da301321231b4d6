// Measures the difference of two arrays.
#ifndef BACKPLANE_SDK_CLI_ULP_H_
#define BACKPLANE_SDK_CLI_ULP_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "sdk/host/buffer.h"
#include "sdk/host/json.h"

namespace backplane::cli {

// The tolerance. An element agrees if it is within one of the two.
struct Tolerance {
  double ulp = 0;
  double absolute = 0;
};

struct Difference {
  int64_t count = 0;      // elements
  int64_t differing = 0;  // number of elements that do not agree
  double max_ulp = 0;     // infinity if only one of the two is NaN
  double max_absolute = 0;
  int64_t worst = -1;  // the first element with the largest distance, row-major; -1: all are equal
  std::string worst_a, worst_b;
  bool agrees() const { return differing == 0; }
};

// Compares two arrays element by element. The distance in ULP is the number of steps between neighbouring values of the
// type: 0 for equal values, for two NaNs and for the two zeros. For integers it is the absolute difference, and for
// complex numbers the larger distance of the two parts.
absl::StatusOr<Difference> Compare(const host::HostArray& a, const host::HostArray& b, const Tolerance& tolerance);
host::Json ToJson(const Difference& difference);
std::string FormatDistance(double ulp);  // "3", "inf"

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_ULP_H_
