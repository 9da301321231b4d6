#include "sdk/backend/custom_call.h"

#include "absl/strings/str_cat.h"

namespace backplane {

absl::Status ExecuteContext::SendToHost(int64_t channel, const CustomCallBuffer&) const {
  return absl::FailedPreconditionError(absl::StrCat("the host takes nothing on channel ", channel));
}

absl::Status ExecuteContext::ReceiveFromHost(int64_t channel, const CustomCallBuffer&) const {
  return absl::FailedPreconditionError(absl::StrCat("the host gives nothing on channel ", channel));
}

}  // namespace backplane
