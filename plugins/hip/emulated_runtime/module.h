// Modules, their functions and launches.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_MODULE_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_MODULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "plugins/hip/emulated_runtime/kernel_image.h"
#include "plugins/hip/emulated_runtime/stream.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip::emulated {

class Device;

struct Function {
  Device* device = nullptr;
  std::shared_ptr<const KernelImage> image;
  const KernelFacts* kernel = nullptr;  // of `image`
};

// Thread-safe.
class Module {
 public:
  Module(Device& device, std::unique_ptr<KernelImage> image) : device_(device), image_(std::move(image)) {}
  ~Module();
  Device& device() const { return device_; }
  const std::shared_ptr<const KernelImage>& image() const { return image_; }

  Mutex mu;
  std::map<std::string, hipFunction_t, std::less<>> functions ABSL_GUARDED_BY(mu);  // that were asked for
  std::vector<AddressRange> variables ABSL_GUARDED_BY(mu);                          // that were asked for

 private:
  Device& device_;
  const std::shared_ptr<const KernelImage> image_;
};

// An operation that was checked and can be enqueued or become a node of a graph.
struct Prepared {
  hipError_t error = hipSuccess;  // of the check; the rest is empty then
  std::string text;
  Action action;
};

struct LaunchRequest {
  hipDim3 blocks, threads;
  unsigned dynamic_shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
};

// Checks a launch, copies its arguments and returns the operation that does it.
Prepared PrepareLaunch(const std::shared_ptr<Function>& function, const LaunchRequest& request);

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_MODULE_H_
