// JSON values (RFC 8259): what manifests are read from and `--json` output is written with.
//
// Objects keep the order in which members were added. Whole numbers that fit int64 stay whole. Text is UTF-8; bytes
// that are not are written as U+FFFD. Numbers that JSON lacks (infinities, NaN) are written as strings.
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
  // Null when the value is of another type.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  // The member of that name of an object, or null.
  const Json* Find(absl::string_view name) const;

  // Adds a member; this value must be an object, or null, which becomes one. Returns *this.
  Json& Set(absl::string_view name, Json value);
  // Adds an element; this value must be an array, or null, which becomes one.
  Json& Push(Json value);

  // On one line, or with `indent` spaces for each level.
  std::string Text(int indent = 0) const;

  // The whole text must be one value. Nesting is capped at 100 levels. INVALID_ARGUMENT with line and column.
  static absl::StatusOr<Json> Parse(absl::string_view text);

 private:
  void Write(int indent, int level, std::string* out) const;
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_JSON_H_
