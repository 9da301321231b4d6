// The handles of vendor libraries on one device: one for each stream that uses the library.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_LIBRARY_HANDLES_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_LIBRARY_HANDLES_H_

#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "plugins/hip/libraries/product_library.h"
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip {

// Thread-safe. A handle itself is used by one thread at a time, as is its stream.
class LibraryHandles {
 public:
  LibraryHandles(const HipApi& api, int device) : api_(api), device_(device) {}
  ~LibraryHandles();
  LibraryHandles(const LibraryHandles&) = delete;
  LibraryHandles& operator=(const LibraryHandles&) = delete;

  // Makes the device the current one, and returns the handle of the stream, which the first call makes.
  absl::StatusOr<LibraryHandle*> Find(const ProductLibrary& library, hipStream_t stream);
  // Destroys the handles of a stream, whose work has ended. Must be called before the stream is destroyed.
  void Drop(hipStream_t stream);

 private:
  const HipApi& api_;
  const int device_;
  Mutex mu_;
  std::map<std::pair<hipStream_t, const ProductLibrary*>, std::unique_ptr<LibraryHandle>> handles_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_LIBRARY_HANDLES_H_
