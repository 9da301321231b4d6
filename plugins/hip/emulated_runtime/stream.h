// Streams: a thread each that runs operations one after another.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_STREAM_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_STREAM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "plugins/hip/emulated_runtime/ordering.h"
#include "plugins/hip/runtime/hip_types.h"

namespace backplane::hip::emulated {

class Capture;
class Device;
class Stream;
struct GraphNode;

// A place in a stream: everything up to its `sequence`-th operation.
struct StreamPosition {
  std::shared_ptr<Stream> stream;
  uint64_t sequence = 0;
  VectorClock clock;
};

// What an operation does when its turn comes. An error poisons the device.
using Action = std::function<hipError_t(const OperationPtr& operation)>;

struct Work {
  std::string text;  // for the report
  Action action;     // may be empty: a mark
  // Runs even if the device is poisoned, and gets its error (callbacks, records of events).
  std::function<void(const OperationPtr& operation, hipError_t device_error)> always;
  bool has_latency = false;  // whether HIPEMU_LATENCY_US applies
};

// Thread-safe. Held by shared_ptr; Close() ends its thread.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // The report names the stream by `number`; 0 is the null stream.
  Stream(Device& device, int number, unsigned flags, int priority);
  ~Stream();

  Device& device() const { return device_; }
  int index() const { return index_; }
  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  bool is_null() const { return number_ == 0; }
  // Whether the stream and the null stream wait for each other.
  bool is_blocking() const { return is_null() || (flags_ & kStreamNonBlocking) == 0; }
  std::string Describe() const;  // "stream 3 of device 0"

  // Appends work that waits for `after` first. Returns its position.
  StreamPosition Enqueue(Work work, std::vector<StreamPosition> after);
  StreamPosition Tail();
  bool IsDone(uint64_t sequence);
  void Await(uint64_t sequence);
  // Ends the thread after all work, or, with `drop`, after the work that runs now.
  void Close(bool drop);

  // The capture that the stream is part of, or null. See capture.h.
  std::shared_ptr<Capture> capture();
  void set_capture(std::shared_ptr<Capture> capture);

 private:
  struct Queued {
    Work work;
    OperationPtr operation;
    std::vector<StreamPosition> after;
  };
  void RunQueue();
  void RunOne(Queued& queued);

  Device& device_;
  const int number_;
  const int index_;  // of the order
  const unsigned flags_;
  const int priority_;

  Mutex mu_;
  CondVar changed_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mu_);
  uint64_t enqueued_ ABSL_GUARDED_BY(mu_) = 0, done_ ABSL_GUARDED_BY(mu_) = 0;
  bool closing_ ABSL_GUARDED_BY(mu_) = false, dropping_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<Capture> capture_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);  // started by the first work
};

// An event. Thread-safe.
class Event {
 public:
  // The result of hipEventRecord: a place in a stream or in a capture.
  struct Record {
    StreamPosition position;
    std::atomic<int64_t> time_ns{-1};  // when the place was reached; -1 before
    std::shared_ptr<Capture> capture;  // null unless recorded in one
    std::vector<GraphNode*> captured;  // the nodes that the event stands for
  };

  Event(Device& device, unsigned flags) : device_(device), flags_(flags) {}
  Device& device() const { return device_; }
  bool has_timing() const { return (flags_ & kEventDisableTiming) == 0; }
  std::shared_ptr<Record> record();  // null before the first
  void set_record(std::shared_ptr<Record> record);
  // AMD's runtime holds a lock of the event while the host waits for it. Every other call with the event takes the
  // lock, so it waits, too.
  Mutex& lock() { return lock_; }

 private:
  Device& device_;
  const unsigned flags_;
  Mutex lock_;
  Mutex mu_;
  std::shared_ptr<Record> record_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_STREAM_H_
