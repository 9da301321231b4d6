// The serialized form of an executable: a header and a list of fields.
//
// The header contains a magic number, the version of this format, the backend and the target. A field consists of its
// size, in eight bytes, and its bytes. Fields have no names and are read in the order in which they were written; the
// reader passes a name for messages. The reader checks every size against the remaining bytes, so damaged bytes are
// safe, except for contents that a backend trusts, such as machine code.
#ifndef BACKPLANE_SDK_BACKEND_SERIALIZED_EXECUTABLE_H_
#define BACKPLANE_SDK_BACKEND_SERIALIZED_EXECUTABLE_H_

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/import/compile_options.h"
#include "core/ir/module.h"
#include "sdk/backend/backend.h"

namespace backplane {

class ExecutableWriter {
 public:
  // `backend`: name and version of the backend, and everything else that must be equal when the executable is read.
  // `target`: the target of the generated code; may be empty.
  ExecutableWriter(absl::string_view backend, absl::string_view target);

  void AddBytes(absl::string_view bytes);
  absl::Status AddModule(const Module& module);
  void AddOptions(const CompileOptions& options);
  void AddCost(const NamedValues& cost);  // only values of type float
  template <typename T>
  void AddPlain(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    AddBytes(absl::string_view(reinterpret_cast<const char*>(&value), sizeof value));
  }

  std::string Take() && { return std::move(out_); }

 private:
  std::string out_;
};

class ExecutableReader {
 public:
  // Reads the header. The bytes must outlive the reader. Returns FailedPrecondition if they do not begin like a
  // serialized executable, or if format, backend or target differ (the message has both). Returns InvalidArgument if
  // the header is truncated.
  static absl::StatusOr<ExecutableReader> Open(absl::string_view bytes, absl::string_view backend,
                                               absl::string_view target);

  // Each function reads the next field. `what` is its name in messages. Returns InvalidArgument if the field is
  // missing, truncated or invalid.
  absl::StatusOr<absl::string_view> ReadBytes(absl::string_view what);
  absl::StatusOr<CompileOptions> ReadOptions();
  // The module gets the options' numbers of replicas and partitions.
  absl::StatusOr<std::unique_ptr<Module>> ReadModule(absl::string_view what, const CompileOptions& options);
  absl::StatusOr<NamedValues> ReadCost();
  template <typename T>
  absl::Status ReadPlain(absl::string_view what, T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return ReadExactly(what, value, sizeof *value);
  }

  bool AtEnd() const { return rest_.empty(); }
  // Returns InvalidArgument if there are further fields.
  absl::Status CheckAtEnd() const;

 private:
  explicit ExecutableReader(absl::string_view bytes) : rest_(bytes) {}
  absl::Status ReadExactly(absl::string_view what, void* to, size_t size);

  absl::string_view rest_;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_SERIALIZED_EXECUTABLE_H_
