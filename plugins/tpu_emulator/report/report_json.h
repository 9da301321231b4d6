// Writes and reads a schedule as a JSON document, which the page, the command line and users' scripts read.
// docs/tpu_report.md describes every member.
//
// The document is one line of UTF-8. Members whose value is zero, empty or the default of schedule.h may be left out.
// Numbers have the fewest digits that read back exactly. Infinities and NaN become null, which reads back as 0. Readers
// must refuse an unknown "version"; members may be added within a version.
#ifndef BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_REPORT_JSON_H_
#define BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_REPORT_JSON_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plugins/tpu_emulator/machine/machine.h"
#include "plugins/tpu_emulator/program/schedule.h"

namespace backplane::tpu {

inline constexpr char kReportFormat[] = "backplane.tpu_report";
inline constexpr int64_t kReportVersion = 1;

// Facts about the run that the schedule does not have.
struct ReportFacts {
  int64_t devices = 1;
  std::string topology;  // "2x2"
};

// The document also has the machine's figures for a roofline plot, totals by unit, and the text of summary.h.
std::string WriteReportJson(const Schedule& schedule, const Machine& machine, const ReportFacts& facts);

// Returns the schedule of such a document, equal in every field. Returns InvalidArgument, with the path of the member
// ("kernels[3].reads[0]"), for another format or version, values of the wrong type, and indices out of range.
absl::StatusOr<Schedule> ReadReportJson(absl::string_view text);

// Seconds by unit: the time of the kernels that each unit bounds, or the time during which each unit is busy.
struct UnitSeconds {
  double fixed = 0, mxu = 0, vpu = 0, hbm = 0, ici = 0;
  double Get(Unit unit) const;
  double Sum() const { return fixed + mxu + vpu + hbm + ici; }
  Unit Largest() const;  // the first one if several are equal
};
UnitSeconds SumSecondsByBound(const Schedule& schedule);
UnitSeconds ComputeBusySeconds(const Schedule& schedule);  // `fixed` stays 0

// "argument", "result", "temporary", "constant"; "hbm", "vmem", "cmem".
absl::string_view KindName(ScheduledBuffer::Kind kind);
absl::string_view SpaceName(Space space);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_REPORT_JSON_H_
