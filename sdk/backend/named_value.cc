#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/strings/numbers.h"
#include "sdk/backend/backend.h"

namespace backplane {

std::optional<int64_t> ReadInteger(const NamedValue& value) {
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return *integer;
  const std::string* text = std::get_if<std::string>(&value);
  int64_t integer = 0;
  if (text == nullptr || !absl::SimpleAtoi(*text, &integer)) return std::nullopt;
  return integer;
}

}  // namespace backplane
