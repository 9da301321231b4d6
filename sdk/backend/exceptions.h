// Converts exceptions of the standard library, which mostly mean that memory or threads have run out, to Status. Used
// where an exception must not propagate: in tasks of worker threads, in callbacks, at the C ABI.
#ifndef BACKPLANE_SDK_BACKEND_EXCEPTIONS_H_
#define BACKPLANE_SDK_BACKEND_EXCEPTIONS_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace backplane {

// Returns the status for the exception that is being handled: ResourceExhausted for std::bad_alloc and for threads that
// cannot be started, otherwise Internal with the text of the exception.
absl::Status MakeStatusOfCurrentException() noexcept;

// Calls `body` and returns its Status or StatusOr (OK if it returns void), or the status for the exception that it
// throws.
template <typename Body>
auto CatchExceptions(Body&& body) noexcept {
  using Result = std::invoke_result_t<Body>;
  if constexpr (std::is_void_v<Result>) {
    try {
      std::forward<Body>(body)();
      return absl::OkStatus();
    } catch (...) {
      return MakeStatusOfCurrentException();
    }
  } else {
    try {
      return std::forward<Body>(body)();
    } catch (...) {
      return Result(MakeStatusOfCurrentException());
    }
  }
}

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EXCEPTIONS_H_
