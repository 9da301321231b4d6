// Exceptions of the standard library, which mostly mean that memory or threads have run out, as errors. For places
// where one must not go further: tasks of worker threads, callbacks, the C ABI.
#ifndef BACKPLANE_SDK_BACKEND_EXCEPTIONS_H_
#define BACKPLANE_SDK_BACKEND_EXCEPTIONS_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace backplane {

// Of the exception being handled: ResourceExhausted for std::bad_alloc and for threads that cannot be had, else
// Internal with its text. Never throws.
absl::Status CurrentExceptionStatus() noexcept;

// What `body` returns (Status or StatusOr; nothing counts as OK), or the status of what it throws.
template <typename Body>
auto Caught(Body&& body) noexcept {
  using Result = std::invoke_result_t<Body>;
  if constexpr (std::is_void_v<Result>) {
    try {
      std::forward<Body>(body)();
      return absl::OkStatus();
    } catch (...) {
      return CurrentExceptionStatus();
    }
  } else {
    try {
      return std::forward<Body>(body)();
    } catch (...) {
      return Result(CurrentExceptionStatus());
    }
  }
}

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_EXCEPTIONS_H_
