// The literals of case files: typed arrays, expected arrays with tolerances, and their comparison with results. The
// grammar is in conformance/cases/README.md.
#ifndef BACKPLANE_CONFORMANCE_KIT_CASE_LITERAL_H_
#define BACKPLANE_CONFORMANCE_KIT_CASE_LITERAL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "conformance/kit/case_types.h"

namespace backplane::conformance {

// The tolerance of a comparison. By default only equal bits pass, except that all NaNs are equal; the two zeros differ.
// Otherwise a value passes if it satisfies any of the bounds that are set: it is at most `ulp` steps of its format from
// the expected value, or |value - expected| <= abs + rel * |expected|. Infinities and NaNs must still agree; zeros may
// differ in sign. For a complex number the bounds apply to the magnitude: one step is the spacing at its larger part,
// and `abs + rel` bounds the distance in the plane.
struct Tolerance {
  double ulp = 0, abs = 0, rel = 0;
  bool exact() const { return ulp == 0 && abs == 0 && rel == 0; }
};

// An expected result.
struct Expected {
  enum Kind {
    kValues,   // `value`, except where `ignored`
    kAny,      // any values; type and dims must agree
    kUniform,  // samples of the uniform distribution on [low, high); of its integers for integer types
    kNormal,   // samples of the normal distribution with mean `low` and deviation `high`
  };
  Kind kind = kValues;
  Array value;                // for the kinds without values only type and dims are used
  std::vector<bool> ignored;  // by element; empty if every element is compared
  double low = 0, high = 0;
  Tolerance tolerance;
};

// Parses `f32[2,3] {{1,2,3},{4,5,6}}`; consumes the whole text. A shape without values gives zeros if `need_values` is
// false, and is an error otherwise.
absl::StatusOr<Array> ParseArray(absl::string_view text, bool need_values = true);

// Parses the same with `*` for arbitrary elements, the kinds `any`, `uniform low high` and `normal mean deviation`, and
// an optional `within ...` at the end.
absl::StatusOr<Expected> ParseExpected(absl::string_view text, bool need_values = true);

// Returns OK, or the first difference: "f32[4]: element [2] is 1.5, expected 1.25, 3 more differ".
absl::Status Compare(const Expected& expected, const Array& actual);

// Bounds the elements of an array, so that a typo does not allocate gigabytes.
inline constexpr int64_t kMaxElements = int64_t{1} << 26;

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_LITERAL_H_
