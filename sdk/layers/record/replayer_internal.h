// Helpers of the source files of the replayer.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_REPLAYER_INTERNAL_H_
#define BACKPLANE_SDK_LAYERS_RECORD_REPLAYER_INTERNAL_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "sdk/layers/record/replayer.h"

namespace backplane::record {
namespace internal {

inline constexpr char kSkip[] = "backplane.dev/replay-skip";

// The status of a step that is skipped.
inline absl::Status Skip(absl::string_view why) {
  absl::Status status = absl::FailedPreconditionError(why);
  status.SetPayload(kSkip, absl::Cord());
  return status;
}

// The error that the session contains: its code and message.
inline absl::Status SessionError(int64_t code, const std::string& text) {
  // In a damaged session the code may be any number.
  const bool known = code >= 0 && code <= static_cast<int64_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, text);
}

// Measures the time of the plugin's call in a step.
class Stopwatch {
 public:
  explicit Stopwatch(Outcome& out) : out_(out), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    out_.duration_ns +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  Outcome& out_;
  const std::chrono::steady_clock::time_point start_;
};

template <typename T>
inline constexpr const char* kWhat = "object";
template <>
inline constexpr const char* kWhat<std::shared_ptr<host::Buffer>> = "buffer";
template <>
inline constexpr const char* kWhat<std::shared_ptr<host::LoadedExecutable>> = "executable";

}  // namespace internal

template <typename T>
absl::StatusOr<T*> Replayer::Use(const Operation& op, size_t place) {
  const uint64_t id = place < op.uses.size() ? op.uses[place] : 0;
  if (id == 0) return internal::Skip("it uses an object that the recording does not know");
  const auto found = objects_.find(id);
  if (found == objects_.end())
    return internal::Skip(absl::StrCat("it uses ", internal::kWhat<T>, " ", id, ", which is not there"));
  T* object = std::get_if<T>(&found->second);
  if (object == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("operation ", op.number, ": object ", id, " is of another kind"));
  return object;
}

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_REPLAYER_INTERNAL_H_
