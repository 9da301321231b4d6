// Loads host images and runs their kernels; for tests.
#ifndef BACKPLANE_PLUGINS_HIP_LOWERING_HOST_TESTING_H_
#define BACKPLANE_PLUGINS_HIP_LOWERING_HOST_TESTING_H_

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "plugins/hip/lowering/host_image.h"

namespace backplane::hip {

class LoadedImage {
 public:
  static absl::StatusOr<LoadedImage> Load(const std::string& bytes) {
    const int fd = memfd_create("host image", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      return absl::InternalError("cannot write the image");
    }
    void* library = dlopen(absl::StrCat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    close(fd);
    if (library == nullptr) return absl::InternalError(dlerror());
    LoadedImage image;
    image.library_.reset(library);
    image.table_ = static_cast<const HostKernel*>(dlsym(library, kHostKernelTable));
    if (image.table_ == nullptr) return absl::InternalError(dlerror());
    return image;
  }

  // Null if there is none.
  const HostKernel* Find(absl::string_view name) const {
    for (const HostKernel* k = table_; k->name != nullptr; ++k) {
      if (name == k->name) return k;
    }
    return nullptr;
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  std::unique_ptr<void, Close> library_;
  const HostKernel* table_ = nullptr;
};

// Runs all blocks, one after another. The first result that is not 0, or 0.
template <typename Arguments>
int RunBlocks(const HostKernel& kernel, const Arguments& arguments, uint32_t blocks) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  auto allocate = [](size_t bytes) {
    bytes = (bytes + 64) / 64 * 64;
    std::unique_ptr<void, Free> memory(std::aligned_alloc(64, bytes));
    std::memset(memory.get(), 0xa5, bytes);
    return memory;
  };
  const auto shared = allocate(kernel.shared_bytes), frames = allocate(kernel.frame_bytes);
  for (uint32_t block = 0; block < blocks; ++block) {
    if (int result = kernel.run(&arguments, block, blocks, shared.get(), frames.get())) return result;
  }
  return 0;
}

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LOWERING_HOST_TESTING_H_
