// A GPU as the client uses it: its memory, its streams, its modules.
#ifndef BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_H_
#define BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "plugins/hip/backend/device_stream.h"
#include "plugins/hip/backend/library_handles.h"
#include "plugins/hip/backend/memory_pool.h"
#include "plugins/hip/backend/pinned_memory.h"
#include "plugins/hip/backend/running_launches.h"
#include "plugins/hip/program/queue.h"
#include "plugins/hip/runtime/hip_api.h"
#include "sdk/backend/device_memory.h"

namespace backplane::hip {

// What is started in the place of a kernel, with its arguments: a function of a vendor's library.
class LaunchReplacement {
 public:
  virtual ~LaunchReplacement() = default;
  // The device of the stream is the current one. Starts the work and does not wait for it.
  virtual absl::Status Start(hipStream_t stream, absl::Span<void* const> arguments) const = 0;
};

// The kernels of a program on one device. Destroyed when nothing runs them any more.
class LoadedKernels {
 public:
  // Queue::Launch numbers the kernels in the order of `names`.
  static absl::StatusOr<std::unique_ptr<LoadedKernels>> Load(const HipApi& api, int device, const std::string& image,
                                                             const std::vector<std::string>& names);
  ~LoadedKernels();
  struct Function {
    hipFunction_t handle = nullptr;
    unsigned dynamic_shared_bytes = 0;                     // the shared memory that a launch must ask for
    std::unique_ptr<const LaunchReplacement> replacement;  // null: the kernel is launched
  };
  const Function& function(int number) const { return functions_[static_cast<size_t>(number)]; }
  // Must not be called when others can see the kernels.
  void Replace(int number, std::unique_ptr<const LaunchReplacement> replacement) {
    functions_[static_cast<size_t>(number)].replacement = std::move(replacement);
  }

 private:
  LoadedKernels(const HipApi& api, int device) : api_(api), device_(device) {}
  const HipApi& api_;
  const int device_;
  hipModule_t module_ = nullptr;
  std::vector<Function> functions_;
};

// A stream as a program uses it.
class StreamQueue : public Queue {
 public:
  // Uses a stream that belongs to others, who wait for its work.
  StreamQueue(const HipApi& api, int device, hipStream_t stream) : StreamQueue(api, device, stream, nullptr) {}
  // Opens a queue on a stream that the pool lends for a launch or a copy. The destructor waits for the stream's work,
  // so that the next user of the stream and of the memory finds it done.
  static absl::StatusOr<std::unique_ptr<StreamQueue>> Open(const HipApi& api, int device, StreamPool* pool);
  ~StreamQueue() override;

  void set_kernels(const LoadedKernels* kernels) { kernels_ = kernels; }
  hipStream_t stream() const { return stream_; }
  absl::Status Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) override;
  absl::Status CopyWithin(const void* from, void* to, size_t bytes) override;
  absl::Status CopyFrom(int device, const void* from, void* to, size_t bytes) override;
  absl::Status FillZeros(void* to, size_t bytes) override;
  absl::Status CopyIn(const void* host, void* address, size_t bytes) override;
  absl::Status CopyOut(const void* address, void* host, size_t bytes) override;
  absl::Status Synchronize() override;
  void MarkBusy() override { idle_ = false; }

 private:
  StreamQueue(const HipApi& api, int device, hipStream_t stream, StreamPool* pool)
      : api_(api), device_(device), pool_(pool), stream_(stream) {}
  const HipApi& api_;
  const int device_;
  StreamPool* const pool_;  // null: the stream belongs to others
  const hipStream_t stream_;
  const LoadedKernels* kernels_ = nullptr;
  bool idle_ = true;
};

// The devices of a runtime, by number. Thread-safe. Must be held by a shared_ptr.
class Devices : public DeviceMemory, public std::enable_shared_from_this<Devices> {
 public:
  struct Limits {
    int64_t memory_bytes = 0;  // that are used of each device's memory; 0: all that the device has
    size_t slab_bytes = 0;     // see MemoryPool::Options
  };
  static absl::StatusOr<std::shared_ptr<Devices>> Open(HipApi api, const Limits& limits);

