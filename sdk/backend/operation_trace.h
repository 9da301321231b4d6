// The trace of the work on the devices while a host profiles: one event for each program, instruction, kernel or
// library call, as the backend records them. All clients of the plugin share one trace. Thread-safe.
//
// A backend calls Active() before it reads a clock and records nothing while no profiler is running.
#ifndef BACKPLANE_SDK_BACKEND_OPERATION_TRACE_H_
#define BACKPLANE_SDK_BACKEND_OPERATION_TRACE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/mutex.h"

namespace backplane {

class OperationTrace {
 public:
  // The largest number of events in memory, about 200 MiB. Further events are only counted.
  static constexpr size_t kMaxEvents = size_t{1} << 21;

  struct Event {
    int32_t device = 0;
    uint32_t thread = 0;      // the number of the recording thread, or of a named line
    bool is_program = false;  // the event is a program and not one of its steps
    std::string name;         // of the instruction, or of the program
    std::string program;      // the name of the module
    int64_t start_ns = 0, end_ns = 0;
  };

  static OperationTrace& Get();

  bool Active() const { return listeners_.load(std::memory_order_relaxed) > 0; }
  static int64_t NowNs();  // nanoseconds since 1970, the clock that hosts use for their events

  // Records an event on the line of the calling thread. Times are on the clock of NowNs.
  void Record(int32_t device, bool is_program, absl::string_view name, absl::string_view program, int64_t start_ns,
              int64_t end_ns);

  // A queue of a device has its own line in the trace, whichever thread records for it. GetLine returns the number of
  // the line with this name; the same name always has the same number.
  uint32_t GetLine(absl::string_view name);
  std::string GetLineName(uint32_t line);  // empty for the line of a thread
  // Records an event on a line, with times that the device measured, converted to the clock of NowNs.
  void RecordOnLine(uint32_t line, int32_t device, bool is_program, absl::string_view name, absl::string_view program,
                    int64_t start_ns, int64_t end_ns);

  // Events are recorded between Start and the matching Stop. Several listeners may be active at once; each gets the
  // events since its own Start.
  struct Listening {
    size_t first = 0;
    int64_t lost_before = 0;
  };
  Listening Start();
  // Returns the events since `since`. Sets `lost` to the number of events that were only counted.
  std::vector<Event> Stop(const Listening& since, int64_t* lost);

 private:
  std::atomic<int> listeners_{0};
  Mutex mu_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
  int64_t lost_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::string> line_names_ ABSL_GUARDED_BY(mu_);
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_OPERATION_TRACE_H_
