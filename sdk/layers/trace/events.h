// The events that the trace layer records: one for each call and for each span of asynchronous work. Each thread writes
// its own buffers, without a lock.
#ifndef BACKPLANE_SDK_LAYERS_TRACE_EVENTS_H_
#define BACKPLANE_SDK_LAYERS_TRACE_EVENTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "sdk/layers/clock.h"
#include "sdk/layers/functions.h"

namespace backplane::layers {

enum class EventKind : uint8_t {
  kCall,          // one function, from its call to its return
  kExecution,     // from the launch until the outputs of one device were ready
  kCopyToDevice,  // from host memory, until the host could reuse the memory or the buffer was ready
  kCopyToHost,
  kCopyOnDevice,  // between devices or memories
};

struct Event {
  Ticks start = 0;
  Ticks end = 0;
  uint64_t bytes = 0;   // the number of bytes copied, or the size of a program; 0 for other calls
  uint64_t object = 0;  // the address of the object of the call, to tell objects apart; 0 for none
  uint32_t name = 0;    // the program, a number of EventLog::Intern; 0 for none
  uint32_t count = 0;   // the number of arguments of an execution
  int16_t device = -1;  // the device id; -1: unknown
  Fn fn = Fn::kCount;   // the function that was called, or that started the span
  EventKind kind = EventKind::kCall;
  uint8_t error = 0;  // PJRT_Error_Code
};

class EventLog {
 public:
  // Keeps at most `limit` events, of 24 bytes each, or 48 if there is more than the function, the time and the object.
  // Further events are counted and dropped.
  explicit EventLog(size_t limit);
  ~EventLog();

  // Thread-safe.
  void Add(const Event& event);
  // Returns a number for a string; the same string always has the same number.
  uint32_t Intern(absl::string_view text);
  std::string Text(uint32_t name) const;
  std::vector<std::string> Texts() const;

  struct Thread {
    int64_t id;        // the system's id
    std::string name;  // may be empty
  };
  // Returns the threads in the order of their first event, with their events so far. Other threads may continue to
  // write.
  void ForEachThread(const std::function<void(const Thread&)>& begin,
                     const std::function<void(const Event&)>& event) const;
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Chunk;
  struct Buffer;
  static Event Unpack(const uint64_t* words, size_t* count);
  size_t ReserveEvents(size_t events);
  Buffer* OwnBuffer();
  Buffer* NewBuffer();

  const uint64_t serial_;  // identifies the log in the threads' lists of buffers
  const size_t limit_;
  std::atomic<size_t> events_reserved_{0};
  std::atomic<uint64_t> dropped_{0};
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> buffers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint32_t, std::less<>> names_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_){""};
};

}  // namespace backplane::layers

#endif  // BACKPLANE_SDK_LAYERS_TRACE_EVENTS_H_
