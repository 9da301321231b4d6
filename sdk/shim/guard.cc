#include "sdk/shim/guard.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace backplane::shim {

namespace {
constexpr absl::string_view kNull = "null:";
}

absl::Status MakeNullFieldError(const char* field) {
  absl::string_view name = field;
  absl::ConsumePrefix(&name, "a.");
  return absl::InvalidArgumentError(absl::StrCat(kNull, name));
}

absl::Status AddFunctionName(const char* function, absl::Status status) {
  absl::string_view message(status.message().data(), status.message().size());
  if (!absl::ConsumePrefix(&message, kNull)) return status;
  return absl::Status(status.code(), absl::StrCat(function, ": ", message, " is null"));
}

absl::Status SizeError(const char* name, size_t size, size_t least) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": struct_size is ", size, ", expected at least ", least));
}

}  // namespace backplane::shim
