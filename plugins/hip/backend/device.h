// A GPU as the client uses it: its memory, its streams, its modules.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "plugins/hip/program/queue.h"
#include "plugins/hip/runtime/hip_api.h"
#include "sdk/backend/device_memory.h"

namespace backplane::hip {

// The kernels of a program on one device. Destroyed when nothing runs them any more.
class LoadedKernels {
 public:
  // `names`: Queue::Launch numbers the kernels in this order.
  static absl::StatusOr<std::unique_ptr<LoadedKernels>> Load(const HipApi& api, int device, const std::string& image,
                                                             const std::vector<std::string>& names);
  ~LoadedKernels();
  hipFunction_t function(int number) const { return functions_[static_cast<size_t>(number)]; }

 private:
  LoadedKernels(const HipApi& api, int device) : api_(api), device_(device) {}
  const HipApi& api_;
  const int device_;
  hipModule_t module_ = nullptr;
  std::vector<hipFunction_t> functions_;
};

// The streams of one device. They are made as they are needed and used again. Thread-safe.
class StreamPool {
 public:
  StreamPool(const HipApi& api, int device) : api_(api), device_(device) {}
  ~StreamPool();
  absl::StatusOr<hipStream_t> Take();
  void Return(hipStream_t stream);

 private:
  const HipApi& api_;
  const int device_;
  Mutex mu_;
  std::vector<hipStream_t> free_ ABSL_GUARDED_BY(mu_);
};

// A stream that is lent for a launch or a copy. The destructor waits for its work, so that the next user of the stream
// and of the memory finds it done.
class StreamQueue : public Queue {
 public:
  static absl::StatusOr<std::unique_ptr<StreamQueue>> Open(const HipApi& api, int device, StreamPool* pool);
  ~StreamQueue() override;

  void set_kernels(const LoadedKernels* kernels) { kernels_ = kernels; }

  absl::Status Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) override;
  absl::Status CopyWithin(const void* from, void* to, size_t bytes) override;
  absl::Status CopyIn(const void* host, void* address, size_t bytes) override;
  absl::Status CopyOut(const void* address, void* host, size_t bytes) override;
  absl::Status Synchronize() override;

 private:
  StreamQueue(const HipApi& api, int device, StreamPool* pool, hipStream_t stream)
      : api_(api), device_(device), pool_(pool), stream_(stream) {}
  const HipApi& api_;
  const int device_;
  StreamPool* const pool_;
  const hipStream_t stream_;
  const LoadedKernels* kernels_ = nullptr;
  bool idle_ = true;
};

// The devices of a runtime, by number. Thread-safe.
class Devices : public DeviceMemory {
 public:
  // `limit_bytes`: of each device's memory; 0: what the device has.
  static absl::StatusOr<std::shared_ptr<Devices>> Open(HipApi api, int64_t limit_bytes);

  const HipApi& api() const { return api_; }
  int count() const { return static_cast<int>(devices_.size()); }
  const std::string& name(int device) const { return devices_[static_cast<size_t>(device)]->name; }
  const std::string& architecture(int device) const { return devices_[static_cast<size_t>(device)]->architecture; }
  absl::StatusOr<std::unique_ptr<StreamQueue>> OpenQueue(int device);

  // DeviceMemory.
  absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) override;
  void Free(int32_t device, void* address, size_t bytes) override;
  absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) override;
  absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) override;
  absl::Status CopyWithin(int32_t device, const void* from, void* to, size_t bytes) override;
  std::optional<int64_t> Capacity(int32_t device) const override;

 private:
  struct Device {
    Device(const HipApi& api, int number) : streams(api, number) {}
    std::string name, architecture;
    int64_t limit = 0;
    StreamPool streams;
    Mutex mu;
    int64_t in_use ABSL_GUARDED_BY(mu) = 0;
  };
  explicit Devices(HipApi api) : api_(std::move(api)) {}

  const HipApi api_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_H_
