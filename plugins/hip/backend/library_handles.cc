#include "plugins/hip/backend/library_handles.h"

#include "core/types/status_macros.h"

namespace backplane::hip {

LibraryHandles::~LibraryHandles() {
  MutexLock lock(mu_);
  if (handles_.empty()) return;
  const ScopedDevice current(api_, device_);
  (void)api_.hipSetDevice(device_);
  handles_.clear();
}

absl::StatusOr<LibraryHandle*> LibraryHandles::Find(const ProductLibrary& library, hipStream_t stream) {
  // Libraries take the device that is current for the maker's runtime, which other code of the process may have
  // changed.
  RETURN_IF_ERROR(ToStatus(api_.hipSetDevice(device_), "hipSetDevice"));
  const std::pair<hipStream_t, const ProductLibrary*> key(stream, &library);
  {
    MutexLock lock(mu_);
    if (const auto found = handles_.find(key); found != handles_.end()) return found->second.get();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<LibraryHandle> made, library.MakeHandle(stream));
  MutexLock lock(mu_);
  return handles_.emplace(key, std::move(made)).first->second.get();
}

void LibraryHandles::Drop(hipStream_t stream) {
  std::vector<std::unique_ptr<LibraryHandle>> dropped;
  {
    MutexLock lock(mu_);
    for (auto at = handles_.lower_bound({stream, nullptr}); at != handles_.end() && at->first.first == stream;) {
      dropped.push_back(std::move(at->second));
      at = handles_.erase(at);
    }
  }
  if (dropped.empty()) return;
  const ScopedDevice current(api_, device_);
  (void)api_.hipSetDevice(device_);
  dropped.clear();
}

}  // namespace backplane::hip
