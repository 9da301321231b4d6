#include "plugins/hip/backend/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/lowering/lowering.h"
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
    Function f;
    f.handle = function;
    if (api.platform == Platform::kNvidia)
      f.dynamic_shared_bytes = static_cast<unsigned>(ReadDynamicSharedBytes(image, name));
    if (f.dynamic_shared_bytes > 0) {
      const std::pair<hipFuncAttribute, int> attributes[] = {
          {hipFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(f.dynamic_shared_bytes)},
          {hipFuncAttributePreferredSharedMemoryCarveout, 100}};  // percent of what the cache shares with it
      for (const auto& [attribute, value] : attributes) {
        RETURN_IF_ERROR(ToStatus(api.hipFuncSetAttribute(function, attribute, value),
                                 absl::StrCat("asking for the shared memory of kernel ", name)));
      }
    }
    loaded->functions_.push_back(std::move(f));
  }
  return loaded;
}

LoadedKernels::~LoadedKernels() {
  if (module_ == nullptr) return;
  const ScopedDevice current(api_, device_);
  (void)api_.hipModuleUnload(module_);
}

// ---- Streams.

absl::StatusOr<std::unique_ptr<StreamQueue>> StreamQueue::Open(const HipApi& api, int device, StreamPool* pool) {
  const ScopedDevice current(api, device);
  RETURN_IF_ERROR(current.status());
  ASSIGN_OR_RETURN(hipStream_t stream, pool->Take());
  return std::unique_ptr<StreamQueue>(new StreamQueue(api, device, stream, pool));
}

StreamQueue::~StreamQueue() {
  if (pool_ == nullptr) return;
  (void)Synchronize();
  pool_->Return(stream_);
}

absl::Status StreamQueue::Synchronize() {
  if (idle_) return absl::OkStatus();
  const ScopedDevice current(api_, device_);
  absl::Status status = DrainStream(api_, stream_);
  idle_ = true;
  return status;
}

absl::Status StreamQueue::Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) {
  RETURN_IF_ERROR(Fault(FaultSite::kKernel));
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  const LoadedKernels::Function& kernel = kernels_->function(function);
  if (kernel.replacement != nullptr) return kernel.replacement->Start(stream_, arguments);
  size_t bytes = arguments.size() * sizeof(void*);
  void* extra[] = {kLaunchParamBufferPointer, const_cast<void**>(arguments.data()), kLaunchParamBufferSize, &bytes,
                   kLaunchParamEnd};
  return ToStatus(api_.hipModuleLaunchKernel(kernel.handle, blocks, 1, 1, threads, 1, 1, kernel.dynamic_shared_bytes,
                                             stream_, nullptr, extra),
                  "starting a kernel");
}

absl::Status StreamQueue::CopyWithin(const void* from, void* to, size_t bytes) {
  RETURN_IF_ERROR(Fault(FaultSite::kCopy));
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  return ToStatus(api_.hipMemcpyDtoDAsync(to, const_cast<void*>(from), bytes, stream_), "a copy on the device");
}

absl::Status StreamQueue::CopyFrom(int device, const void* from, void* to, size_t bytes) {
  if (device == device_) return CopyWithin(from, to, bytes);
  RETURN_IF_ERROR(Fault(FaultSite::kCopy));
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  return ToStatus(api_.hipMemcpyPeerAsync(to, device_, from, device, bytes, stream_), "a copy between devices");
}

