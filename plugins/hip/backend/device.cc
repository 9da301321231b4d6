#include "plugins/hip/backend/device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/faults.h"

namespace backplane::hip {

// ---- LoadedKernels.

absl::StatusOr<std::unique_ptr<LoadedKernels>> LoadedKernels::Load(const HipApi& api, int device,
                                                                   const std::string& image,
                                                                   const std::vector<std::string>& names) {
  std::unique_ptr<LoadedKernels> loaded(new LoadedKernels(api, device));
  if (names.empty()) return loaded;
  const ScopedDevice current(api, device);
  RETURN_IF_ERROR(current.status());
  RETURN_IF_ERROR(ToStatus(api.hipModuleLoadData(&loaded->module_, image.data()), "loading the kernels of a program"));
  for (const std::string& name : names) {
    hipFunction_t function = nullptr;
    RETURN_IF_ERROR(ToStatus(api.hipModuleGetFunction(&function, loaded->module_, name.c_str()),
                             absl::StrCat("looking up kernel ", name)));
    loaded->functions_.push_back(function);
  }
  return loaded;
}

LoadedKernels::~LoadedKernels() {
  if (module_ == nullptr) return;
  const ScopedDevice current(api_, device_);
  (void)api_.hipModuleUnload(module_);
}

// ---- Streams.

StreamPool::~StreamPool() {
  const ScopedDevice current(api_, device_);
  MutexLock lock(mu_);
  for (hipStream_t stream : free_) (void)api_.hipStreamDestroy(stream);
}

absl::StatusOr<hipStream_t> StreamPool::Take() {
  {
    MutexLock lock(mu_);
    if (!free_.empty()) {
      hipStream_t stream = free_.back();
      free_.pop_back();
      return stream;
    }
  }
  hipStream_t stream = nullptr;
  RETURN_IF_ERROR(ToStatus(api_.hipStreamCreateWithFlags(&stream, kStreamNonBlocking), "making a stream"));
  return stream;
}

void StreamPool::Return(hipStream_t stream) {
  MutexLock lock(mu_);
  free_.push_back(stream);
}

absl::StatusOr<std::unique_ptr<StreamQueue>> StreamQueue::Open(const HipApi& api, int device, StreamPool* pool) {
  const ScopedDevice current(api, device);
  RETURN_IF_ERROR(current.status());
  ASSIGN_OR_RETURN(hipStream_t stream, pool->Take());
  return std::unique_ptr<StreamQueue>(new StreamQueue(api, device, pool, stream));
}

StreamQueue::~StreamQueue() {
  // A stream that could not be waited for is not used again.
  if ((void)Synchronize(); idle_) pool_->Return(stream_);
}

absl::Status StreamQueue::Synchronize() {
  if (idle_) return absl::OkStatus();
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  // Also after a failure of the device nothing of the stream runs any more.
  const hipError_t error = api_.hipStreamSynchronize(stream_);
  idle_ = true;
  return ToStatus(error, "waiting for the device");
}

absl::Status StreamQueue::Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) {
  RETURN_IF_ERROR(Fault(FaultSite::kKernel));
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  size_t bytes = arguments.size() * sizeof(void*);
  void* extra[] = {kLaunchParamBufferPointer, const_cast<void**>(arguments.data()), kLaunchParamBufferSize, &bytes,
                   kLaunchParamEnd};
  return ToStatus(
      api_.hipModuleLaunchKernel(kernels_->function(function), blocks, 1, 1, threads, 1, 1, 0, stream_, nullptr, extra),
      "starting a kernel");
}

absl::Status StreamQueue::CopyWithin(const void* from, void* to, size_t bytes) {
  RETURN_IF_ERROR(Fault(FaultSite::kCopy));
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  return ToStatus(api_.hipMemcpyDtoDAsync(to, const_cast<void*>(from), bytes, stream_), "a copy on the device");
}

