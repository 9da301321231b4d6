#include "plugins/tpu_emulator/report/trace_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "plugins/tpu_emulator/report/report_json.h"
#include "plugins/tpu_emulator/report/timeline.h"

namespace backplane::tpu {
namespace {

// Lanes in the order of the page. The threads of the trace are numbered by lane in steps of 100, so that further rows
// of a lane are displayed below it.
enum Lane { kLoops, kKernels, kMxuLane, kVpuLane, kHbmLane, kIciLane, kLanes };
constexpr const char* kLaneNames[kLanes] = {"loops", "kernels", "MXU", "VPU", "HBM", "ICI"};
constexpr int64_t kLaneStep = 100;

// Clamps to some months, so that an invalid schedule cannot cause an overflow.
int64_t Nanoseconds(double seconds) {
  if (!(seconds > 0)) return 0;
  return std::llround(std::min(seconds, 9e6) * 1e9);
}

// Formats microseconds: "12.345".
std::string FormatMicroseconds(int64_t nanoseconds) {
  return absl::StrFormat("%d.%03d", nanoseconds / 1000, nanoseconds % 1000);
}

std::array<double, 4> Busy(const KernelTime& time) {
  return {time.mxu_cycles, time.vpu_cycles, time.hbm_cycles, time.ici_cycles};
}

class TraceWriter {
 public:
  TraceWriter(const Schedule& schedule, int64_t most_events, llvm::json::OStream& out)
      : schedule_(schedule), out_(out) {
    items_ = BuildTimeline(schedule);
    spare_events_ = most_events - CountEvents(items_);
  }

  void Write() {
    WriteName("process_name", 0, absl::StrCat(schedule_.module_name, " on ", schedule_.machine_name));
    WriteItems(items_, 0, 0);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (size_t row = 0; row < ends_[lane].size(); ++row) {
        const int64_t thread = lane * kLaneStep + static_cast<int64_t>(row);
        WriteName("thread_name", thread,
                  row == 0 ? std::string(kLaneNames[lane]) : absl::StrCat(kLaneNames[lane], " ", row + 1));
        out_.object([&] {
          out_.attribute("name", "thread_sort_index");
          out_.attribute("ph", "M");
          out_.attribute("pid", 1);
          out_.attribute("tid", thread);
          out_.attributeObject("args", [&] { out_.attribute("sort_index", thread); });
        });
      }
    }
    if (last_use_ != 0) WriteCounter(end_, 0);
  }

 private:
  // Returns the number of events for a kernel, or for items with only the first iteration of each loop.
  int64_t CountEvents(int64_t kernel) const {
    const ScheduledKernel& k = schedule_.kernels[static_cast<size_t>(kernel)];
    const std::array<double, 4> busy = Busy(k.time);
    return 2 + (k.prefetch_cycles > 0 ? 1 : 0) +
           std::count_if(busy.begin(), busy.end(), [](double cycles) { return cycles > 0; });
  }
  int64_t CountEvents(const std::vector<TimelineItem>& items) const {
    int64_t sum = 0;
    for (const TimelineItem& item : items)
      sum += item.kernel >= 0 ? CountEvents(item.kernel) : 2 + CountEvents(item.body);
    return sum;
  }
  // Returns the number of events with all iterations of every loop, or `most` + 1 if there are more.
  int64_t CountUnrolledEvents(const std::vector<TimelineItem>& items, int64_t most) const {
    int64_t sum = 0;
    for (const TimelineItem& item : items) {
      if (item.kernel >= 0) {
        sum += CountEvents(item.kernel);
      } else {
        const int64_t iteration = 1 + CountUnrolledEvents(item.body, most);
        if (iteration > most / item.trip_count) return most + 1;
        sum += 1 + iteration * item.trip_count;
      }
      if (sum > most) return most + 1;
    }
    return sum;
  }

