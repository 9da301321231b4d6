// Summarizes a run on the machine in about a dozen lines of text.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_SUMMARY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_SUMMARY_H_

#include <string>

#include "plugins/tpu_emulator/report/report_json.h"

namespace backplane::tpu {

// The text has the time and the bounding unit, the rates relative to the machine's peaks, the peak of HBM, the five
// kernels with the most total time, and the array with the most padding. The time is "at least" if a trip count is
// unknown. Lines have about 100 columns at most and end with a newline.
std::string FormatSummary(const Schedule& schedule, const Machine& machine, const ReportFacts& facts);

// Formats a time with three digits: "1.23 ms", "456 ns", "12.3 s".
std::string FormatSeconds(double seconds);

// Returns the buffer in HBM with the most padding, or null if there is no padding.
const ScheduledBuffer* FindWorstPadding(const Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_SUMMARY_H_