absl::Status StreamQueue::FillZeros(void* to, size_t bytes) {
  const ScopedDevice current(api_, device_);
  RETURN_IF_ERROR(current.status());
  idle_ = false;
  return ToStatus(api_.hipMemsetD8Async(to, 0, bytes, stream_), "filling memory");
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

// A block of a device's memory that belongs to no array.
class Devices::Block : public Storage {
 public:
  Block(std::shared_ptr<Devices> devices, int device, void* address, size_t size)
      : devices_(std::move(devices)), device_(device), address_(address), size_(size) {}
  ~Block() override { devices_->Free(device_, address_, size_); }
  void* data() const override { return address_; }
  size_t size() const override { return size_; }

 private:
  const std::shared_ptr<Devices> devices_;
  const int device_;
  void* const address_;
  const size_t size_;
};

absl::StatusOr<std::shared_ptr<Devices>> Devices::Open(HipApi api, const Limits& limits) {
  std::shared_ptr<Devices> all(new Devices(std::move(api)));
  const HipApi& table = all->api_;
  all->shares_scratch_ = limits.slab_bytes > 0;
  all->pinned_ = std::make_shared<PinnedMemory>(table, limits.slab_bytes);
  for (int d = 0; d < table.device_count; ++d) {
    const ScopedDevice current(table, d);
    RETURN_IF_ERROR(current.status());
    auto device = std::make_unique<Device>(table, d);
    char name[256] = "";
    RETURN_IF_ERROR(ToStatus(table.hipDeviceGetName(name, sizeof name, d), "asking for a device's name"));
    device->name = name;
    ASSIGN_OR_RETURN(device->architecture, GetArchitecture(table, d));
    size_t total = 0;
    RETURN_IF_ERROR(ToStatus(table.hipDeviceTotalMem(&total, d), "asking for a device's memory"));
    MemoryPool::Options options;
    options.name = absl::StrCat("device ", d);
    options.limit_bytes = static_cast<int64_t>(total);
    if (limits.memory_bytes > 0) options.limit_bytes = std::min(options.limit_bytes, limits.memory_bytes);
    // A slab for small blocks must not take a large part of a small memory.
    const size_t most = std::max(static_cast<size_t>(options.limit_bytes) / 64, MemoryPool::kAlignment);
    options.slab_bytes = std::min(limits.slab_bytes, most);
    const MemoryPool::Source source = {
        [&table, d](size_t bytes) -> absl::StatusOr<void*> {
          const ScopedDevice on_device(table, d);
          RETURN_IF_ERROR(on_device.status());
          void* address = nullptr;
          RETURN_IF_ERROR(ToStatus(table.hipMalloc(&address, bytes), absl::StrCat("allocating ", bytes, " bytes")));
          return address;
        },
        [&table, d](void* address) {
          const ScopedDevice on_device(table, d);
          (void)table.hipFree(address);
        }};
    device->memory = std::make_unique<MemoryPool>(source, std::move(options));
    device->compute = std::make_unique<DeviceStream>(
        table, d, "programs", &device->events, &device->host_events,
        [libraries = &device->libraries](hipStream_t stream) { libraries->Drop(stream); });
    device->from_host =
        std::make_unique<DeviceStream>(table, d, "copies from the host", &device->events, &device->host_events);
    device->to_host =
        std::make_unique<DeviceStream>(table, d, "copies to the host", &device->events, &device->host_events);
    device->between =
        std::make_unique<DeviceStream>(table, d, "copies between devices", &device->events, &device->host_events);
    all->devices_.push_back(std::move(device));
  }
  return all;
}

absl::StatusOr<std::unique_ptr<StreamQueue>> Devices::OpenQueue(int device) {
  return StreamQueue::Open(api_, device, &at(device).streams);
}

void Devices::CloseStreams() {
  for (const std::unique_ptr<Device>& device : devices_) {
    for (auto* stream : {&device->compute, &device->from_host, &device->to_host, &device->between}) stream->reset();
  }
}

absl::Status Devices::PrepareLibrary(int device, const ProductLibrary& library) {
  Device& d = at(device);
  ASSIGN_OR_RETURN(const hipStream_t stream, d.compute->GetStream());
  const ScopedDevice current(api_, device);
  RETURN_IF_ERROR(current.status());
  return d.libraries.Find(library, stream).status();
}

absl::StatusOr<std::shared_ptr<Storage>> Devices::TryTakeMemory(int device, size_t bytes) {
  ASSIGN_OR_RETURN(void* address, at(device).memory->Allocate(bytes));
  return std::make_shared<Block>(shared_from_this(), device, address, bytes);
}

absl::StatusOr<std::shared_ptr<Storage>> Devices::TakeScratch(int device, size_t bytes) {
  Device& d = at(device);
  if (shares_scratch_) {
    MutexLock lock(d.mu);
    std::shared_ptr<Storage> shared = d.scratch.lock();
    if (shared != nullptr && shared->size() >= bytes) return shared;
  }
  ASSIGN_OR_RETURN(void* address, Allocate(device, bytes));
  std::shared_ptr<Storage> block = std::make_shared<Block>(shared_from_this(), device, address, bytes);
  if (shares_scratch_) {
    MutexLock lock(d.mu);
    d.scratch = block;
  }
  return block;
}

absl::StatusOr<void*> Devices::Allocate(int32_t device, size_t bytes) {
  Device& d = at(device);
  absl::StatusOr<void*> address = d.memory->Allocate(bytes);
  if (address.ok() || !absl::IsResourceExhausted(address.status())) return address;
  const int64_t limit = d.memory->limit_bytes();
  if (bytes > static_cast<size_t>(limit) || Event::InCallback()) return address;
  // The limit is for hosts that block what the work needs: callbacks that the threads of the streams run, and other
  // devices of a launch.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (absl::IsResourceExhausted(address.status()) && AwaitWork(d, until)) address = d.memory->Allocate(bytes);
  return address;
}

bool Devices::AwaitWork(Device& device, std::chrono::steady_clock::time_point until) {
  bool any = false;
  for (DeviceStream* stream :
       {device.compute.get(), device.from_host.get(), device.to_host.get(), device.between.get()}) {
    if (stream != nullptr) any = stream->AwaitEnqueued(until) || any;
  }
  return any || device.launches->AwaitOne(until);
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

}  // namespace backplane::hip
