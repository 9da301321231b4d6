// A schedule as a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
// The trace has one process, named after the program and the machine. It has one lane for each depth of loops, and
// lanes for kernels and for the units MXU, VPU, HBM and ICI, and a counter for the HBM in use. The clock knows how long
// a unit is busy within a kernel, but not when, so the slice begins with the kernel. The events of a lane nest or
// follow one another. If a schedule runs two kernels at once, the second one is in another lane ("kernels 2").
//
// Times are whole nanoseconds, written in microseconds as the format requires. All iterations of a loop are written if
// the trace then has at most `most_events` events; otherwise the first one is, and a slice "N more iterations" stands
// for the others.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TRACE_JSON_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TRACE_JSON_H_

#include <cstdint>
#include <string>

#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

inline constexpr int64_t kMaxTraceEvents = 100'000;

// If a program has more kernels than `most_events` allows, each kernel is still written once.
std::string WriteTraceJson(const Schedule& schedule, int64_t most_events = kMaxTraceEvents);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TRACE_JSON_H_
