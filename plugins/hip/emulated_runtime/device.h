// An emulated device: its memory, its streams, its error.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_DEVICE_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_DEVICE_H_

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "plugins/hip/emulated_runtime/heap.h"
#include "plugins/hip/emulated_runtime/ordering.h"
#include "plugins/hip/emulated_runtime/second_thread.h"
#include "plugins/hip/emulated_runtime/stream.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip::emulated {

class Runtime;

// Thread-safe.
class Device {
 public:
  Device(Runtime& runtime, int ordinal, std::unique_ptr<DeviceHeap> heap);

  Runtime& runtime() const { return runtime_; }
  int ordinal() const { return ordinal_; }
  DeviceHeap& heap() { return *heap_; }
  AccessLog& accesses() { return accesses_; }
  // For launches of host images.
  SecondThread& second_thread() { return second_thread_; }

  // The error that makes the device unusable until a reset; hipSuccess if none.
  hipError_t error() const { return static_cast<hipError_t>(error_.load(std::memory_order_acquire)); }
  // Sets the error unless there is one, and reports why.
  void Poison(hipError_t error, absl::string_view why);

  const std::shared_ptr<Stream>& null_stream() const { return null_stream_; }
  std::shared_ptr<Stream> AddStream(unsigned flags, int priority);
  // Removes a stream that was closed.
  void RemoveStream(const Stream* stream);
  std::vector<std::shared_ptr<Stream>> Streams() const;  // the null stream first

  // Waits for the work of all streams, or of those for which the null stream waits, and advances the host's clock.
  void Await(bool only_blocking);
  // Waits for all work, checks the guard zones and returns the error.
  hipError_t Synchronize();
  // Waits for all work, frees all memory and clears the error.
  void Reset();

  bool HasPeer(int ordinal) const;
  bool AddPeer(int ordinal);     // returns false if it is a peer already
  bool RemovePeer(int ordinal);  // returns false if it is no peer

  // Variables of modules, which are memory of the device as well.
  void AddGlobal(AddressRange range);
  void RemoveGlobals(const std::vector<AddressRange>& ranges);
  bool FindGlobal(uint64_t address, uint64_t bytes) const;

 private:
  Runtime& runtime_;
  const int ordinal_;
  const std::unique_ptr<DeviceHeap> heap_;
  AccessLog accesses_;
  SecondThread second_thread_;
  std::atomic<int> error_{hipSuccess};
  std::shared_ptr<Stream> null_stream_;
  mutable Mutex mu_;
  std::vector<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);
  int last_stream_ ABSL_GUARDED_BY(mu_) = 0;
  std::set<int> peers_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> globals_ ABSL_GUARDED_BY(mu_);  // beginning to end
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_DEVICE_H_