  void WriteName(const char* what, int64_t thread, const std::string& name) {
    out_.object([&] {
      out_.attribute("name", what);
      out_.attribute("ph", "M");
      out_.attribute("pid", 1);
      out_.attribute("tid", thread);
      out_.attributeObject("args", [&] { out_.attribute("name", llvm::json::fixUTF8(name)); });
    });
  }

  void WriteTime(const char* name, int64_t nanoseconds) {
    out_.attributeBegin(name);
    out_.rawValue(FormatMicroseconds(nanoseconds));
    out_.attributeEnd();
  }

  // Writes a slice to the first row of the lane that is free at `begin`. Allows for one nanosecond of rounding error.
  template <typename Arguments>
  void WriteSlice(int lane, size_t first_row, const std::string& name, absl::string_view category, int64_t begin,
                  int64_t end, Arguments arguments) {
    std::vector<int64_t>& ends = ends_[lane];
    size_t row = first_row;
    while (row < ends.size() && row + 1 < kLaneStep && ends[row] > begin + 1) ++row;
    if (row >= ends.size()) ends.resize(row + 1, 0);
    begin = std::max(begin, ends[row]);
    end = std::max(begin, end);
    ends[row] = end;
    end_ = std::max(end_, end);
    out_.object([&] {
      out_.attribute("name", llvm::json::fixUTF8(name));
      if (!category.empty())
        out_.attribute("cat", llvm::json::fixUTF8(llvm::StringRef(category.data(), category.size())));
      out_.attribute("ph", "X");
      WriteTime("ts", begin);
      WriteTime("dur", end - begin);
      out_.attribute("pid", 1);
      out_.attribute("tid", lane * kLaneStep + static_cast<int64_t>(row));
      out_.attributeObject("args", arguments);
    });
  }

  void WriteCounter(int64_t at, int64_t bytes) {
    out_.object([&] {
      out_.attribute("name", "HBM in use");
      out_.attribute("ph", "C");
      WriteTime("ts", at);
      out_.attribute("pid", 1);
      out_.attributeObject("args", [&] { out_.attribute("bytes", bytes); });
    });
    last_use_ = bytes;
  }

  void WriteText(const char* name, const std::string& value) {
    if (!value.empty()) out_.attribute(name, llvm::json::fixUTF8(value));
  }

  void WriteKernel(int64_t number, double begin_seconds) {
    const ScheduledKernel& k = schedule_.kernels[static_cast<size_t>(number)];
    const int64_t begin = Nanoseconds(begin_seconds), end = Nanoseconds(begin_seconds + k.time.seconds);
    if (static_cast<size_t>(number) < schedule_.hbm_in_use.size()) {
      const int64_t use = schedule_.hbm_in_use[static_cast<size_t>(number)];
      if (use != last_use_) WriteCounter(begin, use);
    }
    WriteSlice(kKernels, 0, k.name, k.category, begin, end, [&] {
      WriteText("contents", k.contents);
      WriteText("op_name", k.origin.op_name);
      if (!k.origin.source_file.empty()) {
        out_.attribute("source", llvm::json::fixUTF8(absl::StrCat(k.origin.source_file, ":", k.origin.source_line)));
      }
      const absl::string_view bound = UnitName(k.time.bound);
      out_.attribute("bound", llvm::StringRef(bound.data(), bound.size()));
      if (std::isfinite(k.flops)) out_.attribute("flops", k.flops);
      if (std::isfinite(k.hbm_bytes)) out_.attribute("hbm_bytes", k.hbm_bytes);
      out_.attribute("scoped_vmem_bytes", k.scoped_vmem_bytes);
      out_.attribute("executions", k.executions);
    });
    const std::array<double, 4> busy = Busy(k.time);
    for (int unit = 0; unit < 4; ++unit) {
      const double cycles = busy[static_cast<size_t>(unit)];
      if (!(cycles > 0) || !(k.time.cycles > 0)) continue;
      const double share = std::min(1.0, cycles / k.time.cycles);
      WriteSlice(kMxuLane + unit, 0, k.name, k.category, begin, Nanoseconds(begin_seconds + share * k.time.seconds),
                 [&] { out_.attribute("share_of_kernel", share); });
    }
    // Drawn after the kernel's own copies. The model does not say when HBM serves which.
    if (k.prefetch_cycles > 0 && k.time.cycles > 0) {
      const double own = std::min(1.0, k.time.hbm_cycles / k.time.cycles);
      const double share = std::min(1 - own, k.prefetch_cycles / k.time.cycles);
      WriteSlice(kHbmLane, 0, "prefetches for later kernels", "prefetch",
                 Nanoseconds(begin_seconds + own * k.time.seconds),
                 Nanoseconds(begin_seconds + (own + share) * k.time.seconds),
                 [&] { out_.attribute("share_of_kernel", share); });
    }
  }

