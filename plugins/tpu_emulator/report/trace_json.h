// A schedule as a trace in Chrome's JSON format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
// One process, named after the program and the machine; a lane each for loops (one for each depth), kernels, and the
// units MXU, VPU, HBM and ICI; counters for the HBM in use. The clock says how long a unit works within a kernel and
// not when: it is drawn from the kernel's start. Events of a lane nest or follow one another, never cross; where a
// schedule runs two kernels at once, the second goes to a lane of its own ("kernels 2").
//
// Times are whole nanoseconds, written in microseconds as the format wants. A loop is written turn by turn where the
// whole trace stays within `most_events`; else its first turn is, and a slice "N more turns" covers the others.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TRACE_JSON_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TRACE_JSON_H_

#include <cstdint>
#include <string>

#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

inline constexpr int64_t kMostTraceEvents = 100'000;

// A program of more kernels than `most_events` allows is written with each kernel once all the same.
std::string WriteTraceJson(const Schedule& schedule, int64_t most_events = kMostTraceEvents);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_TRACE_JSON_H_
