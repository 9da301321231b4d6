// What runs on the devices while a host profiles: one event for each program, instruction, kernel or library call, as
// the backend reports them. One trace for all clients of this plugin; thread-safe.
//
// A backend asks Active() before it looks at a clock, and records nothing while no host listens.
#ifndef BACKPLANE_SDK_BACKEND_OPERATION_TRACE_H_
#define BACKPLANE_SDK_BACKEND_OPERATION_TRACE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace backplane {

class OperationTrace {
 public:
  // More events than this at a time are counted, not kept: 2^21, some 200 MiB.
  static constexpr size_t kMaxEvents = size_t{1} << 21;

  struct Event {
    int32_t device = 0;
    uint32_t thread = 0;      // a small number for each thread that recorded, or of a line with a name
    bool is_program = false;  // the whole program rather than one of its steps
    std::string name;         // of the instruction; of a program its own
    std::string program;      // the module it is part of
    int64_t start_ns = 0, end_ns = 0;
  };

  static OperationTrace& Get();

  bool Active() const { return listeners_.load(std::memory_order_relaxed) > 0; }
  static int64_t NowNs();  // since 1970, as hosts date their own events

  void Record(int32_t device, bool is_program, absl::string_view name, absl::string_view program, int64_t start_ns,
              int64_t end_ns);

  // A queue of a device has a line of its own in the trace, whichever thread records: the number that goes with the
  // name, which is given out once and stays.
  uint32_t LineNamed(absl::string_view name);
  std::string NameOfLine(uint32_t line);  // empty: the line of a thread
  // The same for a queue: times as the device took them, on the clock of NowNs.
  void RecordOn(uint32_t line, int32_t device, bool is_program, absl::string_view name, absl::string_view program,
                int64_t start_ns, int64_t end_ns);

  // Between Start and its Stop events are kept. Several may listen at once, each from its own Start on.
  struct Listening {
    size_t first = 0;
    int64_t lost_before = 0;
  };
  Listening Start();
  // The events since then, and how many more there were than could be kept.
  std::vector<Event> Stop(const Listening& since, int64_t* lost);

 private:
  std::atomic<int> listeners_{0};
  std::mutex mu_;
  std::vector<Event> events_;  // under mu_, as is the next
  int64_t lost_ = 0;
  std::vector<std::string> line_names_;  // likewise
};

}  // namespace backplane

#endif  // BACKPLANE_SDK_BACKEND_OPERATION_TRACE_H_
