// RETURN_IF_ERROR(expr) and ASSIGN_OR_RETURN(lhs, expr) for absl::Status and absl::StatusOr.
#ifndef BACKPLANE_CORE_TYPES_STATUS_MACROS_H_
#define BACKPLANE_CORE_TYPES_STATUS_MACROS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define BACKPLANE_CONCAT_INNER(a, b) a##b
#define BACKPLANE_CONCAT(a, b) BACKPLANE_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (absl::Status _status = (expr); !_status.ok()) return _status; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) BACKPLANE_ASSIGN_OR_RETURN(BACKPLANE_CONCAT(_statusor_, __LINE__), lhs, expr)
#define BACKPLANE_ASSIGN_OR_RETURN(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  lhs = *std::move(tmp)

#endif  // BACKPLANE_CORE_TYPES_STATUS_MACROS_H_
