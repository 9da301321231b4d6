// The client of the queue backend: two chips whose copies and programs are ordered by signals.
#ifndef BACKPLANE_SAMPLES_QUEUE_BACKEND_CLIENT_H_
#define BACKPLANE_SAMPLES_QUEUE_BACKEND_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "samples/queue_backend/chip.h"
#include "sdk/backend/backend.h"
#include "sdk/backend/mixed/client.h"

namespace queue_backend {

using backplane::DeviceArray;
using backplane::Event;
using backplane::Promise;
using backplane::Storage;

// Memory ids of device d are 2d ("device") and 2d + 1 ("pinned_host").
inline int32_t GetDevice(int32_t memory) { return memory / 2; }
inline bool IsPinned(int32_t memory) { return memory % 2 == 1; }

struct Chip {
  Chip(int32_t id, size_t bytes, chip::Thread* driver)
      : memory(std::make_shared<chip::Memory>(bytes)),
        programs(id, "programs", driver),
        copies(id, "copy engine", driver) {}
  const std::shared_ptr<chip::Memory> memory;  // storages hold it too
  chip::Queue programs, copies;
};

// Work for a queue, in terms of the interface.
struct Work {
  std::string name, program;
  std::vector<Event> inputs;                      // the work starts after them
  std::vector<std::shared_ptr<Storage>> holds;    // the memory that it reads and writes
  std::function<absl::Status()> on_device;        // runs on the queue
  std::function<absl::Status()> on_host;          // runs on the driver's thread if that succeeded; may be null
  std::vector<std::shared_ptr<Storage>> staging;  // kept alive until the end, like `holds`
};

class QueueClient : public backplane::Client {
 public:
  QueueClient(backplane::Topology topology, size_t bytes, std::chrono::milliseconds collective_time_limit);
  ~QueueClient() override;

  const backplane::Topology& topology() const override { return runtime_->memories->topology(); }
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int32_t memory, size_t bytes) override;
  bool IsHostMemory(int32_t memory) const override { return IsPinned(memory); }

  backplane::CopyFromHostEvents StartCopyFromHost(const backplane::HostArray& src, const DeviceArray& dst,
                                                  backplane::HostUse use) override;
  Event StartCopyToHost(const DeviceArray& src, const backplane::Shape& host_shape_with_layout, void* dst) override;
  Event StartCopyDevice(const DeviceArray& src, const DeviceArray& dst) override;
  absl::StatusOr<std::shared_ptr<Storage>> AllocateStaging(int32_t device, size_t bytes) override;
  absl::Status RegisterHostMemory(void* data, size_t size) override;
  absl::Status UnregisterHostMemory(void* data) override;

  absl::StatusOr<std::unique_ptr<backplane::LoadedExecutable>> Load(
      std::shared_ptr<const backplane::Executable> executable, const backplane::LoadOptions& options) override;
  absl::StatusOr<backplane::MemoryStats> GetMemoryStats(int32_t device) const override;

  // Submits work to a queue and returns the event of its end. If all inputs are on the devices, the work is submitted
  // now, and the event has a signal. Otherwise it is submitted once the host has the inputs.
  Event Submit(chip::Queue& queue, Work work);

  Chip& chip(int32_t device) { return *chips_[static_cast<size_t>(device)]; }
  chip::Thread& driver() { return *driver_; }
  // Copies and converts arrays that a chip can access. For programs on a chip, its memory is like host memory.
  backplane::mixed::Runtime& runtime() { return *runtime_; }

 private:
  const std::shared_ptr<backplane::mixed::Runtime> runtime_;
  const std::unique_ptr<chip::Thread> driver_;
  std::vector<std::unique_ptr<Chip>> chips_;  // their queues end before the driver's thread
};

// Returns the array with the address at which the chip accesses it.
DeviceArray OnChip(const DeviceArray& array);

absl::StatusOr<std::unique_ptr<backplane::LoadedExecutable>> LoadOnQueue(
    QueueClient* client, std::shared_ptr<const backplane::Executable> executable);

}  // namespace queue_backend

#endif  // BACKPLANE_SAMPLES_QUEUE_BACKEND_CLIENT_H_
