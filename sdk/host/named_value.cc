#include "sdk/host/named_value.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace backplane::host {

std::string NamedValue::FormatValue() const {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<int64_t>(&value)) return absl::StrCat(*number);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    return absl::StrCat("[", absl::StrJoin(*list, ", "), "]");
  if (const auto* real = std::get_if<float>(&value)) return absl::StrCat(*real);
  return std::get<bool>(value) ? "true" : "false";
}

std::string NamedValue::FormatForParsing() const {
  std::string text = FormatValue();
  if (std::holds_alternative<std::string>(value)) text = absl::StrCat("\"", text, "\"");
  if (const auto* real = std::get_if<float>(&value)) {
    text = std::isinf(*real) ? absl::StrCat(*real < 0 ? "-" : "", "1e999") : absl::StrFormat("%.9g", *real);
    if (text.find_first_of(".en") == std::string::npos) absl::StrAppend(&text, ".0");  // else it is a whole number
  }
  return absl::StrCat(name, "=", text);
}

const NamedValue* Find(absl::Span<const NamedValue> values, absl::string_view name) {
  for (const NamedValue& v : values) {
    if (v.name == name) return &v;
  }
  return nullptr;
}

absl::StatusOr<NamedValue> ParseNamedValue(absl::string_view text) {
  const size_t split = text.find('=');
  if (split == absl::string_view::npos || split == 0) {
    return absl::InvalidArgumentError(absl::StrCat("option '", text, "': expected name=value"));
  }
  const absl::string_view name = text.substr(0, split);
  absl::string_view value = text.substr(split + 1);
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front()) {
    return NamedValue(name, value.substr(1, value.size() - 2));
  }
  if (value == "true" || value == "false") return NamedValue(name, value == "true");
  int64_t number;
  if (absl::SimpleAtoi(value, &number)) return NamedValue(name, number);
  float real;
  if (value.find_first_of("0123456789") != absl::string_view::npos && absl::SimpleAtof(value, &real)) {
    return NamedValue(name, real);
  }
  if (absl::string_view list = value; absl::ConsumePrefix(&list, "[") && absl::ConsumeSuffix(&list, "]")) {
    std::vector<int64_t> numbers;
    for (absl::string_view part : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
      if (!absl::SimpleAtoi(part, &number)) {
        return absl::InvalidArgumentError(absl::StrCat("option '", text, "': '", part, "' is not a whole number"));
      }
      numbers.push_back(number);
    }
    return NamedValue(name, std::move(numbers));
  }
  return NamedValue(name, value);
}

absl::StatusOr<std::vector<NamedValue>> CopyNamedValues(const PJRT_NamedValue* values, size_t count) {
  std::vector<NamedValue> copies;
  if (values == nullptr) return copies;
  for (size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& from = values[i];
    NamedValue to;
    if (from.name != nullptr) to.name.assign(from.name, from.name_size);
    switch (from.type) {
      case PJRT_NamedValue_kString:
        to.value = from.string_value == nullptr ? std::string() : std::string(from.string_value, from.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        to.value = from.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        to.value = from.int64_array_value == nullptr
                       ? std::vector<int64_t>()
                       : std::vector<int64_t>(from.int64_array_value, from.int64_array_value + from.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        to.value = from.float_value;
        break;
      case PJRT_NamedValue_kBool:
        to.value = from.bool_value;
        break;
      default:
        return absl::InternalError(
            absl::StrCat("named value '", to.name, "': type ", static_cast<int>(from.type), " is not known"));
    }
    copies.push_back(std::move(to));
  }
  return copies;
}

std::vector<PJRT_NamedValue> BorrowNamedValues(absl::Span<const NamedValue> values) {
  std::vector<PJRT_NamedValue> borrowed;
  borrowed.reserve(values.size());
  for (const NamedValue& from : values) {
    PJRT_NamedValue to{};
    to.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    to.name = from.name.data();
    to.name_size = from.name.size();
    to.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&from.value)) {
      to.type = PJRT_NamedValue_kString;
      to.string_value = text->data();
      to.value_size = text->size();
    } else if (const auto* number = std::get_if<int64_t>(&from.value)) {
      to.type = PJRT_NamedValue_kInt64;
      to.int64_value = *number;
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&from.value)) {
      to.type = PJRT_NamedValue_kInt64List;
      to.int64_array_value = list->data();
      to.value_size = list->size();
    } else if (const auto* real = std::get_if<float>(&from.value)) {
      to.type = PJRT_NamedValue_kFloat;
      to.float_value = *real;
    } else {
      to.type = PJRT_NamedValue_kBool;
      to.bool_value = std::get<bool>(from.value);
    }
    borrowed.push_back(to);
  }
  return borrowed;
}

}  // namespace backplane::host
