// How far two arrays are from one another.
#ifndef BACKPLANE_SDK_CLI_ULP_H_
#define BACKPLANE_SDK_CLI_ULP_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "sdk/host/buffer.h"
#include "sdk/host/json.h"

namespace backplane::cli {

// What is still equal. An element agrees when it is within either.
struct Tolerance {
  double ulp = 0;
  double absolute = 0;
};

struct Difference {
  int64_t count = 0;      // elements
  int64_t differing = 0;  // that do not agree
  double max_ulp = 0;     // infinity when one is NaN and the other is not
  double max_absolute = 0;
  int64_t worst = -1;  // the first element of the greatest distance, row-major; -1: none differs at all
  std::string worst_a, worst_b;
  bool agrees() const { return differing == 0; }
};

// Steps between neighbouring values of the type from one to the other: 0 for equal values, for two NaNs and for the two
// zeros. Integers count by one. Complex numbers: the greater of both parts.
absl::StatusOr<Difference> Compare(const host::HostArray& a, const host::HostArray& b, const Tolerance& tolerance);
host::Json ToJson(const Difference& difference);
std::string DistanceText(double ulp);  // "3", "inf"

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_ULP_H_
