// A schedule's kernels and loops as a tree in time: what a run looks like, without writing every turn down.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TIMELINE_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TIMELINE_H_

#include <cstdint>
#include <vector>

#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

// A kernel, or a loop with what one turn of it holds.
struct TimelineItem {
  int64_t kernel = -1;             // by number; -1: a loop
  int64_t loop = -1;               // by number; -1: a kernel
  double start_seconds = 0;        // from the start of the turn around it, or of the run
  double seconds = 0;              // of the kernel; of one turn of the loop
  int64_t turns = 1;               // of the loop
  std::vector<TimelineItem> body;  // of the loop, in order
  double TotalSeconds() const { return seconds * static_cast<double>(turns); }
};

// The items of the run, in order. A loop without kernels is left out, and so is one whose range does not lie in its
// parent's: its kernels then stand where the loop around them has them. At most 100 loops within one another; what is
// deeper is shown flat.
std::vector<TimelineItem> BuildTimeline(const Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TIMELINE_H_
