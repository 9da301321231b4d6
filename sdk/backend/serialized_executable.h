// The stored form of an executable: a header and a list of fields.
//
// The header holds a magic number, the version of this format, the backend and the target. A field is its size, eight
// bytes, and its bytes. Fields have no names: they are read in the order in which they were written, and what is read
// names them in messages. Readers check every size against the bytes that are left, so any bytes are safe to open, but
// for what a backend itself believes of a field, such as machine code.
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
  // `backend`: name and version of the backend, with everything else that must be equal where the executable is read
  // again. `target`: what the code in it was generated for; may be empty.
  ExecutableWriter(absl::string_view backend, absl::string_view target);

  void AddBytes(absl::string_view bytes);
  absl::Status AddModule(const Module& module);
  void AddOptions(const CompileOptions& options);
  void AddCost(const NamedValues& cost);  // the floats among them
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
  // Reads the header. The bytes must outlive the reader. FailedPrecondition for what does not begin as a serialized
  // executable and, naming both, where format, backend or target are others than here. InvalidArgument for a header
  // that is cut short.
  static absl::StatusOr<ExecutableReader> Open(absl::string_view bytes, absl::string_view backend,
                                               absl::string_view target);

  // Each reads the next field. `what` names it in the message of InvalidArgument, for a field that is missing, cut
  // short, or not of this kind.
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
  // InvalidArgument where there are fields left that nobody has read.
  absl::Status CheckAtEnd() const;

 private:
  explicit ExecutableReader(absl::string_view bytes) : rest_(bytes) {}
  absl::Status ReadExactly(absl::string_view what, void* to, size_t size);

  absl::string_view rest_;
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_SERIALIZED_EXECUTABLE_H_
