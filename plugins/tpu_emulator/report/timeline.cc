#include "plugins/tpu_emulator/report/timeline.h"

#include <algorithm>
#include <utility>

namespace backplane::tpu {
namespace {

constexpr int kMaxDepth = 100;

struct Builder {
  const Schedule& schedule;
  std::vector<std::vector<int64_t>> children;  // the loops within loop n, at index n + 1; those of the run at 0

  // Makes the items of the kernels [begin, end) of the loop `enclosing` (-1: the run). Times are relative to `origin`.
  std::vector<TimelineItem> MakeItems(int64_t enclosing, int64_t begin, int64_t end, double origin, int depth) const {
    std::vector<TimelineItem> items;
    const std::vector<int64_t>& loops = children[static_cast<size_t>(enclosing + 1)];
    size_t next = 0;
    for (int64_t k = begin; k < end;) {
      const ScheduledLoop* loop = nullptr;
      while (next < loops.size() && depth < kMaxDepth) {
        const ScheduledLoop& candidate = schedule.loops[static_cast<size_t>(loops[next])];
        const bool is_nested =
            candidate.first_kernel >= k && candidate.end_kernel > candidate.first_kernel && candidate.end_kernel <= end;
        if (is_nested) {
          if (candidate.first_kernel == k) loop = &candidate;
          break;
        }
        ++next;
      }
      TimelineItem item;
      if (loop == nullptr) {
        const ScheduledKernel& kernel = schedule.kernels[static_cast<size_t>(k)];
        item.kernel = k++;
        item.start_seconds = kernel.start_seconds - origin;
        item.seconds = kernel.time.seconds;
      } else {
        item.loop = loops[next++];
        item.trip_count = std::max<int64_t>(1, loop->trip_count);
        const double start = schedule.kernels[static_cast<size_t>(k)].start_seconds;
        item.start_seconds = start - origin;
        item.body = MakeItems(item.loop, k, loop->end_kernel, start, depth + 1);
        for (const TimelineItem& b : item.body)
          item.seconds = std::max(item.seconds, b.start_seconds + b.TotalSeconds());
        k = loop->end_kernel;
      }
      items.push_back(std::move(item));
    }
    return items;
  }
};

}  // namespace

std::vector<TimelineItem> BuildTimeline(const Schedule& schedule) {
  Builder builder{schedule, std::vector<std::vector<int64_t>>(schedule.loops.size() + 1)};
  for (size_t i = 0; i < schedule.loops.size(); ++i) {
    const int64_t parent = schedule.loops[i].parent;
    const bool known = parent >= -1 && parent < static_cast<int64_t>(i);
    builder.children[known ? static_cast<size_t>(parent + 1) : 0].push_back(static_cast<int64_t>(i));
  }
  for (std::vector<int64_t>& loops : builder.children) {
    std::stable_sort(loops.begin(), loops.end(), [&](int64_t a, int64_t b) {
      return schedule.loops[static_cast<size_t>(a)].first_kernel < schedule.loops[static_cast<size_t>(b)].first_kernel;
    });
  }
  return builder.MakeItems(-1, 0, static_cast<int64_t>(schedule.kernels.size()), 0, 0);
}

}  // namespace backplane::tpu
