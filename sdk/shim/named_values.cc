#include "sdk/shim/named_values.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/shim/guard.h"

namespace backplane::shim {

NamedValueList::NamedValueList(NamedValues values) { Assign(std::move(values)); }

void NamedValueList::Assign(NamedValues values) {
  values_ = std::move(values);
  list_.clear();
  list_.reserve(values_.size());
  for (const auto& [name, value] : values_) {
    PJRT_NamedValue out{};
    out.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    out.name = name.data();
    out.name_size = name.size();
    out.value_size = 1;
    if (const auto* s = std::get_if<std::string>(&value)) {
      out.type = PJRT_NamedValue_kString;
      out.string_value = s->c_str();
      out.value_size = s->size();
    } else if (const auto* i = std::get_if<int64_t>(&value)) {
      out.type = PJRT_NamedValue_kInt64;
      out.int64_value = *i;
    } else if (const auto* l = std::get_if<std::vector<int64_t>>(&value)) {
      out.type = PJRT_NamedValue_kInt64List;
      out.int64_array_value = l->data();
      out.value_size = l->size();
    } else if (const auto* f = std::get_if<float>(&value)) {
      out.type = PJRT_NamedValue_kFloat;
      out.float_value = *f;
    } else {
      out.type = PJRT_NamedValue_kBool;
      out.bool_value = std::get<bool>(value);
    }
    list_.push_back(out);
  }
}

absl::StatusOr<NamedValues> ReadNamedValues(const PJRT_NamedValue* values, size_t count) {
  NamedValues out;
  if (count > 0 && values == nullptr) return MakeNullFieldError("named values");
  const char* at = reinterpret_cast<const char*>(values);
  for (size_t i = 0; i < count; ++i) {
    // A newer caller's elements may be larger. The first element states the size.
    ASSIGN_OR_RETURN(PJRT_NamedValue v, ReadStruct("PJRT_NamedValue", reinterpret_cast<const PJRT_NamedValue*>(at),
                                                   PJRT_NamedValue_STRUCT_SIZE));
    at += v.struct_size > sizeof(PJRT_NamedValue) ? v.struct_size : sizeof(PJRT_NamedValue);
    if (v.name == nullptr) return absl::InvalidArgumentError(absl::StrCat("named value ", i, ": no name"));
    std::string name(v.name, v.name_size);
    NamedValue value;
    switch (v.type) {
      case PJRT_NamedValue_kString:
        if (v.value_size > 0 && v.string_value == nullptr) {
          return absl::InvalidArgumentError(absl::StrCat("named value '", name, "': no value"));
        }
        value = std::string(v.string_value == nullptr ? "" : v.string_value, v.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        value = v.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        if (v.value_size > 0 && v.int64_array_value == nullptr) {
          return absl::InvalidArgumentError(absl::StrCat("named value '", name, "': no value"));
        }
        value = std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        value = v.float_value;
        break;
      case PJRT_NamedValue_kBool:
        value = v.bool_value;
        break;
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("named value '", name, "': unknown type ", static_cast<int>(v.type)));
    }
    if (!out.emplace(name, std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat("named value '", name, "': given twice"));
    }
  }
  return out;
}

}  // namespace backplane::shim
