// Named values: a name and a value of one of five types. Options, attributes and costs have this form.
#ifndef BACKPLANE_SDK_HOST_NAMED_VALUE_H_
#define BACKPLANE_SDK_HOST_NAMED_VALUE_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/pjrt_c_api.h"

namespace backplane::host {

struct NamedValue {
  using Value = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;

  NamedValue() = default;
  NamedValue(absl::string_view n, absl::string_view v) : name(n), value(std::string(v)) {}
  NamedValue(absl::string_view n, const char* v) : name(n), value(std::string(v)) {}
  NamedValue(absl::string_view n, bool v) : name(n), value(v) {}
  NamedValue(absl::string_view n, int v) : name(n), value(static_cast<int64_t>(v)) {}
  NamedValue(absl::string_view n, int64_t v) : name(n), value(v) {}
  NamedValue(absl::string_view n, float v) : name(n), value(v) {}
  NamedValue(absl::string_view n, std::vector<int64_t> v) : name(n), value(std::move(v)) {}

  // The value as text: `text`, `4`, `[1, 2]`, `0.5`, `true`.
  std::string FormatValue() const;
  // The whole as text from which ParseNamedValue makes the same value, of the same type: `fraction=1.0`, `name="4"`.
  // NaN becomes the text "nan".
  std::string FormatForParsing() const;

  std::string name;
  Value value;
};

// Returns the entry with that name, or null.
const NamedValue* Find(absl::Span<const NamedValue> values, absl::string_view name);

// Parses "devices=4", "peers=[0,1]", "fraction=0.5", "preallocate=true" or "name=text". The type is determined by the
// text; quotes make it a string. Returns INVALID_ARGUMENT if there is no name or no '='.
absl::StatusOr<NamedValue> ParseNamedValue(absl::string_view text);

// Copies a list of a plugin. Returns INTERNAL for an element of unknown type.
absl::StatusOr<std::vector<NamedValue>> CopyNamedValues(const PJRT_NamedValue* values, size_t count);
// Returns the C form, which refers to `values`.
std::vector<PJRT_NamedValue> BorrowNamedValues(absl::Span<const NamedValue> values);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_NAMED_VALUE_H_
