#include "sdk/backend/exceptions.h"

#include <exception>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace backplane {
namespace {

absl::Status Describe() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of host memory");
  } catch (const std::system_error& e) {
    if (e.code() == std::errc::resource_unavailable_try_again)
      return absl::ResourceExhaustedError(absl::StrCat("out of threads: ", e.what()));
    return absl::InternalError(absl::StrCat("exception: ", e.what()));
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("exception: ", e.what()));
  } catch (...) {
    return absl::InternalError("exception of an unknown type");
  }
}

}  // namespace

absl::Status MakeStatusOfCurrentException() noexcept {
  try {
    return Describe();
  } catch (...) {  // no memory for the text either
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

}  // namespace backplane
