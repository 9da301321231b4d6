// A schedule as a JSON document: what the page, the command and users' own scripts read. docs/tpu_report.md describes
// every member.
//
// The document is one line of UTF-8. Members whose value is zero, empty or the default of schedule.h may be left out.
// Numbers are written as short as they read back exactly; those that JSON lacks (infinities, NaN) become null, which
// reads back as 0. A reader must refuse a "version" that it does not know; members may be added within a version.
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

// What the schedule does not know about the run.
struct ReportFacts {
  int64_t devices = 1;
  std::string topology;  // "2x2"
};

// With the figures of `machine` that a roofline plot asks for, totals by unit, and the text of summary.h.
std::string WriteReportJson(const Schedule& schedule, const Machine& machine, const ReportFacts& facts);

// The schedule of a document made above, equal in every field. InvalidArgument, with the path of the member
// ("kernels[3].reads[0]"): no such document, another version, a value of the wrong type, a number that points nowhere.
absl::StatusOr<Schedule> ReadReportJson(absl::string_view text);

// Where a run's time goes: the seconds of all kernels by the unit that each waited for, and how long each unit was
// busy.
struct UnitSeconds {
  double fixed = 0, mxu = 0, vpu = 0, hbm = 0, ici = 0;
  double Of(Unit unit) const;
  double Sum() const { return fixed + mxu + vpu + hbm + ici; }
  Unit Most() const;  // of equals the first
};
UnitSeconds SecondsByBound(const Schedule& schedule);
UnitSeconds BusySeconds(const Schedule& schedule);  // `fixed` stays 0

// "argument", "result", "temporary", "constant"; "hbm", "vmem", "cmem".
absl::string_view KindName(ScheduledBuffer::Kind kind);
absl::string_view SpaceName(Space space);

}  // namespace backplane::tpu

#endif  // BACKPLANE_PLUGINS_TPU_EMULATOR_REPORT_REPORT_JSON_H_
