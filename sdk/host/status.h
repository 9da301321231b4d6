// Macros that return on errors, and a function that adds context to an error message.
#ifndef BACKPLANE_SDK_HOST_STATUS_H_
#define BACKPLANE_SDK_HOST_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#define BP_RETURN_IF_ERROR(expr)                                               \
  do {                                                                         \
    if (absl::Status bp_status_ = (expr); !bp_status_.ok()) return bp_status_; \
  } while (false)

#define BP_STATUS_CONCAT_INNER(a, b) a##b
#define BP_STATUS_CONCAT(a, b) BP_STATUS_CONCAT_INNER(a, b)
#define BP_ASSIGN_OR_RETURN(lhs, expr) BP_ASSIGN_OR_RETURN_INNER(BP_STATUS_CONCAT(bp_statusor_, __LINE__), lhs, expr)
#define BP_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return std::move(tmp).status();  \
  lhs = *std::move(tmp)

namespace backplane::host {

// Puts "context: " before the message of `status`. Code and payloads stay the same. OK stays OK.
absl::Status AddContext(absl::Status status, absl::string_view context);

}  // namespace backplane::host

#endif  // BACKPLANE_SDK_HOST_STATUS_H_
