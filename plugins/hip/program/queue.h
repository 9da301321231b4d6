// The part of a device that a program uses: one stream, on which work runs in order.
#ifndef BACKPLANE_PLUGINS_HIP_PROGRAM_QUEUE_H_
#define BACKPLANE_PLUGINS_HIP_PROGRAM_QUEUE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace backplane::hip {

// One launch of a program uses a queue from one thread at a time.
class Queue {
 public:
  virtual ~Queue() = default;

  // Starts the kernel number `function` (LoadedKernels in the backend). `arguments` are addresses on the device, then
  // the numbers that the kernel takes, of 64 bits.
  virtual absl::Status Launch(int function, uint32_t blocks, uint32_t threads, absl::Span<void* const> arguments) = 0;
  // Starts a copy between two addresses of the device.
  virtual absl::Status CopyWithin(const void* from, void* to, size_t bytes) = 0;
  // Starts a copy from the memory of a device, this one or another, to that of this one.
  virtual absl::Status CopyFrom(int device, const void* from, void* to, size_t bytes) = 0;
  virtual absl::Status FillZeros(void* to, size_t bytes) = 0;
  // Copy from and to host memory, after all work that was started before. Return when the copy is done.
  virtual absl::Status CopyIn(const void* host, void* address, size_t bytes) = 0;
  virtual absl::Status CopyOut(const void* address, void* host, size_t bytes) = 0;
  // Starts what the queue holds back, if it does that. Must be called before anything else uses the queue's stream.
  virtual absl::Status Flush() { return absl::OkStatus(); }
  // Must be called when work is enqueued on the queue's stream without the queue, so that Synchronize waits for it.
  virtual void MarkBusy() {}
  // Waits until all work has ended.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_PROGRAM_QUEUE_H_
