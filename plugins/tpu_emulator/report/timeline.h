// Arranges a schedule's kernels and loops as a tree in time. The iterations of a loop share one subtree.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TIMELINE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

// A kernel, or a loop with the items of one iteration.
struct TimelineItem {
  int64_t kernel = -1;             // by number; -1: a loop
  int64_t loop = -1;               // by number; -1: a kernel
  double start_seconds = 0;        // relative to the enclosing iteration, or to the run
  double seconds = 0;              // of the kernel, or of one iteration of the loop
  int64_t trip_count = 1;          // of the loop
  std::vector<TimelineItem> body;  // of the loop, in order
  double TotalSeconds() const { return seconds * static_cast<double>(trip_count); }
};

// Returns the items of the run, in order. A loop is left out if it has no kernels or is not nested within its parent;
// its kernels then belong to the enclosing loop. Loops are nested to a depth of 100 at most; deeper ones are flattened.
std::vector<TimelineItem> BuildTimeline(const Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TIMELINE_H_