  void WriteItems(const std::vector<TimelineItem>& items, double origin, size_t depth) {
    for (const TimelineItem& item : items) {
      const double start = origin + item.start_seconds;
      if (item.kernel >= 0) {
        WriteKernel(item.kernel, start);
        continue;
      }
      const ScheduledLoop& loop = schedule_.loops[static_cast<size_t>(item.loop)];
      // Two rows for each depth: one for the loop and one for its iterations.
      const size_t row = std::min<size_t>(2 * depth, kLaneStep - 2);
      WriteSlice(kLoops, row, absl::StrCat(loop.name, loop.known ? "" : " (unknown trip count)"), "loop",
                 Nanoseconds(start), Nanoseconds(start + item.TotalSeconds()),
                 [&] { out_.attribute("trip_count", item.trip_count); });
      const int64_t all = CountUnrolledEvents({item}, kCountLimit), once = CountEvents(std::vector<TimelineItem>{item});
      const bool unroll = unrolling_ || all - once <= spare_events_;
      if (unroll) {
        if (!unrolling_) spare_events_ -= all - once;
        const bool outer = std::exchange(unrolling_, true);
        for (int64_t iteration = 0; iteration < item.trip_count; ++iteration) {
          const double at = start + static_cast<double>(iteration) * item.seconds;
          WriteSlice(kLoops, row + 1, absl::StrCat("iteration ", iteration + 1), "loop", Nanoseconds(at),
                     Nanoseconds(start + static_cast<double>(iteration + 1) * item.seconds), [] {});
          WriteItems(item.body, at, depth + 1);
        }
        unrolling_ = outer;
      } else {
        WriteItems(item.body, start, depth + 1);
        WriteSlice(kLoops, row + 1, absl::StrCat(item.trip_count - 1, " more iterations"), "loop",
                   Nanoseconds(start + item.seconds), Nanoseconds(start + item.TotalSeconds()), [] {});
      }
    }
  }

  static constexpr int64_t kCountLimit = int64_t{1} << 40;

  const Schedule& schedule_;
  llvm::json::OStream& out_;
  std::vector<TimelineItem> items_;
  int64_t spare_events_ = 0;  // events that may be written in addition to one iteration of each loop
  bool unrolling_ = false;    // within a loop whose iterations are all written
  std::array<std::vector<int64_t>, kLanes> ends_;
  int64_t end_ = 0, last_use_ = 0;
};

}  // namespace

std::string WriteTraceJson(const Schedule& schedule, int64_t most_events) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream out(stream);
  out.object([&] {
    out.attribute("displayTimeUnit", "ns");
    out.attributeObject("otherData", [&] {
      out.attribute("program", llvm::json::fixUTF8(schedule.module_name));
      out.attribute("machine", llvm::json::fixUTF8(schedule.machine_name));
    });
    out.attributeArray("traceEvents", [&] { TraceWriter(schedule, most_events, out).Write(); });
  });
  return text;
}

}  // namespace backplane::tpu