absl::Status StreamQueue::CopyIn(const void* host, void* address, size_t bytes) {
  RETURN_IF_ERROR(Fault(FaultSite::kCopy));
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  RETURN_IF_ERROR(
      ToStatus(api_.hipMemcpyHtoDAsync(address, const_cast<void*>(host), bytes, stream_), "a copy to the device"));
  return Synchronize();
}

absl::Status StreamQueue::CopyOut(const void* address, void* host, size_t bytes) {
  RETURN_IF_ERROR(Fault(FaultSite::kCopy));
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  RETURN_IF_ERROR(
      ToStatus(api_.hipMemcpyDtoHAsync(host, const_cast<void*>(address), bytes, stream_), "a copy from the device"));
  return Synchronize();
}

// ---- Devices.

absl::StatusOr<std::shared_ptr<Devices>> Devices::Open(HipApi api, int64_t limit_bytes) {
  std::shared_ptr<Devices> all(new Devices(std::move(api)));
  const HipApi& table = all->api_;
  for (int d = 0; d < table.device_count; ++d) {
    const ScopedDevice current(table, d);
    RETURN_IF_ERROR(current.status());
    auto device = std::make_unique<Device>(table, d);
    char name[256] = "";
    RETURN_IF_ERROR(ToStatus(table.hipDeviceGetName(name, sizeof name, d), "asking for a device's name"));
    device->name = name;
    ASSIGN_OR_RETURN(device->architecture, DeviceArchitecture(table, d));
    size_t total = 0;
    RETURN_IF_ERROR(ToStatus(table.hipDeviceTotalMem(&total, d), "asking for a device's memory"));
    device->limit = limit_bytes > 0 ? std::min(limit_bytes, static_cast<int64_t>(total)) : static_cast<int64_t>(total);
    all->devices_.push_back(std::move(device));
  }
  return all;
}

absl::StatusOr<std::unique_ptr<StreamQueue>> Devices::OpenQueue(int device) {
  return StreamQueue::Open(api_, device, &devices_[static_cast<size_t>(device)]->streams);
}

absl::StatusOr<void*> Devices::Allocate(int32_t device, size_t bytes) {
  Device& d = *devices_[static_cast<size_t>(device)];
  {
    MutexLock lock(d.mu);
    if (static_cast<int64_t>(bytes) > d.limit - d.in_use) {
      return absl::ResourceExhaustedError(absl::StrCat("device ", device, ": no room for ", bytes, " bytes: ", d.in_use,
                                                       " of ", d.limit, " are in use"));
    }
    d.in_use += static_cast<int64_t>(bytes);
  }
  const ScopedDevice current(api_, device);
  void* address = nullptr;
  absl::Status status = current.status();
  if (status.ok()) status = ToStatus(api_.hipMalloc(&address, bytes), absl::StrCat("allocating ", bytes, " bytes"));
  if (status.ok()) return address;
  MutexLock lock(d.mu);
  d.in_use -= static_cast<int64_t>(bytes);
  return status;
}

void Devices::Free(int32_t device, void* address, size_t bytes) {
  const ScopedDevice current(api_, device);
  (void)api_.hipFree(address);
  Device& d = *devices_[static_cast<size_t>(device)];
  MutexLock lock(d.mu);
  d.in_use -= static_cast<int64_t>(bytes);
}

absl::Status Devices::CopyIn(int32_t device, const void* host, void* address, size_t bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StreamQueue> queue, OpenQueue(device));
  return queue->CopyIn(host, address, bytes);
}

absl::Status Devices::CopyOut(int32_t device, const void* address, void* host, size_t bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StreamQueue> queue, OpenQueue(device));
  return queue->CopyOut(address, host, bytes);
}

absl::Status Devices::CopyWithin(int32_t device, const void* from, void* to, size_t bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StreamQueue> queue, OpenQueue(device));
  RETURN_IF_ERROR(queue->CopyWithin(from, to, bytes));
  return queue->Synchronize();
}

std::optional<int64_t> Devices::Capacity(int32_t device) const { return devices_[static_cast<size_t>(device)]->limit; }

}  // namespace backplane::hip
