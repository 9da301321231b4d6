// Substitutes `let` texts and `each` variables for `$name` in the text of a case.
#ifndef BACKPLANE_CONFORMANCE_KIT_CASE_TEMPLATE_H_
#define BACKPLANE_CONFORMANCE_KIT_CASE_TEMPLATE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::conformance {

struct Scope {
  std::map<std::string, std::string> texts;      // `let`
  std::map<std::string, std::string> variables;  // `each`, one value
};

// Substitutes every $name and ${name}; $$ gives one $. `$T.part`, `.complex` and `.uint` of an element type give the
// type of a complex number's part, the complex type of a part, and the unsigned integer of the same width. With `mlir`
// element types are spelled as in StableHLO. Returns an error for unknown names, for types without the requested one,
// and for texts nested deeper than eight times.
absl::StatusOr<std::string> Substitute(absl::string_view text, const Scope& scope, bool mlir);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_CASE_TEMPLATE_H_