  const HipApi& api() const { return api_; }
  int count() const { return static_cast<int>(devices_.size()); }
  const std::string& name(int device) const { return at(device).name; }
  const std::string& architecture(int device) const { return at(device).architecture; }
  PinnedMemory& pinned() const { return *pinned_; }
  absl::StatusOr<std::unique_ptr<StreamQueue>> OpenQueue(int device);
  EventPool& events(int device) { return at(device).events; }
  const std::shared_ptr<RunningLaunches>& launches(int device) const { return at(device).launches; }
  // Counts the nodes of all graphs on the device.
  std::atomic<int64_t>& graph_nodes(int device) { return at(device).graph_nodes; }

  // The streams of a device: for programs, for copies from the host and to it, and for copies between devices or within
  // one.
  DeviceStream& compute(int device) { return *at(device).compute; }
  DeviceStream& from_host(int device) { return *at(device).from_host; }
  DeviceStream& to_host(int device) { return *at(device).to_host; }
  DeviceStream& between(int device) { return *at(device).between; }
  LibraryHandles& library_handles(int device) { return at(device).libraries; }
  // Makes what the library needs to work on the stream for programs.
  absl::Status PrepareLibrary(int device, const ProductLibrary& library);
  // Ends the threads of the streams. All work must have ended. Must not be called on a thread of a stream.
  void CloseStreams();

  // Returns temporary memory for one program on the compute stream. Programs in flight share a block, because the
  // stream runs one after another: a caller that asks for no more than the block has gets the same block. It is
  // released when the last of them has ended.
  absl::StatusOr<std::shared_ptr<Storage>> TakeScratch(int device, size_t bytes);

  // Takes memory for a short time. Unlike Allocate, it does not wait for work in flight.
  absl::StatusOr<std::shared_ptr<Storage>> TryTakeMemory(int device, size_t bytes);
  // Returns memory that is not in use to the runtime.
  void ReleaseEmptySlabs(int device) { (void)at(device).memory->ReleaseEmptySlabs(); }

  // The functions of DeviceMemory. If memory has run out, Allocate waits for work in flight, which holds memory, and
  // tries again until no work is left. It does not wait in a callback of an event.
  absl::StatusOr<void*> Allocate(int32_t device, size_t bytes) override;
  void Free(int32_t device, void* address, size_t bytes) override { at(device).memory->Free(address, bytes); }
  absl::Status CopyIn(int32_t device, const void* host, void* address, size_t bytes) override;
  absl::Status CopyOut(int32_t device, const void* address, void* host, size_t bytes) override;
  absl::Status CopyWithin(int32_t device, const void* from, void* to, size_t bytes) override;
  std::optional<int64_t> Capacity(int32_t device) const override { return at(device).memory->limit_bytes(); }

  MemoryStats Stats(int device) const { return at(device).memory->Stats(); }
  void ClearStats(int device) { at(device).memory->ClearStats(); }

 private:
  class Block;
  struct Device {
    Device(const HipApi& api, int number)
        : streams(api, number, MakeStream, DestroyStream),
          events(api, number, MakeEvent, DestroyEvent),
          host_events(api, number, MakeHostEvent, DestroyEvent),
          libraries(api, number) {}
    std::string name, architecture;
    std::unique_ptr<MemoryPool> memory;
    StreamPool streams;
    EventPool events, host_events;
    LibraryHandles libraries;  // destroyed before the streams
    std::unique_ptr<DeviceStream> compute, from_host, to_host, between;
    const std::shared_ptr<RunningLaunches> launches = std::make_shared<RunningLaunches>();
    std::atomic<int64_t> graph_nodes{0};
    Mutex mu;
    std::weak_ptr<Storage> scratch ABSL_GUARDED_BY(mu);
  };
  explicit Devices(HipApi api) : api_(std::move(api)) {}
  Device& at(int device) const { return *devices_[static_cast<size_t>(device)]; }
  // Waits for work that may release memory. Returns false if none is in flight, or at the time limit.
  bool AwaitWork(Device& device, std::chrono::steady_clock::time_point until);

  const HipApi api_;
  bool shares_scratch_ = true;
  std::shared_ptr<PinnedMemory> pinned_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_BACKEND_DEVICE_H_
