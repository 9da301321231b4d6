#include "sdk/host/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace backplane::host {

absl::Status AddContext(absl::Status status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status with(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view key, const absl::Cord& value) { with.SetPayload(key, value); });
  return with;
}

}  // namespace backplane::host
