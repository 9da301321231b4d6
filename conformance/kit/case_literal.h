// The literals of a case file: typed arrays, expected arrays with their tolerance, and the comparison of what came out.
// The grammar is in conformance/cases/README.md.
#ifndef BACKPLANE_CONFORMANCE_KIT_CASE_LITERAL_H_
#define BACKPLANE_CONFORMANCE_KIT_CASE_LITERAL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "conformance/kit/case_types.h"

namespace backplane::conformance {

// How far a result may lie from what is expected. With none of them set only equal bits pass, where all NaNs count as
// equal and the two zeros do not. With one set a value passes that is within any of: `ulp` steps of its own format,
// |got - expected| <= abs + rel * |expected|; infinities and NaNs must still agree, zeros need not agree in sign.
// The parts of a complex number are judged by the size of the whole: one step is a step at its larger part, `abs + rel`
// bounds the distance in the plane.
struct Tolerance {
  double ulp = 0, abs = 0, rel = 0;
  bool exact() const { return ulp == 0 && abs == 0 && rel == 0; }
};

// What a result must be.
struct Expected {
  enum Kind {
    kValues,   // `value`, except where `ignored`
    kAny,      // any values; type and dims must agree
    kUniform,  // drawn from the uniform distribution on [low, high), for integers on the integers in it
    kNormal,   // drawn from the normal distribution of mean `low` and deviation `high`
  };
  Kind kind = kValues;
  Array value;                // for the kinds without values only type and dims
  std::vector<bool> ignored;  // by element; empty when every element counts
  double low = 0, high = 0;
  Tolerance tolerance;
};

// `f32[2,3] {{1,2,3},{4,5,6}}`; every part of `text` must be used. A shape without values gives zeros when
// `need_values` is false, an error otherwise.
absl::StatusOr<Array> ParseArray(absl::string_view text, bool need_values = true);

// The same with `*` for elements that may be anything, the kinds `any`, `uniform low high`, `normal mean deviation`,
// and an ending `within ...`.
absl::StatusOr<Expected> ParseExpected(absl::string_view text, bool need_values = true);

// OK, or what differs and where: "f32[4]: element [2] is 1.5, expected 1.25, 3 more differ".
absl::Status Compare(const Expected& expected, const Array& actual);

// At most this many elements in one array, so that a slip of the pen asks for no gigabytes.
inline constexpr int64_t kMaxElements = int64_t{1} << 26;

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_LITERAL_H_
