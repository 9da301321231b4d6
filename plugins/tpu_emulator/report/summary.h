// What a run on the machine is like, in a dozen lines for a terminal.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_SUMMARY_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_SUMMARY_H_

#include <string>

#include "plugins/tpu_emulator/report/report_json.h"

namespace backplane::tpu {

// Time and what it waits for, rates against the machine's peaks, HBM at its fullest, the five kernels that take the
// most time in all, the array that padding wastes most on, and whether a loop's count is unknown. Lines of up to about
// 100 columns, each ended.
std::string SummaryText(const Schedule& schedule, const Machine& machine, const ReportFacts& facts);

// "1.23 ms", "456 ns", "12.3 s": three digits.
std::string SecondsText(double seconds);

// The buffer in HBM that padding adds most bytes to, or null where it adds none.
const ScheduledBuffer* WorstPadding(const Schedule& schedule);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_SUMMARY_H_
