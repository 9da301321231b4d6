#include "sdk/backend/operation_trace.h"

#include <chrono>
#include <new>

#include "base/mutex.h"

namespace backplane {
namespace {

constexpr uint32_t kFirstLine = 1u << 30;  // numbers of named lines start here; smaller numbers are threads

uint32_t ThreadNumber() {
  static std::atomic<uint32_t> next{1};
  thread_local const uint32_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

OperationTrace& OperationTrace::Get() {
  static OperationTrace* trace = new OperationTrace;  // threads may still record while the process ends
  return *trace;
}

int64_t OperationTrace::NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void OperationTrace::Record(int32_t device, bool is_program, absl::string_view name, absl::string_view program,
                            int64_t start_ns, int64_t end_ns) {
  RecordOnLine(ThreadNumber(), device, is_program, name, program, start_ns, end_ns);
}

uint32_t OperationTrace::GetLine(absl::string_view name) {
  MutexLock lock(mu_);
  for (size_t i = 0; i < line_names_.size(); ++i) {
    if (line_names_[i] == name) return kFirstLine + static_cast<uint32_t>(i);
  }
  line_names_.emplace_back(name);
  return kFirstLine + static_cast<uint32_t>(line_names_.size() - 1);
}

std::string OperationTrace::GetLineName(uint32_t line) {
  MutexLock lock(mu_);
  return line < kFirstLine || line - kFirstLine >= line_names_.size() ? "" : line_names_[line - kFirstLine];
}

void OperationTrace::RecordOnLine(uint32_t line, int32_t device, bool is_program, absl::string_view name,
                                  absl::string_view program, int64_t start_ns, int64_t end_ns) {
  try {
    Event event{device, line, is_program, std::string(name), std::string(program), start_ns, end_ns};
    MutexLock lock(mu_);
    if (listeners_.load(std::memory_order_relaxed) == 0) return;
    if (events_.size() < kMaxEvents) {
      events_.push_back(std::move(event));
      return;
    }
  } catch (const std::bad_alloc&) {
    // Running out of memory for the trace must not fail the program.
  }
  MutexLock lock(mu_);
  ++lost_;
}

OperationTrace::Listening OperationTrace::Start() {
  MutexLock lock(mu_);
  listeners_.fetch_add(1, std::memory_order_relaxed);
  return {events_.size(), lost_};
}

std::vector<OperationTrace::Event> OperationTrace::Stop(const Listening& since, int64_t* lost) {
  MutexLock lock(mu_);
  std::vector<Event> heard(events_.begin() + static_cast<int64_t>(since.first), events_.end());
  *lost = lost_ - since.lost_before;
  if (listeners_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    events_ = {};
    lost_ = 0;
  }
  return heard;
}

}  // namespace backplane
