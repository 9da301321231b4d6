// JSON as far as reports need it.
#ifndef BACKPLANE_CONFORMANCE_KIT_JSON_H_
#define BACKPLANE_CONFORMANCE_KIT_JSON_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::conformance {

// `text` in quotes, with every byte that JSON does not allow written as an escape; bytes that are no UTF-8 become '?'.
std::string JsonQuote(absl::string_view text);

struct Json {
  enum Kind { kNull, kBool, kNumber, kString, kArray, kObject } kind = kNull;
  bool boolean = false;
  double number = 0;
  std::string string;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members;  // in their order

  const Json* Find(absl::string_view name) const;  // null when this is no object or has no such member
  std::string Text(absl::string_view name) const;  // of a member that is a string, else ""
};
// INVALID_ARGUMENT with the offset. Nesting deeper than 64 is refused.
absl::StatusOr<Json> ParseJson(absl::string_view text);

}  // namespace backplane::conformance

#endif  // BACKPLANE_CONFORMANCE_KIT_JSON_H_
