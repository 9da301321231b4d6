// JSON values (RFC 8259), for reading manifests and writing `--json` output.
//
// Objects keep the order in which members were added. Integers that fit int64 stay integers. Text is UTF-8; invalid
// bytes are written as U+FFFD. Infinities and NaN, which JSON lacks, are written as strings.
#ifndef BACKPLANE_SDK_HOST_JSON_H_
#define BACKPLANE_SDK_HOST_JSON_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace backplane::host {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;                                                       // null
  Json(bool v) : value_(v) {}                                             // NOLINT: meant to convert, like the next
  Json(int v) : value_(static_cast<int64_t>(v)) {}                        // NOLINT
  Json(int64_t v) : value_(v) {}                                          // NOLINT
  Json(size_t v) : value_(static_cast<int64_t>(v)) {}                     // NOLINT
  Json(double v) : value_(v) {}                                           // NOLINT
  Json(const char* v) : value_(std::string(v)) {}                         // NOLINT
  Json(std::string v) : value_(std::move(v)) {}                           // NOLINT
  Json(absl::string_view v) : value_(std::string(v.data(), v.size())) {}  // NOLINT
  Json(Array v) : value_(std::move(v)) {}                                 // NOLINT
  Json(Object v) : value_(std::move(v)) {}                                // NOLINT
  static Json MakeArray() { return Json(Array()); }
  static Json MakeObject() { return Json(Object()); }

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  // Null if the value has another type.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  // Returns the member of an object, or null.
  const Json* Find(absl::string_view name) const;

  // Adds a member. This value must be an object or null, which becomes an object. Returns *this.
  Json& Set(absl::string_view name, Json value);
  // Adds an element. This value must be an array or null, which becomes an array.
  Json& Push(Json value);

  // Writes the value on one line, or with `indent` spaces for each level.
  std::string Text(int indent = 0) const;

  // Parses a text that is exactly one value. Nesting is limited to 100 levels. Returns INVALID_ARGUMENT with line and
  // column.
  static absl::StatusOr<Json> Parse(absl::string_view text);

 private:
  void Write(int indent, int level, std::string* out) const;
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_JSON_H_
